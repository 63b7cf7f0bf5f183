"""Runs one claimed job to its end, and says what became of it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from webdata_nb.contract.states import JobStatus
from webdata_nb.service.errors import LeaseLost, ServiceError
from webdata_nb.service.store.base import JobContext
from webdata_nb.service.store.records import NOTHING, Batch, Lease, Look
from webdata_nb.service.work.context import Assignment, LeasedJob

log = logging.getLogger(__name__)

LEASE_S: Final = 15.0
# A lease is renewed when a third of it is gone, so two renewals may fail before it ends.
RENEW_S: Final = LEASE_S / 3

Engine = Callable[[JobContext], Awaitable[Batch]]


async def work(context: LeasedJob, engine: Engine) -> Look | None:
    """Run `engine` under the lease; whatever happens, the job's state tells it.

    Returns the job as it ended; None where another worker, or a cancellation, ended it.
    """
    store, lease = context.store, context.assignment.lease
    engine_task = asyncio.ensure_future(engine(context))
    renewal = asyncio.create_task(_renew(context, lease, engine_task))
    ended: Look | None = None
    try:
        state, error, batch = await _outcome(context.assignment, engine_task)
        ended = await store.finish(lease, state, error=error, batch=batch, now=time.time())
    except LeaseLost:
        log.info("job %s was taken from this worker", context.job.id)
    finally:
        engine_task.cancel()
        renewal.cancel()
        with suppress(asyncio.CancelledError):
            await renewal
        if ended is None:
            context.hub.changed(context.job.id)
        else:
            context.hub.ended(ended)
    return ended


async def _outcome(
    assignment: Assignment, engine_task: asyncio.Future[Batch]
) -> tuple[JobStatus, str | None, Batch]:
    try:
        return JobStatus.COMPLETED, None, await engine_task
    except LeaseLost:
        raise
    except ServiceError as failure:
        return JobStatus.FAILED, str(failure), NOTHING
    except Exception:
        log.exception("job %s failed", assignment.job.id)
        return JobStatus.FAILED, "the service made an error; its log has the details", NOTHING


async def _renew(context: LeasedJob, lease: Lease, engine_task: asyncio.Future[Batch]) -> None:
    """Keep the lease; a job that was cancelled, or taken over, stops here at the latest."""
    while True:
        await asyncio.sleep(RENEW_S)
        try:
            await context.store.renew(lease, lease_s=LEASE_S, now=time.time())
        except LeaseLost:
            engine_task.cancel()
            return
