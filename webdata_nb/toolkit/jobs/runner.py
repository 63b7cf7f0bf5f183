"""Starts a job, follows its events, reads its rows while it runs, and cancels it if it must."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext, suppress
from dataclasses import replace
from http import HTTPStatus
from types import TracebackType
from typing import Final, Protocol, Self

from webdata_nb.contract import paths
from webdata_nb.contract.events import Progress
from webdata_nb.contract.replies import (
    CrawlStatus,
    ReceiptEntry,
    SearchStart,
    SearchStatus,
    StartReply,
)
from webdata_nb.contract.requests import ExtendedCrawlRequest
from webdata_nb.contract.states import JobKind, JobStatus
from webdata_nb.errors import (
    Expired,
    IncompleteResult,
    JobCancelled,
    JobTimeout,
    NotFound,
    NotSupported,
    WebdataError,
)
from webdata_nb.toolkit.cache.job_refs import JobClaim
from webdata_nb.toolkit.cache.result_cache import CallResult, ResultCache
from webdata_nb.toolkit.client import job_wait, paging
from webdata_nb.toolkit.client.client import Client
from webdata_nb.toolkit.frames import rows
from webdata_nb.toolkit.frames.receipt import of_crawl, of_search, shorten
from webdata_nb.toolkit.frames.rows import Row, TableBatch
from webdata_nb.toolkit.requests.call_options import CallOptions, within
from webdata_nb.toolkit.requests.job_spec import JobSpec
from webdata_nb.toolkit.sites.audit_columns import with_audit_columns

# A page takes memory as bytes, objects and columns; one emoji makes a text four times as wide.
ROWS: Final = 50


class CrawlRowReader:
    """The rows of one crawl: enter it while the job is waited for, then read the `rest`.

    It reads early only from a service with an event stream: ours, whose published rows keep their
    positions.
    """

    def __init__(self, client: Client, job_id: str, report: job_wait.Report) -> None:
        self._client, self._job_id, self._report = client, job_id, report
        self._batches: list[TableBatch] = []
        self._texts: dict[str, str] = {}
        self._published = 0
        self._progressed = asyncio.Event()
        self._ended = False

    async def __aenter__(self) -> Self:
        # Nothing is awaited here: a cancellation must reach the wait, which cancels the job.
        self._reading = asyncio.create_task(self._read_full_pages())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A page in flight when the job ends is read to its end, not requested again.
        self._ended = True
        self._progressed.set()
        if error is not None:
            self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def report(self, progress: Progress) -> None:
        """Note the progress of the job, and pass it on."""
        self._report(progress)
        if self._client.offers_events:
            self._published = progress.completed
            self._progressed.set()

    async def rest(self, status: CrawlStatus) -> tuple[TableBatch, IncompleteResult | None]:
        """Read the remaining rows; an unreadable page costs the later rows only.

        `status` is that of the ended job; the rows in it are not read again.
        """
        shortfall = None
        total = status.stated("total_results")
        pages = paging.crawl_rows(
            self._client,
            self._job_id,
            per_page=ROWS,
            total=total,
            first_page=self._next_page,
            # A single row may be the only one of a page of the size that was requested.
            known=status if self._next_page == 1 and len(status.data) > 1 else None,
        )
        try:
            await self._read_all(pages)
        except IncompleteResult as error:
            shortfall = error
        except WebdataError as error:
            if not self._batches:
                raise
            row_count = sum(batch.table.num_rows for batch in self._batches)
            shortfall = IncompleteResult(total, row_count, why=str(error))
            shortfall.__cause__ = error
        return rows.concat("crawl", self._batches), shortfall

    @property
    def _next_page(self) -> int:
        return len(self._batches) + 1

    async def _read_all(self, pages: AsyncGenerator[paging.Rows, None]) -> None:
        async with aclosing(pages):
            async for page in pages:
                self._batches.append(await self._to_batch(page))

    async def _read_full_pages(self) -> None:
        # `rest` meets any error again and reports it.
        with suppress(WebdataError):
            # Memory of a frame that the caller has dropped since the last crawl.
            await asyncio.to_thread(rows.trim_memory)
            while not self._ended:
                await self._progressed.wait()
                self._progressed.clear()
                while self._published >= self._next_page * ROWS and await self._read_next_page():
                    pass

    async def _read_next_page(self) -> bool:
        """Read the next page if it is full: rows may be counted before they are published."""
        page = self._next_page
        reply = await self._client.crawl_status(self._job_id, page=page, per_page=ROWS)
        if len(reply.data) != ROWS or reply.page != page:
            return False
        self._batches.append(await self._to_batch(reply.data))
        return True

    async def _to_batch(self, page: paging.Rows) -> TableBatch:
        return await asyncio.to_thread(rows.trimmed_batch, "crawl", page, texts=self._texts)


# Together with the cancel request before it, this stays within the 3 s that the bridge waits.
_COLLECT_PARTIAL_S: Final = 2.0
# A search that visits no page ends sooner, unless its providers are slow.
_LONG_POLL_S: Final = 5
# Short, so that a call that is interrupted during the start still learns its job's id: the client
# waits for the reply of a cancelled start for `LATE_REPLY_S`.
START_WAIT_S: Final = 1
# Jobs of one idempotency key that were cancelled or deleted before another call found them.
_MAX_JOBS_OF_KEY: Final = 20

log = logging.getLogger("webdata_nb")


class RunListener(Protocol):
    """Receives the job of a call and its progress."""

    def started(self, job_id: str) -> None:
        """Receive the id of the job, before the call waits for it."""

    def report(self, progress: Progress) -> None:
        """Receive a progress event."""


def kind_of(spec: JobSpec) -> JobKind:
    """Return the kind of job that a request starts."""
    return "search" if spec.op == "search" else "crawl"


async def start(
    client: Client, spec: JobSpec, *, wait_s: int = 0, idempotency_key: str | None = None
) -> StartReply:
    """Start the job of a request; the reply to a search may hold its result."""
    if spec.op == "search":
        return await client.start_search(spec.body, wait_s=wait_s, idempotency_key=idempotency_key)
    purpose = _purpose_of_extension(spec)
    if not purpose:
        return await client.start_crawl(spec.body, idempotency_key=idempotency_key)
    body = spec.body if spec.since is None else spec.body | spec.since.fields
    try:
        return await client.start_extended_crawl(body, idempotency_key=idempotency_key)
    except (NotFound, NotSupported) as error:
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
    if not isinstance(request, ExtendedCrawlRequest):
        return ""
    wanted = {
        "archive": request.source.file,
        "as_of": request.source.web_archive,
        "a WARC file as out": request.sink.warc,
        "a list of pages": request.urls,
        "audit": request.audit,
    }
    named = next((name for name, value in wanted.items() if value), None)
    return named or f"max_pages={request.max_pages}"


async def run_call(
    client: Client,
    spec: JobSpec,
    options: CallOptions,
    listener: RunListener,
    claim: JobClaim | None = None,
) -> CallResult:
    """Start the job of a call, or join that of an abandoned claim, and return its rows.

    With an idempotency key, the job may be one that an earlier call started. If that call
    cancelled it, or the service has deleted its rows, another job is started.
    """
    if claim is not None:
        return await _run_claimed(client, spec, options, listener, claim)
    key = options.idempotency_key
    for attempt in range(0 if key is None else _MAX_JOBS_OF_KEY):
        retry_options = replace(options, idempotency_key=f"{key}-{attempt}")
        result = await _run_or_find(client, spec, retry_options, listener)
        if result is not None:
            return result
    unkeyed = replace(options, idempotency_key=None)
    reply = await start_call(client, spec, unkeyed, _start_wait_s(spec, options))
    listener.started(reply.job_id)
    return await finish_call(client, spec, options, reply, listener.report)


async def _run_claimed(
    client: Client, spec: JobSpec, options: CallOptions, listener: RunListener, claim: JobClaim
) -> CallResult:
    """Return the rows of the claimed job; of a new one where those have just been deleted."""
    wait_s = _start_wait_s(spec, options)
    reply = await start_or_join(client, spec, options, claim, wait_s=wait_s)
    listener.started(reply.job_id)
    try:
        result = await finish_call(client, spec, options, reply, listener.report)
    except (Expired, NotFound):
        if not claim.joined:
            raise
        claim.joined = False
        reply = await _start_claimed(client, spec, options, claim, wait_s=wait_s)
        listener.started(reply.job_id)
        result = await finish_call(client, spec, options, reply, listener.report)
    outcome = result.outcome
    claim.is_running = outcome is not None and outcome.timeout is not None
    return result


def joined_notice(spec: JobSpec, job_id: str) -> str:
    """Return the sentence that tells the user whose job the call waits for."""
    return (
        f"This call joins job {job_id} of {shorten(spec.subject)}, which an earlier call "
        "started and did not finish; refresh=True starts anew."
    )


async def start_or_join(
    client: Client,
    spec: JobSpec,
    options: CallOptions,
    claim: JobClaim | None,
    *,
    wait_s: int = 0,
) -> StartReply:
    """Join the job of an abandoned claim if it answers the call, or else start a job.

    The service may wait for the result of a new search for `wait_s`.
    """
    if claim is None:
        return await start_call(client, spec, options, wait_s)
    if claim.abandoned:
        is_known = claim.job_id is not None
        try:
            may_join = await within(options.timeout_s, _may_join(client, spec, options, claim))
        except asyncio.CancelledError:
            if claim.job_id is not None:
                cancelling = client.cancel_quietly(claim.job_id)
                await asyncio.shield(asyncio.ensure_future(cancelling))
            raise
        if may_join:
            claim.joined = is_known
            started = JobStatus.STARTED.value
            return StartReply(success=True, job_id=claim.job_id or "", status=started)
    return await _start_claimed(client, spec, options, claim, wait_s=wait_s)


async def _may_join(client: Client, spec: JobSpec, options: CallOptions, claim: JobClaim) -> bool:
    """Whether the job of an abandoned claim answers this call, as the service reports it."""
    if claim.job_id is None:
        # Its key finds a job whose start was not answered, or else starts one.
        key = spec.idempotency_key(claim.run_id)
        claim.start((await start(client, spec, idempotency_key=key)).job_id)
    try:
        status = await client.status(kind_of(spec), claim.job_id or "")
    except (Expired, NotFound):
        return False
    return ResultCache.of_spec(spec, options).may_join(claim, status)


async def _start_claimed(
    client: Client, spec: JobSpec, options: CallOptions, claim: JobClaim, *, wait_s: int
) -> StartReply:
    """Start the job of a claim, another one than that of an abandoned claim."""
    if claim.abandoned:
        claim.renew(None if spec.since is None else spec.since.fields)
    keyed = replace(options, idempotency_key=spec.idempotency_key(claim.run_id))
    reply = await start_call(client, spec, keyed, wait_s)
    claim.start(reply.job_id)
    return reply


async def _run_or_find(
    client: Client, spec: JobSpec, options: CallOptions, listener: RunListener
) -> CallResult | None:
    """Return the rows of the key's job; None where it was cancelled or deleted before."""
    was_active = False

    def report(progress: Progress) -> None:
        nonlocal was_active
        was_active |= progress.status != JobStatus.CANCELLED
        listener.report(progress)

    reply = await start_call(client, spec, options, _start_wait_s(spec, options))
    listener.started(reply.job_id)
    try:
        result = await finish_call(client, spec, options, reply, report)
    except (Expired, NotFound):
        return None
    outcome = result.outcome
    is_cancelled = outcome is not None and isinstance(outcome.error(), JobCancelled)
    return None if is_cancelled and not was_active else result


async def start_call(
    client: Client, spec: JobSpec, options: CallOptions, wait_s: int
) -> StartReply:
    """Start the job of a call; the service may wait for the result of a search for `wait_s`."""
    request = start(client, spec, wait_s=wait_s, idempotency_key=options.idempotency_key)
    reply: StartReply = await within(options.timeout_s, request)
    return reply


def _start_wait_s(spec: JobSpec, options: CallOptions) -> int:
    """Return the seconds for which the service may wait for the result of a brief search."""
    # The timeout bounds the whole job: a short one leaves no time to wait within the start.
    has_time = options.timeout_s is None or options.timeout_s > _LONG_POLL_S
    return START_WAIT_S if spec.brief and has_time else 0


async def finish_call(
    client: Client,
    spec: JobSpec,
    options: CallOptions,
    reply: StartReply,
    report: job_wait.Report,
) -> CallResult:
    """Return the rows of a started job, at once where the start's reply holds them."""
    result = reply.result if isinstance(reply, SearchStart) else None
    if result is not None and result.status.terminal:
        report(job_wait.progress_of("search", result, elapsed_s=0.0))
        return await _search_result(result, spec.subject, brief=spec.brief)
    return await follow(
        client,
        kind_of(spec),
        reply.job_id,
        spec.subject,
        options=options,
        report=report,
        brief=spec.brief,
        audits=spec.audits,
        lists_pages=bool(spec.urls),
    )


async def follow(
    client: Client,
    kind: JobKind,
    job_id: str,
    subject: str,
    *,
    options: CallOptions,
    report: job_wait.Report,
    cancel_remote: bool = True,
    brief: bool = False,
    audits: bool = False,
    lists_pages: bool = False,
) -> CallResult:
    """Wait for a job's end and collect its rows; `subject` is its query or start URL.

    The wait for a `brief` job, a search that visits no page, begins with a long poll. The rows of a
    crawl that `audits` have the columns of an audit. One that `lists_pages` has its full receipt,
    which says what became of each.
    """
    reader = CrawlRowReader(client, job_id, report) if kind == "crawl" else None
    try:
        async with reader or nullcontext():
            end = await job_wait.wait(
                client,
                kind,
                job_id,
                report=report if reader is None else reader.report,
                deadline_s=options.timeout_s,
                cancel_remote=cancel_remote,
                long_poll_s=_LONG_POLL_S if brief else 0,
            )
    except asyncio.CancelledError:
        # `wait` has cancelled the job at the service by now; its rows so far are still there.
        if options.on_cancel != "partial":
            raise
        partial = await _collect_partial(client, job_id, subject, reader)
        if partial is None:
            raise
        return _unfinished(partial, interrupted=True)
    except JobTimeout as error:
        partial = await _collect_partial(client, job_id, subject, reader)
        if partial is None:
            raise
        return _unfinished(partial, timeout=error)
    if end.result is not None:
        return await _search_result(end.result, subject, brief=brief)
    result = await _collect(client, job_id, subject, reader, end.reply)
    if audits and result.outcome is not None and result.outcome.shortfall is None:
        facts = await paging.page_facts(client, job_id)
        table = await asyncio.to_thread(with_audit_columns, result.table, facts)
        result = replace(result, table=table)
    outcome = result.outcome
    if reader is None or outcome is None:
        return result
    if lists_pages or (options.cache and outcome.cacheable):
        return replace(result, receipt_entries=await _receipt_entries(client, job_id))
    return result


def _unfinished(
    result: CallResult, *, interrupted: bool = False, timeout: JobTimeout | None = None
) -> CallResult:
    """Return the rows of a job that was left before its end."""
    if result.outcome is None:
        return result
    outcome = replace(result.outcome, shortfall=None, interrupted=interrupted, timeout=timeout)
    return replace(result, outcome=outcome)


async def _collect(
    client: Client,
    job_id: str,
    subject: str,
    reader: CrawlRowReader | None,
    last_reply: SearchStatus | CrawlStatus | None = None,
) -> CallResult:
    """Return the rows that the service has now; raises `Expired` where it has deleted them."""
    if reader is None:
        return await _search_result(await client.search_status(job_id), subject)
    status = last_reply
    if not isinstance(status, CrawlStatus):
        status = await client.crawl_state(job_id)
    batch, shortfall = await reader.rest(status)
    outcome = of_crawl(status, batch.table, url=subject)
    return CallResult.from_batch(batch, replace(outcome, shortfall=shortfall))


async def _collect_partial(
    client: Client, job_id: str, subject: str, reader: CrawlRowReader | None
) -> CallResult | None:
    """Return the rows of a job that is no longer waited for, if they arrive in time."""
    try:
        async with asyncio.timeout(_COLLECT_PARTIAL_S):
            return await _collect(client, job_id, subject, reader)
    except (WebdataError, TimeoutError):
        return None


async def _receipt_entries(client: Client, job_id: str) -> list[ReceiptEntry] | None:
    """Return the full receipt; the rows are worth having without it."""
    try:
        return await paging.receipt_entries(client, job_id)
    except (NotFound, NotSupported):
        return None  # an extra of ours, which another service may lack
    except WebdataError as error:
        log.warning("the receipt of job %s did not arrive: %s", job_id, error)
        return None


async def _search_result(status: SearchStatus, query: str, *, brief: bool = False) -> CallResult:
    refuse_expired(status)
    data = search_rows(status)
    # A few short rows take less time than a switch of threads.
    batch = (
        rows.batch("search", data)
        if brief
        else await asyncio.to_thread(rows.trimmed_batch, "search", data)
    )
    outcome = of_search(status, status.data, query=query)
    outcome = replace(outcome, shortfall=shortfall_of(status))
    return CallResult.from_batch(batch, outcome)


def search_rows(status: SearchStatus) -> list[Row]:
    """Return the rows of a search, each with the provider that found it."""
    if status.provider_used is None:
        return list(status.data)
    return [{"provider": status.provider_used, **row} for row in status.data]


def refuse_expired(status: SearchStatus) -> None:
    """Raise `Expired` where the service has deleted the results."""
    if not status.result_expired:
        return
    hours = status.retention_hours
    retention = "a while" if hours is None else f"{hours:g} hours"
    raise Expired(
        f"the service keeps raw results for {retention}, and these are gone: start a new job",
        status=HTTPStatus.GONE,
    )


def shortfall_of(status: SearchStatus) -> IncompleteResult | None:
    """Return an error where fewer rows came than the service counts; None where all did."""
    expected, row_count = status.total_results, len(status.data)
    return IncompleteResult(expected, row_count) if row_count < expected else None
