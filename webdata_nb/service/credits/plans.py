"""The plans that an account can be on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNLIMITED: Final = "unlimited"
MOST_CREDITS: Final = 10**12
MOST_ACTIVE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Terms:
    """What an account may use: credits each month, and active jobs; None is without limit."""

    plan: str
    monthly: int | None
    concurrency: int | None


# The service's own account, for the user of this machine.
OWN: Final = Terms(UNLIMITED, None, None)
PLANS: Final = {
    terms.plan: terms
    for terms in (
        Terms("trial", 1_000, 2),
        Terms("team", 100_000, 8),
        Terms("large", 1_000_000, 32),
        Terms(UNLIMITED, None, 64),
    )
}
DEFAULT: Final = "team"


def terms_of(plan: str, monthly: int | None = None, concurrency: int | None = None) -> Terms:
    """Return a plan's terms, with these figures instead of its own where they are given.

    Raises
    ------
    ValueError
        An unknown plan, or a figure out of bounds; the message says what is allowed.
    """
    if plan not in PLANS:
        raise ValueError(f"plan must be one of {', '.join(PLANS)}")
    usual = PLANS[plan]
    _check("monthly", monthly, 0, MOST_CREDITS)
    _check("concurrency", concurrency, 1, MOST_ACTIVE)
    return Terms(
        plan,
        usual.monthly if monthly is None else monthly,
        usual.concurrency if concurrency is None else concurrency,
    )


def _check(name: str, value: int | None, low: int, high: int) -> None:
    if value is not None and not low <= value <= high:
        raise ValueError(f"{name} must be a whole number from {low} to {high}")
