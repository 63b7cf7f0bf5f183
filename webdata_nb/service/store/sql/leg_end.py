"""The end of a leg of a long crawl: its state, its credits and the next leg, in one transaction."""

from __future__ import annotations

from dataclasses import dataclass

from webdata_nb.contract.states import JobStatus
from webdata_nb.service.credits import tariff
from webdata_nb.service.errors import LeaseLost
from webdata_nb.service.store.records import CommitBatch, Lease, LegEnd
from webdata_nb.service.store.sql.batches import write_batches
from webdata_nb.service.store.sql.connection import Transaction
from webdata_nb.service.store.sql.credit_reservations import LockedCredits, settlement_statements
from webdata_nb.service.store.sql.job_rows import lease_values


@dataclass(frozen=True, slots=True)
class LegChange:
    """A change that ends a leg behind the fence of its lease, and begins the next one."""

    lease: Lease
    leg_end: LegEnd
    now: float

    def __call__(self, transaction: Transaction) -> bool:
        """Return whether the lease continues."""
        job_id, leg_end = self.lease.job_id, self.leg_end
        batch = CommitBatch(pinned_files=leg_end.pinned_files)
        write_batches(transaction, self.lease, [batch])
        transaction.send(
            "put_leg_record",
            job_id=job_id,
            next_ordinal=leg_end.next_ordinal,
            record=leg_end.record,
        )
        if leg_end.is_whole:
            transaction.send(
                "delete_earlier_leg_records", job_id=job_id, next_ordinal=leg_end.next_ordinal
            )
        credits_, reserved = self._settle(transaction)
        values = {**lease_values(self.lease), "now": self.now}
        rows = transaction.rows("end_leg", **values, credits=credits_, reserved=reserved)
        if not rows:
            raise LeaseLost(job_id)
        return JobStatus(rows[0]["state"]) is JobStatus.RUNNING

    def _settle(self, transaction: Transaction) -> tuple[int, int | None]:
        """Charge for the leg and reserve the next one; return the credits of both."""
        job_id = self.lease.job_id
        charged_rows, [account_row], ended = transaction.rows_of_each(settlement_statements(job_id))
        row_counts = {row["charged"]: row["n"] for row in charged_rows}
        charges = tariff.final_charges("crawl", JobStatus.RUNNING, row_counts, any_row=True)
        account = LockedCredits(transaction, account_row, self.now)
        account.charge(ended, charges)
        reserved = account.reserve(job_id, self.leg_end.max_charges, is_renewal=True)
        return sum(charge.credits for charge in charges), reserved
