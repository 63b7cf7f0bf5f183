"""Declares the webhooks of the OpenAPI document; the service does not serve these routes."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Header

from webdata_nb.contract.events import (
    DELIVERY_HEADER,
    EVENT_HEADERS,
    EVENT_ID_HEADER,
    SIGNATURE_HEADERS,
    WebhookA,
    WebhookB,
)

_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Acknowledged. The webhook guide lists the replies that count."},
    "default": {"description": "Not acknowledged: retried a limited number of times."},
}
_Event = Annotated[
    str,
    Header(
        alias=EVENT_HEADERS[0],
        description=f"Name of the event; `{EVENT_HEADERS[1]}` has the same value.",
    ),
]
_SentAt = Annotated[
    int, Header(alias=DELIVERY_HEADER, description="Time of the attempt, in Unix seconds.")
]
_EventId = Annotated[
    str,
    Header(
        alias=EVENT_ID_HEADER,
        description="Id of the event, the same in every attempt and replay.",
    ),
]
_Signature = Annotated[
    str | None,
    Header(
        alias=SIGNATURE_HEADERS[0],
        description="`sha256=` and the HMAC-SHA256 of the body in hexadecimal, keyed with the "
        f"job's `webhook_secret`; absent without one. `{SIGNATURE_HEADERS[1]}` has the same value.",
    ),
]

router = APIRouter(tags=["webhooks"])


@router.post(
    "jobEnded",
    operation_id="jobEnded",
    summary="A job has ended",
    responses=_RESPONSES,
    openapi_extra={"security": []},
)
def job_ended(
    body: Annotated[WebhookA | WebhookB, Body()],
    event: _Event,
    sent_at: _SentAt,
    event_id: _EventId,
    signature: _Signature = None,
) -> None:
    """Sent to `webhook_url` once a job is completed, failed or cancelled.

    The service uses one of two profiles: A names the event after the job's state, B after its
    kind, with counts in `data`.
    """


@router.post(
    "pageDone",
    operation_id="pageDone",
    summary="A page of a crawl is final",
    responses=_RESPONSES,
    openapi_extra={"security": []},
)
def page_done(
    body: WebhookB,
    event: _Event,
    sent_at: _SentAt,
    event_id: _EventId,
    signature: _Signature = None,
) -> None:
    """Sent for each page of a crawl if the service has profile B and page events enabled."""
