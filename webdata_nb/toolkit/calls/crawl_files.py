"""Runs crawls that write to files: their rows to Parquet parts, or their responses to a WARC file.

Parts are written as rows arrive. They and their manifest are all that has to survive: the same call
finds the job by its idempotency key or its id, and reads the rows that no file has yet.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from webdata_nb.contract import limits
from webdata_nb.errors import (
    IncompleteResult,
    InvalidArgument,
    JobCancelled,
    JobFailed,
    NotFound,
    NotSupported,
    OfflineError,
)
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.cache.result_cache import deliver
from webdata_nb.toolkit.calls import budget
from webdata_nb.toolkit.calls.pipeline import Call, fetch_result
from webdata_nb.toolkit.frames import exports, input_rows, rows, schemas
from webdata_nb.toolkit.frames.rows import CallResult
from webdata_nb.toolkit.frames.storage import CrawlManifest, CrawlParts, folder_errors
from webdata_nb.toolkit.jobs.sources import RowSource
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.arguments import CallOptions, FanOutOptions
from webdata_nb.toolkit.requests.inputs import JobSpec
from webdata_nb.toolkit.requests.options import CrawlDfOptions

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

# Rows of one file; a multiple of the rows of one request.
PART_ROWS: Final = 500
_NEW_CRAWL: Final = "refresh=True starts the crawl anew"


async def to_warc(spec: JobSpec, path: Path, options: CrawlDfOptions) -> pd.DataFrame:
    """Run a crawl that writes the WARC file `path`, and return its rows.

    Raises
    ------
    InvalidArgument
        An argument is not allowed; nothing was sent.
    JobFailed, JobCancelled, IncompleteResult
        Rows are missing. What was fetched is in a file with `.partial` in its name.
    """
    call = replace(CallOptions.check_without_out(options), cache=False)
    if call.settings.replay is not None:
        raise InvalidArgument(
            "a replayed call sends no requests that a WARC file could have: leave out out, or end "
            "replay()"
        )
    await budget.check([spec], call, FanOutOptions.check(options).budget)
    result = await fetch_result(spec, call)
    if result.complete and result.error() is None:
        await asyncio.to_thread(exports.append_receipt, path, result.attrs)
    return await deliver(result, call)


async def to_parts(spec: JobSpec, options: CrawlDfOptions) -> pd.DataFrame:
    """Run a crawl of any size, or continue it, and return its rows without their content.

    Raises
    ------
    InvalidArgument
        An option is not allowed, or `out` has the rows of another call; nothing was sent.
    NotSupported
        The service offers no such crawls; nothing was started.
    JobFailed, JobCancelled, JobTimeout, IncompleteResult
        Rows are missing; those that arrived are in the files.
    """
    max_pages = format_value(options["max_pages"])
    if options["out"] is None:
        raise InvalidArgument(
            f"max_pages must be from 1 to {limits.MAX_PAGES[1]}, or up to "
            f"{limits.EXTENDED_MAX_PAGES[1]} with a folder or URL for the rows as out; "
            f"it is {max_pages}"
        )
    out = arguments.check_dataset_path(options["out"], f"max_pages={max_pages}")
    assert out is not None  # noqa: S101 - None was refused above
    fan_out = FanOutOptions.check(options)
    call = replace(CallOptions.check_without_out(options), cache=False)
    await budget.check([spec], call, fan_out.budget)
    one = Call.of(spec, call)
    async with one.cache.single_flight():
        return await deliver(await _LongCrawl(one, CrawlParts(out), out).result(), call)


class _LongCrawl:
    """One crawl: its job and its files, and the columns without the content of pages."""

    def __init__(self, call: Call, parts: CrawlParts, out: Path | str) -> None:
        self._call, self._parts, self._out = call, parts, out
        spec = call.spec
        names = schemas.frame_columns("crawl", rights="rights" in spec.columns)
        self._columns = [name for name in names if name in spec.columns]

    async def result(self) -> CallResult:
        """Return the rows of the files, after fetching those that are missing.

        The job starts under the key of the manifest, which then has its id, unless an earlier call
        has started it. Its rows are written as they arrive.
        """
        with folder_errors(self._out):
            manifest = await asyncio.to_thread(self._manifest)
        if manifest.receipt is not None:
            table = await asyncio.to_thread(self._parts.read, self._columns)
            return CallResult(table, {**manifest.receipt, "cache": "hit"})
        if self._call.options.settings.offline:
            raise OfflineError(f"offline, and the crawl in {self._out} is not complete")
        started_at, call = datetime.now(UTC), self._call
        is_new = manifest.job_id is None
        if is_new:
            call = await call.with_earlier_crawl()
        first_part = await asyncio.to_thread(self._parts.count)
        async with call.source(
            None,
            as_they_arrive=True,
            job_id=manifest.job_id or "",
            run_id=manifest.idempotency_key,
            first_row=first_part * PART_ROWS,
        ) as source:
            if is_new:
                try:
                    await source.start()
                except NotSupported:
                    await asyncio.to_thread(self._parts.clear)
                    raise
                manifest = replace(manifest, job_id=source.job_id)
                await asyncio.to_thread(self._parts.write_manifest, manifest)
            try:
                await self._write_parts(source, first_part)
            except NotFound as error:
                error.add_note(f"the rows in {self._out} are kept; {_NEW_CRAWL}")
                raise
            result = await asyncio.to_thread(self._ended, source, manifest, started_at)
            if result.outcome is not None:
                source.ended(result.outcome)
        job_error = result.error()
        if isinstance(job_error, JobFailed | JobCancelled) and not is_new:
            job_error.add_note(f"the rows in {self._out} are kept; {_NEW_CRAWL}")
        return result

    def _manifest(self) -> CrawlManifest:
        """Return the manifest of this call; write it where there is none.

        It is written before the first request, which shows that the folder can be written.

        Raises
        ------
        InvalidArgument
            The folder has the rows of another call, or other Parquet files.
        """
        digest, options = self._call.cache.key.digest, self._call.options
        manifest = self._parts.manifest()
        if manifest is None and not self._parts.is_empty():
            raise InvalidArgument(
                f"out has Parquet files of something else: {self._out}; choose another folder"
            )
        if manifest is not None and manifest.digest != digest:
            raise InvalidArgument(
                f"out has the rows of another call: {self._out}; choose another folder, or repeat "
                "that call with the same arguments and the same service"
            )
        if manifest is not None and not options.refresh:
            return manifest
        if options.settings.offline:
            raise OfflineError(f"offline, and there is no crawl in {self._out}")
        self._parts.clear()
        manifest = CrawlManifest(digest, secrets.token_hex(16))
        self._parts.write_manifest(manifest)
        return manifest

    async def _write_parts(self, source: RowSource, first_part: int) -> None:
        """Write full parts, and at last the remaining rows where all of them arrived."""
        number, columns = first_part, list(self._call.spec.columns)
        waiting = rows.concat("crawl", ()).table.select(columns)

        def write(count: int) -> pa.Table:
            attrs = {"kind": "crawl", "job_id": source.job_id, "first_row": number * PART_ROWS}
            self._parts.write(number, waiting.slice(0, count), attrs)
            return waiting.slice(count)

        async with aclosing(source.batches()) as batches:
            async for batch in batches:
                waiting = input_rows.concat_tables([waiting, batch.table.select(columns)])
                while waiting.num_rows >= PART_ROWS:
                    waiting = await asyncio.to_thread(write, PART_ROWS)
                    number += 1
        if waiting.num_rows and source.shortfall is None:
            await asyncio.to_thread(write, PART_ROWS)

    def _ended(
        self, source: RowSource, manifest: CrawlManifest, started_at: datetime
    ) -> CallResult:
        """Return the rows with their receipt; a complete crawl is marked in the manifest."""
        table = self._parts.read(self._columns)
        outcome, total = source.outcome(table), source.total or 0
        if total != table.num_rows:
            outcome = replace(outcome, shortfall=IncompleteResult(total, table.num_rows))
        result = self._call.cache.store(
            CallResult(table, outcome=outcome),
            columns=self._columns,
            request=self._call.spec.public_request,
            started_at=started_at,
        )
        attrs = {**result.attrs, "file": str(self._out)}
        if outcome.complete:
            self._parts.write_manifest(replace(manifest, receipt=attrs))
        return replace(result, attrs=attrs)
