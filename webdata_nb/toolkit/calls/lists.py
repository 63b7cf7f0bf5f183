"""Runs several inputs side by side, and stacks their rows in the order of the inputs.

Inputs run here, on an executor's threads, processes or machines, or as one job where they are pages
of a list. Their progress adds up to one view, and an interrupt of the call cancels all of them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from webdata_nb import caller
from webdata_nb.contract import limits
from webdata_nb.contract.outcomes import MEANINGS, JobStatus, is_row, low_confidence_kind
from webdata_nb.contract.replies import ReceiptEntry
from webdata_nb.contract.requests import CrawlRequest
from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.errors import (
    AuthError,
    BadAnswer,
    InvalidArgument,
    JobCancelled,
    JobFailed,
    LocalServiceError,
    NotSupported,
    WebdataError,
    WorkerLost,
)
from webdata_nb.foreign_json import decode_json
from webdata_nb.page.urls import canonical_url
from webdata_nb.toolkit.bridge import PARTIAL_RESULT_S, PORTAL, set_partial_result
from webdata_nb.toolkit.cache.result_cache import (
    CacheKey,
    CancelToken,
    deliver,
    error_to_raise,
    lists_read_once,
    snapshot_id,
)
from webdata_nb.toolkit.calls.pipeline import Call, fetch_result
from webdata_nb.toolkit.display.bars import UNITS, Inputs, View
from webdata_nb.toolkit.display.progress import Listener
from webdata_nb.toolkit.frames import input_rows, receipt
from webdata_nb.toolkit.frames.input_rows import InputRows
from webdata_nb.toolkit.frames.rows import CallResult, JobOutcome
from webdata_nb.toolkit.jobs.sources import show_progress, unless_cancelled
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.arguments import PARTITION_NEEDS, CallOptions, FanOutOptions
from webdata_nb.toolkit.requests.inputs import Input, JobSpec, refuse_invalid_inputs, representative

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

InputResult = CallResult | WebdataError
InputRunner = Callable[[JobSpec, CallOptions], Awaitable[InputResult]]

# The service's own limit on concurrent jobs is enforced by the client's limiter.
MAX_CONCURRENT_INPUTS: Final = 16
# Pages of one job. The first ones are there before the last ones of a longer list are requested.
PAGES_PER_JOB: Final = limits.PAGE_URLS
# After this time, the next input checks that the local service is alive, and restarts it if not.
SEEN_S: Final = 1.0
_NO_SUBJECT: Final = "(none)"
_CHECK_TOKEN_S: Final = 0.1
_WORKER_LOST: Final = (
    "a worker process of the executor ended, and with it the executor: this input has no rows; "
    "repeat the call with a new executor"
)
# An estimate of the total from a smaller share would be unstable.
_MIN_SHARE: Final = 0.05


async def run(
    inputs: Sequence[Input],
    options: CallOptions,
    fan_out: FanOutOptions,
) -> pd.DataFrame:
    """Run every input and return their rows as one frame.

    Raises
    ------
    InvalidArgument
        An input is invalid, and `on_error` is `"raise"`; nothing was sent.
    """
    if fan_out.dask is not None:
        raise InvalidArgument(
            "executor must be a concurrent.futures.Executor or None here: this function runs "
            "nothing on a Dask cluster"
        )
    arguments.check_requirement("partition", fan_out.partition, PARTITION_NEEDS)
    if fan_out.on_error == "raise":
        refuse_invalid_inputs(inputs)
    started_at = datetime.now(UTC)
    options = replace(options, snapshot=options.snapshot or snapshot_id(started_at))
    op = inputs[0].spec.op
    view = View(f"{op} of {len(inputs)} inputs", None, unit=UNITS[op])
    async with show_progress(view, options) as bar:
        results, interrupted = await ListRun(inputs, options, fan_out, bar).results()
        combined_result = await asyncio.to_thread(
            stack, inputs, results, options, fan_out, started_at
        )
        line = str(combined_result.attrs["line"]).partition(": ")[2]
        bar.ended("cancelled" if interrupted else "completed", line)
    if fan_out.warns and not interrupted:
        _warn_of_rows(combined_result, inputs, results, fan_out)
    built = await deliver(combined_result, options)
    if interrupted:
        set_partial_result(built)
    return built


# ------------------------------------------------------------------------------------- running


@dataclass(frozen=True, slots=True)
class ListRun:
    """A run of the inputs of a call, or of those of one of its partitions.

    Attributes
    ----------
    bar
        Shows the progress of all inputs; None for a partition, whose call shows it.
    concurrency
        The number of inputs to run at a time.
    run_id
        Of a partition: the keys of its jobs derive from it, so that they are found again.
    """

    inputs: Sequence[Input]
    options: CallOptions
    fan_out: FanOutOptions
    bar: Listener | None
    concurrency: int = MAX_CONCURRENT_INPUTS
    run_id: str | None = None

    async def results(self) -> tuple[list[InputResult | None], bool]:
        """Return each input's result, and whether an interrupt left some of them None.

        Raises
        ------
        WebdataError
            An error that ends the whole call, by `on_error` or since every input would meet it.
        """
        executor = self.fan_out.executor
        if executor is not None:
            token = await asyncio.to_thread(CancelToken.create, self.options.settings.cache_dir)
            try:
                return await self._gather(partial(_run_on_executor, executor, token))
            finally:
                token.cancel()
        if self.fan_out.row_each:
            pages = _PageList(self)
            if pages.is_one_job:
                with suppress(_NotOffered):  # another service reads each page in a job of its own
                    return await pages.results()
        return await self._gather(run_input)

    def options_of(self, spec: JobSpec) -> CallOptions:
        """Return the options of one job; the bar of the whole call sums its progress up."""
        settings = replace(self.options.settings, progress=False)
        key = None if self.run_id is None else spec.idempotency_key(self.run_id)
        return replace(
            self.options, out=None, settings=settings, seen_s=SEEN_S, idempotency_key=key
        )

    async def raise_fatal_error(self, result: InputResult) -> None:
        """Raise an error that ends the whole call."""
        if isinstance(result, AuthError | LocalServiceError):
            raise result
        if self.fan_out.on_error == "row":
            return
        if isinstance(result, WebdataError):
            raise result
        await deliver(result, replace(self.options, out=None))  # raises as a single call would

    async def _gather(self, run: InputRunner) -> tuple[list[InputResult | None], bool]:
        # A worker cannot report to this process, and must not from another thread.
        on_executor = self.fan_out.executor is not None
        slots = asyncio.Semaphore(len(self.inputs) if on_executor else self.concurrency)
        progress = None
        if self.bar is not None:
            progress = CombinedProgress(self.bar, [item.spec.total for item in self.inputs])

        async def run_one(number: int, item: Input) -> InputResult:
            also = None
            if progress is not None and not on_executor:
                also = partial(progress.update, number)
            result: InputResult
            if item.error is not None:
                result = item.error
            else:
                async with slots:
                    result = await run(item.spec, replace(self.options_of(item.spec), also=also))
            if progress is not None:
                rows = result.table.num_rows if isinstance(result, CallResult) else None
                progress.finish(number, rows)
            await self.raise_fatal_error(result)
            return result

        tasks = [asyncio.create_task(run_one(*numbered)) for numbered in enumerate(self.inputs)]
        try:
            return list(await asyncio.gather(*tasks)), False
        except BaseException as error:
            await cancel_and_wait(tasks)
            cancelled = isinstance(error, asyncio.CancelledError)
            if not cancelled or self.options.on_cancel != "partial":
                raise
            failed = [task.cancelled() or task.exception() is not None for task in tasks]
            pairs = zip(tasks, failed, strict=True)
            return [None if is_failed else task.result() for task, is_failed in pairs], True


async def cancel_and_wait(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks that were not cancelled yet, and wait for their clean-up."""
    for task in tasks:
        # A second cancellation would abort the clean-up that the first one began.
        if not task.cancelling():
            task.cancel()
    if tasks:
        await asyncio.wait(tasks)


async def run_input(spec: JobSpec, options: CallOptions) -> InputResult:
    """Return the result of one input; an error is returned, not raised."""
    try:
        result = await fetch_result(spec, options)
    except WebdataError as error:
        return error
    error_at_end = result.error()
    if error_at_end is None or result.table.num_rows or isinstance(error_at_end, JobCancelled):
        return result
    return error_at_end


# ------------------------------------------------------------------------------------ executors


async def _run_on_executor(
    executor: Executor,
    token: CancelToken,
    spec: JobSpec,
    options: CallOptions,
) -> InputResult:
    """Run an input on a worker of `executor`.

    If a worker of a pool is killed, all unfinished inputs of the pool end with `WorkerLost`.
    Where the caller is cancelled, an input that was not started is withdrawn; a running one cancels
    its job at the service, and may still return the rows so far.
    """
    try:
        future = executor.submit(_run_in_worker, spec, options, token)
    except BrokenExecutor:
        return WorkerLost(_WORKER_LOST)
    pending = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(pending)
    except BrokenExecutor:
        return WorkerLost(_WORKER_LOST)
    except asyncio.CancelledError:
        token.cancel()
        if not future.cancel():
            await asyncio.wait([pending], timeout=PARTIAL_RESULT_S)
        if not pending.done():
            # Retrieves a later exception, which asyncio would log otherwise.
            pending.add_done_callback(lambda future: future.cancelled() or future.exception())
            raise
        if pending.cancelled() or pending.exception() is not None:
            raise
        result = pending.result()
        if not isinstance(result, CallResult) or options.on_cancel != "partial":
            raise
        return result


def _run_in_worker(spec: JobSpec, options: CallOptions, token: CancelToken) -> InputResult:
    """Run one input in another thread or process; the result pickles."""
    if token.visible and token.cancelled:
        return JobCancelled("")
    cancellation = _until_removed(token.path) if token.visible else None
    try:
        result = PORTAL.run(unless_cancelled(run_input(spec, options), cancellation))
    except (KeyboardInterrupt, concurrent.futures.CancelledError, JobCancelled):
        # Ctrl-C in a terminal reaches every process of its group. Raised here, it would end the
        # loop of the waiting process, which gets an interrupt of its own.
        return JobCancelled("")
    return result if isinstance(result, WebdataError) else replace(result, objects={})


async def _until_removed(path: Path) -> None:
    while await asyncio.to_thread(path.exists):  # noqa: ASYNC110 - another process removes it
        await asyncio.sleep(_CHECK_TOKEN_S)


# ------------------------------------------------------------------------------------- progress


class CombinedProgress:
    """Sums up the views of several inputs, and reports the sums to a listener.

    `update` and `finish` must be called on the same event loop.
    """

    def __init__(self, listener: Listener, totals: Sequence[int | None]) -> None:
        self._listener = listener
        self._totals = list(totals)
        self._unknown_totals = self._totals.count(None)
        self._total = sum(total or 0 for total in self._totals)
        self._views: list[View | None] = [None] * len(totals)
        self._failures: Counter[str] = Counter()
        self._completed = self._failed = self._finished_inputs = self._failed_inputs = 0
        self._links_checked = 0
        self._credits = self._reserved = self._share = 0.0
        self._has_credits = self._has_reserved = False

    def update(self, number: int, view: View) -> None:
        """Replace the view of one input."""
        before, self._views[number] = self._views[number], view
        self._add(before, -1)
        self._add(view, 1)
        self._set_total(number, view.total)
        self._report(view)

    def finish(self, number: int, rows: int | None) -> None:
        """Count an input as finished; `rows` is its number of rows, None where it failed."""
        self._finished_inputs += 1
        self._failed_inputs += rows is None
        before = self._views[number] or View("", None)
        rows = before.completed if rows is None else rows
        self._share += 1.0 - before.share
        self._completed += rows - before.completed
        self._set_total(number, rows)
        self._report(before)

    def _add(self, view: View | None, sign: int) -> None:
        if view is None:
            return
        self._completed += sign * view.completed
        self._failed += sign * view.failed
        self._links_checked += sign * view.links_checked
        self._share += sign * view.share
        for kind, count in view.failures.items():
            self._failures[kind] += sign * count
        self._credits += sign * (view.credits or 0)
        self._reserved += sign * (view.reserved or 0)
        self._has_credits |= view.credits is not None
        self._has_reserved |= view.reserved is not None

    def _set_total(self, number: int, total: int | None) -> None:
        if total is None:
            return
        before, self._totals[number] = self._totals[number], total
        self._unknown_totals -= before is None
        self._total += total - (before or 0)

    def _report(self, view: View) -> None:
        count = len(self._views)
        share = self._share / count
        self._listener.update(
            total=None if self._unknown_totals else self._total,
            estimated_total=round(self._completed / share) if share >= _MIN_SHARE else None,
            completed=self._completed,
            failed=self._failed,
            failures=dict(+self._failures),
            links_checked=self._links_checked,
            credits=self._credits if self._has_credits else None,
            reserved=self._reserved if self._has_reserved else None,
            unlimited=self._listener.view.unlimited or view.unlimited,
            phase=view.phase,
            notice=view.notice or self._listener.view.notice,
            inputs=Inputs(count, self._finished_inputs, self._failed_inputs),
        )


# --------------------------------------------------------------------------- pages of one job


class _NotOffered(Exception):
    """The service reads no lists of pages; nothing was started."""


class _Counts(NamedTuple):
    """Of the results so far: inputs, rows, failed rows and errors."""

    inputs: int
    rows: int
    failed_rows: int
    errors: int


class _PageList:
    """The pages of one call or partition, which are read in one job.

    The result of a page is that of a crawl of this page alone: its rows, its receipt and its entry
    in the cache, which answers for it in other lists and calls.
    """

    def __init__(self, run: ListRun) -> None:
        self._run, self._inputs = run, run.inputs
        self._results: list[InputResult | None] = [item.error for item in run.inputs]
        self._counted = _Counts(0, 0, 0, 0)
        self._calls: dict[int, Call] = {}

    @property
    def is_one_job(self) -> bool:
        """Whether the service may be asked for several pages at once."""
        settings = self._run.options.settings
        is_online = settings.replay is None and not settings.offline
        return is_online and sum(item.error is None for item in self._inputs) > 1

    async def results(self) -> tuple[list[InputResult | None], bool]:
        """Return the result of each page, and whether an interrupt left some of them None.

        Raises
        ------
        _NotOffered
            The service reads no lists.
        """
        for result in self._results:
            if result is not None:
                await self._run.raise_fatal_error(result)
        await asyncio.to_thread(self._look_up)
        # The inputs without a result, by the key by which the service tells pages apart.
        missing: dict[str, list[int]] = {}
        for number, (item, result) in enumerate(zip(self._inputs, self._results, strict=True)):
            if result is None:
                request = item.spec.request
                if not isinstance(request, CrawlRequest):
                    raise TypeError(f"{type(request).__name__} is no crawl")
                missing.setdefault(canonical_key(canonical_url(request.url)), []).append(number)
        remaining = iter(missing.items())
        while pages := dict(islice(remaining, PAGES_PER_JOB)):
            if await self._fetch(pages):
                return self._results, True
        return self._results, False

    def _call_of(self, number: int) -> Call:
        if number not in self._calls:
            spec = self._inputs[number].spec
            self._calls[number] = Call.of(spec, self._run.options_of(spec))
        return self._calls[number]

    def _look_up(self) -> None:
        """Take the pages that the cache has."""
        with lists_read_once():
            for number, item in enumerate(self._inputs):
                if item.error is None:
                    self._results[number] = self._call_of(number).cache.look_up(item.spec.columns)
        self._count()

    async def _fetch(self, pages: Mapping[str, Sequence[int]]) -> bool:
        """Read pages in one job; returns whether the call was interrupted meanwhile."""
        calls = {key: self._call_of(numbers[0]) for key, numbers in pages.items()}
        spec = JobSpec.pages([call.spec for call in calls.values()])
        options = replace(self._run.options_of(spec), also=self._report)
        one = Call.of(spec, replace(options, seen_s=self._run.options.seen_s))
        started_at = datetime.now(UTC)
        results: Sequence[InputResult | None]
        interrupted = False
        try:
            async with one.cache.single_flight():
                result = await one.fetch()
        except NotSupported as error:
            raise _NotOffered from error
        except WebdataError as error:
            results = [error] * len(calls)
        else:
            interrupted = result.outcome is not None and result.outcome.interrupted
            results = await asyncio.to_thread(self._split, calls, result, started_at)
        for numbers, call, read in zip(pages.values(), calls.values(), results, strict=True):
            page, error_in_page = read, None if read is None else _error_in(read)
            if error_in_page is not None:
                with suppress(WebdataError):  # an older result may replace a page that was not read
                    page, error_in_page = await call.stale(error_in_page), None
            for number in numbers:
                self._results[number] = page
            if page is not None:
                await self._run.raise_fatal_error(error_in_page or page)
            if isinstance(page, CallResult):
                await call.record(page)
        self._count()
        return interrupted

    def _split(
        self, calls: Mapping[str, Call], result: CallResult, started_at: datetime
    ) -> list[InputResult | None]:
        """Return the result of each page of a job; None for those that an interrupt left out."""
        outcome = result.outcome
        if outcome is None:
            raise TypeError("the result of a job has its outcome")
        became = {canonical_key(entry.url): entry for entry in result.receipt_entries or ()}
        rows = _rows_by_key(result.table, calls, became)
        found: dict[str, tuple[CacheKey, JobSpec, CallResult]] = {}
        for key, call in calls.items():
            if key in rows:
                table = result.table.slice(rows[key], 1)
                page = _page_outcome(outcome, table, call.spec.subject, became.get(key))
                found[key] = call.cache.key, call.spec, CallResult(table, outcome=page)
        cache = next(iter(calls.values())).cache
        stored = cache.store_pages(list(found.values()), started_at=started_at)
        pages = dict(zip(found, stored, strict=True))
        return [
            pages.get(key) or _error_of(outcome, call.spec, became.get(key))
            for key, call in calls.items()
        ]

    def _count(self) -> None:
        """Count the results, and show them."""
        done = [result for result in self._results if result is not None]
        tables = [result.table for result in done if isinstance(result, CallResult)]
        self._counted = _Counts(
            len(done),
            sum(table.num_rows for table in tables),
            sum(map(receipt.count_failed_rows, tables)),
            len(done) - len(tables),
        )
        self._report(View("", None))

    def _report(self, view: View) -> None:
        """Show the progress of the call: that of the running job, and the results so far."""
        counted, total, bar = self._counted, len(self._inputs), self._run.bar
        if bar is None:
            return
        bar.update(
            total=total,
            completed=counted.rows + view.completed,
            failed=counted.errors + counted.failed_rows + view.failed,
            failures=view.failures,
            credits=view.credits,
            reserved=view.reserved,
            unlimited=view.unlimited,
            phase=view.phase,
            notice=view.notice or bar.view.notice,
            inputs=Inputs(total, min(total, counted.inputs + view.completed), counted.errors),
        )


def _rows_by_key(
    table: pa.Table, keys: Iterable[str], became: Mapping[str, ReceiptEntry]
) -> dict[str, int]:
    """Return the row of each page by the key of its URL; rows are in the order of the pages."""
    fetched = [key for key in keys if key in became and is_row(became[key].outcome)]
    if len(fetched) == table.num_rows:
        return dict(zip(fetched, range(len(fetched)), strict=True))
    # Of an interrupted job, whose receipt was not read: the rows say what was requested.
    found = {}
    urls, metadata = table["url"].to_pylist(), table["metadata"].to_pylist()
    for number, (url, text) in enumerate(zip(urls, metadata, strict=True)):
        redirects = decode_json(text).get("redirects") if text else None
        found[canonical_key(str(redirects[0]["url"] if redirects else url))] = number
    return found


def _error_of(
    outcome: JobOutcome, spec: JobSpec, entry: ReceiptEntry | None
) -> WebdataError | None:
    """Return the error of a page that is no row; None where an interrupt left it out."""
    if entry is None:
        error = outcome.error()
        if error is None and not outcome.interrupted:
            return BadAnswer(f"the service does not say what became of {spec.subject}")
        return error
    meaning = MEANINGS.get(entry.outcome, entry.outcome)
    detail = f" ({entry.detail})" if entry.detail else ""
    return JobFailed(outcome.job_id or "", f"{entry.url} was not fetched: {meaning}{detail}")


def _error_in(result: InputResult) -> WebdataError | None:
    """Return the error of a page that gave no response; it may have a row nevertheless."""
    if isinstance(result, WebdataError):
        return result
    if not result.table.num_rows:
        return None
    error, status = result.table["error"][0].as_py(), result.table["status_code"][0].as_py()
    if error is None or status is not None:
        return None
    return JobFailed(result.attrs["job_id"] or "", f"the page could not be fetched: {error}")


def _page_outcome(
    outcome: JobOutcome, table: pa.Table, subject: str, entry: ReceiptEntry | None
) -> JobOutcome:
    """Return the outcome of one page of a job, whose row is `table`."""
    failed = receipt.count_failed_rows(table)
    quality = table["quality"][0].as_py()
    doubt = "" if quality is None else low_confidence_kind(decode_json(quality).get("reason"))
    share = None if outcome.credits is None else outcome.credits / max(1, outcome.ok)
    return replace(
        outcome,
        subject=subject,
        status=JobStatus.COMPLETED.value,
        rows=1,
        failed=failed,
        total=1,
        credits=0.0 if failed and share is not None else share,
        reserved=None,
        counts={} if entry is None else {entry.outcome: 1},
        examples={} if entry is None else {entry.outcome: [subject]},
        extraction=receipt.extractions_of_table(table),
        low_confidence={doubt: 1} if doubt else {},
        shortfall=None,
        interrupted=False,
        timeout=None,
    )


# ------------------------------------------------------------------------------------- stacking


def _rows_of(
    item: Input, result: InputResult | None, options: CallOptions, *, row_each: bool
) -> InputRows:
    """Return the rows of an input with its error; with `row_each` exactly one row or an error."""
    if result is None:
        return InputRows(item.labels, None, None)
    if isinstance(result, WebdataError):
        return InputRows(item.labels, None, datetime.now(UTC), _message(result))
    at = datetime.fromisoformat(result.attrs["timings"]["finished_at"])
    error, table = error_to_raise(result.error(), options), result.table
    message = None if error is None else _message(error)
    if row_each and table.num_rows:
        table, message = table.slice(0, 1), None
    elif row_each and message is None:
        message = receipt.missing_row_reason(result.attrs)
    return InputRows(item.labels, table, at, message)


def _message(error: WebdataError) -> str:
    return f"{type(error).__name__}: {error}"


def stack(
    inputs: Sequence[Input],
    results: Sequence[InputResult | None],
    options: CallOptions,
    fan_out: FanOutOptions,
    started_at: datetime,
) -> CallResult:
    """Return the rows of all inputs, and the receipt of the call."""
    parts = [
        _rows_of(item, result, options, row_each=fan_out.row_each)
        for item, result in zip(inputs, results, strict=True)
    ]
    first = representative(inputs)
    spec = first.spec
    table = input_rows.stack_inputs(spec.op, spec.columns, parts)
    runs = [
        receipt.InputRun(
            labels=dict(part.labels),
            attrs=result.attrs if isinstance(result, CallResult) else None,
            error=part.error,
        )
        for part, result in zip(parts, results, strict=True)
    ]
    attrs = receipt.of_runs(
        spec.op,
        runs,
        request=first.public_request,
        service=options.connection.scope(options.settings).service,
        rows=table.num_rows,
        started_at=started_at,
        finished_at=datetime.now(UTC),
    )
    return CallResult(table, attrs)


def _warn_of_rows(
    combined_result: CallResult,
    inputs: Sequence[Input],
    results: Sequence[InputResult | None],
    fan_out: FanOutOptions,
) -> None:
    """Warn of a crawl whose rows all failed, or of inputs without rows or with doubtful ones."""
    attrs, table = combined_result.attrs, combined_result.table
    if attrs["kind"] == "crawl" and attrs["counts"]["failed"] and not attrs["counts"]["ok"]:
        row = next(row for row in range(table.num_rows) if table["error"][row].is_valid)
        subject = ", ".join(str(table[name][row]) for name in attrs["labels"])
        total = attrs["inputs"]["total"]
        scope = f"of {total} inputs: no row succeeded, such as " if total > 1 else ""
        caller.warn(f"crawl {scope}{receipt.shorten(subject)}: {table['error'][row]}")
        return
    if fan_out.row_each:
        return
    found = [
        (item.spec.subject, result)
        for item, result in zip(inputs, results, strict=True)
        if isinstance(result, CallResult)
    ]
    empty = [subject for subject, result in found if result.table.num_rows == 0]
    if empty and fan_out.warns_of_empty:
        caller.warn(
            f"{len(empty)} of {len(inputs)} inputs gave no rows, such as "
            f"{receipt.shorten(empty[0]) or _NO_SUBJECT}"
        )
    doubtful = [result.attrs for _, result in found if result.attrs.get("warning")]
    if doubtful:
        first = f"{doubtful[0]['subject']}: {doubtful[0]['warning']}"
        caller.warn(f"{len(doubtful)} of {len(results)} inputs, such as {first}")
