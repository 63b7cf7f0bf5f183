"""Ends attempts at jobs that make no progress, though every wait should have ended by itself.

Each wait has a deadline of its own; this is for the one that was forgotten. A job in which no
operation begins or ends for `STALL_S` seconds, nor for as long as the operations under way may
take by their own deadlines, is given back to the queue; one to which that happens again before it
has stored anything more has failed, and its error names what it was waiting for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Literal

from webdata_nb.service.errors import JobFailed, JobStalled
from webdata_nb.service.observability.operations import Operations, recorded
from webdata_nb.service.settings import STALL_S
from webdata_nb.service.store.base import JobContext
from webdata_nb.service.store.records import Batch
from webdata_nb.service.work import job_log
from webdata_nb.service.work.worker import Engine

LOOK_S: Final = 15.0
# What an operation may be late by its own deadline.
LATE_S: Final = 60.0
# How long an attempt may take to notice that it was ended.
END_S: Final = 5.0
# Attempts without progress, this one included, from which on a stalled job has failed.
LAST_ATTEMPT: Final = 2

Action = Literal["requeued", "failed"]


class Watchdog:
    """Runs an engine, and ends it where it stands still.

    Parameters
    ----------
    engine : callable
        What runs a job.
    fired : callable
        Told the kind of the job, and whether it was requeued or failed.
    stall_s : float
        Seconds without any operation that begins or ends.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        fired: Callable[[str, Action], None],
        stall_s: float = STALL_S,
    ) -> None:
        self._engine, self._fired, self._stall_s = engine, fired, stall_s
        self._look_s = min(LOOK_S, stall_s / 4)

    async def run(self, context: JobContext) -> Batch:
        """Run a job to its end.

        Raises
        ------
        JobStalled, JobFailed
            When it made no progress; else what the engine raises.
        """
        with recorded() as operations:
            attempt = asyncio.ensure_future(self._engine(context))
            try:
                await self._until_done_or_stalled(attempt, operations)
                if attempt.done():
                    return attempt.result()
                # What the ended attempt leaves on its way out is not what it waited for.
                waited_for = operations.oldest
            finally:
                await _ended(attempt)
        raise self._stalled(context, waited_for)

    async def _until_done_or_stalled(
        self, attempt: asyncio.Future[Batch], operations: Operations
    ) -> None:
        loop = asyncio.get_running_loop()
        idle_s, changes = 0.0, -1
        while not attempt.done():
            if operations.changes != changes:
                idle_s, changes = 0.0, operations.changes
            elif idle_s > self._stall_s and idle_s > operations.longest_limit_s + LATE_S:
                return
            begun = loop.time()
            await asyncio.wait({attempt}, timeout=self._look_s)
            # Time in which the whole process stood still is no time without progress.
            idle_s += min(loop.time() - begun, 2 * self._look_s)

    def _stalled(self, context: JobContext, waited_for: str) -> JobStalled | JobFailed:
        job = context.job
        final = job.attempts_since_progress >= LAST_ATTEMPT
        action: Action = "failed" if final else "requeued"
        job_log.stalled(job, operation=waited_for, waited_s=self._stall_s, action=action)
        self._fired(job.kind, action)
        told = f"no progress for {self._stall_s:.0f} s, while it was waiting for {waited_for}"
        return JobFailed(f"the job made {told}") if final else JobStalled(told)


async def _ended(attempt: asyncio.Future[Batch]) -> None:
    """Cancel an attempt; one that does not end is left behind, without a lease to write with."""
    if not attempt.done():
        attempt.cancel()
        await asyncio.wait({attempt}, timeout=END_S)
    if attempt.done() and not attempt.cancelled():
        attempt.exception()
