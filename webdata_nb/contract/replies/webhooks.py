"""Models of replies about webhook deliveries."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from webdata_nb.contract.replies.base import Reply, SuccessReply


class WebhookDelivery(Reply):
    """One webhook delivery (ours); `endpoint` is only the host, `payload` is what was signed."""

    delivery_id: str = Field(description="Id of the delivery, a UUID.")
    event_id: str = Field(
        description="Id of the event: the same in every attempt and replay, and in the header "
        "`X-Webhook-Id`."
    )
    job_id: str = Field(description="Id of the job.")
    event: str = Field(description="Name of the event.")
    endpoint: str = Field(description="Host of the endpoint; the rest of the URL is not shown.")
    status: Literal["pending", "delivered", "failed"] = Field(
        description="Pending, acknowledged, or failed after the last attempt."
    )
    attempts: int = Field(description="Attempts so far.")
    replay: bool = Field(description="Whether it is a replay.")
    status_code: int | None = Field(
        default=None, description="HTTP status of the last attempt; null without a reply."
    )
    error: str | None = Field(
        default=None, description="Why the last attempt failed; null if it did not."
    )
    created_at: datetime = Field(description="When the event happened (UTC).")
    next_attempt_at: datetime | None = Field(
        default=None, description="When the next attempt is due (UTC); null after the end."
    )
    ended_at: datetime | None = Field(
        default=None, description="When it was acknowledged or failed (UTC); null before."
    )
    payload: dict[str, Any] = Field(description="The body that is sent and signed.")


class DeliveryList(SuccessReply):
    """GET /v1/webhooks/deliveries (ours): newest first; `cursor` if older ones exist."""

    deliveries: list[WebhookDelivery] = Field(description="The deliveries, newest first.")
    cursor: str | None = Field(
        default=None, description="Where the next page begins; absent on the last page."
    )


class ReplayReply(SuccessReply):
    """POST /v1/webhooks/deliveries/{delivery_id}/replay (ours)."""

    delivery: WebhookDelivery = Field(description="The new delivery.")


class WebhookStats(SuccessReply):
    """GET /v1/webhooks/stats (ours): deliveries of the caller's jobs by state and by event."""

    total: int = Field(description="Deliveries of the account's jobs.")
    pending: int = Field(description="Pending deliveries.")
    delivered: int = Field(description="Acknowledged deliveries.")
    failed: int = Field(description="Failed deliveries.")
    attempts: int = Field(description="Attempts of all deliveries.")
    by_event: dict[str, int] = Field(default_factory=dict, description="Deliveries by event name.")


class WebhookTestReply(Reply):
    """POST /v1/webhooks/test (ours): `success` is whether the endpoint acknowledged it."""

    success: bool = Field(description="Whether the endpoint acknowledged the delivery.")
    event: str = Field(description="Name of the event that was sent.")
    status_code: int | None = Field(
        default=None, description="HTTP status of the endpoint's reply; null without one."
    )
    error: str | None = Field(
        default=None, description="Why it was not acknowledged; null if it was."
    )
    elapsed_ms: float = Field(description="Milliseconds until the reply.")
