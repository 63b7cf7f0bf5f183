"""Ends attempts at jobs that make no progress.

Every wait has its own deadline; the watchdog is for a forgotten one. A job stalls if no operation
begins or ends for `STALL_S` seconds, and for longer than the deadlines of its open operations. It
is returned to the queue. If it stalls again before it has stored anything more, it fails with an
error that names the operation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Literal

from webdata_nb.service.errors import JobFailure, JobStalled
from webdata_nb.service.observability.operations import Operations, record_operations
from webdata_nb.service.settings import STALL_S
from webdata_nb.service.store.job_context import JobContext
from webdata_nb.service.store.records import CommitBatch
from webdata_nb.service.work import job_log
from webdata_nb.service.work.worker import Engine

CHECK_INTERVAL_S: Final = 15.0
# Time beyond an operation's own deadline.
DEADLINE_MARGIN_S: Final = 60.0
# How long a cancelled attempt may take to end.
CANCEL_S: Final = 5.0
# A stalled job fails after this many attempts without progress.
MAX_STALLED_ATTEMPTS: Final = 2

StallAction = Literal["requeued", "failed"]


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
                await self._wait_until_done_or_stalled(attempt, operations)
                if attempt.done():
                    return attempt.result()
                # Read before the cancellation begins other operations.
                waited_for = operations.oldest
            finally:
                await _cancel(attempt)
        raise self._stall_error(context, waited_for)

    async def _wait_until_done_or_stalled(
        self, attempt: asyncio.Future[CommitBatch], operations: Operations
    ) -> None:
        loop = asyncio.get_running_loop()
        idle_s, changes = 0.0, -1
        while not attempt.done():
            if operations.changes != changes:
                idle_s, changes = 0.0, operations.changes
            elif idle_s > self._stall_s and idle_s > operations.longest_limit_s + DEADLINE_MARGIN_S:
                return
            wait_start = loop.time()
            await asyncio.wait({attempt}, timeout=self._check_interval_s)
            # Time in which the whole process was suspended does not count.
            idle_s += min(loop.time() - wait_start, 2 * self._check_interval_s)

    def _stall_error(self, context: JobContext, waited_for: str) -> JobStalled | JobFailure:
        job = context.job
        final = job.attempts_since_progress >= MAX_STALLED_ATTEMPTS
        action: StallAction = "failed" if final else "requeued"
        job_log.log_stall(job, operation=waited_for, waited_s=self._stall_s, action=action)
        self._fired(job.kind, action)
        reason = f"no progress for {self._stall_s:.0f} s, while it was waiting for {waited_for}"
        return JobFailure(f"the job made {reason}") if final else JobStalled(reason)


async def _cancel(attempt: asyncio.Future[CommitBatch]) -> None:
    """Cancel an attempt; abandon it if it does not end, as it has no lease to write with."""
    if not attempt.done():
        attempt.cancel()
        await asyncio.wait({attempt}, timeout=CANCEL_S)
    if attempt.done() and not attempt.cancelled():
        attempt.exception()
