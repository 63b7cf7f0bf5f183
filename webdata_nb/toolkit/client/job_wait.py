"""Waits for the end of a job, or gives its events: by its event stream where the service has one.

Otherwise the service is polled.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Final

from webdata_nb import errors
from webdata_nb.contract import outcomes
from webdata_nb.contract.events import Done, Event, Progress
from webdata_nb.contract.outcomes import JobKind, JobStatus
from webdata_nb.contract.replies import CrawlStatus, SearchStatus
from webdata_nb.toolkit.client.client import Client

log: Final = logging.getLogger("webdata_nb")

OUTAGE_S: Final = 60.0
_MIN_POLL_S: Final = 0.1
_MAX_POLL_S: Final = 5.0
_MAX_HEAVY_POLL_S: Final = 60.0
_ROWS_POLLED: Final = 0.05
_POLL_SHARE: Final = 0.1
_FAILED_PREFIX: Final = "failed:"
# A request that this service will not answer later either, unlike one during an outage.
_UNREADABLE: Final = (errors.InvalidRequest, errors.BadAnswer, errors.NotSupported)

Report = Callable[[Progress], object]


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The state in which a job ended.

    `reply` is the status reply that said so; None if it was an event. `result` is the reply where
    it has the whole result, as that of a search from a long poll.
    """

    status: JobStatus
    reply: SearchStatus | CrawlStatus | None = None
    has_result: bool = False

    @property
    def result(self) -> SearchStatus | None:
        """The reply with the whole result of a search, if that is known."""
        if isinstance(self.reply, SearchStatus) and (self.has_result or self.reply.data):
            return self.reply
        return None


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
        job, which may still be running; a job whose state could never be read is cancelled.
    """
    was_read = False

    def note_and_report(progress: Progress) -> None:
        nonlocal was_read
        was_read = True
        report(progress)

    try:
        async with asyncio.timeout(deadline_s) as deadline:
            return await _wait_for_end(client, kind, job_id, note_and_report, long_poll_s)
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
        is_unreadable = isinstance(error, _UNREADABLE) and cancel_remote and not was_read
        if is_unreadable and await client.cancel_quietly(job_id):
            error.add_note(f"job {job_id} was cancelled, since its state cannot be read")
        else:
            error.add_note(f"job {job_id} may still be running: attach to it again by its id")
        raise


async def _wait_for_end(
    client: Client, kind: JobKind, job_id: str, report: Report, long_poll_s: int
) -> JobEnd:
    if long_poll_s:
        # The event stream or polling meets the same error again, and handles it.
        with contextlib.suppress(errors.WebdataError):
            search = await client.search_status(job_id, wait_s=long_poll_s)
            report(progress_of(kind, search))
            if search.status.terminal:
                return JobEnd(search.status, search, has_result=True)
    end = JobEnd(JobStatus.STARTED)
    async with contextlib.aclosing(_follow(client, kind, job_id)) as followed:
        async for event, reply in followed:
            if isinstance(event, Progress):
                report(event)
            elif isinstance(event, Done):
                end = JobEnd(event.status, reply)
    return end


async def _follow(
    client: Client, kind: JobKind, job_id: str
) -> AsyncGenerator[tuple[Event, SearchStatus | CrawlStatus | None], None]:
    """Yield a job's events up to its `Done`; those from polling with the reply that said so.

    Polling takes over where the service has no event stream, and where the stream fails.
    """
    first_reply: SearchStatus | CrawlStatus | None = None
    if client.offers_events:
        try:
            async with contextlib.aclosing(client.events(kind, job_id)) as events:
                async for event in events:
                    yield event, None
                    if isinstance(event, Done):
                        return
        except (errors.NotFound, errors.NotSupported):
            # The service lacks event streams or this job; for the latter, this raises again.
            first_reply = await client.status(kind, job_id)
            client.offers_events = False
        except (errors.ServiceError, errors.ConnectionFailed, errors.BadAnswer) as error:
            log.info("the event stream of job %s failed, polling instead: %s", job_id, error)
    started_at = last_reply_at = time.monotonic()
    pacing = PollPacing()
    while True:
        try:
            reply, first_reply = first_reply or await client.status(kind, job_id), None
        except (errors.ConnectionFailed, errors.ServiceFault, errors.RateLimited):
            # The laptop slept or the service restarts: the job survives both.
            if time.monotonic() - last_reply_at > OUTAGE_S:
                raise
        else:
            last_reply_at = time.monotonic()
            yield progress_of(kind, reply, elapsed_s=last_reply_at - started_at), reply
            if reply.status.terminal:
                yield Done(job_id=job_id, status=reply.status, error=reply.error), reply
                return
            pacing.note(last_reply_at - started_at, reply)
        await asyncio.sleep(pacing.pause_s(time.monotonic() - started_at))


def poll_after(elapsed_s: float) -> float:
    """Return the seconds until the next poll.

    The pause is a tenth of the time waited so far, between 0.1 and 5 s: the end is noticed at most
    10 % late and a long job costs few requests.
    """
    return min(_MAX_POLL_S, max(_MIN_POLL_S, _POLL_SHARE * elapsed_s))


class PollPacing:
    """Decides when a service is polled that may send rows in each status reply.

    Replies before the end may have 5 % of the rows in all. After that, the next poll is due when
    the job should have ended at its rate so far, and a tenth later, or after a minute or the time
    waited so far, if that is shorter. Where the service does not say how many rows there will be,
    it is polled each time that the wait has doubled, up to a minute.
    """

    def __init__(self) -> None:
        self._at_s = self._done = self._rows = self._sum = 0.0

    def note(self, elapsed_s: float, reply: SearchStatus | CrawlStatus) -> None:
        """Note a reply that did not end the wait."""
        self._at_s = elapsed_s
        progress = progress_of("crawl", reply)
        total = progress.total or 0
        # Rows of a search come at once, and grow by their pages.
        rows = progress.completed if isinstance(reply, SearchStatus) else len(reply.data)
        self._done = min(1.0, progress.completed / total) if total else 1.0
        self._rows = 0.0 if not reply.data else min(1.0, rows / total) if total else 1.0
        self._sum += self._rows

    def pause_s(self, elapsed_s: float) -> float:
        """Return the seconds until the next poll."""
        pause_s = poll_after(elapsed_s)
        if not self._rows:
            return pause_s
        if not 0 < self._done < 1:
            return min(_MAX_HEAVY_POLL_S, max(pause_s, elapsed_s))
        rate = self._done / max(self._at_s, _MIN_POLL_S)
        next_rows = self._rows / self._done * rate * (elapsed_s + pause_s)
        if self._sum + next_rows <= _ROWS_POLLED:
            return pause_s
        end_s = (1 + _POLL_SHARE) / rate
        return min(max(_MAX_HEAVY_POLL_S, elapsed_s), max(pause_s, end_s - elapsed_s))


async def current_progress(client: Client, kind: JobKind, job_id: str) -> Progress:
    """Return the progress of a job, as its status has it now."""
    return progress_of(kind, await client.status(kind, job_id))


def progress_of(
    kind: JobKind, reply: SearchStatus | CrawlStatus, *, elapsed_s: float = 0.0
) -> Progress:
    """Return the progress that a status reply reports; `elapsed_s` is for one without a time."""
    if isinstance(reply, SearchStatus):
        completed, total, receipt = reply.stated("completed_results"), reply.total_results, None
    else:
        completed, total, receipt = (
            reply.stated("completed_pages"),
            reply.total_pages,
            reply.receipt,
        )
    if completed is None:
        completed = reply.stated("total_results") or len(reply.data)
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


async def events(client: Client, kind: JobKind, job_id: str) -> AsyncGenerator[Event, None]:
    """Yield a job's events up to its `Done`, from the service's stream or from polling.

    Raises
    ------
    NotFound
        No such job.
    ServiceError, ConnectionFailed, BadAnswer
        The service did not tell the status for a minute or longer.
    """
    before: Progress | None = None
    async with contextlib.aclosing(_follow(client, kind, job_id)) as followed:
        async for event, reply in followed:
            if reply is not None and isinstance(event, Progress):
                state = event.model_copy(update={"elapsed": 0.0})
                if state == before:
                    continue
                before = state
            yield event
