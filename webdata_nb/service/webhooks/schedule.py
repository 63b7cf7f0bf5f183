"""Decides what follows an attempt to deliver a webhook: success, failure or another attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from webdata_nb.contract.events import Profile
from webdata_nb.contract.limits import WEBHOOK_ATTEMPTS

# Failures that may pass. A refusal by the egress policy is final.
_TRANSIENT: Final = frozenset(
    {"dns", "connect", "tls", "timeout", "reset", "protocol", "redirects", "internal"}
)
_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """How deliveries of one profile are attempted (contract, 6.3).

    Attributes
    ----------
    delays_s
        Seconds before the second and each further attempt.
    timeout_s
        Seconds within which an acknowledgement must arrive.
    acknowledged_below
        Lowest status that does not acknowledge the delivery.
    """

    delays_s: tuple[float, ...]
    timeout_s: float
    acknowledged_below: int


POLICIES: Final = {
    Profile.A: DeliveryPolicy((1.0, 4.0), timeout_s=10.0, acknowledged_below=400),
    Profile.B: DeliveryPolicy((10.0, 60.0), timeout_s=30.0, acknowledged_below=300),
}


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """Result of an attempt: an HTTP status, or the kind of failure (`FetchError.kind`)."""

    status: int | None = None
    failure: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class NextDelivery:
    """State of a delivery: `delivered`, `failed` for good, or `pending` until `due_at`."""

    state: str
    due_at: float


def next_delivery(
    policy: DeliveryPolicy, attempt: int, outcome: DeliveryOutcome, now: float
) -> NextDelivery:
    """Decide what follows an attempt, counted from 1."""
    if is_acknowledged(policy, outcome):
        return NextDelivery("delivered", now)
    is_transient = (
        outcome.failure in _TRANSIENT if outcome.status is None else outcome.status >= _SERVER_ERROR
    )
    if attempt >= WEBHOOK_ATTEMPTS or not is_transient:
        return NextDelivery("failed", now)
    return NextDelivery("pending", now + policy.delays_s[attempt - 1])


def is_acknowledged(policy: DeliveryPolicy, outcome: DeliveryOutcome) -> bool:
    """Return whether the receiver acknowledged the delivery."""
    return outcome.status is not None and outcome.status < policy.acknowledged_below
