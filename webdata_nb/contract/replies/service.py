"""Models of replies about credits, engines and the health of the service."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from webdata_nb.contract.replies.base import Reply, SuccessReply


class Weight(Reply):
    """Credits that one operation costs."""

    platform: str = Field(description="What the operation belongs to.")
    operation: str = Field(description="Name of the operation.")
    weight: float = Field(description="Credits that one unit costs.")


class UsedCredits(Reply):
    """What was charged for one operation in the present billing period."""

    platform: str = Field(description="What the operation belongs to.")
    operation: str = Field(description="Name of the operation.")
    units: int = Field(description="Units charged since the period began, such as pages.")
    credits: float = Field(description="Credits charged for them.")


class UsageReply(SuccessReply):
    """GET /v1/usage (ours): credits and active work of the caller's account.

    `monthly` is what each billing period grants, `monthly_left` and `topup` what can still be
    reserved, `reserved` what jobs under way hold, `used` what was charged since `period_start`.
    `monthly`, `monthly_left` and `limit` are null where there is no limit.
    """

    plan: str = Field(description="Name of the account's plan.")
    monthly: float | None = Field(
        default=None, description="Credits that each billing period grants; null without a limit."
    )
    monthly_left: float | None = Field(
        default=None,
        description="Credits of the period's grant that can still be reserved; null without a "
        "limit.",
    )
    topup: float = Field(
        default=0,
        description="Bought credits that can still be reserved; they do not end with the period.",
    )
    reserved: float = Field(default=0, description="Credits that jobs and calls under way hold.")
    used: float = Field(default=0, description="Credits charged since `period_start`.")
    period_start: datetime = Field(description="When the billing period began (UTC).")
    period_end: datetime = Field(description="When it ends (UTC).")
    active: int = Field(default=0, description="Jobs and calls under way.")
    limit: int | None = Field(
        default=None,
        description="Jobs and calls that may be under way at once; null without a limit.",
    )
    operations: list[UsedCredits] = Field(
        default_factory=list, description="What was charged in the period, by operation."
    )


class EngineEntry(Reply):
    """One provider in an engine's list (ours): `position` from 1, `why` it cannot be asked now.

    `resting_s` is for how many seconds more it is left alone after a failure.
    """

    engine: str = Field(description="Name of the engine.")
    position: int = Field(description="When the provider is asked, from 1.")
    provider: str = Field(description="Name of the provider.")
    usable: bool = Field(description="Whether it can be asked now.")
    why: str | None = Field(default=None, description="Why it cannot be asked now; null if it can.")
    resting_s: float = Field(
        default=0.0, description="Seconds for which it is left alone after a failure."
    )


class EngineList(SuccessReply):
    """GET /v1/engines (ours): whom each engine asks, in order. It holds no address and no key."""

    engines: list[EngineEntry] = Field(
        description="The providers of each engine, in the order in which they are asked."
    )


class Health(Reply):
    """GET /healthz and /readyz (ours): a word, and where the service is not ready, why."""

    status: Literal["ok", "unavailable"] = Field(
        description="`ok`, or `unavailable` with status 503."
    )
    reason: str | None = Field(
        default=None, description="Why the service is not ready; null if it is."
    )
