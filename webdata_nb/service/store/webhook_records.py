"""Webhook deliveries as the store returns them. Times are Unix seconds, UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from webdata_nb.contract.events import Profile

# The key under which a job's context has the options of its webhook.
WEBHOOK_CONTEXT: Final = "webhook"
# Concurrent attempts at one account's endpoint, of all processes together.
LANES_PER_ENDPOINT: Final = 4


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event for one endpoint; every attempt and replay has the same `event_id`."""

    id: str
    event_id: str
    account_id: str
    job_id: str
    event: str
    profile: Profile
    endpoint: str
    body: bytes
    replay: bool
    state: str
    attempts: int
    created_at: float
    due_at: float
    ended_at: float | None
    status: int | None
    error: str | None
    lease: str | None


@dataclass(frozen=True, slots=True)
class DueEndpoint:
    """An account's endpoint, at which `count` deliveries are due and have a free lane."""

    account_id: str
    endpoint: str
    count: int


@dataclass(frozen=True, slots=True)
class DeliveryCount:
    """The number of deliveries of an event in a state, and the attempts that they took."""

    event: str
    state: str
    deliveries: int
    attempts: int
