"""Follows a job to its end: by its event stream where there is one, else by polling."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from webdata_nb import errors
from webdata_nb.client.client import Client
from webdata_nb.contract.events import Done, Progress
from webdata_nb.contract.replies import CrawlStatus, SearchStatus
from webdata_nb.contract.states import JobKind, JobStatus

log = logging.getLogger("webdata_nb")

OUTAGE_S: Final = 60.0
_SOONEST_S: Final = 0.1
_LATEST_S: Final = 5.0
_LATEST_HEAVY_S: Final = 15.0
_SHARE: Final = 0.1
_FAILED: Final = "failed:"

Report = Callable[[Progress], object]
Glance = Callable[[], Awaitable[SearchStatus]]


async def wait(
    client: Client,
    kind: JobKind,
    job_id: str,
    *,
    report: Report,
    deadline_s: float | None = None,
    cancel_remote: bool = True,
    glance: Glance | None = None,
) -> JobStatus:
    """Wait until a job has ended, and return the state it ended in.

    Parameters
    ----------
    client : Client
        Whose service runs the job.
    kind : {"search", "crawl"}
        Which kind of job it is.
    job_id : str
        Its id.
    report : Callable[[Progress], object]
        Called with every step of progress.
    deadline_s : float, optional
        Seconds to wait at most; the job goes on at the service after that.
    cancel_remote : bool
        Whether cancelling this wait cancels the job as well, within 2.5 s.
    glance : Callable, optional
        A first look at a job that is expected to end soon; where it tells of the end, neither
        stream nor poll is needed.

    Raises
    ------
    JobTimeout
        The deadline passed.
    ServiceError, ConnectionFailed, BadAnswer
        The service did not say how the job is, for a minute or for good. A note on the error
        names the job, which may still be running.
    """
    try:
        async with asyncio.timeout(deadline_s) as deadline:
            return await _to_its_end(client, kind, job_id, report, glance)
    except TimeoutError:
        if not deadline.expired() or deadline_s is None:
            raise
        raise errors.JobTimeout(job_id, deadline_s) from None
    except asyncio.CancelledError:
        if cancel_remote:
            # Shielded: a second cancellation ends this wait, but not the request on its way.
            await asyncio.shield(asyncio.ensure_future(client.cancel_quietly(job_id)))
        raise
    except errors.WebdataError as error:
        error.add_note(f"job {job_id} may still be running: attach to it again by its id")
        raise


async def _to_its_end(
    client: Client, kind: JobKind, job_id: str, report: Report, glance: Glance | None
) -> JobStatus:
    if glance is not None:
        # What is wrong is for the stream or the polls to find out, which know how to go on.
        with contextlib.suppress(errors.WebdataError):
            reply = await glance()
            report(progress_of(kind, reply, elapsed_s=0.0))
            if reply.status.terminal:
                return reply.status
    if client.offers_events:
        status = await _by_events(client, kind, job_id, report)
        if status is not None:
            return status
    return await _by_polls(client, kind, job_id, report)


async def _by_events(
    client: Client, kind: JobKind, job_id: str, report: Report
) -> JobStatus | None:
    """Follow the stream; None where it cannot tell the end and polling has to."""
    try:
        async with contextlib.aclosing(client.events(kind, job_id)) as events:
            async for event in events:
                if isinstance(event, Progress):
                    report(event)
                elif isinstance(event, Done):
                    return event.status
    except (errors.NotFound, errors.NotSupported):
        # Either there is no stream or no such job: where there is a job, this does not raise.
        await client.status(kind, job_id)
        client.offers_events = False
    except (errors.ServiceError, errors.ConnectionFailed, errors.BadAnswer) as error:
        log.info("the event stream of job %s failed, polling instead: %s", job_id, error)
    return None


async def _by_polls(client: Client, kind: JobKind, job_id: str, report: Report) -> JobStatus:
    began = last_good = time.monotonic()
    heavy = False
    while True:
        try:
            reply = await client.status(kind, job_id)
        except (errors.ConnectionFailed, errors.ServiceFault, errors.RateLimited):
            # A laptop slept, or the service restarts: the job outlives both.
            if time.monotonic() - last_good > OUTAGE_S:
                raise
        else:
            last_good = time.monotonic()
            heavy = heavy or bool(reply.data)
            report(progress_of(kind, reply, elapsed_s=last_good - began))
            if reply.status.terminal:
                return reply.status
        await asyncio.sleep(poll_after(time.monotonic() - began, heavy=heavy))


def poll_after(elapsed_s: float, *, heavy: bool = False) -> float:
    """Return the seconds until the next poll.

    A tenth of the time waited so far, so that an end is noticed at most 10 % late and a long job
    costs few requests; between 0.1 and 5 s. `heavy`: the service sends the rows although they
    were not asked for, so it is asked less often.
    """
    latest = _LATEST_HEAVY_S if heavy else _LATEST_S
    share = 3 * _SHARE if heavy else _SHARE
    return min(latest, max(_SOONEST_S, share * elapsed_s))


def progress_of(kind: JobKind, reply: SearchStatus | CrawlStatus, *, elapsed_s: float) -> Progress:
    """Return what a status reply says about a job's progress."""
    if isinstance(reply, SearchStatus):
        completed, total, receipt = reply.completed_results, reply.total_results, None
    else:
        completed, total, receipt = reply.completed_pages, reply.total_pages, reply.receipt
    counts = receipt.counts if receipt is not None else {}
    return Progress(
        job_id=reply.job_id,
        type=kind,
        status=reply.status,
        completed=completed,
        total=total or None,
        failed={
            outcome.removeprefix(_FAILED): count
            for outcome, count in counts.items()
            if outcome.startswith(_FAILED)
        },
        elapsed=reply.time_taken if reply.time_taken is not None else elapsed_s,
        credits=reply.credits,
        credits_reserved=reply.credits_reserved,
        credits_unlimited=reply.credits_unlimited,
    )
