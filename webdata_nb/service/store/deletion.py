"""What is old goes: rows, then records, a slice a transaction."""

from __future__ import annotations

from typing import Final

from webdata_nb.service.store.database import Database

# Rows may be megabytes each: a slice is what the writer can delete between two commits of jobs.
_SLICES: Final = {"clear_entries": 20, "clear_receipt": 1000, "clear_snapshots": 20}
_BATCH: Final = 50
_KEYS: Final = 1000


class Expiry:
    """Deletes from a store; every step can be repeated, so a kill between two loses nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def active(self) -> set[str]:
        """Return the jobs, of all accounts, that are not over."""
        return {str(row["id"]) for row in await self._database.read("active_ids")}

    async def due(self, *, searches_before: float, crawls_before: float) -> list[str]:
        """Return some of the ended jobs whose rows are to go, oldest first."""
        found = await self._database.read(
            "due_results",
            searches_before=searches_before,
            crawls_before=crawls_before,
            limit=_BATCH,
        )
        return [str(row["id"]) for row in found]

    async def expire(self, job_id: str, *, now: float) -> None:
        """Mark a job: from now on its rows are gone for everyone, whatever is left of them."""
        await self._database.write("expire", id=job_id, now=now)

    async def clear(self, job_id: str, *, now: float) -> None:
        """Delete the rows, receipt and snapshots of a marked job."""
        for query, limit in _SLICES.items():
            while await self._database.write(query, id=job_id, limit=limit):
                pass
        await self._database.write("cleared", id=job_id, now=now)

    async def forget_jobs(self, *, before: float) -> int:
        """Delete some cleared jobs that ended before; return how many."""
        found = await self._database.read("old_jobs", before=before, limit=_BATCH)
        for row in found:
            await self._database.write("delete_job", id=row["id"])
        return len(found)

    async def forget_keys(self, *, before: float) -> int:
        """Delete some idempotency keys that are older; return how many."""
        return await self._database.write("forget_keys", before=before, limit=_KEYS)
