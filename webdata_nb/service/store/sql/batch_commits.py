"""Commits of an engine's batches."""

from __future__ import annotations

from dataclasses import dataclass

from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.store.records import CommitBatch, Lease
from webdata_nb.service.store.sql.batches import write_batch
from webdata_nb.service.store.sql.connection import Transaction
from webdata_nb.service.store.sql.job_rows import job_of_row
from webdata_nb.service.store.sql.outbox import add_page_deliveries


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """A change that writes a batch and the deliveries of the rows that it makes visible."""

    lease: Lease
    batch: CommitBatch
    cipher: SecretCipher
    now: float

    def __call__(self, transaction: Transaction) -> int:
        """Write the batch; return its number of new entries."""
        new_entries = write_batch(transaction, self.lease, self.batch)
        published = self.batch.published
        if published and (row := transaction.row("job_by_id", id=self.lease.job_id)) is not None:
            first = min(position for _, position in published)
            add_page_deliveries(transaction, job_of_row(row, self.cipher), first, self.now)
        return new_entries
