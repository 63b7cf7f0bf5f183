"""Reads the pages of a list in one job, and gives each of them a result of its own.

The result of a page is that of a crawl of this page alone: its rows, its receipt and its entry in
the cache, which answers for it in other lists and calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from webdata_nb.contract import limits
from webdata_nb.contract.outcomes import MEANINGS, is_row, low_confidence_kind
from webdata_nb.contract.replies import ReceiptEntry
from webdata_nb.contract.requests import CrawlRequest
from webdata_nb.contract.states import JobStatus
from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.errors import BadAnswer, JobFailed, NotSupported, WebdataError
from webdata_nb.foreign_json import decode_json
from webdata_nb.page.urls import canonical_url
from webdata_nb.toolkit.cache.result_cache import CallResult, ResultCache
from webdata_nb.toolkit.calls import single_call
from webdata_nb.toolkit.calls.executor import InputResult
from webdata_nb.toolkit.calls.single_call import TRANSIENT_ERRORS, stale_result
from webdata_nb.toolkit.display.progress import Listener
from webdata_nb.toolkit.display.progress_view import Inputs, View
from webdata_nb.toolkit.frames import receipt
from webdata_nb.toolkit.recording import cassette
from webdata_nb.toolkit.requests.call_options import CallOptions
from webdata_nb.toolkit.requests.inputs import Input
from webdata_nb.toolkit.requests.job_spec import JobSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from webdata_nb.toolkit.frames.receipt import JobOutcome

# Pages of one job. The first ones are there before the last ones of a longer list are requested.
PAGES_PER_JOB: Final = limits.PAGE_URLS


class NotOffered(Exception):
    """The service reads no lists of pages; nothing was started."""


class Counts(NamedTuple):
    """The number of inputs with a result, their rows, failed rows and errors."""

    inputs: int
    rows: int
    failed_rows: int
    errors: int


class PageList:
    """The pages of one call, and their results."""

    def __init__(self, inputs: Sequence[Input], options: CallOptions, bar: Listener) -> None:
        self._inputs, self._bar = inputs, bar
        # The bar of the call shows the progress of its jobs.
        settings = replace(options.settings, progress=False)
        self._options = replace(options, out=None, settings=settings, also=self._report)
        self._results: list[InputResult | None] = [item.error for item in inputs]
        # Of the results so far: inputs, rows, failed rows and errors.
        self._counted = Counts(0, 0, 0, 0)

    @property
    def is_one_job(self) -> bool:
        """Whether the service may be asked for several pages at once."""
        settings = self._options.settings
        is_online = settings.replay is None and not settings.offline
        return is_online and sum(item.error is None for item in self._inputs) > 1

    async def results(
        self, check: Callable[[InputResult], Awaitable[None]]
    ) -> tuple[list[InputResult | None], bool]:
        """Return the result of each page, and whether an interrupt left some of them None.

        `check` raises where a result ends the whole call.

        Raises
        ------
        NotOffered
            The service reads no lists.
        """
        for result in self._results:
            if result is not None:
                await check(result)
        await asyncio.to_thread(self._look_up)
        missing = iter(self._missing().items())
        while pages := dict(islice(missing, PAGES_PER_JOB)):
            if await self._fetch(pages, check):
                return self._results, True
        return self._results, False

    def _look_up(self) -> None:
        """Take the pages that the cache has."""
        for number, item in enumerate(self._inputs):
            if item.error is None:
                cache = ResultCache.of_spec(item.spec, self._options)
                self._results[number] = cache.look_up(item.spec.columns)
        self._count()

    def _missing(self) -> Mapping[str, list[int]]:
        """Return the inputs without a result, by the key of their page: equal pages are one."""
        missing: dict[str, list[int]] = {}
        for number, (item, result) in enumerate(zip(self._inputs, self._results, strict=True)):
            if result is None:
                missing.setdefault(_key_of(item.spec), []).append(number)
        return missing

    async def _fetch(
        self, pages: Mapping[str, Sequence[int]], check: Callable[[InputResult], Awaitable[None]]
    ) -> bool:
        """Read pages in one job; returns whether the call was interrupted meanwhile."""
        specs = {key: self._inputs[numbers[0]].spec for key, numbers in pages.items()}
        started_at = datetime.now(UTC)
        results: Sequence[InputResult | None]
        interrupted = False
        try:
            result = await self._run(JobSpec.pages(list(specs.values())))
        except NotSupported as error:
            raise NotOffered from error
        except WebdataError as error:
            results = [error] * len(specs)
        else:
            interrupted = result.outcome is not None and result.outcome.interrupted
            results = await asyncio.to_thread(self._split, specs, result, started_at)
        for numbers, spec, read in zip(pages.values(), specs.values(), results, strict=True):
            page = await self._or_stale(spec, read)
            for number in numbers:
                self._results[number] = page
            if page is not None:
                await check(_error_in(page) or page)
            folder = self._options.settings.record
            if folder is not None and isinstance(page, CallResult) and page.complete:
                await cassette.record_call(folder, spec, page)
        self._count()
        return interrupted

    async def _run(self, spec: JobSpec) -> CallResult:
        cache = ResultCache.of_spec(spec, self._options)
        async with cache.single_flight(), cache.claim_job(spec) as claim:
            return await single_call.run_job(spec, self._options, cache, claim)

    async def _or_stale(self, spec: JobSpec, page: InputResult | None) -> InputResult | None:
        """Return the older result that may replace a page that was not read, or the page."""
        error = None if page is None else _error_in(page)
        if not isinstance(error, TRANSIENT_ERRORS):
            return page
        try:
            return await stale_result(spec, ResultCache.of_spec(spec, self._options), error)
        except WebdataError:
            return page

    def _split(
        self, specs: Mapping[str, JobSpec], result: CallResult, started_at: datetime
    ) -> list[InputResult | None]:
        """Return the result of each page of a job; None for those that an interrupt left out."""
        outcome = result.outcome
        if outcome is None:
            raise TypeError("the result of a job has its outcome")
        became = {canonical_key(entry.url): entry for entry in result.receipt_entries or ()}
        rows = _rows_by_key(result.table, specs, became)
        pages: list[InputResult | None] = []
        for key, spec in specs.items():
            row, entry = rows.get(key), became.get(key)
            if row is None:
                pages.append(_error_of(outcome, spec, entry))
                continue
            table = result.table.slice(row, 1)
            page = _page_outcome(outcome, table, spec.subject, entry)
            pages.append(self._store(spec, CallResult(table, outcome=page), started_at))
        ResultCache.of_spec(next(iter(specs.values())), self._options).finish_list()
        return pages

    def _store(self, spec: JobSpec, page: CallResult, started_at: datetime) -> CallResult:
        return ResultCache.of_spec(spec, self._options).store(
            page,
            columns=spec.columns,
            request=spec.public_request,
            started_at=started_at,
            of_list=True,
        )

    def _count(self) -> None:
        """Count the results, and show them."""
        done = [result for result in self._results if result is not None]
        tables = [result.table for result in done if isinstance(result, CallResult)]
        self._counted = Counts(
            len(done),
            sum(table.num_rows for table in tables),
            sum(map(receipt.count_failed_rows, tables)),
            len(done) - len(tables),
        )
        self._report(View("", None))

    def _report(self, view: View) -> None:
        """Show the progress of the call: that of the running job, and the results so far."""
        counted, total = self._counted, len(self._inputs)
        self._bar.update(
            total=total,
            completed=counted.rows + view.completed,
            failed=counted.errors + counted.failed_rows + view.failed,
            failures=view.failures,
            credits=view.credits,
            reserved=view.reserved,
            unlimited=view.unlimited,
            phase=view.phase,
            notice=view.notice or self._bar.view.notice,
            inputs=Inputs(total, min(total, counted.inputs + view.completed), counted.errors),
        )


def _key_of(spec: JobSpec) -> str:
    """Return the key of a page, by which the service tells pages apart."""
    request = spec.request
    if not isinstance(request, CrawlRequest):
        raise TypeError(f"{type(request).__name__} is no crawl")
    return canonical_key(canonical_url(request.url))


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
