"""Deletes old rows, jobs and idempotency keys, a slice in each transaction."""

from __future__ import annotations

from functools import partial
from typing import Final

from webdata_nb.service.store.sql.connection import SqlDatabase, Transaction
from webdata_nb.service.store.sql.contents import delete_unused
from webdata_nb.service.store.sql.receipts import pack_slice

# Rows may be megabytes each: a slice must not hold up the commits of running jobs.
_ENTRIES: Final = 20
_SLICES: Final = {"delete_receipt": 1000, "delete_receipt_blocks": 20, "delete_pinned_files": 20}
_JOBS: Final = 50
_KEYS: Final = 1000


class RetentionStore:
    """Deletes old rows, jobs and keys in slices; every step can be repeated."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    async def active_job_ids(self) -> set[str]:
        """Return the pending and running jobs of all accounts."""
        return {str(row["id"]) for row in await self._database.read("active_job_ids")}

    async def due_jobs(self, *, searches_before: float, crawls_before: float) -> list[str]:
        """Return some of the ended jobs whose rows are to be deleted, oldest first."""
        rows = await self._database.read(
            "due_jobs",
            searches_before=searches_before,
            crawls_before=crawls_before,
            limit=_JOBS,
        )
        return [str(row["id"]) for row in rows]

    async def mark_expired(self, job_id: str, *, now: float) -> None:
        """Mark a job, so that its remaining rows are not read any more."""
        await self._database.write("mark_expired", id=job_id, now=now)

    async def delete_rows(self, job_id: str, *, now: float) -> None:
        """Delete the rows, receipt and pinned files of a marked job."""
        while await self._database.change(partial(_delete_entries, job_id)):
            pass
        for statement, limit in _SLICES.items():
            while await self._database.write(statement, id=job_id, limit=limit):
                pass
        await self._database.write("mark_cleared", id=job_id, now=now)

    async def delete_jobs(self, *, before: float) -> int:
        """Delete some jobs without rows that ended before; return how many."""
        rows = await self._database.read("old_jobs", before=before, limit=_JOBS)
        for row in rows:
            await self._database.write("delete_job", id=row["id"])
        return len(rows)

    async def delete_idempotency_keys(self, *, before: float) -> int:
        """Delete some idempotency keys that are older; return how many."""
        return await self._database.write("delete_idempotency_keys", before=before, limit=_KEYS)

    async def pack_receipts(self) -> bool:
        """Compress a part of the receipt of an ended job; return whether there may be more."""
        return await self._database.change(pack_slice)

    async def return_space(self) -> None:
        """Return the space of deleted data to the file system, where the database can."""
        await self._database.return_space()


def _delete_entries(job_id: str, transaction: Transaction) -> int:
    """Delete some entries, and their contents unless others use them; return how many."""
    entries = transaction.rows("delete_entries", id=job_id, limit=_ENTRIES)
    delete_unused(transaction, (row["content_id"] for row in entries))
    return len(entries)
