"""Waits for the end of a job: by its event stream where the service has one, else by polling."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from webdata_nb import errors
from webdata_nb.client.client import Client
from webdata_nb.contract import outcomes
from webdata_nb.contract.events import Done, Progress
from webdata_nb.contract.replies import CrawlStatus, SearchStatus
from webdata_nb.contract.states import JobKind, JobStatus

log = logging.getLogger("webdata_nb")

OUTAGE_S: Final = 60.0
_MIN_POLL_S: Final = 0.1
_MAX_POLL_S: Final = 5.0
_MAX_HEAVY_POLL_S: Final = 15.0
_POLL_SHARE: Final = 0.1
_FAILED_PREFIX: Final = "failed:"

Report = Callable[[Progress], object]


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The state in which a job ended; `result` is the search's reply where a long poll got it."""

    status: JobStatus
    result: SearchStatus | None = None


async def wait(
    client: Client,
    kind: JobKind,
    job_id: str,
    *,
    report: Report,
    deadline_s: float | None = None,
    cancel_remote: bool = True,
    long_poll_s: int = 0,
) -> JobEnd:
    """Wait until a job has ended, and return the state in which it ended.

    Parameters
    ----------
    client : Client
        Whose service runs the job.
    kind : {"search", "crawl"}
        Which kind of job it is.
    job_id : str
        Its id.
    report : Callable[[Progress], object]
        Called with each progress event.
    deadline_s : float, optional
        Seconds to wait at most; the job goes on at the service after that.
    cancel_remote : bool
        Whether cancelling this wait cancels the job as well, within 2.5 s.
    long_poll_s : int
        Seconds of a first long poll for the whole result, for a search that is expected to end
        soon; its reply saves the event stream.

    Raises
    ------
    JobTimeout
        The deadline passed.
    ServiceError, ConnectionFailed, BadAnswer
        The service did not tell the status for a minute or longer. A note on the error names the
        job, which may still be running.
    """
    try:
        async with asyncio.timeout(deadline_s) as deadline:
            return await _wait_for_end(client, kind, job_id, report, long_poll_s)
    except TimeoutError:
        if not deadline.expired() or deadline_s is None:
            raise
        raise errors.JobTimeout(job_id, deadline_s) from None
    except asyncio.CancelledError:
        if cancel_remote:
            # Shielded: a second cancellation ends this wait, but not the request in flight.
            await asyncio.shield(asyncio.ensure_future(client.cancel_quietly(job_id)))
        raise
    except errors.WebdataError as error:
        error.add_note(f"job {job_id} may still be running: attach to it again by its id")
        raise


async def _wait_for_end(
    client: Client, kind: JobKind, job_id: str, report: Report, long_poll_s: int
) -> JobEnd:
    if long_poll_s:
        # The event stream or polling meets the same error again, and handles it.
        with contextlib.suppress(errors.WebdataError):
            reply = await client.search_status(job_id, wait_s=long_poll_s)
            report(progress_of(kind, reply, elapsed_s=0.0))
            if reply.status.terminal:
                return JobEnd(reply.status, reply)
    status = None
    if client.offers_events:
        status = await _follow_events(client, kind, job_id, report)
    return JobEnd(status or await _poll(client, kind, job_id, report))


async def _follow_events(
    client: Client, kind: JobKind, job_id: str, report: Report
) -> JobStatus | None:
    """Follow the event stream to its end; None where it breaks off and polling takes over."""
    try:
        async with contextlib.aclosing(client.events(kind, job_id)) as events:
            async for event in events:
                if isinstance(event, Progress):
                    report(event)
                elif isinstance(event, Done):
                    return event.status
    except (errors.NotFound, errors.NotSupported):
        # The service lacks event streams or this job; for the latter, this raises again.
        await client.status(kind, job_id)
        client.offers_events = False
    except (errors.ServiceError, errors.ConnectionFailed, errors.BadAnswer) as error:
        log.info("the event stream of job %s failed, polling instead: %s", job_id, error)
    return None


async def _poll(client: Client, kind: JobKind, job_id: str, report: Report) -> JobStatus:
    started_at = last_reply_at = time.monotonic()
    heavy = False
    while True:
        try:
            reply = await client.status(kind, job_id)
        except (errors.ConnectionFailed, errors.ServiceFault, errors.RateLimited):
            # The laptop slept or the service restarts: the job survives both.
            if time.monotonic() - last_reply_at > OUTAGE_S:
                raise
        else:
            last_reply_at = time.monotonic()
            heavy = heavy or bool(reply.data)
            report(progress_of(kind, reply, elapsed_s=last_reply_at - started_at))
            if reply.status.terminal:
                return reply.status
        await asyncio.sleep(poll_after(time.monotonic() - started_at, heavy=heavy))


def poll_after(elapsed_s: float, *, heavy: bool = False) -> float:
    """Return the seconds until the next poll.

    The pause is a tenth of the time waited so far, between 0.1 and 5 s: the end is noticed at most
    10 % late and a long job costs few requests. A `heavy` service sends the rows in each status
    reply, so it is polled less often.
    """
    max_pause = _MAX_HEAVY_POLL_S if heavy else _MAX_POLL_S
    share = 3 * _POLL_SHARE if heavy else _POLL_SHARE
    return min(max_pause, max(_MIN_POLL_S, share * elapsed_s))


def progress_of(kind: JobKind, reply: SearchStatus | CrawlStatus, *, elapsed_s: float) -> Progress:
    """Return the progress that a status reply reports."""
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
            outcome.removeprefix(_FAILED_PREFIX): count
            for outcome, count in counts.items()
            if outcome.startswith(_FAILED_PREFIX)
        },
        links_checked=outcomes.links_checked(counts),
        elapsed=reply.time_taken if reply.time_taken is not None else elapsed_s,
        credits=reply.credits,
        credits_reserved=reply.credits_reserved,
        credits_unlimited=reply.credits_unlimited,
    )
