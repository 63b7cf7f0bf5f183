"""The end of a job: its state, its credits and its webhook delivery, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from webdata_nb.contract.replies import Receipt
from webdata_nb.contract.states import JobStatus
from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.errors import LeaseLost
from webdata_nb.service.store.records import JobRecord, JobSnapshot, Lease
from webdata_nb.service.store.sql.batch_commits import BatchCommit
from webdata_nb.service.store.sql.connection import NamedStatement, SqlRow, Transaction
from webdata_nb.service.store.sql.credit_reservations import settle_job, settlement_statements
from webdata_nb.service.store.sql.job_rows import job_of_row, lease_values
from webdata_nb.service.store.sql.outbox import add_end_delivery
from webdata_nb.service.store.sql.receipts import receipt_counts


@dataclass(frozen=True, slots=True)
class JobFinish:
    """A change that ends a running job behind the fence of its lease, after its last batch."""

    lease: Lease
    state: JobStatus
    error: str | None
    commit: BatchCommit | None
    cipher: SecretCipher
    now: float

    def __call__(self, transaction: Transaction) -> JobSnapshot:
        """Write the last batch, and end the job."""
        new_entries = 0 if self.commit is None else self.commit(transaction)
        return self.end(transaction, new_entries=new_entries)

    def end(
        self, transaction: Transaction, *batch: NamedStatement, new_entries: int
    ) -> JobSnapshot:
        """End the job; the statements of `batch` run before, in the same round trip."""
        job_id = self.lease.job_id
        values = {**lease_values(self.lease), "state": self.state.value, "error": self.error}
        results = transaction.rows_of_each(
            [
                *batch,
                ("finish", {**values, "now": self.now}),
                ("receipt_counts", {"job_id": job_id}),
                *settlement_statements(job_id),
            ]
        )
        ended, counts, *settlement = results[len(batch) :]
        if not ended:
            raise LeaseLost(job_id)
        job = settle_end(transaction, ended[0], settlement, self.cipher, self.now)
        rows = self._all_rows(job, new_entries)
        return JobSnapshot(job, rows, Receipt(counts=receipt_counts(counts), examples={}))

    def _all_rows(self, job: JobRecord, new_entries: int) -> tuple[bytes, ...]:
        """Return the visible rows of the job if its last batch has all of them."""
        entries = () if self.commit is None else self.commit.batch.entries
        visible = {each.position: each.page for each in entries if each.position is not None}
        is_whole = all(each.content is None for each in entries)
        if len(visible) != job.published or new_entries < len(entries) or not is_whole:
            return ()
        return tuple(visible[position] or b"" for position in sorted(visible))


def settle_end(
    transaction: Transaction,
    row: SqlRow,
    settlement: Sequence[Sequence[SqlRow]],
    cipher: SecretCipher,
    now: float,
) -> JobRecord:
    """Settle the credits of a job that has just ended, and write its webhook delivery."""
    job = job_of_row(row, cipher)
    cost = settle_job(transaction, row, settlement, now)
    if job.settled_rows:
        transaction.send("delete_leg_records", job_id=job.id)
    add_end_delivery(transaction, job, now)
    return replace(job, credits=cost)
