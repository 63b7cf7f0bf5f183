"""Credits inside a transaction: holds on them, and the ledger that every change goes through.

Each function runs in the transaction of the change that it belongs to; `lock` comes first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from webdata_nb.contract.states import JobKind, JobStatus
from webdata_nb.service.credits import ledger, tariff
from webdata_nb.service.credits.ledger import Balance, Hold, Line
from webdata_nb.service.credits.plans import Terms
from webdata_nb.service.credits.weights import Charge
from webdata_nb.service.errors import ConcurrencyReached, CreditsUsedUp, NoSuchAccount
from webdata_nb.service.store.queries import queries

_Q: Final = queries()
# Slots come free when jobs end, which nobody can foretell: this only spreads the callers.
RETRY_S: Final = 2


@dataclass(frozen=True, slots=True)
class Account:
    """An account as stored, in the billing period around the moment it was read."""

    id: str
    name: str
    terms: Terms
    balance: Balance
    created_at: float


def account(row: sqlite3.Row, now: float) -> tuple[Account, list[Line]]:
    """Return a stored account, and the lines that a new billing period adds to its ledger."""
    terms = Terms(row["plan"], row["monthly"], row["concurrency"])
    balance, lines = ledger.renewed(_stored(row), terms, row["created_at"], now)
    return Account(row["id"], row["name"], terms, balance, row["created_at"]), lines


def _stored(row: sqlite3.Row) -> Balance:
    return Balance(row["monthly_left"], row["topup_left"], row["period_start"])


class Book:
    """One account's credits, locked for the rest of a transaction."""

    def __init__(self, connection: sqlite3.Connection, account_id: str, now: float) -> None:
        self._connection, self._now = connection, now
        row = connection.execute(_Q["lock_account"], {"id": account_id}).fetchone()
        if row is None:
            raise NoSuchAccount(f"no account {account_id}")
        self._lines: int = row["lines"]
        self._stored = _stored(row)
        self.account, fresh = account(row, now)
        self._write(self.account.balance, fresh, None)

    def place(
        self, hold_id: str, charges: Sequence[Charge], *, until: float | None = None
    ) -> int | None:
        """Count one more job or call, hold what it may cost, and return that; None: no limit.

        Raises `ConcurrencyReached` or `CreditsUsedUp`, and then changes nothing.
        """
        self.bury()
        account_id, terms = self.account.id, self.account.terms
        active = self._active()
        if terms.concurrency is not None and active >= terms.concurrency:
            raise ConcurrencyReached(limit=terms.concurrency, active=active, retry_after=RETRY_S)
        needed = sum(charge.credits for charge in charges)
        taken = ledger.reserve(self.account.balance, terms, needed)
        if taken is None:
            _, end = ledger.period(self.account.created_at, self._now)
            raise CreditsUsedUp(
                needed=needed,
                left=self.account.balance.left,
                limit=terms.concurrency,
                active=active,
                retry_after=max(1, round(end - self._now)),
            )
        hold, lines = taken
        self._connection.execute(
            _Q["add_hold"],
            {"id": hold_id, "account_id": account_id, "until": until, **_hold(hold)},
        )
        self.write(lines, hold_id)
        return None if terms.monthly is None else needed

    def settle(self, hold_id: str, charges: Sequence[Charge]) -> None:
        """End a hold and take what was used; a hold that is gone already stays settled."""
        row = self._connection.execute(_Q["end_hold"], {"id": hold_id}).fetchone()
        if row is not None:
            hold = Hold(row["monthly"], row["topup"], row["period_start"])
            self.write(ledger.settle(self.account.balance, hold, charges), hold_id)

    def write(self, lines: Sequence[Line], hold_id: str | None = None) -> None:
        """Add lines to the ledger, and to the balance what they sum up to."""
        self._write(ledger.after(self.account.balance, lines), lines, hold_id)

    def _write(self, balance: Balance, lines: Sequence[Line], hold_id: str | None) -> None:
        for line in lines:
            self._lines += 1
            values = _line(line, hold_id)
            self._connection.execute(
                _Q["add_line"],
                {"account_id": self.account.id, "line": self._lines, "at": self._now, **values},
            )
        self.account = Account(
            self.account.id,
            self.account.name,
            self.account.terms,
            balance,
            self.account.created_at,
        )
        if not lines and balance == self._stored:
            return
        self._stored = balance
        self._connection.execute(
            _Q["set_balance"],
            {
                "id": self.account.id,
                "monthly_left": balance.monthly_left,
                "topup_left": balance.topup_left,
                "period_start": balance.period_start,
                "lines": self._lines,
            },
        )

    def _active(self) -> int:
        values = {"account_id": self.account.id, "now": self._now}
        return int(self._connection.execute(_Q["active"], values).fetchone()["active"])

    def bury(self) -> None:
        """Settle the calls that died with their process: they cost nothing."""
        values = {"account_id": self.account.id, "now": self._now}
        for row in self._connection.execute(_Q["dead_holds"], values).fetchall():
            self.settle(row["id"], ())


def settle_job(connection: sqlite3.Connection, row: sqlite3.Row, now: float) -> int:
    """Settle a job that has just ended, by the rows that clients can see; return its credits."""
    values = {"job_id": row["id"]}
    counts = {
        each["charged"]: each["n"]
        for each in connection.execute(_Q["charged_rows"], values).fetchall()
    }
    kind: JobKind = row["kind"]
    charges = tariff.spent(kind, JobStatus(row["state"]), counts, any_row=row["published"] > 0)
    Book(connection, row["account_id"], now).settle(row["id"], charges)
    cost = sum(charge.credits for charge in charges)
    connection.execute(_Q["set_job_credits"], {"id": row["id"], "credits": cost})
    return cost


def _hold(hold: Hold) -> dict[str, Any]:
    return {"monthly": hold.monthly, "topup": hold.topup, "period_start": hold.period_start}


def _line(line: Line, hold_id: str | None) -> dict[str, Any]:
    charge = line.charge
    return {
        "kind": line.kind,
        "monthly": line.monthly,
        "topup": line.topup,
        "hold_id": hold_id,
        "platform": charge and charge.platform,
        "operation": charge and charge.operation,
        "units": charge and charge.units,
        "credits": charge.credits if charge else 0,
    }
