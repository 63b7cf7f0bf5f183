"""Takes jobs from the queue and has them run: here, in this process."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.observability.logs import JOB_ID
from webdata_nb.service.runtime.fair_scheduler import on_behalf_of
from webdata_nb.service.store.base import Store
from webdata_nb.service.store.records import Job, JobSnapshot, Lease
from webdata_nb.service.store.retry import StoreRetry
from webdata_nb.service.work import job_log
from webdata_nb.service.work.events import Hub
from webdata_nb.service.work.job_context import Assignment, LeasedJob
from webdata_nb.service.work.worker import LEASE_S, Engine, work

log = logging.getLogger(__name__)

SLOTS: Final = 16
# More places, for accounts without a running job: however long the jobs in the others take, they
# keep nobody else waiting.
SPARE_SLOTS: Final = 8
POLL_S: Final = 2.0
STOP_S: Final = 2.0


class Runner(Protocol):
    """Where jobs run. Durability is the store's: a runner may die at any time."""

    async def start(self) -> None:
        """Begin to take jobs."""

    def wake(self) -> None:
        """Hint that a job waits, or is about to; without it one is found within seconds."""

    async def cancel(self, job_id: str) -> None:
        """End the work on a job that was cancelled in the store."""

    async def close(self) -> None:
        """Stop; jobs that were running go on after the next start."""


class LocalRunner:
    """Runs jobs as tasks of this process's event loop.

    `finished` is told of every job that ended here; `forget` removes what a cancelled one left;
    `retry` repeats what the store cannot do just now; `clock` says what time it is.
    """

    def __init__(
        self,
        store: Store,
        hub: Hub,
        engine: Engine,
        *,
        finished: Callable[[JobSnapshot], None],
        forget: Callable[[str], None],
        retry: StoreRetry | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._forget, self._retry, self._clock = forget, retry or StoreRetry(), clock
        self._store, self._hub, self._engine, self._finished = store, hub, engine, finished
        # Random for each start: a worker that died never comes back under its old name.
        self._name = secrets.token_hex(8)
        self._wake = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._unwanted: set[str] = set()
        self._claim = asyncio.Lock()
        self._in_doubt = False

    async def start(self) -> None:
        """See `Runner.start`."""
        self._loop = asyncio.create_task(self._take())

    def wake(self) -> None:
        """See `Runner.wake`."""
        self._wake.set()

    async def cancel(self, job_id: str) -> None:
        """See `Runner.cancel`."""
        self._unwanted.add(job_id)  # a job that is being claimed does not begin
        async with self._claim:
            task = self._tasks.get(job_id)
        self._unwanted.discard(job_id)
        if task is not None:
            task.cancel()
            await asyncio.wait([task], timeout=STOP_S)
        self._forget(job_id)
        self._hub.changed(job_id)

    async def close(self) -> None:
        """See `Runner.close`."""
        tasks = [self._loop, *self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(StoreUnavailable):  # then their leases run out
            await self._store.release(self._name)

    async def _take(self) -> None:
        while True:
            try:
                await self._fill()
            except StoreUnavailable as trouble:
                self._in_doubt = True
                log.warning("no job can be taken: %s; trying again", trouble)
            except Exception:
                log.exception("the queue could not be read; trying again")
            # Not wait_for: on Python 3.11 it can lose a cancellation that meets a wake-up.
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._wake.wait()
            self._wake.clear()

    async def _fill(self) -> None:
        if self._in_doubt:  # the last claim may have been written all the same
            await self._store.release(self._name, held=self._tasks.keys())
            self._in_doubt = False
        while True:
            most = max(0, SLOTS - len(self._tasks))
            spare = max(0, SLOTS + SPARE_SLOTS - len(self._tasks) - most)
            if most + spare == 0:
                return
            async with self._claim:
                claimed = await self._store.claim(
                    self._name,
                    most=most,
                    spare=spare,
                    held=self._tasks.keys(),
                    lease_s=LEASE_S,
                    now=self._clock(),
                )
                for job, lease in claimed:
                    if job.id not in self._unwanted:
                        self._begin(job, lease)
            if len(claimed) < max(1, most):
                return

    def _begin(self, job: Job, lease: Lease) -> None:
        context = LeasedJob(Assignment(job, lease), self._store, self._hub, self._retry)
        task = asyncio.create_task(self._run(context), name=f"job {job.id}")
        self._tasks[job.id] = task
        # Not in the task itself: cancelled before its first step, it would never come to it.
        task.add_done_callback(lambda _: self._ended(job.id))

    def _ended(self, job_id: str) -> None:
        if len(self._tasks) >= SLOTS:
            # With a slot to spare nothing waits for one.
            self._wake.set()
        del self._tasks[job_id]

    async def _run(self, context: LeasedJob) -> None:
        JOB_ID.set(context.job.id)
        job_log.started(context.job, now=self._clock())
        try:
            with on_behalf_of(context.job.account_id):
                ended = await work(context, self._engine, clock=self._clock)
            if ended is not None:
                job_log.ended(ended.job)
                self._finished(ended)
        except Exception:
            log.exception("job %s was left as it is; it is taken up again", context.job.id)
