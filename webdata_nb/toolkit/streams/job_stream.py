"""Streams the rows of a running job: each row is yielded once it is final.

The rows of each input are counted for its receipt.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from webdata_nb.contract.events import Done, Event, PageDone, Progress
from webdata_nb.contract.states import JobStatus
from webdata_nb.errors import IncompleteResult, JobTimeout
from webdata_nb.toolkit.client import paging, progress_events
from webdata_nb.toolkit.frames import receipt, rows
from webdata_nb.toolkit.frames.receipt import (
    InputRun,
    JobOutcome,
    extractions_of_table,
    of_crawl,
    of_search,
    summed_extractions,
)
from webdata_nb.toolkit.jobs import runner

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from webdata_nb.toolkit.cache.job_refs import JobClaim
    from webdata_nb.toolkit.client.client import Client
    from webdata_nb.toolkit.display.progress import Listener
    from webdata_nb.toolkit.frames.rows import Row, TableBatch
    from webdata_nb.toolkit.requests.call_options import CallOptions
    from webdata_nb.toolkit.requests.inputs import Input
    from webdata_nb.toolkit.requests.job_spec import JobSpec


class StreamStats:
    """The state of one input of a stream.

    Attributes
    ----------
    job_id : str
        The job at the service; empty before its start.
    outcome : JobOutcome or None
        How the job ended, as the service reports it.
    cached_receipt : dict or None
        The receipt of a cached or recorded result, which is this input's as well.
    error_message : str or None
        Why the input failed, where it is one of several.
    job_left_running : bool
        Whether the job continues after its stream was closed.
    """

    def __init__(self, request_input: Input, service: str) -> None:
        self.input = request_input
        self.job_id = ""
        self.outcome: JobOutcome | None = None
        self.cached_receipt: dict[str, Any] | None = None
        self.error_message: str | None = None
        self.job_left_running = False
        self.rows = self.batches = 0
        self._failed_rows = 0
        self._service = service
        self._started_at: datetime | None = None
        self._finished_at: datetime | None = None
        self._extraction: dict[str, Any] = {}
        self._listing_name = f"{request_input.spec.op}-{secrets.token_hex(6)}"

    @property
    def has_running_job(self) -> bool:
        """Whether the job has started and not ended."""
        return bool(self.job_id) and self.outcome is None

    @property
    def partition(self) -> str:
        """The name of its rows in a dataset: the job's id, or a random name for a listing."""
        cached_receipt = self.cached_receipt or {}
        return str(self.job_id or cached_receipt.get("job_id") or self._listing_name)

    def start(self) -> None:
        """Note the time of the start."""
        self._started_at = datetime.now(UTC)

    def finish(self) -> None:
        """Note the time of the end."""
        self._finished_at = datetime.now(UTC)

    def add_batch(self, table: pa.Table) -> None:
        """Count a batch that is about to be yielded."""
        self.rows += table.num_rows
        self.batches += 1
        self._failed_rows += receipt.count_failed_rows(table)
        self._extraction = summed_extractions(self._extraction, extractions_of_table(table))

    def receipt(self) -> dict[str, Any] | None:
        """Return the receipt of the rows so far; None where the input was not started."""
        if self._started_at is None:
            return None
        if self.cached_receipt is not None:
            return self.cached_receipt
        attrs = receipt.build(
            self.outcome_so_far(),
            request=self.input.spec.public_request,
            service=self._service,
            started_at=self._started_at,
            finished_at=self._finished_at or datetime.now(UTC),
        )
        return {**attrs, "cache": "off", "file": None}

    def outcome_so_far(self) -> JobOutcome:
        """Return the outcome with the counts of the rows that were yielded."""
        spec = self.input.spec
        counts: dict[str, Any] = {
            "rows": self.rows,
            "failed": self._failed_rows,
            "extraction": self._extraction,
        }
        if self.outcome is not None:
            return replace(self.outcome, **counts)
        unfinished = JobStatus.CANCELLED if self.error_message is None else JobStatus.FAILED
        status = JobStatus.RUNNING if self.job_left_running else unfinished
        job_id = self.job_id or None
        return JobOutcome(spec.op, spec.subject, status.value, job_id, total=None, **counts)

    def input_run(self) -> InputRun:
        """Return the entry of this input in the receipt of several inputs."""
        return InputRun(dict(self.input.labels), self.receipt(), self.error_message)


# A search's reply holds all its rows, so it is read again only when half as many more are
# finished; finished rows that then wait for a slow page wait no longer than this.
_MAX_WAIT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class StreamContext:
    """What the stream of one input works with; a click on Cancel sets `cancelled`."""

    client: Client
    spec: JobSpec
    options: CallOptions
    batch_rows: int
    listener: Listener
    stats: StreamStats
    cancelled: asyncio.Event
    claim: JobClaim | None


async def crawl(context: StreamContext) -> AsyncGenerator[TableBatch, None]:
    """Yield the pages of a crawl in their order, `batch_rows` at a time."""
    client, size = context.client, context.batch_rows
    async with _StreamedJob(context) as job:
        page, reads_early = 1, True
        while not job.ended:
            await job.wait_for_event()
            while reads_early and not job.ended and job.published >= page * size:
                reply = await client.crawl_status(job.id, page=page, per_page=size)
                if len(reply.data) != size or (reply.stated("page") or page) != page:
                    # Another service may choose the size of its pages.
                    reads_early = client.offers_events
                    # Rows may be counted before they are published: wait for the next event.
                    job.published = len(reply.data) + (page - 1) * size
                    break
                page += 1
                yield await _to_batch("crawl", reply.data)
        status = await client.crawl_state(job.id)
        remaining = paging.crawl_rows(
            client,
            job.id,
            per_page=size,
            total=status.stated("total_results"),
            first_page=page,
            known=status if page == 1 and len(status.data) > 1 else None,
        )
        shortfall = None
        try:
            async with aclosing(remaining):
                async for data in remaining:
                    for chunk in _chunks(data, size):
                        yield await _to_batch("crawl", chunk)
        except IncompleteResult as error:
            shortfall = error
        no_rows = rows.concat("crawl", ()).table
        job.set_outcome(of_crawl(status, no_rows, url=context.spec.subject), shortfall)


async def search(context: StreamContext) -> AsyncGenerator[TableBatch, None]:
    """Yield each result of a search once its page is read, at most `batch_rows` at a time."""
    client = context.client
    visits_pages = bool(getattr(context.spec.request, "formats", None))
    yielded: set[object] = set()
    async with _StreamedJob(context) as job:
        while not job.ended:
            next_count = len(yielded) + max(1, len(yielded) // 2)
            while not job.ended and job.published < next_count:
                timeout_s = _MAX_WAIT_S if job.published > len(yielded) else None
                if not await job.wait_for_event(timeout_s):
                    break
            if job.ended:
                break
            status = await client.search_status(job.id)
            found = runner.search_rows(status)
            final = [row for row in found if _is_final(row, visits_pages=visits_pages)]
            for chunk in _chunks(_take_new(final, yielded), context.batch_rows):
                yield await _to_batch("search", chunk)
            job.published = len(yielded)
        status = await client.search_status(job.id)
        runner.refuse_expired(status)
        for chunk in _chunks(_take_new(runner.search_rows(status), yielded), context.batch_rows):
            yield await _to_batch("search", chunk)
        outcome = of_search(status, status.data, query=context.spec.subject)
        job.set_outcome(outcome, runner.shortfall_of(status))


def _is_final(row: Row, *, visits_pages: bool) -> bool:
    """Whether a result of a running search will not change any more."""
    if not visits_pages:
        return True
    return bool(row.get("scraped") or row.get("error")) or row.get("success") is False


def _take_new(results: list[Row], yielded: set[object]) -> list[Row]:
    """Return the results that were not yielded before, and add their keys to `yielded`."""
    new = []
    for position, row in enumerate(results):
        key = row.get("url") or ("", row.get("rank", position))
        if key not in yielded:
            yielded.add(key)
            new.append(row)
    return new


def _chunks(results: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    for first in range(0, len(results), size):
        yield results[first : first + size]


async def _to_batch(op: Any, data: Sequence[Row]) -> TableBatch:
    return await asyncio.to_thread(rows.trimmed_batch, op, data)


class _StreamedJob:
    """The job of a stream: started on entry, and cancelled where the stream is closed early."""

    def __init__(self, context: StreamContext) -> None:
        self._context = context
        self._kind = runner.kind_of(context.spec)
        self._end_event: Done | None = None
        self._deadline: float | None = None
        self._events: AsyncGenerator[Event, None] | None = None
        self._next_event: asyncio.Future[Event | None] | None = None
        self.published = 0

    @property
    def id(self) -> str:
        """Its id at the service."""
        return self._context.stats.job_id

    @property
    def ended(self) -> bool:
        """Whether the service has reported its end."""
        return self._end_event is not None

    async def __aenter__(self) -> Self:
        context = self._context
        client, timeout_s = context.client, context.options.timeout_s
        claim, spec = context.claim, context.spec
        reply = await runner.start_or_join(client, spec, context.options, claim)
        context.stats.job_id = context.listener.job_id = reply.job_id
        if claim is not None and claim.joined:
            context.listener.update(notice=runner.joined_notice(spec, self.id))
        if context.cancelled.is_set():  # the click came before there was a job to cancel
            await client.cancel_quietly(self.id)
        if timeout_s is not None:
            self._deadline = asyncio.get_running_loop().time() + timeout_s
        self._events = progress_events.events(client, self._kind, self.id)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, JobTimeout):
            self._context.stats.job_left_running = True
        elif self._end_event is None:
            # Shielded: the cancellation of the reader's task must not stop this request.
            cancelling = self._context.client.cancel_quietly(self.id)
            await asyncio.shield(asyncio.ensure_future(cancelling))
        if self._next_event is not None:
            self._next_event.cancel()
            await asyncio.gather(self._next_event, return_exceptions=True)
        if self._events is not None:
            await self._events.aclose()

    async def wait_for_event(self, timeout_s: float | None = None) -> bool:
        """Process the next event; False where `timeout_s` passed before it.

        Raises
        ------
        JobTimeout
            The call's own timeout passed; the job continues.
        """
        if self._events is None:
            return False
        if self._next_event is None:
            self._next_event = asyncio.ensure_future(anext(self._events, None))
        loop = asyncio.get_running_loop()
        timeouts = [] if timeout_s is None else [timeout_s]
        if self._deadline is not None:
            timeouts.append(max(0.0, self._deadline - loop.time()))
        await asyncio.wait([self._next_event], timeout=min(timeouts, default=None))
        if self._next_event.done():
            event, self._next_event = self._next_event.result(), None
            await self._process(event)
            return True
        if self._deadline is not None and loop.time() >= self._deadline:
            raise JobTimeout(self.id, self._context.options.timeout_s or 0.0)
        return False

    async def _process(self, event: Event | None) -> None:
        context = self._context
        if isinstance(event, Progress):
            context.listener.report(event)
            self.published = max(self.published, event.completed)
        elif isinstance(event, PageDone) and self._kind == "crawl":
            self.published = max(self.published, event.position + 1)
        elif isinstance(event, Done):
            self._end_event = event
        elif event is None:
            status = await context.client.status(self._kind, self.id)
            self._end_event = Done(job_id=self.id, status=status.status, error=status.error)
        if self._end_event is not None:
            context.listener.ended(self._end_event.status)

    def set_outcome(self, outcome: JobOutcome, shortfall: IncompleteResult | None) -> None:
        """Store how the job ended, and whether rows are missing."""
        reason = outcome.failure_reason
        if self._end_event is not None:
            reason = self._end_event.error or reason
        claim = self._context.claim
        self._context.stats.outcome = replace(
            outcome,
            failure_reason=reason,
            shortfall=shortfall,
            joined=claim is not None and claim.joined,
        )
