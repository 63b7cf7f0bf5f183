"""Decides when a job's rows expire; deletes expired rows, jobs, keys, spooled files and accounts.

Each request decides by the clock whether rows are expired; deleting them only frees space, so its
delay is invisible. A job is marked before its rows are deleted in small transactions: after a kill
it answers as expired, also if the setting was raised meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

from webdata_nb.service.errors import DeletionUnfinished, InvalidJobState, StoreUnavailable
from webdata_nb.service.segments.mover import SegmentSweep
from webdata_nb.service.settings import Retention
from webdata_nb.service.store.records import IDEMPOTENCY_S, JobRecord
from webdata_nb.service.store.spool import SpoolDirectory
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.sql.text_index import TextIndex

if TYPE_CHECKING:  # not needed where jobs run
    from webdata_nb.service.creatives.enrich import FileStore

log: Final = logging.getLogger(__name__)

HOUR_S: Final = 3600.0
SWEEP_INTERVAL_S: Final = 300.0


def retention_hours(retention: Retention, job: JobRecord) -> float:
    """Return how many hours a job's rows are kept after its end."""
    hours = retention.search_hours if job.kind == "search" else retention.crawl_hours
    return min(hours, retention.job_hours)


def expired_at(retention: Retention, job: JobRecord, now: float) -> float | None:
    """Return when a job's rows expired; None while they can be read."""
    if job.finished_at is None:
        return None
    expires_at = job.finished_at + retention_hours(retention, job) * HOUR_S
    if job.expired_at is not None:
        return min(expires_at, job.expired_at)
    return expires_at if now >= expires_at else None


async def clear_job(store: Store, index: TextIndex, job_id: str, *, now: float) -> None:
    """Delete the rows of an ended job, and its pages in the text index; its record stays."""
    await store.retention.mark_expired(job_id, now=now)
    await index.delete(job_id)
    await store.retention.delete_rows(job_id, now=now)


class Janitor:
    """Deletes old rows, index entries, jobs, keys, segments and spooled files.

    It also returns the credits of calls whose process died. Of several processes on a store, one
    clears it at a time. Without `retention` it deletes spooled files only: a worker does not know
    the retention of its service. `segments` deletes files of stored pages, where there are any.
    `clock` returns the time.
    """

    def __init__(
        self,
        store: Store,
        index: TextIndex,
        spool: SpoolDirectory,
        *,
        retention: Retention | None,
        clock: Callable[[], float],
        segments: SegmentSweep | None = None,
    ) -> None:
        self._store, self._index, self._spool = store, index, spool
        self._retention, self._clock, self._segments = retention, clock, segments
        self._job_deleted = asyncio.Event()

    def notify(self) -> None:
        """Note that a job was deleted."""
        self._job_deleted.set()

    async def run(self) -> None:
        """Sweep forever, and clear deleted jobs soon; after an error the next sweep tries again."""
        due = self.sweep
        while True:
            try:
                await due()
            except StoreUnavailable as error:
                log.warning("old results are not cleared: %s; trying again later", error)
            except Exception:
                log.exception("old results could not be cleared; trying again later")
            if due == self.sweep:
                next_sweep = asyncio.get_running_loop().time() + SWEEP_INTERVAL_S
            due = self.sweep
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_sweep):
                    await self._job_deleted.wait()
                    due = self.clear_deleted
            self._job_deleted.clear()

    async def sweep(self) -> None:
        """Delete everything that is past its time."""
        # Delete the files of jobs that ended outside this process.
        spooled = await asyncio.to_thread(self._spool.job_ids)
        if spooled:
            active = await self._store.retention.active_job_ids()
            for job_id in set(spooled) - active:
                await asyncio.to_thread(self._spool.delete, job_id)
        if self._retention is None:
            return
        hours, stored = self._retention, self._store.retention
        async with self._store.exclusive("janitor") as is_first:
            if not is_first:
                return
            now = self._clock()
            await self._store.accounts.release_expired_calls(now=now)
            await self.clear_deleted()
            searches_before = now - min(hours.search_hours, hours.job_hours) * HOUR_S
            crawls_before = now - min(hours.crawl_hours, hours.job_hours) * HOUR_S
            while job_ids := await stored.due_jobs(
                searches_before=searches_before, crawls_before=crawls_before
            ):
                for job_id in job_ids:
                    await clear_job(self._store, self._index, job_id, now=now)
            while await stored.delete_jobs(before=now - hours.job_hours * HOUR_S):
                pass
            while await stored.delete_idempotency_keys(before=now - IDEMPOTENCY_S):
                pass
            while await stored.pack_receipts():
                pass
            await stored.return_space()
            await self._index.return_space()
            if self._segments is not None:
                await self._segments.sweep()

    async def clear_deleted(self) -> None:
        """Delete what is left of deleted jobs; other processes may do so at the same time."""
        while job_ids := await self._store.retention.deleted_jobs():
            for job_id in job_ids:
                await clear_job(self._store, self._index, job_id, now=self._clock())
                await self._store.retention.delete_job(job_id)
        await self._store.retention.return_space()


# How long a deletion waits for calls: longer than any call may take.
CALLS_S: Final = 300.0
_CANCELLED: Final = 100


class AccountDeletion:
    """Deletes an account with all that is stored of it, but its ledger.

    It may be interrupted at any time: calling `run` again finishes it. Other processes may use the
    store meanwhile.

    Parameters
    ----------
    store, index
        Of the service; the store needs no keys of secrets.
    files
        The downloaded files of creatives.
    segments
        Deletes the files of stored pages, where there are any.
    report
        Called with a line about each step.
    """

    def __init__(
        self,
        store: Store,
        index: TextIndex,
        *,
        files: FileStore,
        segments: SegmentSweep | None,
        report: Callable[[str], None],
    ) -> None:
        self._store, self._index = store, index
        self._files, self._segments, self._report = files, segments, report

    async def run(self, name: str) -> None:
        """Delete the account of that name.

        Raises
        ------
        NoSuchAccount
            There is none, or none any more.
        DeletionUnfinished
            A part is in use; the next call continues.
        """
        store = self._store
        account_id = await store.accounts.mark_deleted(name, now=store.now())
        self._report(f"the keys of {name!r} are deleted, and it is suspended")
        # After this, no process writes anything of the account's jobs.
        while job_ids := await store.accounts.active_jobs(account_id, limit=_CANCELLED):
            for job_id in job_ids:
                with suppress(InvalidJobState):  # it ended by itself
                    await store.cancel(account_id, job_id, now=store.now())
        await self._wait_for_calls(account_id)
        count = 0
        while job_ids := [
            *await store.retention.deleted_jobs(),  # by the account itself
            *await store.retention.jobs_of_account(account_id),
        ]:
            for job_id in job_ids:
                await clear_job(store, self._index, job_id, now=store.now())
                await store.retention.delete_job(job_id)
            count += len(job_ids)
            self._report(f"{count} of its jobs are deleted")
        await store.retention.delete_account_starts(account_id)
        await self._index.delete_account(account_id)
        self._report("its pages are deleted from the local search")
        if self._segments is not None:
            await self._segments.delete_account(account_id)
        await self._files.delete_account(account_id)
        self._report("its files are deleted; what is left in the database is removed")
        await self._index.erase()
        await store.retention.erase()
        self._report("the files of the database have nothing of it any more")
        if not await store.accounts.clear(account_id, now=store.now()):
            raise DeletionUnfinished(
                f"a process has stored something of {name!r} meanwhile; run the command again"
            )
        await store.retention.erase()  # the name

    async def _wait_for_calls(self, account_id: str) -> None:
        """Wait for the end of calls, which store files until then."""
        store = self._store
        deadline = monotonic() + CALLS_S
        is_reported = False
        while (end := await store.accounts.end_of_calls(account_id, now=store.now())) is not None:
            if not is_reported:
                left = max(0.0, end - store.now())
                self._report(f"a call is under way; waiting for its end, {left:.0f} s at most")
                is_reported = True
            if monotonic() > deadline:
                raise DeletionUnfinished(
                    f"a call of the account is still under way after {CALLS_S:.0f} s; run the "
                    "command again"
                )
            await asyncio.sleep(0.5)
