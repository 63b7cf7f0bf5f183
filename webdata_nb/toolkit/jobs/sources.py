"""The source of a call's rows: a job that is started or joined, and followed to its end.

A source gives its rows in batches, and says how it ended. Whoever reads it is the sink: `collect`
makes one result of all batches, a stream yields each as a frame, a long crawl writes them to files.
Listings of creatives, which have no job, are the other source (`jobs.creatives`).

The progress of a source is shown while it is read. A click on Cancel cancels the task that runs
the call, as Ctrl-C does; its clean-up cancels the job at the service. The cancellation of a click
is told apart from others and becomes JobCancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import ValidationError

from webdata_nb.contract import paths
from webdata_nb.contract.error_messages import EARLIER_CRAWL_UNUSABLE
from webdata_nb.contract.events import Progress
from webdata_nb.contract.outcomes import JobKind, JobStatus
from webdata_nb.contract.replies import (
    CrawlStatus,
    CreativesReply,
    SearchStart,
    SearchStatus,
    StartReply,
)
from webdata_nb.contract.requests import CrawlRequest, ExtendedCrawlRequest, SearchRequest
from webdata_nb.contract.url_keys import folder_of, names_folder
from webdata_nb.errors import (
    Expired,
    IncompleteResult,
    InvalidRequest,
    JobCancelled,
    JobTimeout,
    NotFound,
    NotSupported,
    PermissionDenied,
    WebdataError,
)
from webdata_nb.toolkit import bridge
from webdata_nb.toolkit.cache.result_cache import JobClaim, PartialListing, ResultCache
from webdata_nb.toolkit.client import job_wait, paging
from webdata_nb.toolkit.client.client import Client
from webdata_nb.toolkit.display.bars import View
from webdata_nb.toolkit.display.progress import Listener
from webdata_nb.toolkit.frames import receipt, rows, storage
from webdata_nb.toolkit.frames.rows import CallResult, JobOutcome, Row, trimmed_batch
from webdata_nb.toolkit.requests.arguments import CallOptions, within
from webdata_nb.toolkit.requests.inputs import JobSpec, is_long
from webdata_nb.toolkit.sites.audit import with_audit_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from webdata_nb.toolkit.frames.schemas import TableName

# A page takes memory as bytes, objects and columns; one emoji makes a text four times as wide.
ROWS: Final = 50
# Short, so that a call that is interrupted during the start still learns its job's id: the client
# waits for the reply of a cancelled start for `LATE_REPLY_S`.
START_WAIT_S: Final = 1
# A search that visits no page ends sooner, unless its providers are slow.
_LONG_POLL_S: Final = 5
# Together with the cancel request before it, this stays within the 3 s that the bridge waits.
_SO_FAR_S: Final = 2.0
# A search's reply holds all its rows, so it is read again only when half as many more are
# finished; finished rows that then wait for a slow page wait no longer than this.
_MAX_WAIT_S: Final = 2.0
# Jobs of one idempotency key that were cancelled or deleted before another call found them.
_MAX_JOBS_OF_KEY: Final = 20
_MAX_REFUSAL_CHARS: Final = 200

log: Final = logging.getLogger("webdata_nb")


# ---------------------------------------------------------------------------------------- progress

OnCancelClick = Callable[[], Coroutine[Any, Any, object]]


class TaskCanceller:
    """Cancels the task that created it, once, from any thread; as `asyncio.timeout` does in time.

    `on_cancel` runs instead, where the task must not be cancelled.
    """

    def __init__(self, on_cancel: OnCancelClick | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._earlier_cancellations = self._task.cancelling() if self._task is not None else 0
        self._on_cancel = on_cancel
        self._running: asyncio.Task[object] | None = None
        self._requested = self._closed = False

    def request(self) -> None:
        """Cancel the task or run `on_cancel`; from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing is left to cancel
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._requested or self._closed:
            return
        self._requested = True
        if self._on_cancel is not None:
            self._running = self._loop.create_task(self._on_cancel(), name="webdata-cancel")
        elif self._task is not None:
            self._task.cancel()

    async def close(self) -> bool:
        """Take the cancellation back; return whether it was the task's only one."""
        requested, self._closed = self._requested and not self._closed, True
        if self._running is not None:
            await asyncio.wait([self._running])
            return False
        if not requested or self._task is None:
            return False
        return self._task.uncancel() <= self._earlier_cancellations


@asynccontextmanager
async def show_progress(
    view: View,
    options: CallOptions,
    *,
    on_cancel: OnCancelClick | None = None,
    detach_on_interrupt: bool = False,
) -> AsyncIterator[Listener]:
    """Show the progress of the block as the options ask for; yield the listener to report to.

    Parameters
    ----------
    view, detach_on_interrupt
        As of a `Listener`.
    on_cancel
        What a click does, where it must not cancel the task that runs the block.

    Raises
    ------
    JobCancelled
        A click cancelled the block, and the block did not return a result all the same.
    """
    canceller = TaskCanceller(on_cancel)
    listener = Listener(
        view,
        options.settings.progress,
        cancel=canceller.request,
        detach_on_interrupt=detach_on_interrupt,
        on_change=options.also,
    )
    silent = options.settings.progress is False
    # The listener exits first, so that the last tick paints its last state.
    painting = contextlib.nullcontext() if silent else bridge.on_tick(listener.tick)
    try:
        with painting, listener:
            yield listener
    except asyncio.CancelledError:
        if not await canceller.close():
            raise
        raise JobCancelled(listener.job_id) from None
    finally:
        await canceller.close()


# ------------------------------------------------------------------------------------------ starts


async def start(
    client: Client, spec: JobSpec, options: CallOptions, *, wait_s: int = 0
) -> StartReply:
    """Start the job of a request; the reply to a search may hold its result, for `wait_s` seconds.

    Raises
    ------
    ConnectionFailed
        The service gave no answer within the timeout of the call.
    """
    return await within(options.timeout_s, _start(client, spec, options.idempotency_key, wait_s))


async def _start(client: Client, spec: JobSpec, key: str | None, wait_s: int) -> StartReply:
    if spec.op == "search":
        return await client.start_search(spec.body, wait_s=wait_s, idempotency_key=key)
    body = spec.body if spec.since is None else spec.body | spec.since.fields
    with_pattern = spec.with_folder_as_pattern() if "scope" in body else None
    if with_pattern is not None and not client.offers_folders:
        return await _start(client, with_pattern, key, wait_s)
    purpose = _purpose_of_extension(spec)
    if not purpose:
        return await client.start_crawl(body, idempotency_key=key)
    try:
        return await client.start_extended_crawl(body, idempotency_key=key)
    except (NotFound, NotSupported, PermissionDenied) as error:
        if with_pattern is not None:
            client.offers_folders = False
            return await _start(client, with_pattern, key, wait_s)
        if isinstance(error, PermissionDenied):  # gateways say so of paths that they do not know
            raise
        raise NotSupported(
            f"the service at {client.base_url} does not offer POST {paths.EXTENDED_CRAWLS}, which "
            f"{purpose} needs; nothing was started",
            status=error.status,
        ) from None


def _purpose_of_extension(spec: JobSpec) -> str:
    """Return what a crawl of the contract does not have; "" where it has everything.

    Another service may ignore an option that it does not know, so that an audit is such a crawl.
    """
    request = spec.request
    if spec.since is not None:
        return "since"
    folder = isinstance(request, CrawlRequest) and request.scope != "site"
    if not isinstance(request, ExtendedCrawlRequest):
        return 'scope="folder"' if folder else ""
    wanted = {
        "archive": request.source.file,
        "as_of": request.source.web_archive,
        "a WARC file as out": request.sink.warc,
        "a list of pages": request.urls,
        "audit": request.audit,
        'scope="folder"': folder and not is_long(spec.body),
    }
    named = next((name for name, value in wanted.items() if value), None)
    return named or f"max_pages={request.max_pages}"


# ----------------------------------------------------------------------------------------- sources


@dataclass(kw_only=True)
class RowSource(ABC):
    """The rows of one request, in batches.

    Attributes
    ----------
    batch_rows
        Rows of a batch at most.
    as_they_arrive
        Whether the results of a search are given in the order in which their pages are read, and
        the rows of a running crawl by any service; otherwise rows are given in their final order.
    cancelled
        Set by a click on Cancel, where the reader's task must not be cancelled.
    job_id
        The job at the service; empty before its start, and for a listing.
    shortfall
        Says how many rows are missing, once the last batch was given.
    """

    client: Client
    listener: Listener
    op: TableName
    subject: str
    options: CallOptions
    batch_rows: int = ROWS
    as_they_arrive: bool = False
    cancelled: asyncio.Event | None = None
    job_id: str = ""
    shortfall: IncompleteResult | None = field(default=None, init=False)

    @abstractmethod
    async def start(self) -> None:
        """Start the job, which the reading of its batches does otherwise; a listing has none."""

    @abstractmethod
    def batches(self) -> AsyncGenerator[CallResult, None]:
        """Yield the rows; closing the generator early cancels the job."""

    @abstractmethod
    def batches_so_far(self) -> AsyncGenerator[CallResult, None]:
        """Yield the rows beyond those that were given before the reading was left."""

    @property
    @abstractmethod
    def has_more(self) -> bool:
        """Whether the reading was left before the job's end, so that it may have more rows."""

    @property
    def total(self) -> int | None:
        """The number of rows, where the ended job states it."""
        return None

    @abstractmethod
    def outcome(self, table: pa.Table) -> JobOutcome:
        """Return how the job ended, whose rows are `table`."""

    def ended(self, outcome: JobOutcome) -> None:
        """Show how the job ended."""
        self.listener.ended(outcome.status, receipt.summary(outcome, self.listener.elapsed_s))

    async def completed(self, result: CallResult) -> CallResult:
        """Return the whole result with what the call needs beside its rows."""
        return result

    async def cancel(self) -> None:
        """End the reading after a click, where `cancelled` says so."""
        if self.cancelled is not None:
            self.cancelled.set()


@dataclass(kw_only=True)
class JobSource(RowSource):
    """The rows of a job: of `spec`, which is started, or of `job_id`, which exists.

    Attributes
    ----------
    report
        Receives the progress of the job, instead of the listener.
    on_start
        Receives the job once it has started, before the wait for it.
    claim
        The claim of the call to the job, which an earlier call may have left.
    run_id
        The key of the start derives from it, as from that of a claim; None for a new key.
    first_row
        The first row to read, a multiple of `batch_rows`.
    cancels
        Whether leaving the job before its end cancels it at the service.
    audits
        Whether the rows of a crawl have the columns of an audit.
    status
        The status reply of the ended job; None before.
    """

    report: job_wait.Report | None = None
    spec: JobSpec | None = None
    on_start: Callable[[JobSource], object] = lambda _: None
    claim: JobClaim | None = None
    run_id: str | None = None
    first_row: int = 0
    cancels: bool = True
    audits: bool = False
    status: SearchStatus | CrawlStatus | None = field(default=None, init=False)
    was_active: bool = field(default=False, init=False)
    # Texts that lists of all batches share, where the batches stay together.
    _texts: dict[str, str] = field(default_factory=dict, init=False)
    _reply: StartReply | None = field(default=None, init=False)
    _page: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        self._page += self.first_row // self.batch_rows

    @property
    def joined(self) -> bool:
        """Whether an earlier call had started the job, and ended without its rows."""
        return self.claim is not None and self.claim.joined

    @property
    def kind(self) -> JobKind:
        """The kind of the job."""
        return "search" if self.op == "search" else "crawl"

    @property
    def has_more(self) -> bool:
        """Whether the job has started, and was left before its end."""
        return bool(self.job_id) and self.status is None

    @property
    def total(self) -> int | None:
        """The number of rows that the ended job states."""
        return None if self.status is None else self.status.stated("total_results")

    def renew(self, idempotency_key: str | None) -> None:
        """Forget the job, before another one of this key is started or found."""
        self.options: CallOptions = replace(self.options, idempotency_key=idempotency_key)
        self.job_id, self.status, self.shortfall = "", None, None
        self.was_active, self._reply = False, None
        self._page = 1 + self.first_row // self.batch_rows

    # -------------------------------------------------------------------------------------- starts

    async def start(self) -> None:
        """Start the job, or join that of an abandoned claim; does nothing where it is known.

        Where the cache chose the earlier crawl of an incremental one, and the service cannot use
        it, all pages are fetched, and the receipt says why.
        """
        if self.spec is None or self.job_id:
            return
        try:
            reply = await self._start_or_join(self.spec)
        except InvalidRequest as error:
            since = self.spec.since
            problems = list(zip(error.fields, error.types, strict=False))
            unusable = ("base.job_id", EARLIER_CRAWL_UNUSABLE)
            reasons = [text for (name, text), kind in problems if (name, kind) == unusable]
            is_refused = bool(reasons) and len(reasons) == len(error.fields)
            if since is None or since.is_exact or since.job_id is None or not is_refused:
                raise
            since = replace(since, job_id=None, refusal=reasons[0])
            self.spec = replace(self.spec, since=since)
            if self.claim is not None:
                self.claim.renew(since.fields)
            reply = await self._start_or_join(self.spec)
        await self._started(reply)

    async def _started(self, reply: StartReply) -> None:
        self._reply = reply
        self.job_id: str = reply.job_id
        self.on_start(self)
        if self.cancelled is not None and self.cancelled.is_set():
            await self.cancel()  # the click came before there was a job to cancel

    async def _start_or_join(self, spec: JobSpec) -> StartReply:
        claim, options = self.claim, self.options
        if claim is None:
            if self.run_id is not None:
                options = replace(options, idempotency_key=spec.idempotency_key(self.run_id))
            return await start(self.client, spec, options, wait_s=self._wait_s)
        if claim.abandoned:
            is_known = claim.job_id is not None
            try:
                may_join = await within(self.options.timeout_s, self._may_join(spec, claim))
            except asyncio.CancelledError:
                if claim.job_id is not None:
                    cancelling = self.client.cancel_quietly(claim.job_id)
                    await asyncio.shield(asyncio.ensure_future(cancelling))
                raise
            if may_join:
                claim.joined = is_known
                started = JobStatus.STARTED.value
                return StartReply(success=True, job_id=claim.job_id or "", status=started)
        return await self._start_claimed(spec, claim)

    async def _may_join(self, spec: JobSpec, claim: JobClaim) -> bool:
        """Whether the job of an abandoned claim answers this call, as the service reports it."""
        if claim.job_id is None:
            # Its key finds a job whose start was not answered, or else starts one.
            key = spec.idempotency_key(claim.run_id)
            claim.start((await _start(self.client, spec, key, 0)).job_id)
        try:
            status = await self.client.status(self.kind, claim.job_id or "")
        except (Expired, NotFound):
            return False
        return ResultCache.of_spec(spec, self.options).may_join(claim, status)

    async def _start_claimed(self, spec: JobSpec, claim: JobClaim) -> StartReply:
        """Start the job of a claim, another one than that of an abandoned claim."""
        if claim.abandoned:
            claim.renew(None if spec.since is None else spec.since.fields)
        keyed = replace(self.options, idempotency_key=spec.idempotency_key(claim.run_id))
        reply = await start(self.client, spec, keyed, wait_s=self._wait_s)
        claim.start(reply.job_id)
        return reply

    @property
    def _wait_s(self) -> int:
        """The seconds for which the service may wait for the result of a brief search."""
        # The timeout bounds the whole job: a short one leaves no time to wait within the start.
        timeout_s = self.options.timeout_s
        has_time = timeout_s is None or timeout_s > _LONG_POLL_S
        return START_WAIT_S if self._is_brief and has_time else 0

    @property
    def _is_brief(self) -> bool:
        return self.spec is not None and self.spec.brief and not self.as_they_arrive

    # ---------------------------------------------------------------------------------------- rows

    async def batches(self) -> AsyncGenerator[CallResult, None]:
        """Yield the rows, after the start of the job.

        Raises
        ------
        JobTimeout
            The call's own timeout passed; the job continues.
        WebdataError
            The job cannot be started, or its state or its rows cannot be read.
        """
        await self.start()
        has_rows = False
        try:
            async with aclosing(self._batches()) as batches:
                async for batch in batches:
                    has_rows = True
                    yield batch
        except (Expired, NotFound):
            if has_rows or self.spec is None or self.claim is None or not self.claim.joined:
                raise
        else:
            return
        # The rows of the joined job have just been deleted.
        self.claim.joined = False
        await self._started(await self._start_claimed(self.spec, self.claim))
        async with aclosing(self._batches()) as batches:
            async for batch in batches:
                yield batch

    async def batches_so_far(self) -> AsyncGenerator[CallResult, None]:
        """Yield what the service has beyond the batches that were given."""
        if self.kind == "search":
            self.status = await self.client.search_status(self.job_id)
            yield await self._search_batch(self.status)
            return
        self.status = await self.client.crawl_state(self.job_id)
        async with aclosing(self._remaining_pages(self.status)) as batches:
            async for batch in batches:
                yield batch

    def _batches(self) -> AsyncGenerator[CallResult, None]:
        if self.kind == "crawl":
            return self._crawl()
        return self._arriving_results() if self.as_they_arrive else self._ranked_results()

    async def _crawl(self) -> AsyncGenerator[CallResult, None]:
        """Yield the pages of a crawl in their order, full batches while it runs.

        Of a service with an event stream, ours, rows are read early for every sink: published rows
        keep their positions.
        """
        reads_early = True
        async with self._followed() as job:
            if not self.as_they_arrive:
                # Memory of a frame that the caller has dropped since the last crawl.
                await asyncio.to_thread(rows.trim_memory)
            while not job.ended:
                await job.changed()
                while (
                    reads_early
                    and (self.as_they_arrive or self.client.offers_events)
                    and not job.ended
                    and job.published >= self._page * self.batch_rows
                ):
                    try:
                        data = await self._read_early(job)
                    except WebdataError:  # is met again and raised where all rows must be there
                        reads_early = False
                        break
                    if data is None:
                        # Another service may choose the size of its pages. Ours may count rows
                        # before they are published.
                        reads_early = self.client.offers_events
                        break
                    self._page += 1
                    yield await self._page_batch(data)
        reply = job.end.reply
        status = reply if isinstance(reply, CrawlStatus) else None
        self.status = status or await self.client.crawl_state(self.job_id)
        async with aclosing(self._remaining_pages(self.status)) as batches:
            async for batch in batches:
                yield batch

    async def _read_early(self, job: _FollowedJob) -> Sequence[Row] | None:
        """Return the next page of rows; None where it is not the full page that was requested."""
        page, size = self._page, self.batch_rows
        reply = await self.client.crawl_status(self.job_id, page=page, per_page=size)
        if len(reply.data) == size and (reply.stated("page") or page) == page:
            return reply.data
        job.published = len(reply.data) + (page - 1) * size
        return None

    async def _remaining_pages(self, status: CrawlStatus) -> AsyncGenerator[CallResult, None]:
        """Yield the remaining rows of an ended crawl; the rows in its status are not read again."""
        pages = paging.crawl_rows(
            self.client,
            self.job_id,
            per_page=self.batch_rows,
            total=status.stated("total_results"),
            first_page=self._page,
            # A single row may be the only one of a page of the size that was requested.
            known=status if self._page == 1 and len(status.data) > 1 else None,
        )
        try:
            async with aclosing(pages):
                async for data in pages:
                    for chunk in _chunks(data, self.batch_rows):
                        yield await self._page_batch(chunk)
        except IncompleteResult as error:
            self.shortfall = error

    async def _page_batch(self, data: Sequence[Row]) -> CallResult:
        texts = None if self.as_they_arrive else self._texts
        return await asyncio.to_thread(rows.trimmed_batch, "crawl", data, texts=texts)

    async def _ranked_results(self) -> AsyncGenerator[CallResult, None]:
        """Yield all results of a search once it has ended, at once where the start held them.

        The wait for a brief search begins with a long poll.
        """
        result = self._reply.result if isinstance(self._reply, SearchStart) else None
        if result is not None and result.status.terminal:
            self._report(job_wait.progress_of("search", result))
        else:
            end = await self._wait(self._report, _LONG_POLL_S if self._is_brief else 0)
            result = end.result or await self.client.search_status(self.job_id)
        self.status = result
        yield await self._search_batch(result)

    async def _search_batch(self, status: SearchStatus) -> CallResult:
        _refuse_expired(status)
        self.shortfall = _shortfall_of(status)
        data = _rows_of_search(status)
        # A few short rows take less time than a switch of threads.
        if self._is_brief:
            return rows.batch("search", data)
        return await asyncio.to_thread(rows.trimmed_batch, "search", data)

    async def _arriving_results(self) -> AsyncGenerator[CallResult, None]:
        """Yield each result of a search once its page is read."""
        spec_request = None if self.spec is None else self.spec.request
        visits_pages = isinstance(spec_request, SearchRequest) and bool(spec_request.formats)
        yielded: set[object] = set()
        async with self._followed() as job:
            while not job.ended:
                next_count = len(yielded) + max(1, len(yielded) // 2)
                while not job.ended and job.published < next_count:
                    timeout_s = _MAX_WAIT_S if job.published > len(yielded) else None
                    if not await job.changed(timeout_s):
                        break
                if job.ended:
                    break
                found = _rows_of_search(await self.client.search_status(self.job_id))
                final = [
                    row
                    for row in found
                    if not visits_pages
                    or row.get("scraped")
                    or row.get("error")
                    or row.get("success") is False
                ]
                for chunk in _chunks(_take_new(final, yielded), self.batch_rows):
                    yield await asyncio.to_thread(rows.trimmed_batch, "search", chunk)
                job.published = len(yielded)
        _ = job.end  # raises what ended the wait
        status = self.status = await self.client.search_status(self.job_id)
        _refuse_expired(status)
        for chunk in _chunks(_take_new(_rows_of_search(status), yielded), self.batch_rows):
            yield await asyncio.to_thread(rows.trimmed_batch, "search", chunk)
        self.shortfall = _shortfall_of(status)

    # ---------------------------------------------------------------------------------------- ends

    @asynccontextmanager
    async def _followed(self) -> AsyncIterator[_FollowedJob]:
        """Wait for the end of the job while the block reads its rows."""
        job = _FollowedJob(self._wait, self._report)
        try:
            await asyncio.sleep(0)  # only a wait that has begun cancels its job
            yield job
        finally:
            await job.leave()

    async def _wait(self, report: job_wait.Report, long_poll_s: int = 0) -> job_wait.JobEnd:
        return await job_wait.wait(
            self.client,
            self.kind,
            self.job_id,
            report=report,
            deadline_s=self.options.timeout_s,
            cancel_remote=self.cancels,
            long_poll_s=long_poll_s,
        )

    def _report(self, progress: Progress) -> None:
        self.was_active |= progress.status != JobStatus.CANCELLED
        (self.report or self.listener.report)(progress)

    async def cancel(self) -> None:
        """Cancel the job after a click, unless it has ended."""
        await super().cancel()
        if self.has_more:
            await self.client.cancel_quietly(self.job_id)

    def outcome(self, table: pa.Table) -> JobOutcome:
        """Return how the ended job ended, with the earlier crawl of an incremental one."""
        if isinstance(self.status, SearchStatus):
            outcome = receipt.of_search(self.status, self.status.data, query=self.subject)
        elif isinstance(self.status, CrawlStatus):
            outcome = receipt.of_crawl(self.status, table, url=self.subject)
        else:
            raise TypeError("the job has not ended")
        outcome = replace(outcome, shortfall=self.shortfall, joined=self.joined)
        request = None if self.spec is None else self.spec.request
        if isinstance(request, CrawlRequest) and request.scope != "site" and not outcome.folder:
            is_folder = request.scope == "folder" or names_folder(request.url)
            outcome = replace(outcome, folder=folder_of(request.url) if is_folder else "")
        since = None if self.spec is None else self.spec.since
        if since is None:
            return outcome
        refusal = receipt.shorten(since.refusal, _MAX_REFUSAL_CHARS)
        return replace(outcome, since=since.job_id or "", since_refusal=refusal)

    async def completed(self, result: CallResult) -> CallResult:
        """Return a crawl with the columns of an audit, and with its full receipt.

        The receipt is for the cache, and says what became of each page of a list.
        """
        outcome = result.outcome
        if self.kind != "crawl" or outcome is None:
            return result
        if self.audits and outcome.shortfall is None:
            facts = await paging.page_facts(self.client, self.job_id)
            table = await asyncio.to_thread(with_audit_columns, result.table, facts)
            result = replace(result, table=table)
        lists_pages = self.spec is not None and bool(self.spec.urls)
        if lists_pages or (self.options.cache and outcome.cacheable):
            entries = None  # the rows are worth having without it
            try:
                entries = await paging.receipt_entries(self.client, self.job_id)
            except (NotFound, NotSupported):
                pass  # an extra of ours, which another service may lack
            except WebdataError as error:
                log.warning("the receipt of job %s did not arrive: %s", self.job_id, error)
            return replace(result, receipt_entries=entries)
        return result


class _FollowedJob:
    """The wait for a job's end in a task of its own; `published` counts the rows so far."""

    def __init__(
        self,
        wait: Callable[[job_wait.Report], Coroutine[object, object, job_wait.JobEnd]],
        report: job_wait.Report,
    ) -> None:
        self._report = report
        self._changed = asyncio.Event()
        self.published = 0
        self._wait = asyncio.create_task(wait(self.report))
        self._wait.add_done_callback(lambda _: self._changed.set())

    def report(self, progress: Progress) -> None:
        """Note the progress of the job, and pass it on."""
        self._report(progress)
        self.published = max(self.published, progress.completed)
        self._changed.set()

    @property
    def ended(self) -> bool:
        """Whether the wait is over."""
        return self._wait.done()

    @property
    def end(self) -> job_wait.JobEnd:
        """The end of the job; raises what ended the wait for it."""
        return self._wait.result()

    async def changed(self, timeout_s: float | None = None) -> bool:
        """Wait for progress or the end; returns False where `timeout_s` passed before."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    async def leave(self) -> None:
        """End the wait; one before the job's end cancels the job."""
        self._wait.cancel()
        # A second cancellation ends this wait, and not the clean-up of the first one.
        await asyncio.wait([self._wait])
        if not self._wait.cancelled():
            self._wait.exception()  # else asyncio would log it


def _chunks(data: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    for first in range(0, len(data), size):
        yield data[first : first + size]


def _rows_of_search(status: SearchStatus) -> list[Row]:
    """Return the rows of a search, each with the provider that found it."""
    if status.provider_used is None:
        return list(status.data)
    return [{"provider": status.provider_used, **row} for row in status.data]


def _take_new(results: list[Row], yielded: set[object]) -> list[Row]:
    """Return the results that were not yielded before, and add their keys to `yielded`."""
    new = []
    for position, row in enumerate(results):
        key = row.get("url") or ("", row.get("rank", position))
        if key not in yielded:
            yielded.add(key)
            new.append(row)
    return new


def _refuse_expired(status: SearchStatus) -> None:
    """Raise `Expired` where the service has deleted the results."""
    if not status.result_expired:
        return
    hours = status.retention_hours
    retention = "a while" if hours is None else f"{hours:g} hours"
    raise Expired(
        f"the service keeps raw results for {retention}, and these are gone: start a new job",
        status=HTTPStatus.GONE,
    )


def _shortfall_of(status: SearchStatus) -> IncompleteResult | None:
    """Return an error where fewer rows came than the service counts; None where all did."""
    expected, row_count = status.total_results, len(status.data)
    return IncompleteResult(expected, row_count) if row_count < expected else None


# ------------------------------------------------------------------------------- the sink of frames


async def collect(source: RowSource) -> CallResult:
    """Return all rows of a source as one result, and how it ended.

    A job that is left before its end, by an interrupt with `on_cancel="partial"` or at the timeout,
    has the rows so far. An unreadable page of rows costs the later rows, not the earlier ones.

    With an idempotency key, the job may be one that an earlier call started. If that call
    cancelled it, or the service has deleted its rows, another job is started.
    """
    key = source.options.idempotency_key
    if key is None or not isinstance(source, JobSource):
        return await _collect(source)
    for attempt in range(_MAX_JOBS_OF_KEY):
        source.renew(f"{key}-{attempt}")
        try:
            result = await _collect(source)
        except (Expired, NotFound):
            if not source.job_id:
                raise
            continue
        outcome = result.outcome
        is_cancelled = outcome is not None and isinstance(outcome.error(), JobCancelled)
        if source.was_active or not is_cancelled:
            return result
    source.renew(None)
    return await _collect(source)


async def _collect(source: RowSource) -> CallResult:
    batches: list[CallResult] = []
    interrupted, timeout = False, None
    try:
        await _append(source.batches(), batches)
    except asyncio.CancelledError:
        # The source has cancelled its job by now; the rows so far are still there.
        interrupted = source.options.on_cancel == "partial"
        if not (interrupted and await _append_so_far(source, batches)):
            raise
    except JobTimeout as error:
        timeout = error
        if not await _append_so_far(source, batches):
            raise
    except WebdataError as error:
        if source.has_more or not batches:
            raise
        row_count = sum(batch.table.num_rows for batch in batches)
        source.shortfall = IncompleteResult(source.total, row_count, why=str(error))
        source.shortfall.__cause__ = error
    whole = rows.concat(source.op, batches)
    outcome = source.outcome(whole.table)
    if interrupted or timeout is not None:
        outcome = replace(outcome, shortfall=None, interrupted=interrupted, timeout=timeout)
        return replace(whole, outcome=outcome)
    return await source.completed(replace(whole, outcome=outcome))


async def _append(stream: AsyncGenerator[CallResult, None], batches: list[CallResult]) -> None:
    async with aclosing(stream):
        async for batch in stream:
            batches.append(batch)  # noqa: PERF401 - keeps those before an error


async def _append_so_far(source: RowSource, batches: list[CallResult]) -> bool:
    """Read the rows of a job that is no longer waited for; returns whether they came in time."""
    if not source.has_more:
        return False
    try:
        async with asyncio.timeout(_SO_FAR_S):
            await _append(source.batches_so_far(), batches)
    except (WebdataError, TimeoutError):
        return False
    return True


# Reads the creatives of an advertiser page by page, and resumes an interrupted listing.
#
# The files of creatives are downloaded into the cache, and their paths added to the rows.


FOLDER: Final = "creative-files"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


async def download_files(client: Client, rows: Iterable[dict[str, Any]], root: Path) -> None:
    """Set `file` of each asset and preview to its path in the cache.

    Where a download fails, the asset or preview gets an `error` instead.
    """
    for row in rows:
        assets = row.get("assets")
        listed_assets = [*assets] if isinstance(assets, list) else []
        for asset in (*listed_assets, row.get("preview")):
            # Only a hash may name a file: the service must not choose a path here.
            if not isinstance(asset, dict) or not _SHA256.fullmatch(str(asset.get("sha256"))):
                continue
            path = root / FOLDER / asset["sha256"]
            try:
                if not await asyncio.to_thread(path.exists):
                    data = await client.creative_file(asset["sha256"])
                    await asyncio.to_thread(_write, path, data)
            except (WebdataError, OSError, ValueError) as error:
                asset["error"] = f"the file could not be downloaded: {error}"
            else:
                asset["file"] = str(path)


def _write(path: Path, data: bytes) -> None:
    if hashlib.sha256(data).hexdigest() != path.name:
        raise ValueError("its bytes do not match its hash")
    storage.make_folder(path.parent, path.parents[1])
    storage.write_atomically(path, data, owner_only=True)


T = TypeVar("T")


@dataclass(kw_only=True)
class ListingSource(RowSource):
    """The creatives of one advertiser, beginning with the pages that an earlier call has stored.

    It keeps what the replies say of the listing, and drops their rows once they are given. An
    unreadable page costs the later rows, not the earlier ones.
    """

    spec: JobSpec
    _replies: list[CreativesReply] = field(default_factory=list, init=False)
    _row_count: int = field(default=0, init=False)
    _failed_rows: int = field(default=0, init=False)
    _total: int = field(default=0, init=False)
    _is_cancelled: bool = field(default=False, init=False)
    # Rows whose files are being downloaded.
    _pending: list[dict[str, Any]] = field(default_factory=list, init=False)

    @property
    def has_more(self) -> bool:
        """A listing may be left at any time."""
        return True

    async def start(self) -> None:
        """Do nothing: a listing has no job."""

    async def batches(self) -> AsyncGenerator[CallResult, None]:
        """Yield the rows of each page as it arrives.

        Raises
        ------
        WebdataError
            The first page cannot be read.
        """
        async with aclosing(self._read()) as replies:
            async for reply in replies:
                max_rows = self.spec.max_rows
                found = reply.creatives[: None if max_rows is None else max_rows - self._row_count]
                self._row_count += len(found)
                self._failed_rows += sum(bool(row.get("error")) for row in found)
                self._total += reply.stated("total_results") or len(reply.creatives)
                self._replies.append(reply.model_copy(update={"creatives": []}))
                self._pending = found
                if not found:
                    continue
                self.listener.update(completed=self._row_count)
                if self.options.cache:
                    await download_files(self.client, found, self.options.settings.cache_dir)
                batch = await asyncio.to_thread(trimmed_batch, "creatives", found)
                self._pending = []
                yield batch

    async def batches_so_far(self) -> AsyncGenerator[CallResult, None]:
        """Yield the rows whose files were not yet downloaded."""
        if self._pending:
            yield await asyncio.to_thread(trimmed_batch, "creatives", self._pending)

    @property
    def _has_all_rows(self) -> bool:
        max_rows = self.spec.max_rows
        return max_rows is not None and self._row_count >= max_rows

    async def _read(self) -> AsyncGenerator[CreativesReply, None]:
        """Yield each page, and store those that are fetched until the listing is complete."""
        partial = None
        if self.options.cache:
            cache = ResultCache.of_spec(self.spec, self.options)
            partial = PartialListing.of(cache.root, cache.key)
        stored = await _stored_replies(partial, refresh=self.options.refresh)
        for reply in stored:
            yield reply
        try:
            if not stored or not (stored[-1].cursor is None or self._has_all_rows):
                async with aclosing(self._fetch(stored)) as replies:
                    async for reply in replies:
                        if partial is not None:
                            page = reply.model_dump(mode="json")
                            await asyncio.to_thread(partial.append, page)
                        yield reply
        except JobCancelled:
            self._is_cancelled = True
        except IncompleteResult as error:
            self.shortfall = error
        except WebdataError as error:
            if not self._replies:
                raise
            self.shortfall: IncompleteResult | None = IncompleteResult(
                None, self._row_count, why=str(error)
            )
            self.shortfall.__cause__ = error
        else:
            if partial is not None:
                await asyncio.to_thread(partial.delete)

    async def _fetch(self, stored: list[CreativesReply]) -> AsyncGenerator[CreativesReply, None]:
        """Yield the missing pages within the timeout of the call."""
        now = asyncio.get_running_loop().time
        started_at, timeout_s = now(), self.options.timeout_s
        pages = paging.creative_pages(
            self.client, self.spec.body, max_rows=self.spec.max_rows, earlier_pages=stored
        )
        async with aclosing(pages):
            while True:
                left_s = None if timeout_s is None else max(0.0, timeout_s + started_at - now())
                cancellation = None if self.cancelled is None else self.cancelled.wait()
                page = unless_cancelled(anext(pages, None), cancellation)
                reply = await within(left_s, page)
                if reply is None:
                    return
                yield reply

    def outcome(self, table: pa.Table) -> JobOutcome:
        """Return how the listing ended."""
        _ = table
        outcome = receipt.of_creatives(
            self._replies,
            advertiser=self.subject,
            rows=self._row_count,
            failed=self._failed_rows,
            total=self._total,
        )
        return replace(
            outcome,
            status="cancelled" if self._is_cancelled else outcome.status,
            # A shortfall beyond `max_rows` is of no concern.
            shortfall=None if self._has_all_rows else self.shortfall,
        )


async def unless_cancelled(work: Awaitable[T], cancellation: Awaitable[object] | None) -> T:
    """Return the result of `work`; once `cancellation` returns, end it.

    Raises
    ------
    JobCancelled
        `work` was ended, and gave no result all the same.
    """
    if cancellation is None:
        return await work
    task: asyncio.Future[T] = asyncio.ensure_future(work)
    either: list[asyncio.Future[Any]] = [task, asyncio.ensure_future(cancellation)]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in either:
            each.cancel()
        # A second cancellation ends this wait, and not the clean-up of the first one.
        await asyncio.wait(either)
    if task.cancelled():
        raise JobCancelled("")
    return task.result()


async def _stored_replies(partial: PartialListing | None, *, refresh: bool) -> list[CreativesReply]:
    """Return the pages that an earlier call stored before it broke off."""
    if partial is None:
        return []
    if refresh:
        await asyncio.to_thread(partial.delete)
        return []
    pages = await asyncio.to_thread(partial.pages)
    try:
        return [CreativesReply.model_validate(page) for page in pages]
    except ValidationError:
        await asyncio.to_thread(partial.delete)
        return []
