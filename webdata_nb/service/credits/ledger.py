"""The arithmetic of credits. Every function returns ledger lines, and a balance is their sum.

Credits are whole. Those of the month are used before those of a top-up; what a month leaves over
expires with it, a top-up never does. What a job may cost is taken from the balance when it starts
(`reserve`); at its end all of it is given back (`release`) and what it did cost is taken
(`charge`), in one transaction.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from webdata_nb.service.credits.plans import Terms
from webdata_nb.service.credits.weights import Charge

LineKind = Literal["grant", "expire", "topup", "plan", "reserve", "release", "charge"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the ledger: what it changes of the month's credits and of the top-up's.

    `charge` is there for a charge alone; an account without a limit has charges that change
    nothing.
    """

    kind: LineKind
    monthly: int
    topup: int
    charge: Charge | None = None


@dataclass(frozen=True, slots=True)
class Balance:
    """What an account has: `monthly_left` is of the period that began at `period_start`."""

    monthly_left: int
    topup_left: int
    period_start: float

    @property
    def left(self) -> int:
        """All credits that can be reserved."""
        return self.monthly_left + self.topup_left


@dataclass(frozen=True, slots=True)
class Hold:
    """Credits taken from a balance for a job or a call that is under way."""

    monthly: int
    topup: int
    period_start: float


def after(balance: Balance, lines: Iterable[Line]) -> Balance:
    """Return the balance after some lines."""
    for line in lines:
        balance = replace(
            balance,
            monthly_left=balance.monthly_left + line.monthly,
            topup_left=balance.topup_left + line.topup,
        )
    return balance


def period(anchor: float, now: float) -> tuple[float, float]:
    """Return start and end of the billing period around `now`.

    Periods are calendar months in UTC, counted from the moment `anchor`; one that began on the
    31st begins on the last day of shorter months.
    """
    began = datetime.fromtimestamp(anchor, UTC)
    today = datetime.fromtimestamp(max(anchor, now), UTC)
    months = (today.year - began.year) * 12 + today.month - began.month
    if _months_after(began, months) > today:
        months -= 1
    return _months_after(began, months).timestamp(), _months_after(began, months + 1).timestamp()


def _months_after(began: datetime, months: int) -> datetime:
    year, month = divmod(began.year * 12 + began.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return began.replace(year=year, month=month + 1, day=min(began.day, last))


def renewed(
    balance: Balance, terms: Terms, anchor: float, now: float
) -> tuple[Balance, list[Line]]:
    """Return the balance in the period around `now`: the old month expires, a new one is granted.

    A clock that goes back changes nothing.
    """
    start, _ = period(anchor, now)
    if start <= balance.period_start:
        return balance, []
    lines = [Line("expire", -balance.monthly_left, 0)] if balance.monthly_left else []
    if terms.monthly:
        lines.append(Line("grant", terms.monthly, 0))
    return replace(after(balance, lines), period_start=start), lines


def replanned(balance: Balance, old: Terms, new: Terms) -> list[Line]:
    """Return the lines of a change of terms within a period: what was used stays used."""
    change = (new.monthly or 0) - (old.monthly or 0)
    change = max(change, -balance.monthly_left)
    return [Line("plan", change, 0)] if change else []


def reserve(balance: Balance, terms: Terms, needed: int) -> tuple[Hold, list[Line]] | None:
    """Take what may be needed, the month's credits first; None where the balance is too small."""
    if terms.monthly is None:
        return Hold(0, 0, balance.period_start), []
    if needed > balance.left:
        return None
    monthly = min(needed, balance.monthly_left)
    hold = Hold(monthly, needed - monthly, balance.period_start)
    return hold, _moved("reserve", -hold.monthly, -hold.topup)


def settle(balance: Balance, hold: Hold, charges: Sequence[Charge]) -> list[Line]:
    """Give a reservation back and take the charges from it, never more than it held.

    What it held of a month that is over expires, as it would have without the job.
    """
    lines = _moved("release", hold.monthly, hold.topup)
    monthly, topup = hold.monthly, hold.topup
    for charge in charges:
        if not charge.credits:
            continue
        from_month = min(charge.credits, monthly)
        from_topup = min(charge.credits - from_month, topup)
        monthly, topup = monthly - from_month, topup - from_topup
        lines.append(Line("charge", -from_month, -from_topup, charge))
    stale = hold.period_start < balance.period_start
    return [*lines, *(_moved("expire", -monthly, 0) if stale else [])]


def _moved(kind: LineKind, monthly: int, topup: int) -> list[Line]:
    return [Line(kind, monthly, topup)] if monthly or topup else []
