"""Claims jobs from the queue and runs them in this process."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol

from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.observability.logs import JOB_ID
from webdata_nb.service.runtime.fair_scheduler import on_behalf_of
from webdata_nb.service.settings import SLOTS, unreserved_slots
from webdata_nb.service.store.records import SUSPECT_ATTEMPTS, JobRecord, JobSnapshot, Lease
from webdata_nb.service.store.retry import StoreRetry
from webdata_nb.service.store.sql.job_queue import JobQueue
from webdata_nb.service.work import job_log
from webdata_nb.service.work.events import JobEvents
from webdata_nb.service.work.leased_job import LeasedJob
from webdata_nb.service.work.membership import Membership
from webdata_nb.service.work.worker import LEASE_S, Engine, run_job

log = logging.getLogger(__name__)

POLL_S: Final = 2.0
# How long after the end of a lease to claim its job, so that the lease has ended by any timer.
LEASE_END_MARGIN_S: Final = 0.01
STOP_S: Final = 2.0
# How long jobs may take to stop before their leases are released all the same.
DRAIN_S: Final = 0.5


class Runner(Protocol):
    """Runs jobs. Durability is the store's: a runner may die at any time."""

    @property
    def running_jobs(self) -> int:
        """The number of jobs that run here."""

    async def start(self) -> None:
        """Begin to claim jobs."""

    def wake(self) -> None:
        """Hint that a job is, or will be, in the queue; else it is found within seconds."""

    def check_lease(self, job_id: str) -> None:
        """Stop a job soon if it runs here and another process cancelled it."""

    async def cancel(self, job_id: str) -> None:
        """Stop a job that was cancelled in the store."""

    async def drain(self) -> None:
        """Claim no more jobs, stop those that run and return them to the queue.

        They continue at once in another process, or after the next start.
        """

    async def close(self) -> None:
        """Drain, and wait for the end of what runs here."""


class LocalRunner(Runner):
    """Runs jobs as tasks of this process's event loop.

    Parameters
    ----------
    queue
        The queue of the store.
    events
        Notified of every change.
    engine
        What runs a job.
    on_end
        Called with every job that ended here.
    delete_spooled
        Deletes the spooled files of a cancelled job.
    retry
        Repeats operations while the store is unavailable.
    slots
        How many jobs to run at a time; a third is reserved for accounts without a running job.
    membership
        This process among others on the store; None if it is alone.
    clock
        Returns the time.
    """

    def __init__(
        self,
        queue: JobQueue,
        events: JobEvents,
        engine: Engine,
        *,
        on_end: Callable[[JobSnapshot], None],
        delete_spooled: Callable[[str], None],
        retry: StoreRetry | None = None,
        slots: int = SLOTS,
        membership: Membership | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._queue, self._events, self._engine, self._on_end = queue, events, engine, on_end
        self._delete_spooled, self._retry, self._clock = (
            delete_spooled,
            retry or StoreRetry(),
            clock,
        )
        self._slots, self._membership = slots, membership
        self._unreserved_slots = unreserved_slots(slots)
        # Random for each start: a worker that died does not return under its old name.
        self._worker = secrets.token_hex(8) if membership is None else membership.replica.id
        self._wake = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._contexts: dict[str, LeasedJob] = {}
        self._cancelled: set[str] = set()
        self._claiming = asyncio.Lock()
        self._claim_in_doubt = False
        self._draining: asyncio.Task[None] | None = None
        self._is_paused = False

    @property
    def running_jobs(self) -> int:
        return len(self._tasks)

    async def start(self) -> None:
        self._loop = asyncio.create_task(self._claim_forever())

    def wake(self) -> None:
        self._wake.set()

    def pause(self) -> None:
        """Claim no more jobs; those that run here continue."""
        self._set_paused(is_paused=True)

    def resume(self) -> None:
        """Claim jobs again."""
        self._set_paused(is_paused=False)

    def _set_paused(self, *, is_paused: bool) -> None:
        if is_paused == self._is_paused:
            return
        self._is_paused = is_paused
        if self._membership is not None:  # the others divide the jobs among themselves
            self._membership.set_slots(0 if is_paused else self._slots)
        self._wake.set()

    def check_lease(self, job_id: str) -> None:
        if (context := self._contexts.get(job_id)) is not None:
            context.changed_elsewhere.set()

    async def cancel(self, job_id: str) -> None:
        self._cancelled.add(job_id)  # a job that is being claimed does not begin
        async with self._claiming:
            task = self._tasks.get(job_id)
        self._cancelled.discard(job_id)
        if task is not None:
            task.cancel()
            await asyncio.wait([task], timeout=STOP_S)
        self._delete_spooled(job_id)
        self._events.changed(job_id)

    async def drain(self) -> None:
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        await asyncio.shield(self._draining)

    async def close(self) -> None:
        await self.drain()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _drain(self) -> None:
        tasks = {self._loop, *self._tasks.values()}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=DRAIN_S)
        with suppress(StoreUnavailable):  # then their leases run out
            if self._membership is not None:
                await self._membership.leave()
            await self._queue.release(self._worker)

    async def _claim_forever(self) -> None:
        while True:
            wait_s = POLL_S
            try:
                if self._membership is not None:
                    await self._membership.refresh()
                # Before the claim: a lease that ends during it is not overlooked.
                now = self._clock()
                if not self._is_paused:
                    await self._fill_slots()
                    wait_s = await self._seconds_to_lease_end(now)
            except StoreUnavailable as error:
                if not self._claim_in_doubt:  # once per outage
                    log.warning("no job can be taken: %s; trying again", error)
                self._claim_in_doubt = True
            except Exception:
                log.exception("the queue could not be read; trying again")
            # Not wait_for: on Python 3.11 it can lose a cancellation that meets a wake-up.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            self._wake.clear()

    async def _seconds_to_lease_end(self, after: float) -> float:
        """Return when to look for jobs again: as soon as the lease of a dead process ends."""
        if self._membership is None:  # no other process has leases
            return POLL_S
        ends_at = await self._queue.next_lease_end(self._worker, after=after)
        if ends_at is None:
            return POLL_S
        return min(POLL_S, max(0.0, ends_at - self._clock()) + LEASE_END_MARGIN_S)

    async def _fill_slots(self) -> None:
        if self._claim_in_doubt:  # the last claim may be stored all the same
            await self._queue.release(self._worker, held_jobs=self._tasks.keys())
            self._claim_in_doubt = False
        while True:
            free_slots = max(0, self._unreserved_slots - len(self._tasks))
            reserved_slots = self._slots - len(self._tasks) - free_slots
            if free_slots + reserved_slots == 0:
                return
            async with self._claiming:
                jobs = await self._queue.claim(
                    self._worker,
                    max_jobs=free_slots,
                    spare_jobs=reserved_slots,
                    held_jobs=self._tasks.keys(),
                    lease_s=LEASE_S,
                    now=self._clock(),
                )
                for job, lease in jobs:
                    if job.id not in self._cancelled:
                        self._begin(job, lease)
            if len(jobs) < max(1, free_slots):
                return

    def _begin(self, job: JobRecord, lease: Lease) -> None:
        context = LeasedJob(job, lease, self._queue, self._events, self._retry, clock=self._clock)
        if job.attempts_since_progress > SUSPECT_ATTEMPTS:  # after its progress the next may run
            context = replace(context, after_commit=self.wake)
        task = asyncio.create_task(self._run(context), name=f"job {job.id}")
        self._tasks[job.id] = task
        self._contexts[job.id] = context
        # Not in the task itself: one that is cancelled before its first step would never do it.
        task.add_done_callback(lambda _: self._free_slot(job.id))

    def _free_slot(self, job_id: str) -> None:
        context = self._contexts[job_id]
        # A job may be waiting for the slot.
        if context.requeued.is_set() or len(self._tasks) >= self._unreserved_slots:
            self._wake.set()
        del self._tasks[job_id], self._contexts[job_id]

    async def _run(self, context: LeasedJob) -> None:
        JOB_ID.set(context.job.id)
        job_log.log_start(context.job, now=self._clock())
        try:
            with on_behalf_of(context.job.account_id):
                snapshot = await run_job(context, self._engine, clock=self._clock)
            if snapshot is not None:
                job_log.log_end(snapshot.job)
                self._on_end(snapshot)
        except Exception:
            log.exception("job %s was left as it is; it is taken up again", context.job.id)
