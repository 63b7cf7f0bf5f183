"""Moves the contents of pages from the database into segments."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

from webdata_nb.service.blobs.store import BlobStore
from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.observability.metrics import Metrics
from webdata_nb.service.segments.writer import PendingSegment, SegmentWriter
from webdata_nb.service.store.segments import JobToMove
from webdata_nb.service.store.sql.store import Store

log = logging.getLogger("webdata_nb.service")

# Jobs that end within this time share segments.
MOVE_DELAY_S: Final = 2.0
# Between two looks at running jobs, and for jobs that ended in other processes.
INTERVAL_S: Final = 10.0
RETRY_DELAY_S: Final = 60.0
# The lock of this work is held for ten minutes at most.
_ROUND_S: Final = 300.0
_JOBS: Final = 500
_SLICE: Final = 256


class BodyMover:
    """Moves contents into segments, of one account at a time.

    Those of an ended job move soon after its end, those of a running one when there are 8 MB that
    clients can see. Of several processes on a store, one moves at a time.

    Parameters
    ----------
    store
        Where the contents are.
    blobs
        Where the segments are written.
    metrics
        Of this process.
    clock
        Returns the time.
    """

    def __init__(
        self, store: Store, blobs: BlobStore, metrics: Metrics, *, clock: Callable[[], float]
    ) -> None:
        self._store, self._segments = store, store.segments
        self._writer = SegmentWriter(store, blobs, metrics, clock=clock)
        self._clock = clock
        self._due = asyncio.Event()
        self._due.set()
        # From which ordinal on a running job has contents in the database.
        self._starts: dict[str, int] = {}

    def notify(self) -> None:
        """Note that a job ended."""
        self._due.set()

    async def run(self) -> None:
        """Move forever; after an error the next round tries again."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL_S):
                    await self._due.wait()
            await asyncio.sleep(MOVE_DELAY_S)
            self._due.clear()
            await self._try_to_move()

    async def _try_to_move(self) -> None:
        try:
            await self.move()
        except StoreUnavailable as error:
            log.warning("stored pages are not moved to files: %s; trying again later", error)
        except Exception:
            log.exception("stored pages could not be moved to files; trying again later")
        else:
            return
        await asyncio.sleep(RETRY_DELAY_S)

    async def move(self) -> None:
        """Move what is due, unless another process does."""
        if not await self._segments.jobs_to_move(limit=1):
            return
        async with self._store.exclusive("segments") as is_first:
            if is_first:
                await self._move_all(until=monotonic() + _ROUND_S)

    async def _move_all(self, until: float) -> None:
        while monotonic() < until:
            jobs = await self._segments.jobs_to_move(limit=_JOBS)
            self._forget_starts({job.id for job in jobs if not job.has_ended})
            ended = [job for job in jobs if job.has_ended]
            for account_id, account_jobs in _by_account(ended).items():
                await self._move_ended(account_id, account_jobs)
            if len(ended) < _JOBS:
                break
        for job in jobs:
            if not job.has_ended and monotonic() < until:
                await self._move_visible(job)

    async def _move_ended(self, account_id: str, jobs: Sequence[JobToMove]) -> None:
        """Move the contents of ended jobs of an account, which share segments."""
        pending = PendingSegment()
        moved = []
        for job in jobs:
            start = 0
            while rows := await self._segments.movable_contents(job, start=start, count=_SLICE):
                for row in rows:
                    if pending.is_full_with(row):
                        await self._writer.move(account_id, pending.take())
                    pending.add(row)
                start = rows[-1].ordinal + 1
            moved.append(job.id)
        await self._writer.move(account_id, pending.take())
        for job_id in moved:
            await self._segments.mark_moved(job_id, now=self._clock())

    async def _move_visible(self, job: JobToMove) -> None:
        """Move full segments of a running job."""
        pending = PendingSegment()
        start = self._starts.get(job.id, 0)
        while rows := await self._segments.movable_contents(job, start=start, count=_SLICE):
            for row in rows:
                if pending.is_full_with(row):
                    await self._writer.move(job.account_id, pending.take())
                    self._starts[job.id] = row.ordinal
                pending.add(row)
            start = rows[-1].ordinal + 1

    def _forget_starts(self, running: set[str]) -> None:
        self._starts = {job: start for job, start in self._starts.items() if job in running}


def _by_account(jobs: Sequence[JobToMove]) -> dict[str, list[JobToMove]]:
    by_account: dict[str, list[JobToMove]] = {}
    for job in jobs:
        by_account.setdefault(job.account_id, []).append(job)
    return by_account
