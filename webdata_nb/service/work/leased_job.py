"""Gives an engine its claimed job: the journal to read, and commits under the lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from webdata_nb.service.errors import MissingRows, StoreUnavailable
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.store.job_context import JobContext
from webdata_nb.service.store.records import (
    CommitBatch,
    CrawlState,
    JobRecord,
    Lease,
    LegEnd,
    StoredEntry,
    StoredVisit,
    WholeEntry,
)
from webdata_nb.service.store.retry import StoreRetry
from webdata_nb.service.store.sql.job_queue import JobQueue
from webdata_nb.service.work.events import JobEvents


@dataclass(frozen=True, slots=True)
class LeasedJob(JobContext):
    """A `JobContext` on a queue. While the store is unavailable, its calls and the job wait.

    `changed_elsewhere` is set when another process changes the job: the lease may be lost.
    `after_commit` is called after each commit. `requeued` is set when a leg of a long crawl ended
    and the job was returned to the queue. `clock` returns the time.
    """

    claimed_job: JobRecord
    lease: Lease
    queue: JobQueue
    events: JobEvents
    retry: StoreRetry = field(default_factory=StoreRetry)
    after_commit: Callable[[], None] = lambda: None
    changed_elsewhere: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    requeued: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    clock: Callable[[], float] = time.time
    _open_commits: dict[asyncio.Event, None] = field(default_factory=dict, repr=False)

    @property
    def job(self) -> JobRecord:
        return self.claimed_job

    async def crawl_state(self) -> CrawlState | None:
        if self.job.attempt == 1:  # there is none
            return None
        with waiting_for("the database", inf):
            return await self.retry.run(lambda: self.queue.crawl_state(self.job.id))

    async def end_leg(self, leg_end: LegEnd) -> bool:
        async def end() -> bool:
            return await self.queue.end_leg(self.lease, leg_end, now=self.clock())

        with waiting_for("the database", inf):
            runs_on = await self.retry.run(end)
        if not runs_on:
            self.requeued.set()
        self.events.changed(self.job.id)
        return runs_on

    async def journal(self, *, start: int = 0) -> Sequence[StoredEntry]:
        if self.job.attempt == 1:  # there is none
            return ()
        with waiting_for("the database", inf):
            return await self.retry.run(lambda: self.queue.journal(self.job.id, start=start))

    async def entries(self, *, start: int, count: int) -> Sequence[StoredEntry]:
        with waiting_for("the database", inf):
            return await self.retry.run(
                lambda: self.queue.journal(self.job.id, start=start, count=count)
            )

    async def earlier_job(self, job_id: str) -> JobRecord | None:
        with waiting_for("the database", inf):
            return await self.retry.run(lambda: self.queue.earlier_job(self.job.account_id, job_id))

    async def visits(self, job_id: str) -> Sequence[StoredVisit]:
        with waiting_for("the database", inf):
            return await self.retry.run(lambda: self.queue.visits(self.job.account_id, job_id))

    async def whole_entry(self, job_id: str, ordinal: int) -> WholeEntry | None:
        with waiting_for("the database", inf):
            return await self.retry.run(
                lambda: self.queue.whole_entry(self.job.account_id, job_id, ordinal)
            )

    async def pinned_files(self) -> dict[str, bytes]:
        if self.job.attempt == 1:
            return {}
        with waiting_for("the database", inf):
            return await self.retry.run(lambda: self.queue.pinned_files(self.job.id))

    async def commit(self, batch: CommitBatch) -> None:
        # No deadline: while the disk is full or the database locked, jobs are paused.
        with waiting_for("the database", inf):
            await self._commit(batch)
        self.events.changed(self.job.id)
        self.after_commit()

    async def _commit(self, batch: CommitBatch) -> None:
        earlier, finished = tuple(self._open_commits), asyncio.Event()
        self._open_commits[finished] = None
        try:
            try:
                await self.queue.commit(self.lease, batch)
            except (StoreUnavailable, MissingRows):
                # A batch publishes rows of earlier ones: those must be repeated first.
                for commit_event in earlier:
                    await commit_event.wait()
                await self.retry.run(lambda: self.queue.commit(self.lease, batch))
        finally:
            del self._open_commits[finished]
            finished.set()
