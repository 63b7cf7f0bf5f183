"""Runs one claimed job to its end, and writes the end.

A run of a job has one of five results: the end of the job is written; a leg of a long crawl ends
while other jobs wait; another attempt or a cancellation has taken the job; the worker stops and
releases the job; or the end cannot be written although the store is available, and the next claim
continues the job.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from webdata_nb.contract.states import JobStatus
from webdata_nb.page.errors import ApplicationError
from webdata_nb.service.errors import (
    JobFailure,
    JobRequeued,
    JobStalled,
    LeaseLost,
    StoreUnavailable,
)
from webdata_nb.service.store.job_context import JobContext
from webdata_nb.service.store.records import EMPTY_BATCH, CommitBatch, JobSnapshot
from webdata_nb.service.work.leased_job import LeasedJob

log = logging.getLogger(__name__)

LEASE_S: Final = 15.0
# Two renewals may fail before the lease ends.
RENEW_S: Final = LEASE_S / 3
RENEW_RETRY_S: Final = 1.0
# Attempts without progress before a job fails.
MAX_ATTEMPTS: Final = 5

_LEASE_LOST: Final = "job %s was taken from this worker"
_INTERNAL_ERROR: Final = "the service made an error; its log has the details"

Engine = Callable[[JobContext], Awaitable[CommitBatch]]


async def run_job(
    context: LeasedJob, engine: Engine, *, clock: Callable[[], float] = time.time
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
        log.info(_LEASE_LOST, context.job.id)
    except JobRequeued:
        log.info("job %s ended a leg, and waits for its next turn", context.job.id)
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


async def _run_engine(context: LeasedJob, engine: Engine) -> CommitBatch:
    """Run the engine, unless too many attempts made no progress."""
    if context.job.attempts_since_progress > MAX_ATTEMPTS:
        raise JobFailure(
            f"given up after {MAX_ATTEMPTS} attempts without progress: each time the service "
            "ended, or lost the job, before it could store anything more"
        )
    return await engine(context)


async def _wait_for_engine(
    context: LeasedJob, engine_task: asyncio.Future[CommitBatch]
) -> tuple[JobStatus, str | None, CommitBatch]:
    try:
        return JobStatus.COMPLETED, None, await engine_task
    except (LeaseLost, StoreUnavailable, JobStalled, JobRequeued):
        raise
    except ApplicationError as failure:
        return JobStatus.FAILED, str(failure), EMPTY_BATCH
    except Exception:
        log.exception("job %s failed", context.job.id)
        return JobStatus.FAILED, _INTERNAL_ERROR, EMPTY_BATCH


async def _finish(
    context: LeasedJob,
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
        return await context.queue.finish(lease, failed, error=reason, now=clock())

    try:
        return await context.retry.run(finish)
    except LeaseLost:
        raise
    except Exception as failure:
        log.exception("the end of job %s could not be stored", context.job.id)
        reason = str(failure) if isinstance(failure, ApplicationError) else _INTERNAL_ERROR
        return await context.retry.run(fail)


async def _renew_lease(
    context: LeasedJob, engine_task: asyncio.Future[CommitBatch], clock: Callable[[], float]
) -> None:
    """Renew the lease until it is lost, then stop the engine.

    The lease is lost when the job is cancelled, or claimed by another worker.
    """
    delay_s = RENEW_S
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await context.changed_elsewhere.wait()
        context.changed_elsewhere.clear()
        delay_s = RENEW_S
        try:
            await context.queue.renew(context.lease, lease_s=LEASE_S, now=clock())
        except LeaseLost:
            log.info(_LEASE_LOST, context.job.id)
            engine_task.cancel()
            return
        except StoreUnavailable:  # the writers of the job log it
            delay_s = RENEW_RETRY_S
        except Exception:
            log.exception("the lease of job %s could not be renewed; trying again", context.job.id)
            delay_s = RENEW_RETRY_S
