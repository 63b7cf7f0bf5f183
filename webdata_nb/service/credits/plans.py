"""The plans of accounts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNLIMITED: Final = "unlimited"
MAX_CREDITS: Final = 10**12
MAX_ACTIVE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Terms:
    """The credits of an account each month, and its limit of active jobs; None is unlimited."""

    plan: str
    monthly: int | None
    concurrency: int | None


# Of the local service's only account.
LOCAL_TERMS: Final = Terms(UNLIMITED, None, None)
PLANS: Final = {
    terms.plan: terms
    for terms in (
        Terms("trial", 1_000, 2),
        Terms("team", 100_000, 8),
        Terms("large", 1_000_000, 32),
        Terms(UNLIMITED, None, 64),
    )
}
DEFAULT_PLAN: Final = "team"


def terms_of(plan: str, monthly: int | None = None, concurrency: int | None = None) -> Terms:
    """Return a plan's terms, with other figures if given.

    Raises
    ------
    ValueError
        The plan is unknown, or a figure is out of bounds.
    """
    if plan not in PLANS:
        raise ValueError(f"plan must be one of {', '.join(PLANS)}")
    defaults = PLANS[plan]
    _check_bounds("monthly", monthly, 0, MAX_CREDITS)
    _check_bounds("concurrency", concurrency, 1, MAX_ACTIVE)
    return Terms(
        plan,
        defaults.monthly if monthly is None else monthly,
        defaults.concurrency if concurrency is None else concurrency,
    )


def _check_bounds(name: str, value: int | None, low: int, high: int) -> None:
    if value is not None and not low <= value <= high:
        raise ValueError(f"{name} must be a whole number from {low} to {high}")
