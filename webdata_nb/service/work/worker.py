"""Runs one claimed job to its end, and says what became of it.

Whatever the store does meanwhile, a job ends in one of four ways: its end is written; another
attempt or a cancellation has taken it; its worker stops and gives it back; or its end cannot be
written for another reason than the store's being unavailable, and then the next claim takes it up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from webdata_nb.contract.states import JobStatus
from webdata_nb.service.errors import (
    JobFailed,
    JobStalled,
    LeaseLost,
    ServiceError,
    StoreUnavailable,
)
from webdata_nb.service.store.base import JobContext
from webdata_nb.service.store.records import EMPTY_BATCH, Batch, JobSnapshot
from webdata_nb.service.work.job_context import LeasedJob

log = logging.getLogger(__name__)

LEASE_S: Final = 15.0
# A lease is renewed when a third of it is gone, so two renewals may fail before it ends.
RENEW_S: Final = LEASE_S / 3
# After a renewal that failed.
RENEW_AGAIN_S: Final = 1.0
# Attempts without progress after which a job is given up.
MOST_ATTEMPTS: Final = 5

_BROKEN: Final = "the service made an error; its log has the details"

Engine = Callable[[JobContext], Awaitable[Batch]]


async def work(
    context: LeasedJob, engine: Engine, *, clock: Callable[[], float] = time.time
) -> JobSnapshot | None:
    """Run `engine` under the lease; whatever happens, the job's state tells it.

    Returns the job as it ended; None where another worker, or a cancellation, ended it.
    """
    engine_task = asyncio.ensure_future(_attempt(context, engine))
    renewal = asyncio.create_task(_renew(context, engine_task, clock))
    ended: JobSnapshot | None = None
    try:
        state, error, batch = await _outcome(context, engine_task)
        ended = await _finish(context, state, error, batch, clock)
    except LeaseLost:
        log.info("job %s was taken from this worker", context.job.id)
    except (StoreUnavailable, JobStalled) as trouble:
        log.warning("job %s is taken up again: %s", context.job.id, trouble)
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


async def _attempt(context: LeasedJob, engine: Engine) -> Batch:
    """Run the engine, unless earlier attempts have shown that it leads nowhere."""
    if context.job.attempts_since_progress > MOST_ATTEMPTS:
        raise JobFailed(
            f"given up after {MOST_ATTEMPTS} attempts without progress: each time the service "
            "ended, or lost the job, before it could store anything more"
        )
    return await engine(context)


async def _outcome(
    context: LeasedJob, engine_task: asyncio.Future[Batch]
) -> tuple[JobStatus, str | None, Batch]:
    try:
        return JobStatus.COMPLETED, None, await engine_task
    except (LeaseLost, StoreUnavailable, JobStalled):
        raise
    except ServiceError as failure:
        return JobStatus.FAILED, str(failure), EMPTY_BATCH
    except Exception:
        log.exception("job %s failed", context.job.id)
        return JobStatus.FAILED, _BROKEN, EMPTY_BATCH


async def _finish(
    context: LeasedJob,
    state: JobStatus,
    error: str | None,
    batch: Batch,
    clock: Callable[[], float],
) -> JobSnapshot:
    """Write the end of a job; where its last batch cannot be stored, that it failed."""
    lease = context.assignment.lease

    async def finish() -> JobSnapshot:
        return await context.store.finish(lease, state, error=error, batch=batch, now=clock())

    async def fail() -> JobSnapshot:
        failed = JobStatus.FAILED
        return await context.store.finish(lease, failed, error=reason, now=clock())

    try:
        return await context.retry.run(finish)
    except LeaseLost:
        raise
    except Exception as failure:
        log.exception("the end of job %s could not be stored", context.job.id)
        reason = str(failure) if isinstance(failure, ServiceError) else _BROKEN
        return await context.retry.run(fail)


async def _renew(
    context: LeasedJob, engine_task: asyncio.Future[Batch], clock: Callable[[], float]
) -> None:
    """Keep the lease, whatever the store's trouble, until it is lost.

    A job that was cancelled, or taken over, stops here at the latest.
    """
    pause_s = RENEW_S
    while True:
        await asyncio.sleep(pause_s)
        pause_s = RENEW_S
        try:
            await context.store.renew(context.assignment.lease, lease_s=LEASE_S, now=clock())
        except LeaseLost:
            engine_task.cancel()
            return
        except StoreUnavailable:  # whoever writes for the job tells of it
            pause_s = RENEW_AGAIN_S
        except Exception:
            log.exception("the lease of job %s could not be renewed; trying again", context.job.id)
            pause_s = RENEW_AGAIN_S
