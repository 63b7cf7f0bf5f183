"""Reserves and charges an account's credits inside a transaction.

Every change of a balance is a line of the account's ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Self

from webdata_nb.contract.states import JobKind, JobStatus
from webdata_nb.service.credits import ledger, tariff
from webdata_nb.service.credits.ledger import Balance, LedgerLine, Reservation, Terms
from webdata_nb.service.credits.tariff import Charge
from webdata_nb.service.errors import ConcurrencyReached, CreditsUsedUp, NoSuchAccount
from webdata_nb.service.store.account_records import Account
from webdata_nb.service.store.sql.connection import NamedStatement, SqlRow, Transaction

# Nobody knows when a job ends: this only spreads the callers' next attempts.
RETRY_S: Final = 2


def account_of_row(row: SqlRow, now: float) -> tuple[Account, list[LedgerLine]]:
    """Return an account, and the lines that a new billing period adds to its ledger."""
    terms = Terms(row["plan"], row["monthly"], row["concurrency"])
    balance, lines = ledger.renew_period(_balance_of_row(row), terms, row["created_at"], now)
    return Account(row["id"], row["name"], terms, balance, row["created_at"]), lines


def _balance_of_row(row: SqlRow) -> Balance:
    return Balance(row["monthly_left"], row["topup_left"], row["period_start"])


class LockedCredits:
    """An account's credits, locked until the transaction ends.

    Locking begins the account's billing period, if it is a new one.
    """

    def __init__(self, transaction: Transaction, locked_row: SqlRow, now: float) -> None:
        self._transaction, self._now = transaction, now
        row = locked_row
        self._line_count: int = row["lines"]
        self._stored_balance = _balance_of_row(row)
        self.account, period_lines = account_of_row(row, now)
        self._post(self.account.balance, period_lines, None)

    @classmethod
    def lock(cls, transaction: Transaction, account_id: str, now: float) -> Self:
        """Lock an account; raises `NoSuchAccount`."""
        row = transaction.row("lock_account", id=account_id)
        if row is None:
            raise NoSuchAccount(f"no account {account_id}")
        return cls(transaction, row, now)

    def reserve(
        self,
        reservation_id: str,
        charges: Sequence[Charge],
        *,
        until: float | None = None,
        is_renewal: bool = False,
    ) -> int | None:
        """Count one more job or call, and reserve its credits.

        A renewal is of a job that runs already: the limit of active jobs does not apply.

        Returns
        -------
        int or None
            The credits reserved; None if the account has no limit.

        Raises
        ------
        ConcurrencyReached, CreditsUsedUp
            Nothing was changed.
        """
        account_id, terms = self.account.id, self.account.terms
        values = {"account_id": account_id, "now": self._now}
        expired, active_rows = self._transaction.rows_of_each(
            [("expired_reservations", values), ("active_reservations", values)]
        )
        self._release(expired)
        active = int(active_rows[0]["active"])
        limit = None if is_renewal else terms.concurrency
        if limit is not None and active >= limit:
            raise ConcurrencyReached(limit=limit, active=active, retry_after=RETRY_S)
        credits_needed = sum(charge.credits for charge in charges)
        reserved = ledger.reserve(self.account.balance, terms, credits_needed)
        if reserved is None:
            _, period_end = ledger.billing_period(self.account.created_at, self._now)
            raise CreditsUsedUp(
                needed=credits_needed,
                left=self.account.balance.left,
                limit=terms.concurrency,
                active=active,
                retry_after=max(1, round(period_end - self._now)),
            )
        reservation, lines = reserved
        self._transaction.send(
            "add_reservation",
            id=reservation_id,
            account_id=account_id,
            until=until,
            monthly=reservation.monthly,
            topup=reservation.topup,
            period_start=reservation.period_start,
        )
        self.post(lines, reservation_id)
        return None if terms.monthly is None else credits_needed

    def settle(self, reservation_id: str, charges: Sequence[Charge]) -> None:
        """End a reservation and charge for what was used; one that has ended stays settled."""
        self.charge(self._transaction.rows("end_reservation", id=reservation_id), charges)

    def charge(self, ended: Sequence[SqlRow], charges: Sequence[Charge]) -> None:
        """Charge for what was used of a reservation that this transaction ends, if it does."""
        for row in ended:
            reservation = Reservation(row["monthly"], row["topup"], row["period_start"])
            self.post(ledger.settle(self.account.balance, reservation, charges), row["id"])

    def release_expired(self) -> None:
        """Settle the calls past their time without a charge: their process has died."""
        self._release(
            self._transaction.rows(
                "expired_reservations", account_id=self.account.id, now=self._now
            )
        )

    def _release(self, expired: Sequence[SqlRow]) -> None:
        for row in expired:
            self.settle(row["id"], ())

    def post(self, lines: Sequence[LedgerLine], reservation_id: str | None = None) -> None:
        """Add lines to the ledger, and their sums to the balance."""
        self._post(ledger.apply(self.account.balance, lines), lines, reservation_id)

    def _post(
        self, balance: Balance, lines: Sequence[LedgerLine], reservation_id: str | None
    ) -> None:
        for line in lines:
            self._line_count += 1
            self._add_line(line, reservation_id)
        self.account = replace(self.account, balance=balance)
        if not lines and balance == self._stored_balance:
            return
        self._stored_balance = balance
        self._transaction.send(
            "set_balance",
            id=self.account.id,
            monthly_left=balance.monthly_left,
            topup_left=balance.topup_left,
            period_start=balance.period_start,
            lines=self._line_count,
        )

    def _add_line(self, line: LedgerLine, reservation_id: str | None) -> None:
        charge = line.charge
        self._transaction.send(
            "add_ledger_line",
            account_id=self.account.id,
            line=self._line_count,
            at=self._now,
            kind=line.kind,
            monthly=line.monthly,
            topup=line.topup,
            hold_id=reservation_id,
            platform=charge and charge.platform,
            operation=charge and charge.operation,
            units=charge and charge.units,
            credits=charge.credits if charge else 0,
        )


def settlement_statements(job_id: str) -> list[NamedStatement]:
    """Return the statements whose rows `settle_job` receives: they lock the job's account."""
    return [
        ("charged_rows", {"job_id": job_id}),
        ("lock_account_of_job", {"id": job_id}),
        ("end_reservation", {"id": job_id}),
    ]


def settle_job(
    transaction: Transaction, job_row: SqlRow, settlement: Sequence[Sequence[SqlRow]], now: float
) -> int:
    """Charge for the visible rows of a job that has just ended; return its credits.

    `settlement` has the rows of the `settlement_statements`, run after the job's end.
    """
    charged_rows, [account_row], ended = settlement
    row_counts = {row["charged"]: row["n"] for row in charged_rows}
    kind: JobKind = job_row["kind"]
    charges = tariff.final_charges(
        kind, JobStatus(job_row["state"]), row_counts, any_row=job_row["published"] > 0
    )
    LockedCredits(transaction, account_row, now).charge(ended, charges)
    cost: int = job_row["settled_credits"] + sum(charge.credits for charge in charges)
    transaction.send("set_job_credits", id=job_row["id"], credits=cost)
    return cost
