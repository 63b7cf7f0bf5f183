"""A job under way, read by a stream: its rows are handed over as soon as they are final."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from webdata_nb.cache.fetched import Fetched
from webdata_nb.client import paging, progress_events
from webdata_nb.contract.events import Done, Event, PageDone, Progress
from webdata_nb.contract.replies import CrawlStatus, SearchStatus
from webdata_nb.errors import IncompleteResult, JobTimeout
from webdata_nb.frames import rows
from webdata_nb.frames.receipt import JobOutcome, of_crawl, of_search
from webdata_nb.jobs import runner
from webdata_nb.requests.deadline import within

if TYPE_CHECKING:
    from webdata_nb.client.client import Client
    from webdata_nb.display.progress import Listener
    from webdata_nb.frames.rows import Batch, Row
    from webdata_nb.requests.call_options import CallOptions
    from webdata_nb.requests.job_spec import JobSpec
    from webdata_nb.streams.stream_stats import StreamStats

# A search's reply holds all its rows: it is read again when half as many more are finished, and
# those that then wait for a slow page wait no longer than this.
_LOOK_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Flow:
    """What a source of rows works with; `halt` is set by a click on Cancel."""

    client: Client
    spec: JobSpec
    call: CallOptions
    size: int
    listener: Listener
    tally: StreamStats
    halt: asyncio.Event


async def crawl(flow: Flow) -> AsyncGenerator[Batch, None]:
    """Give the pages of a crawl in their order, `size` at a time."""
    async with _Job(flow) as job:
        page = 1
        while not job.ended:
            await job.news()
            while not job.ended and job.published >= page * flow.size:
                reply = await flow.client.crawl_status(job.id, page=page, per_page=flow.size)
                if len(reply.data) < flow.size:
                    # Counted before it is published: wait for the next word.
                    job.published = len(reply.data) + (page - 1) * flow.size
                    break
                page += 1
                yield await _made("crawl", reply.data)
        told = await flow.client.crawl_status(job.id, per_page=1, include_data=False)
        total = told.total_results
        left = paging.crawl_rows(
            flow.client, job.id, per_page=flow.size, total=total, first_page=page
        )
        shortfall = None
        try:
            async with aclosing(left):
                async for data in left:
                    yield await _made("crawl", data)
        except IncompleteResult as error:
            shortfall = error
        nothing = rows.joined("crawl", ()).table
        job.note_end(told, of_crawl(told, nothing, url=flow.spec.subject), shortfall)


async def search(flow: Flow) -> AsyncGenerator[Batch, None]:
    """Give the results of a search as their pages are read, each once, `size` at most at a time."""
    visits = bool(getattr(flow.spec.request, "formats", None))
    given: set[object] = set()
    async with _Job(flow) as job:
        while not job.ended:
            due = len(given) + max(1, len(given) // 2)
            while not job.ended and job.published < due:
                if not await job.news(_LOOK_S if job.published > len(given) else None):
                    break
            if job.ended:
                break
            told = await flow.client.search_status(job.id)
            fresh = [row for row in told.data if _is_final(row, visits=visits)]
            for part in _parts(_unseen(fresh, given), flow.size):
                yield await _made("search", part)
            job.published = len(given)
        told = await flow.client.search_status(job.id)
        runner.refuse_expired(told)
        for part in _parts(_unseen(told.data, given), flow.size):
            yield await _made("search", part)
        job.note_end(told, of_search(told, told.data), runner.missing(told))


def _is_final(row: Row, *, visits: bool) -> bool:
    """Whether a result of a search that still runs changes no more."""
    return not visits or bool(row.get("scraped") or row.get("error")) or row.get("success") is False


def _unseen(found: list[dict[str, Any]], given: set[object]) -> list[dict[str, Any]]:
    """Return the results that were not given before, and remember them."""
    fresh = []
    for place, row in enumerate(found):
        key = row.get("url") or ("", row.get("rank", place))
        if key not in given:
            given.add(key)
            fresh.append(row)
    return fresh


def _parts(found: list[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    for first in range(0, len(found), size):
        yield found[first : first + size]


async def _made(op: Any, data: list[dict[str, Any]]) -> Batch:
    return await asyncio.to_thread(rows.returning, op, data)


class _Job:
    """The job of a stream: started at the door, and cancelled there by whoever leaves early."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._kind = runner.kind_of(flow.spec)
        self._done: Done | None = None
        self._deadline: float | None = None
        self._events: AsyncGenerator[Event, None] | None = None
        self._next: asyncio.Future[Event | None] | None = None
        self.published = 0

    @property
    def id(self) -> str:
        """Its id at the service."""
        return self._flow.tally.job_id

    @property
    def ended(self) -> bool:
        """Whether the service has said that it ended."""
        return self._done is not None

    async def __aenter__(self) -> Self:
        flow = self._flow
        begun = await within(flow.call.timeout_s, runner.start(flow.client, flow.spec))
        flow.tally.job_id = flow.listener.job_id = begun.job_id
        if flow.halt.is_set():  # the click came before there was a job to cancel
            await flow.client.cancel_quietly(self.id)
        if flow.call.timeout_s is not None:
            self._deadline = asyncio.get_running_loop().time() + flow.call.timeout_s
        self._events = progress_events.events(flow.client, self._kind, self.id)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, JobTimeout):
            self._flow.tally.left = True
        elif self._done is None:
            # Shielded: the reader's own cancellation must not stop this request.
            cancelling = self._flow.client.cancel_quietly(self.id)
            await asyncio.shield(asyncio.ensure_future(cancelling))
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        if self._events is not None:
            await self._events.aclose()

    async def news(self, patience_s: float | None = None) -> bool:
        """Take note of the next event; False where `patience_s` was over first.

        Raises
        ------
        JobTimeout
            The call's own time is over; the job goes on.
        """
        if self._events is None:
            return False
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._events, None))
        loop = asyncio.get_running_loop()
        ends = [] if patience_s is None else [patience_s]
        if self._deadline is not None:
            ends.append(max(0.0, self._deadline - loop.time()))
        await asyncio.wait([self._next], timeout=min(ends, default=None))
        if self._next.done():
            event, self._next = self._next.result(), None
            await self._note(event)
            return True
        if self._deadline is not None and loop.time() >= self._deadline:
            raise JobTimeout(self.id, self._flow.call.timeout_s or 0.0)
        return False

    async def _note(self, event: Event | None) -> None:
        flow = self._flow
        if isinstance(event, Progress):
            flow.listener.report(event)
            self.published = max(self.published, event.completed)
        elif isinstance(event, PageDone) and self._kind == "crawl":
            self.published = max(self.published, event.position + 1)
        elif isinstance(event, Done):
            self._done = event
        elif event is None:
            status = await flow.client.status(self._kind, self.id)
            self._done = Done(job_id=self.id, status=status.status, error=status.error)
        if self._done is not None:
            flow.listener.ended(self._done.status)

    def note_end(
        self,
        told: SearchStatus | CrawlStatus,
        outcome: JobOutcome,
        shortfall: IncompleteResult | None,
    ) -> None:
        """Tell the tally how the job ended, and whether rows are missing."""
        reason = told.error or ""
        if self._done is not None:
            reason = self._done.error or reason
        ended = Fetched(rows.joined(self._flow.spec.op, ()), outcome, reason, shortfall)
        self._flow.tally.ended = ended
