"""Runs crawls that write to files: their rows to Parquet parts, or their responses to a WARC file.

Parts are written as rows arrive. They and their manifest are all that has to survive: the same call
finds the job by its idempotency key or its id, and reads the rows that no file has yet.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.contract import limits
from webdata_nb.contract.events import Progress
from webdata_nb.contract.replies import CrawlStatus, StartReply
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
from webdata_nb.toolkit.cache.result_cache import CallResult, ResultCache, deliver
from webdata_nb.toolkit.calls import budget, single_call
from webdata_nb.toolkit.client import job_wait
from webdata_nb.toolkit.client.client import Client
from webdata_nb.toolkit.display.progress import Listener
from webdata_nb.toolkit.display.progress_view import UNITS
from webdata_nb.toolkit.frames import receipt, rows, schemas, warc
from webdata_nb.toolkit.frames.parquet import CrawlManifest, CrawlParts
from webdata_nb.toolkit.frames.rows import TableBatch
from webdata_nb.toolkit.frames.storage import folder_errors
from webdata_nb.toolkit.jobs import runner
from webdata_nb.toolkit.jobs.progress_scope import show_progress
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.call_options import CallOptions, FanOutOptions, within
from webdata_nb.toolkit.requests.job_spec import JobSpec
from webdata_nb.toolkit.requests.options import CrawlDfOptions

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

# Rows of one file, and of one request: a request takes memory as bytes, objects and columns.
PART_ROWS: Final = 500
PAGE_ROWS: Final = 50
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
    result = await single_call.fetch_result(spec, call)
    if result.complete and result.error() is None:
        await asyncio.to_thread(warc.append_receipt, path, result.attrs)
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
    cache = ResultCache.of_spec(spec, call)
    async with cache.single_flight():
        crawl = _LongCrawl(spec, call, cache, CrawlParts(out), out)
        return await deliver(await crawl.result(), call)


class _LongCrawl:
    """One crawl: its job and its files, and the columns without the content of pages."""

    def __init__(
        self,
        spec: JobSpec,
        options: CallOptions,
        cache: ResultCache,
        parts: CrawlParts,
        out: Path | str,
    ) -> None:
        self._spec, self._options, self._cache = spec, options, cache
        self._parts, self._out = parts, out
        names = schemas.frame_columns("crawl", rights="rights" in spec.columns)
        self._columns = [name for name in names if name in spec.columns]

    async def result(self) -> CallResult:
        """Return the rows of the files, after fetching those that are missing."""
        with folder_errors(self._out):
            manifest = await asyncio.to_thread(self._manifest)
        if manifest.receipt is not None:
            return await asyncio.to_thread(self._finished, manifest.receipt)
        if self._options.settings.offline:
            raise OfflineError(f"offline, and the crawl in {self._out} is not complete")
        return await self._fetch(manifest)

    def _manifest(self) -> CrawlManifest:
        """Return the manifest of this call; write it where there is none.

        It is written before the first request, which shows that the folder can be written.

        Raises
        ------
        InvalidArgument
            The folder has the rows of another call, or other Parquet files.
        """
        digest = self._cache.key.digest
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
        if manifest is not None and not self._options.refresh:
            return manifest
        if self._options.settings.offline:
            raise OfflineError(f"offline, and there is no crawl in {self._out}")
        self._parts.clear()
        manifest = CrawlManifest(digest, secrets.token_hex(16))
        self._parts.write_manifest(manifest)
        return manifest

    def _finished(self, attrs: Mapping[str, Any]) -> CallResult:
        return CallResult(self._parts.read(self._columns), {**attrs, "cache": "hit"})

    async def _fetch(self, manifest: CrawlManifest) -> CallResult:
        spec, options, started_at = self._spec, self._options, datetime.now(UTC)
        description = f"{spec.op} {receipt.shorten(spec.subject)}"
        async with show_progress(description, spec.total, options, unit=UNITS[spec.op]) as listener:
            connected = options.connection.client(
                options.settings, seen_s=options.seen_s, on_start=listener.starting_service
            )
            async with connected as client:
                job_id = manifest.job_id
                is_new = job_id is None
                if job_id is None:
                    job_id = await self._start(client, manifest)
                status = await self._follow(client, job_id, listener)
            result = await asyncio.to_thread(self._ended, status, manifest, started_at)
            if result.outcome is not None:
                line = receipt.summary(result.outcome, listener.elapsed_s)
                listener.ended(result.outcome.status, line)
        error = result.error()
        if isinstance(error, JobFailed | JobCancelled) and not is_new:
            error.add_note(f"the rows in {self._out} are kept; {_NEW_CRAWL}")
        return result

    async def _start(self, client: Client, manifest: CrawlManifest) -> str:
        async def start(spec: JobSpec) -> StartReply:
            key = spec.idempotency_key(manifest.idempotency_key)
            return await runner.start(client, spec, idempotency_key=key)

        try:
            spec, reply = await within(
                self._options.timeout_s, single_call.start_since(self._spec, self._cache, start)
            )
        except NotSupported:
            await asyncio.to_thread(self._parts.clear)
            raise
        self._spec = spec
        started = replace(manifest, job_id=reply.job_id)
        await asyncio.to_thread(self._parts.write_manifest, started)
        return reply.job_id

    async def _follow(self, client: Client, job_id: str, listener: Listener) -> CrawlStatus:
        """Write the rows until the job has ended and all of them are in files."""
        listener.job_id = job_id
        listener.update(phase="")
        first = await asyncio.to_thread(self._parts.count)
        writer = _PartWriter(client, job_id, self._parts, self._spec, first)

        def report(progress: Progress) -> None:
            listener.report(progress)
            writer.published(progress.completed)

        try:
            async with writer.running():
                await job_wait.wait(
                    client, "crawl", job_id, report=report, deadline_s=self._options.timeout_s
                )
        except NotFound as error:
            error.add_note(f"the rows in {self._out} are kept; {_NEW_CRAWL}")
            raise
        status = await client.crawl_state(job_id)
        await writer.finish(status.total_results)
        return status

    def _ended(
        self, status: CrawlStatus, manifest: CrawlManifest, started_at: datetime
    ) -> CallResult:
        """Return the rows with their receipt; a complete crawl is marked in the manifest."""
        table = self._parts.read(self._columns)
        outcome = receipt.of_crawl(status, table, url=self._spec.subject)
        outcome = single_call.with_since(outcome, self._spec)
        missing = status.total_results - table.num_rows
        if missing:
            shortfall = IncompleteResult(status.total_results, table.num_rows)
            outcome = replace(outcome, shortfall=shortfall)
        result = self._cache.store(
            CallResult.from_batch(TableBatch(table, {}), outcome),
            columns=self._columns,
            request=self._spec.public_request,
            started_at=started_at,
        )
        attrs = {**result.attrs, "file": str(self._out)}
        if outcome.complete:
            done = replace(manifest, job_id=status.job_id, receipt=attrs)
            self._parts.write_manifest(done)
        return replace(result, attrs=attrs)


class _PartWriter:
    """Writes the rows of a running job to files of `PART_ROWS` rows."""

    def __init__(
        self, client: Client, job_id: str, parts: CrawlParts, spec: JobSpec, first: int
    ) -> None:
        self._client, self._job_id, self._parts, self._spec = client, job_id, parts, spec
        self._next_part, self._published = first, 0
        self._progressed = asyncio.Event()
        self._is_over = False

    def published(self, count: int) -> None:
        """Note how many rows the service has."""
        self._published = max(self._published, count)
        self._progressed.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write files while the block runs; raises what writing them raises."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._write_full_parts())
                try:
                    yield
                finally:
                    self._is_over = True
                    self._progressed.set()
        except* Exception as failures:  # noqa: BLE001 - one failure of one call, raised bare
            raise failures.exceptions[0] from None

    async def finish(self, total: int) -> None:
        """Write the remaining rows."""
        while self._next_part * PART_ROWS < total:
            await self._write_part(min(PART_ROWS, total - self._next_part * PART_ROWS))

    async def _write_full_parts(self) -> None:
        while not self._is_over:
            await self._progressed.wait()
            self._progressed.clear()
            while self._published >= (self._next_part + 1) * PART_ROWS and not self._is_over:
                await self._write_part(PART_ROWS)

    async def _write_part(self, count: int) -> None:
        number, batches = self._next_part, list[TableBatch]()
        first_page = number * PART_ROWS // PAGE_ROWS + 1
        pages = -(-count // PAGE_ROWS)
        for page in range(first_page, first_page + pages):
            reply = await self._client.crawl_status(self._job_id, page=page, per_page=PAGE_ROWS)
            batches.append(await asyncio.to_thread(rows.trimmed_batch, "crawl", reply.data))
        row_count = sum(batch.table.num_rows for batch in batches)
        if row_count != count:
            raise IncompleteResult(number * PART_ROWS + count, number * PART_ROWS + row_count)
        attrs = {"kind": "crawl", "job_id": self._job_id, "first_row": number * PART_ROWS}
        await asyncio.to_thread(self._write, number, batches, attrs)
        self._next_part += 1

    def _write(self, number: int, batches: list[TableBatch], attrs: Mapping[str, Any]) -> None:
        table: pa.Table = rows.concat("crawl", batches).table.select(list(self._spec.columns))
        self._parts.write(number, table, attrs)
