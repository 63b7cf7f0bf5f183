"""The arithmetic of credits: every function returns ledger lines, and a balance is their sum.

Credits are whole numbers. Those of the month are used before those of a top-up; what is left of a
month expires with it, a top-up does not expire. The start of a job takes what it may cost at most
from the balance (`reserve`). Its end returns all of it (`release`) and takes what it cost
(`charge`), in one transaction.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal

from webdata_nb.contract import limits
from webdata_nb.contract.outcomes import JobKind, JobStatus
from webdata_nb.contract.replies import Weight
from webdata_nb.contract.requests import CrawlRequest, SearchRequest

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


LineKind = Literal["grant", "expire", "topup", "plan", "reserve", "release", "charge"]


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One line of the ledger: its change of the month's credits and of the top-up's.

    Only a charge has a `charge`; for an account without a limit it changes nothing.
    """

    kind: LineKind
    monthly: int
    topup: int
    charge: Charge | None = None


@dataclass(frozen=True, slots=True)
class Balance:
    """An account's credits; `monthly_left` is of the period that began at `period_start`."""

    monthly_left: int
    topup_left: int
    period_start: float

    @property
    def left(self) -> int:
        """All credits that can be reserved."""
        return self.monthly_left + self.topup_left


@dataclass(frozen=True, slots=True)
class Reservation:
    """Credits taken from a balance for an active job or call."""

    monthly: int
    topup: int
    period_start: float


def apply(balance: Balance, lines: Iterable[LedgerLine]) -> Balance:
    """Return the balance after some lines."""
    for line in lines:
        balance = replace(
            balance,
            monthly_left=balance.monthly_left + line.monthly,
            topup_left=balance.topup_left + line.topup,
        )
    return balance


def billing_period(anchor: float, now: float) -> tuple[float, float]:
    """Return start and end of the billing period around `now`.

    Periods are calendar months in UTC, counted from `anchor`; one that began on the 31st begins on
    the last day of shorter months.
    """
    first = datetime.fromtimestamp(anchor, UTC)
    today = datetime.fromtimestamp(max(anchor, now), UTC)
    months = (today.year - first.year) * 12 + today.month - first.month
    if _add_months(first, months) > today:
        months -= 1
    return _add_months(first, months).timestamp(), _add_months(first, months + 1).timestamp()


def _add_months(start: datetime, months: int) -> datetime:
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    last_day = calendar.monthrange(year, month + 1)[1]
    return start.replace(year=year, month=month + 1, day=min(start.day, last_day))


def renew_period(
    balance: Balance, terms: Terms, anchor: float, now: float
) -> tuple[Balance, list[LedgerLine]]:
    """Return the balance in the period around `now`: the old month expires, a new one is granted.

    A clock that goes back changes nothing.
    """
    start, _ = billing_period(anchor, now)
    if start <= balance.period_start:
        return balance, []
    lines = [LedgerLine("expire", -balance.monthly_left, 0)] if balance.monthly_left else []
    if terms.monthly:
        lines.append(LedgerLine("grant", terms.monthly, 0))
    return replace(apply(balance, lines), period_start=start), lines


def change_terms(balance: Balance, old: Terms, new: Terms) -> list[LedgerLine]:
    """Return the lines of a change of terms within a period: used credits stay used."""
    change = (new.monthly or 0) - (old.monthly or 0)
    change = max(change, -balance.monthly_left)
    return [LedgerLine("plan", change, 0)] if change else []


def reserve(
    balance: Balance, terms: Terms, needed: int
) -> tuple[Reservation, list[LedgerLine]] | None:
    """Reserve credits, the month's first; return None if the balance is too small."""
    if terms.monthly is None:
        return Reservation(0, 0, balance.period_start), []
    if needed > balance.left:
        return None
    monthly = min(needed, balance.monthly_left)
    reservation = Reservation(monthly, needed - monthly, balance.period_start)
    return reservation, _transfer("reserve", -reservation.monthly, -reservation.topup)


def settle(
    balance: Balance, reservation: Reservation, charges: Sequence[Charge]
) -> list[LedgerLine]:
    """Return a reservation and take the charges from it, never more than it has.

    Credits of a month that is over expire, as they would have without the reservation.
    """
    lines = _transfer("release", reservation.monthly, reservation.topup)
    monthly, topup = reservation.monthly, reservation.topup
    for charge in charges:
        if not charge.credits:
            continue
        from_month = min(charge.credits, monthly)
        from_topup = min(charge.credits - from_month, topup)
        monthly, topup = monthly - from_month, topup - from_topup
        lines.append(LedgerLine("charge", -from_month, -from_topup, charge))
    month_over = reservation.period_start < balance.period_start
    return [*lines, *(_transfer("expire", -monthly, 0) if month_over else [])]


def _transfer(kind: LineKind, monthly: int, topup: int) -> list[LedgerLine]:
    return [LedgerLine(kind, monthly, topup)] if monthly or topup else []


# The maximal and the final charges of a job.


CREATIVES: Final = "partner_ads_transparency"
WEIGHTS: Final[dict[tuple[str, str], int]] = {
    ("search", "discovery"): 1,
    ("search", "scrape"): 1,
    ("search", "extract"): 4,
    ("crawl", "page"): 1,
    ("crawl", "extract"): 4,
    ("crawl", "render"): 2,
    (CREATIVES, "creatives"): 1,
    (CREATIVES, "details"): 1,
    (CREATIVES, "assets"): 1,
    (CREATIVES, "ocr"): 2,
}
CATALOG: Final = tuple(
    Weight(platform=platform, operation=operation, weight=weight)
    for (platform, operation), weight in WEIGHTS.items()
)


@dataclass(frozen=True, slots=True)
class Charge:
    """Units of one operation of the catalog."""

    platform: str
    operation: str
    units: int

    @property
    def credits(self) -> int:
        """The credits that they cost."""
        return self.units * WEIGHTS[self.platform, self.operation]


def max_charges(request: SearchRequest | CrawlRequest) -> tuple[Charge, ...]:
    """Return what a request costs if every page succeeds; this is reserved at the start.

    A long crawl reserves the credits to the next checkpoint.
    """
    if isinstance(request, CrawlRequest):
        return checkpoint_charges(request, request.row_limit)
    pages = request.num_results if request.formats else 0
    extracted_pages = pages if request.extract is not None else 0
    return (
        Charge("search", "discovery", 1),
        Charge("search", "scrape", pages),
        Charge("search", "extract", extracted_pages),
    )


def checkpoint_charges(request: CrawlRequest, pages_left: int) -> tuple[Charge, ...]:
    """Return what a crawl costs at most until its next checkpoint."""
    pages, options = min(pages_left, limits.CHECKPOINT_PAGES), request.scrape_options
    return (
        Charge("crawl", "page", pages),
        Charge("crawl", "extract", pages if options.extract is not None else 0),
        Charge("crawl", "render", pages if options.may_render else 0),
    )


def page_operations(*, rendered: bool, extracted: bool) -> tuple[str, ...]:
    """Return the operations that a crawled page is charged for."""
    return ("page", *["extract"] * extracted, *["render"] * rendered)


def result_operations(*, extracted: bool) -> tuple[str, ...]:
    """Return the operations that a scraped search result is charged for."""
    return ("scrape", *["extract"] * extracted)


def final_charges(
    kind: JobKind, state: JobStatus, rows: Mapping[str, int], *, any_row: bool
) -> list[Charge]:
    """Return the charges of a job that ended in `state`.

    `rows` counts the visible successful rows by their operations, joined by commas. The discovery
    of a search is charged if it has rows or is completed.
    """
    units: dict[str, int] = {}
    if kind == "search" and (any_row or state is JobStatus.COMPLETED):
        units["discovery"] = 1
    for operations, count in rows.items():
        for operation in filter(None, operations.split(",")):
            units[operation] = units.get(operation, 0) + count
    return [Charge(kind, operation, count) for operation, count in units.items()]
