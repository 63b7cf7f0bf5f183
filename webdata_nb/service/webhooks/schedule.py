"""What becomes of a delivery after an attempt: pure decisions on values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from webdata_nb.contract.events import Profile
from webdata_nb.contract.limits import WEBHOOK_ATTEMPTS

# Trouble on the way that another attempt may be spared; what the policy refused will not change.
_PASSING: Final = frozenset(
    {"dns", "connect", "tls", "timeout", "reset", "protocol", "redirects", "internal"}
)
_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True)
class Rules:
    """A profile's rules (contract, 6.3).

    Attributes
    ----------
    waits_s
        Seconds before the second and the third attempt.
    timeout_s
        Within which an acknowledgement must arrive.
    acknowledged_below
        The first status that is none.
    """

    waits_s: tuple[float, ...]
    timeout_s: float
    acknowledged_below: int


RULES: Final = {
    Profile.A: Rules((1.0, 4.0), 10.0, 400),
    Profile.B: Rules((10.0, 60.0), 30.0, 300),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an attempt met: an HTTP status, or the kind of trouble (`FetchError.kind`)."""

    status: int | None = None
    trouble: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """`delivered`, `failed` for good, or `pending` until `due_at`."""

    state: str
    due_at: float


def verdict(rules: Rules, attempt: int, outcome: Outcome, now: float) -> Verdict:
    """Decide after the attempt number `attempt`, counted from 1."""
    if acknowledged(rules, outcome):
        return Verdict("delivered", now)
    if attempt >= WEBHOOK_ATTEMPTS or not _may_pass(outcome):
        return Verdict("failed", now)
    return Verdict("pending", now + rules.waits_s[attempt - 1])


def acknowledged(rules: Rules, outcome: Outcome) -> bool:
    """Tell whether the receiver took it."""
    return outcome.status is not None and outcome.status < rules.acknowledged_below


def _may_pass(outcome: Outcome) -> bool:
    if outcome.status is not None:
        return outcome.status >= _SERVER_ERROR
    return outcome.trouble in _PASSING
