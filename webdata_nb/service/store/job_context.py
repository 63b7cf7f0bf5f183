"""A claimed job as engines and its listeners see it, and the spool of its pages."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Final, Protocol, TypeVar

from webdata_nb.pacing.retry_policies import STORE
from webdata_nb.service.errors import DiskFull, MissingRows, StoreBusy, StoreUnavailable
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.runtime.event_loop import wait_at_most
from webdata_nb.service.store.records import (
    Checkpoint,
    CommitBatch,
    CrawlState,
    JobRecord,
    JobSnapshot,
    JournalEntry,
    Lease,
    SpoolLocation,
    StoredVisit,
)
from webdata_nb.service.store.sql.jobs import JobQueue

# Retries store operations until they succeed, for writes that must not be lost.


log: Final = logging.getLogger(__name__)

T = TypeVar("T")


class StoreRetry:
    """Retries operations while the store is unavailable, with back-off and without a limit.

    A job waits while its writes are retried: it stays `running` and continues once a write
    succeeds. All writers for jobs share one object, so that it counts every waiting operation.
    """

    def __init__(self) -> None:
        self._waiting: dict[object, StoreUnavailable] = {}

    @property
    def waiting(self) -> int:
        """Number of operations that wait for the store."""
        return len(self._waiting)

    @property
    def pending_error(self) -> StoreUnavailable | None:
        """Why operations wait; None if none does, or only for a lock of another process."""
        errors = [error for error in self._waiting.values() if not isinstance(error, StoreBusy)]
        disk_full = (error for error in errors if isinstance(error, DiskFull))
        return next(disk_full, errors[0] if errors else None)

    async def run(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `operation`; raises its errors other than `StoreUnavailable`."""
        key, attempt = object(), 0
        try:
            while True:
                attempt += 1
                try:
                    return await operation()
                except StoreUnavailable as error:
                    if not self._waiting:
                        log.warning("jobs are paused: %s", error)
                    self._waiting[key] = error
                await asyncio.sleep(STORE.delay_s(attempt))
        finally:
            if self._waiting.pop(key, None) is not None and not self._waiting:
                log.warning("jobs go on: the database takes writes again")


class JobListener:
    """Wakes one reader; several changes between two waits count once.

    `ended` is the job at its end, if it ended in this process.
    """

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self.ended: JobSnapshot | None = None

    def wake(self) -> None:
        """Note a change."""
        self._changed.set()

    async def wait(self, timeout_s: float) -> bool:
        """Wait for a change since the last wait; return False after the timeout."""
        await wait_at_most(self._changed, timeout_s)
        changed = self._changed.is_set()
        self._changed.clear()
        return changed


class JobEvents:
    """The listeners of each job."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[JobListener]] = defaultdict(set)
        # Whether this process stops, so that listeners should not wait here any more.
        self.closed: bool = False

    def close(self) -> None:
        """Wake every listener for the last time."""
        self.closed = True
        self.all_changed()

    def changed(self, job_id: str) -> None:
        """Wake the listeners of a job."""
        for listener in self._listeners.get(job_id, ()):
            listener.wake()

    def all_changed(self) -> None:
        """Wake every listener."""
        for job_id in self._listeners:
            self.changed(job_id)

    def ended(self, snapshot: JobSnapshot) -> None:
        """Wake the listeners of a job that ended."""
        for listener in self._listeners.get(snapshot.job.id, ()):
            listener.ended = snapshot
            listener.wake()

    @contextmanager
    def listen(self, job_id: str) -> Iterator[JobListener]:
        """Listen to a job while the context lasts."""
        listener = JobListener()
        self._listeners[job_id].add(listener)
        try:
            yield listener
        finally:
            self._listeners[job_id].discard(listener)
            if not self._listeners[job_id]:
                del self._listeners[job_id]


@dataclass(frozen=True, slots=True)
class JobContext:
    """A claimed job, as an engine sees it. While the store is unavailable, its calls wait.

    `changed_elsewhere` is set when another process changes the job: the lease may be lost.
    `after_commit` is called after each commit. `requeued` is set when a long crawl passed a
    checkpoint and the job was returned to the queue. `clock` returns the time.
    """

    job: JobRecord
    lease: Lease
    queue: JobQueue
    events: JobEvents
    retry: StoreRetry = field(default_factory=StoreRetry)
    after_commit: Callable[[], None] = lambda: None
    changed_elsewhere: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    requeued: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    clock: Callable[[], float] = time.time
    _open_commits: dict[asyncio.Event, None] = field(default_factory=dict, repr=False)

    async def crawl_state(self) -> CrawlState | None:
        """Return the state from which a long crawl continues; None if none is stored."""
        if self.job.attempt == 1:  # there is none
            return None
        return await self._wait_for(lambda: self.queue.crawl_state(self.job.id))

    async def pass_checkpoint(self, checkpoint: Checkpoint) -> bool:
        """Pass a checkpoint; return whether the job runs on.

        Raises `LeaseLost`, and `CreditsUsedUp` if the account cannot pay for more.
        """
        runs_on = await self._wait_for(
            lambda: self.queue.pass_checkpoint(self.lease, checkpoint, now=self.clock())
        )
        if not runs_on:
            self.requeued.set()
        self.events.changed(self.job.id)
        return runs_on

    async def journal(self, *, start: int = 0) -> Sequence[JournalEntry]:
        """Return the entries that earlier attempts stored, from ordinal `start`."""
        if self.job.attempt == 1:  # there is none
            return ()
        return await self._wait_for(lambda: self.queue.journal(self.job.id, start=start))

    async def entries(self, *, start: int, count: int) -> Sequence[JournalEntry]:
        """Return up to `count` stored entries from ordinal `start`, also of this attempt."""
        return await self._wait_for(
            lambda: self.queue.journal(self.job.id, start=start, count=count)
        )

    async def earlier_job(self, job_id: str) -> JobRecord | None:
        """Return another job of the account; None if there is none."""
        account_id = self.job.account_id
        return await self._wait_for(lambda: self.queue.earlier_job(account_id, job_id))

    async def visits(self, job_id: str) -> Sequence[StoredVisit]:
        """Return the pages of another job of the account that the site may be asked about."""
        return await self._wait_for(lambda: self.queue.visits(self.job.account_id, job_id))

    async def whole_entry(self, job_id: str, ordinal: int) -> JournalEntry | None:
        """Return a page of another job of the account; None if it is deleted or damaged."""
        account_id = self.job.account_id
        return await self._wait_for(lambda: self.queue.whole_entry(account_id, job_id, ordinal))

    async def pinned_files(self) -> dict[str, bytes]:
        """Return the files that earlier attempts pinned."""
        if self.job.attempt == 1:
            return {}
        return await self._wait_for(lambda: self.queue.pinned_files(self.job.id))

    async def _wait_for(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Return the result of an operation of the store, once that is available."""
        with waiting_for("the database", inf):
            return await self.retry.run(operation)

    async def commit(self, *batches: CommitBatch) -> None:
        """Store batches durably, then notify listeners; raises `LeaseLost`."""
        # No deadline: while the disk is full or the database locked, jobs are paused.
        with waiting_for("the database", inf):
            earlier, finished = tuple(self._open_commits), asyncio.Event()
            self._open_commits[finished] = None
            try:
                try:
                    await self.queue.commit(self.lease, *batches)
                except (StoreUnavailable, MissingRows):
                    # A batch publishes rows of earlier ones: those must be repeated first.
                    for commit_event in earlier:
                        await commit_event.wait()
                    await self.retry.run(lambda: self.queue.commit(self.lease, *batches))
            finally:
                del self._open_commits[finished]
                finished.set()
        self.events.changed(self.job.id)
        self.after_commit()


class PageSpool(Protocol):
    """Fetched records of a job that are not stored yet, by ordinal; they survive a kill.

    A spool may refuse or lose a record: then the page is fetched again.
    """

    async def write(self, ordinal: int, *parts: bytes) -> SpoolLocation | None:
        """Write a new record, given in parts; return None if there is no room for it."""

    def ordinals(self) -> list[int]:
        """Return the ordinals of all records."""

    def location(self, ordinal: int) -> SpoolLocation:
        """Return where a record is stored, until it is dropped."""

    async def read(self, ordinal: int) -> bytes | None:
        """Return the record of an earlier attempt; None if there is no complete one."""

    def drop(self, ordinal: int) -> None:
        """Delete a record, if there is one."""
