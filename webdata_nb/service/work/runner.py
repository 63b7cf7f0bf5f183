"""Claims jobs from the queue, and runs each of them to its end in this process.

A run of a job has one of five results: the end of the job is written; a long crawl passes a
checkpoint while other jobs wait; another attempt or a cancellation has taken the job; the worker
stops and releases the job; or the end cannot be written although the store is available, and the
next claim continues the job.

Every wait has its own deadline; the watchdog is for a forgotten one. A job stalls if no operation
begins or ends for `STALL_S` seconds, and for longer than the deadlines of its open operations. It
is returned to the queue. If it stalls again before it has stored anything more, it fails with an
error that names the operation.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from webdata_nb import __version__
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.page.errors import ApplicationError
from webdata_nb.service.errors import (
    JobFailure,
    JobRequeued,
    JobStalled,
    LeaseLost,
    StoreUnavailable,
)
from webdata_nb.service.observability.logs import JOB_ID, event, reason
from webdata_nb.service.observability.operations import record_operations
from webdata_nb.service.runtime.event_loop import wait_at_most
from webdata_nb.service.runtime.fair_scheduler import on_behalf_of
from webdata_nb.service.settings import SLOTS, STALL_S, unreserved_slots
from webdata_nb.service.store.job_context import JobContext, JobEvents, StoreRetry
from webdata_nb.service.store.records import (
    EMPTY_BATCH,
    SUSPECT_ATTEMPTS,
    CommitBatch,
    JobRecord,
    JobSnapshot,
    Lease,
    Replica,
    ReplicaKind,
)
from webdata_nb.service.store.sql.jobs import JobQueue, event_fields
from webdata_nb.service.store.sql.store import ReplicaStore

log: Final = logging.getLogger(__name__)

LEASE_S: Final = 15.0
# Two renewals may fail before the lease ends.
RENEW_S: Final = LEASE_S / 3
RENEW_RETRY_S: Final = 1.0
# Attempts without progress before a job fails.
MAX_ATTEMPTS: Final = 5

_INTERNAL_ERROR: Final = "the service made an error; its log has the details"

CHECK_INTERVAL_S: Final = 15.0
# Time beyond an operation's own deadline.
DEADLINE_MARGIN_S: Final = 60.0
# How long a cancelled attempt may take to end.
CANCEL_S: Final = 5.0
# A stalled job fails after this many attempts without progress.
MAX_STALLED_ATTEMPTS: Final = 2

StallAction = Literal["requeued", "failed"]
POLL_S: Final = 2.0
# How long after the end of a lease to claim its job, so that the lease has ended by any timer.
LEASE_END_MARGIN_S: Final = 0.01
STOP_S: Final = 2.0
# How long jobs may take to stop before their leases are released all the same.
DRAIN_S: Final = 0.5

Engine = Callable[[JobContext], Awaitable[CommitBatch]]


async def run_job(
    context: JobContext, engine: Engine, *, clock: Callable[[], float] = time.time
) -> JobSnapshot | None:
    """Run `engine` under the job's lease, and write the end of the job.

    Returns the ended job; None if another attempt or a cancellation has taken it.
    """
    engine_task = asyncio.ensure_future(_run_engine(context, engine))
    renewal = asyncio.create_task(_renew_lease(context, engine_task, clock))
    snapshot: JobSnapshot | None = None
    try:
        state, job_error, batch = await _wait_for_engine(context, engine_task)
        snapshot = await _finish(context, state, job_error, batch, clock)
    except LeaseLost:
        log.info("job %s was taken from this worker", context.job.id)
    except JobRequeued:
        log.info("job %s passed a checkpoint, and waits", context.job.id)
    except (StoreUnavailable, JobStalled) as error:
        log.warning("job %s is taken up again: %s", context.job.id, error)
    finally:
        engine_task.cancel()
        renewal.cancel()
        with suppress(asyncio.CancelledError):
            await renewal
        if snapshot is None:
            context.events.changed(context.job.id)
        else:
            context.events.ended(snapshot)
    return snapshot


async def _run_engine(context: JobContext, engine: Engine) -> CommitBatch:
    """Run the engine, unless too many attempts made no progress."""
    if context.job.attempts_since_progress > MAX_ATTEMPTS:
        raise JobFailure(
            f"given up after {MAX_ATTEMPTS} attempts without progress: each time the service "
            "ended, or lost the job, before it could store anything more"
        )
    return await engine(context)


async def _wait_for_engine(
    context: JobContext, engine_task: asyncio.Future[CommitBatch]
) -> tuple[JobStatus, str | None, CommitBatch]:
    try:
        return JobStatus.COMPLETED, None, await engine_task
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise LeaseLost(context.job.id) from None  # the renewal has cancelled the engine
    except (LeaseLost, StoreUnavailable, JobStalled, JobRequeued):
        raise
    except ApplicationError as failure:
        return JobStatus.FAILED, str(failure), EMPTY_BATCH
    except Exception:
        log.exception("job %s failed", context.job.id)
        return JobStatus.FAILED, _INTERNAL_ERROR, EMPTY_BATCH


async def _finish(
    context: JobContext,
    state: JobStatus,
    error: str | None,
    batch: CommitBatch,
    clock: Callable[[], float],
) -> JobSnapshot:
    """Write the end of a job; if its last batch cannot be stored, write that the job failed."""
    lease = context.lease

    async def finish() -> JobSnapshot:
        return await context.queue.finish(lease, state, error=error, batch=batch, now=clock())

    async def fail() -> JobSnapshot:
        failed = JobStatus.FAILED
        return await context.queue.finish(lease, failed, error=failed_because, now=clock())

    try:
        return await context.retry.run(finish)
    except LeaseLost:
        raise
    except Exception as failure:
        log.exception("the end of job %s could not be stored", context.job.id)
        failed_because = str(failure) if isinstance(failure, ApplicationError) else _INTERNAL_ERROR
        return await context.retry.run(fail)


async def _renew_lease(
    context: JobContext, engine_task: asyncio.Future[CommitBatch], clock: Callable[[], float]
) -> None:
    """Renew the lease until it is lost, then stop the engine.

    The lease is lost when the job is cancelled, or claimed by another worker.
    """
    delay_s = RENEW_S
    while True:
        await wait_at_most(context.changed_elsewhere, delay_s)
        context.changed_elsewhere.clear()
        delay_s = RENEW_S
        try:
            await context.queue.renew(context.lease, lease_s=LEASE_S, now=clock())
        except LeaseLost:
            engine_task.cancel()
            return
        except StoreUnavailable:  # the writers of the job log it
            delay_s = RENEW_RETRY_S
        except Exception:
            log.exception("the lease of job %s could not be renewed; trying again", context.job.id)
            delay_s = RENEW_RETRY_S


class Watchdog:
    """Runs an engine, and ends it if it stalls.

    Parameters
    ----------
    engine : callable
        What runs a job.
    fired : callable
        Called with the kind of a stalled job, and whether it was requeued or failed.
    stall_s : float
        Seconds without the begin or end of any operation.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        fired: Callable[[str, StallAction], None],
        stall_s: float = STALL_S,
    ) -> None:
        self._engine, self._fired, self._stall_s = engine, fired, stall_s
        self._check_interval_s = min(CHECK_INTERVAL_S, stall_s / 4)

    async def run(self, context: JobContext) -> CommitBatch:
        """Run a job to its end.

        Raises
        ------
        JobStalled, JobFailure
            The job made no progress. Else what the engine raises.
        """
        with record_operations() as operations:
            attempt = asyncio.ensure_future(self._engine(context))
            try:
                loop = asyncio.get_running_loop()
                idle_s, changes = 0.0, -1
                while not attempt.done():
                    max_idle_s = max(self._stall_s, operations.longest_limit_s + DEADLINE_MARGIN_S)
                    if operations.changes != changes:
                        idle_s, changes = 0.0, operations.changes
                    elif idle_s > max_idle_s:
                        break
                    wait_start = loop.time()
                    await asyncio.wait({attempt}, timeout=self._check_interval_s)
                    # Time in which the whole process was suspended does not count.
                    idle_s += min(loop.time() - wait_start, 2 * self._check_interval_s)
                if attempt.done():
                    return attempt.result()
                # Read before the cancellation begins other operations.
                waited_for = operations.oldest
            finally:
                # Abandoned if it does not end, as it has no lease to write with.
                if not attempt.done():
                    attempt.cancel()
                    await asyncio.wait({attempt}, timeout=CANCEL_S)
                if attempt.done() and not attempt.cancelled():
                    attempt.exception()
        job = context.job
        final = job.attempts_since_progress >= MAX_STALLED_ATTEMPTS
        action: StallAction = "failed" if final else "requeued"
        log_stall(job, operation=waited_for, waited_s=self._stall_s, action=action)
        self._fired(job.kind, action)
        reason = f"no progress for {self._stall_s:.0f} s, while it was waiting for {waited_for}"
        raise JobFailure(f"the job made {reason}") if final else JobStalled(reason)


def log_start(job: JobRecord, *, now: float) -> None:
    """Log that a worker began an attempt at a job."""
    event(
        "job_started",
        **event_fields(job),
        attempt=job.attempt,
        waited_s=max(0.0, now - job.created_at),
    )


def log_stall(
    job: JobRecord, *, operation: str, waited_s: float, action: Literal["requeued", "failed"]
) -> None:
    """Log that a job stalled, in which operation, and whether it was requeued or failed."""
    event(
        "job_stalled",
        logging.WARNING,
        **event_fields(job),
        attempt=job.attempt,
        operation=reason(operation),
        waited_s=waited_s,
        action=action,
    )


class Runner:
    """Runs jobs as tasks of this process's event loop.

    It may die at any time: the store is durable.

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
        self.worker: str = secrets.token_hex(8) if membership is None else membership.replica.id
        self._wake = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._contexts: dict[str, JobContext] = {}
        self._cancelled: set[str] = set()
        self._claiming = asyncio.Lock()
        self._claim_in_doubt = False
        self._draining: asyncio.Task[None] | None = None
        self._is_paused = False
        self._checked_at = time.monotonic()

    @property
    def seconds_since_check(self) -> float:
        """Seconds since the queue was last read, and the heartbeat of this process written."""
        return time.monotonic() - self._checked_at

    @property
    def running_jobs(self) -> int:
        """The number of jobs that run here."""
        return len(self._tasks)

    async def start(self) -> None:
        """Begin to claim jobs."""
        self._checked_at = time.monotonic()
        self._loop = asyncio.create_task(self._claim_forever())

    def wake(self) -> None:
        """Hint that a job is, or will be, in the queue; else it is found within seconds."""
        self._wake.set()

    def set_paused(self, *, is_paused: bool) -> None:
        """Claim no more jobs, or claim them again; those that run here continue."""
        if is_paused == self._is_paused:
            return
        self._is_paused = is_paused
        if self._membership is not None:  # the others divide the jobs among themselves
            self._membership.set_slots(0 if is_paused else self._slots)
        self._wake.set()

    def check_lease(self, job_id: str) -> None:
        """Stop a job soon if it runs here and another process cancelled it."""
        if (context := self._contexts.get(job_id)) is not None:
            context.changed_elsewhere.set()

    async def cancel(self, job_id: str) -> None:
        """Stop a job that was cancelled in the store."""
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
        """Claim no more jobs, stop those that run and return them to the queue.

        They continue at once in another process, or after the next start.
        """
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        await asyncio.shield(self._draining)

    async def close(self) -> None:
        """Drain, and wait for the end of what runs here."""
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
            await self._queue.release(self.worker)

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
                    ends_at = None
                    if self._membership is not None:  # else no other process has leases
                        ends_at = await self._queue.next_lease_end(self.worker, after=now)
                    if ends_at is not None:  # the job of a dead process is free then
                        left_s = max(0.0, ends_at - self._clock())
                        wait_s = min(POLL_S, left_s + LEASE_END_MARGIN_S)
                self._checked_at = time.monotonic()
            except StoreUnavailable as error:
                if not self._claim_in_doubt:  # once per outage
                    log.warning("no job can be taken: %s; trying again", error)
                self._claim_in_doubt = True
            except Exception:
                log.exception("the queue could not be read; trying again")
            await wait_at_most(self._wake, wait_s)
            self._wake.clear()

    async def _fill_slots(self) -> None:
        if self._claim_in_doubt:  # the last claim may be stored all the same
            await self._queue.release(self.worker, held_jobs=self._tasks.keys())
            self._claim_in_doubt = False
        while True:
            free_slots = max(0, self._unreserved_slots - len(self._tasks))
            reserved_slots = self._slots - len(self._tasks) - free_slots
            if free_slots + reserved_slots == 0:
                return
            async with self._claiming:
                jobs = await self._queue.claim(
                    self.worker,
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
        log_start(job, now=self._clock())  # not in the task: it may be cancelled before it begins
        context = JobContext(job, lease, self._queue, self._events, self._retry, clock=self._clock)
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

    async def _run(self, context: JobContext) -> None:
        JOB_ID.set(context.job.id)
        try:
            with on_behalf_of(context.job.account_id):
                snapshot = await run_job(context, self._engine, clock=self._clock)
            if snapshot is not None:
                self._on_end(snapshot)
            else:
                with suppress(StoreUnavailable):  # then the janitor deletes them
                    if await self._queue.is_over(context.job.id):  # cancelled by another process
                        self._delete_spooled(context.job.id)
        except Exception:
            log.exception("job %s was left as it is; it is taken up again", context.job.id)


# The replica of this process


# Four heartbeats may fail before the others count the process as dead.
HEARTBEAT_S: Final = 2.0


class Membership:
    """The entry of this process among the replicas.

    The loop that claims jobs calls `refresh`, so that a replica that is alive also takes jobs.

    Parameters
    ----------
    replicas
        The processes on the store.
    name, slots, kind
        Of this process.
    id_file
        Keeps the id for the next process of this data directory, which continues the jobs of a
        killed one at once. The process holds the lock of the directory, so the earlier one has
        ended.
    now
        The time by the store's clock.
    """

    def __init__(
        self,
        replicas: ReplicaStore,
        name: str,
        slots: int,
        *,
        kind: ReplicaKind,
        id_file: Path,
        now: float,
    ) -> None:
        # The id is random for each start: a process that died does not return under its old one.
        self.replica: Replica = Replica(secrets.token_hex(8), name, slots, now, kind, __version__)
        self._replicas, self._id_file = replicas, id_file
        self._previous: str | None = None
        with suppress(OSError, ValueError):
            self._previous = id_file.read_text("ascii") or None
        self._next_at = float("-inf")
        self._has_joined = False
        self._has_warned = False

    async def refresh(self) -> None:
        """Write a heartbeat if it is due."""
        if time.monotonic() < self._next_at:
            return
        if self._has_joined:
            live = await self._replicas.heartbeat(self.replica)
            name = self.replica.name
            is_shared = any(each.name == name and each.id != self.replica.id for each in live)
            if is_shared and not self._has_warned:
                log.warning(
                    "another live replica is named %s too; start each with a --replica of its own, "
                    "or their logs and metrics cannot be told apart",
                    name,
                )
                self._has_warned = True
        else:
            await self._replicas.join(self.replica, previous=self._previous)
            with suppress(OSError):  # then the jobs of a killed process wait for their leases' ends
                self._id_file.write_text(self.replica.id, "ascii")
        self._has_joined = True
        self._next_at = time.monotonic() + HEARTBEAT_S

    async def position(self) -> tuple[int | None, int]:
        """Return the position of this process among the live ones by age, and their number."""
        ids = [replica.id for replica in await self._replicas.live()]
        return (ids.index(self.replica.id) if self.replica.id in ids else None), len(ids)

    def set_slots(self, slots: int) -> None:
        """Change how many jobs this process runs at a time; the next `refresh` writes it."""
        if slots != self.replica.slots:
            self.replica = replace(self.replica, slots=slots)
            self._next_at = float("-inf")

    async def leave(self) -> None:
        """Tell the others that this process takes no more jobs."""
        await self._replicas.leave(self.replica)
