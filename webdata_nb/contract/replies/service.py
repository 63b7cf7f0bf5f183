"""Models of replies about credits, engines and the health of the service."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from webdata_nb.contract.replies.base import Reply, SuccessReply


class Weight(Reply):
    """The price of one operation."""

    platform: str = Field(description="Platform of the operation.")
    operation: str = Field(description="Name of the operation.")
    weight: float = Field(description="Credits that one unit costs.")


class UsedCredits(Reply):
    """Charges for one operation in the current billing period."""

    platform: str = Field(description="Platform of the operation.")
    operation: str = Field(description="Name of the operation.")
    units: int = Field(description="Units charged since the period began, such as pages.")
    credits: float = Field(description="Credits charged for them.")


class UsageReply(SuccessReply):
    """GET /v1/usage (ours): credits and active work of the caller's account.

    `monthly` is the grant of each billing period, `monthly_left` and `topup` can still be reserved,
    `reserved` is held by active jobs, `used` was charged since `period_start`. `monthly`,
    `monthly_left` and `limit` are null without a limit.
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
        description="Bought credits that can still be reserved, beyond the end of the period.",
    )
    reserved: float = Field(default=0, description="Credits reserved by active jobs and calls.")
    used: float = Field(default=0, description="Credits charged since `period_start`.")
    period_start: datetime = Field(description="When the billing period began (UTC).")
    period_end: datetime = Field(description="When it ends (UTC).")
    active: int = Field(default=0, description="Active jobs and calls.")
    limit: int | None = Field(
        default=None,
        description="Most active jobs and calls at once; null without a limit.",
    )
    operations: list[UsedCredits] = Field(
        default_factory=list, description="Charges of the period, by operation."
    )


class EngineEntry(Reply):
    """One provider of an engine (ours): `position` from 1, `why` it is unusable now.

    `resting_s` is the remaining pause after a failure, in seconds.
    """

    engine: str = Field(description="Name of the engine.")
    position: int = Field(description="Position in the fallback order, from 1.")
    provider: str = Field(description="Name of the provider.")
    usable: bool = Field(description="Whether it is usable now.")
    why: str | None = Field(
        default=None, description="Why it is unusable now; null if it is usable."
    )
    resting_s: float = Field(
        default=0.0, description="Remaining seconds of the pause after a failure."
    )


class EngineList(SuccessReply):
    """GET /v1/engines (ours): the providers of each engine, without addresses and keys."""

    engines: list[EngineEntry] = Field(
        description="The providers of each engine, in fallback order."
    )


class DaskHealth(Reply):
    """The Dask cluster of a service that was started with ``--dask``."""

    scheduler: Literal["connected", "lost"] = Field(
        description="Whether the scheduler answers. The service itself runs jobs without it."
    )
    workers: int = Field(description="Number of workers that run jobs of this service.")


class Health(Reply):
    """GET /healthz and /readyz (ours): a status, and why the service is not ready."""

    status: Literal["ok", "unavailable"] = Field(
        description="`ok`, or `unavailable` with status 503."
    )
    reason: str | None = Field(
        default=None, description="Why the service is not ready; null if it is."
    )
    replica: str | None = Field(
        default=None,
        description="Of /readyz: which process of a service on PostgreSQL answered.",
    )
    dask: DaskHealth | None = Field(
        default=None,
        description="Of /readyz: the Dask cluster that runs the jobs, if any.",
    )


class SiteReply(Reply):
    """Reply of a local service that removed a site: how many pages its search has forgotten."""

    removed: int = Field(description="Number of pages.")
