"""Streams the rows of a call as frames, one batch at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb import caller
from webdata_nb.contract import limits
from webdata_nb.errors import (
    AuthError,
    IncompleteResult,
    InvalidRequest,
    JobCancelled,
    LocalServiceError,
    OfflineError,
    WebdataError,
)
from webdata_nb.toolkit.cache.result_cache import CallResult, ResultCache, warn_of_shortcoming
from webdata_nb.toolkit.calls import budget, single_call
from webdata_nb.toolkit.calls.combined_progress import CombinedProgress
from webdata_nb.toolkit.calls.multi_input import MAX_CONCURRENT_INPUTS
from webdata_nb.toolkit.calls.provider_notice import announce_providers
from webdata_nb.toolkit.calls.single_call import TRANSIENT_ERRORS, stale_result
from webdata_nb.toolkit.display.progress_view import UNITS
from webdata_nb.toolkit.frames import frame, input_rows, parquet, receipt, rows
from webdata_nb.toolkit.frames.input_rows import InputRows
from webdata_nb.toolkit.frames.rows import TableBatch
from webdata_nb.toolkit.jobs.progress_scope import show_progress
from webdata_nb.toolkit.recording import cassette
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.call_options import PARTITION_NEEDS, CallOptions, FanOutOptions
from webdata_nb.toolkit.requests.inputs import (
    Input,
    refuse_invalid_inputs,
    representative,
    valid_specs,
)
from webdata_nb.toolkit.requests.job_spec import JobSpec
from webdata_nb.toolkit.stream import Stream, merged
from webdata_nb.toolkit.streams import creatives_listing, job_stream
from webdata_nb.toolkit.streams.job_stream import StreamContext, StreamStats

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

BATCH_ROWS: Final = 20
_SOURCES: Final[Mapping[str, Callable[[StreamContext], AsyncGenerator[TableBatch, None]]]] = {
    "search": job_stream.search,
    "crawl": job_stream.crawl,
    "creatives": creatives_listing.stream,
}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a stream runs; `has_labels` where there are several inputs."""

    call: CallOptions
    fan_out: FanOutOptions
    batch_rows: int
    has_labels: bool
    out: Path | str | None


class FrameStream(Stream["pd.DataFrame"]):
    """The frames of a call with `stream=True`, as they arrive, for `for` and for `async for`.

    Nothing starts before the first frame is requested, and each loop starts anew. Leaving a loop
    early cancels the running jobs. In async code that follows shortly after a `break`;
    `contextlib.aclosing(aiter(stream))` waits for it.

    Attributes
    ----------
    receipt : dict or None
        The receipt of the last loop, as `df.attrs["webdata"]` of a whole call, however the loop
        ended; None before.

    Examples
    --------
    >>> stream = crawl_df(start_url, max_pages=5, stream=True, batch_rows=2, cache=False)
    >>> [len(batch) for batch in stream]
    [2, 2, 1]
    >>> stream.receipt["counts"]["rows"]
    5
    """

    def __init__(self, inputs: Sequence[Input], options: StreamOptions) -> None:
        super().__init__(self._frames)
        self._inputs = inputs
        self._options = options
        self._receipt: dict[str, Any] | None = None

    @property
    def receipt(self) -> dict[str, Any] | None:
        """The receipt of the last loop; None before the end of a loop."""
        return self._receipt

    async def _frames(self) -> AsyncGenerator[pd.DataFrame, None]:
        loop = _StreamLoop(self._inputs, self._options)
        self._receipt = None
        try:
            async with aclosing(loop.frames()) as frames:
                async for batch_frame in frames:
                    yield batch_frame
        finally:
            self._receipt = loop.receipt()


async def open_stream(
    inputs: Sequence[Input],
    options: CallOptions,
    fan_out: FanOutOptions,
    *,
    out: str | Path | None,
    batch_rows: int | None,
) -> FrameStream:
    """Return the stream of a single input without labels, or of all inputs of a list.

    Raises
    ------
    InvalidArgument
        An option that is not allowed, or that has no meaning for a stream; nothing was sent.
    OverBudget
        The inputs may cost more than the call allows.
    """
    arguments.check_requirement("executor", fan_out.executor or fan_out.dask, "stream=False")
    arguments.check_requirement("partition", fan_out.partition, PARTITION_NEEDS)
    size = BATCH_ROWS
    if batch_rows is not None:
        size = arguments.check_integer("batch_rows", batch_rows, minimum=1)
    arguments.check_maximum("batch_rows", size, limits.PER_PAGE[1])
    folder = arguments.check_dataset_path(out)
    if fan_out.on_error == "raise":
        refuse_invalid_inputs(inputs)
    await budget.check(valid_specs(inputs), options, fan_out.budget)
    has_labels = bool(inputs[0].labels)
    return FrameStream(inputs, StreamOptions(options, fan_out, size, has_labels, folder))


class _StreamLoop:
    """One loop over a stream. Crawls run one after the other, other inputs side by side."""

    def __init__(self, inputs: Sequence[Input], options: StreamOptions) -> None:
        self._options = options
        self._call = options.call
        self._cancelled = asyncio.Event()
        self._started_at = datetime.now(UTC)
        self._service = self._call.connection.scope(self._call.settings).service
        self._inputs = [StreamStats(item, self._service) for item in inputs]
        self._op = inputs[0].spec.op

    async def frames(self) -> AsyncGenerator[pd.DataFrame, None]:
        """Yield every frame.

        Raises
        ------
        JobFailed, JobCancelled, JobTimeout, IncompleteResult
            After the last batch, where a job did not succeed. With several inputs and
            `on_error="row"`, it becomes a row instead.
        """
        if len(self._inputs) == 1 or self._op == "crawl":
            for stats in self._inputs:
                async with aclosing(self._frames_of(stats, self._call)) as frames:
                    async for batch_frame in frames:
                        yield batch_frame
            return
        async with aclosing(self._merged_frames()) as frames:
            async for batch_frame in frames:
                yield batch_frame

    async def _merged_frames(self) -> AsyncGenerator[pd.DataFrame, None]:
        """Yield the frames of all inputs as they arrive, under one progress bar."""
        settings = replace(self._call.settings, progress=False)
        input_options = replace(self._call, settings=settings)
        description = f"{self._op} of {len(self._inputs)} inputs"
        unit = UNITS[self._op]
        async with show_progress(
            description, None, self._call, unit=unit, on_cancel=self._cancel
        ) as bar:
            progress = CombinedProgress(bar, [stats.input.spec.total for stats in self._inputs])
            sources = [
                partial(self._frames_in_progress, progress, number, input_options)
                for number in range(len(self._inputs))
            ]
            async with aclosing(merged(sources, MAX_CONCURRENT_INPUTS)) as frames:
                async for batch_frame in frames:
                    yield batch_frame

    async def _frames_in_progress(
        self, progress: CombinedProgress, number: int, options: CallOptions
    ) -> AsyncGenerator[pd.DataFrame, None]:
        stats = self._inputs[number]
        reporting = replace(options, also=partial(progress.update, number))
        async with aclosing(self._frames_of(stats, reporting)) as frames:
            async for batch_frame in frames:
                yield batch_frame
        progress.finish(number, stats.rows if stats.error_message is None else None)

    async def _cancel(self) -> None:
        """Cancel every running job, after a click on Cancel.

        The reader's task is not cancelled: it ends with its jobs.
        """
        self._cancelled.set()
        job_ids = [stats.job_id for stats in self._inputs if stats.has_running_job]
        if job_ids:
            async with self._call.connection.client(self._call.settings) as client:
                await asyncio.gather(*map(client.cancel_quietly, job_ids))

    async def _frames_of(
        self, stats: StreamStats, options: CallOptions
    ) -> AsyncGenerator[pd.DataFrame, None]:
        """Yield the frames of one input; an error becomes a row or ends the loop."""
        if self._cancelled.is_set():
            return
        stats.start()
        try:
            async with aclosing(self._recorded_batches(stats, options)) as batches:
                async for batch in batches:
                    yield await asyncio.to_thread(self._build_frame, stats, batch)
        except WebdataError as error:
            stats.error_message = f"{type(error).__name__}: {error}"
            if self._ends_loop(error):
                raise
            yield self._error_frame(stats)
        finally:
            stats.finish()

    def _ends_loop(self, error: WebdataError) -> bool:
        cancelled = isinstance(error, JobCancelled) and self._cancelled.is_set()
        fatal = cancelled or isinstance(error, AuthError | LocalServiceError)
        return fatal or not self._options.has_labels or self._options.fan_out.on_error == "raise"

    # ------------------------------------------------------------------------ where rows come from

    async def _recorded_batches(
        self, stats: StreamStats, options: CallOptions
    ) -> AsyncGenerator[TableBatch, None]:
        """Yield the rows of a recording, or record the rows, where the settings ask for it."""
        spec = stats.input.spec
        if stats.input.error is not None:
            raise stats.input.error
        if options.settings.replay is not None:
            result = await cassette.replay_call(options.settings.replay, spec)
            for batch in self._split_result(stats, result):
                yield batch
            return
        folder = options.settings.record
        tables: list[pa.Table] = [rows.concat(spec.op, ()).table.select(list(spec.columns))]
        async with aclosing(self._cached_or_fetched_batches(stats, options)) as batches:
            async for batch in batches:
                if folder is not None:
                    tables.append(batch.table)
                yield batch
        complete = stats.outcome is None or stats.outcome.error() is None
        if folder is not None and complete:
            result = CallResult(input_rows.concat_tables(tables), stats.receipt() or {})
            await cassette.record_call(folder, spec, result)

    async def _cached_or_fetched_batches(
        self, stats: StreamStats, options: CallOptions
    ) -> AsyncGenerator[TableBatch, None]:
        spec = stats.input.spec
        cache = ResultCache.of_spec(spec, options)
        known_ids: set[object] = set()
        if spec.only_new:
            earlier = await asyncio.to_thread(cache.newest_snapshot, ("creative_id",))
            if earlier is not None:
                known_ids = set(earlier.table["creative_id"].to_pylist())
        elif spec.since is None:
            cached = await asyncio.to_thread(cache.look_up, spec.columns)
            if cached is not None:
                for batch in self._split_result(stats, cached):
                    yield batch
                return
        try:
            async with aclosing(self._fetch_since(stats, options, cache)) as batches:
                async for batch in batches:
                    selected = TableBatch(batch.table.select(list(spec.columns)), batch.objects)
                    yield _without_creatives(selected, known_ids)
        except TRANSIENT_ERRORS as error:
            if stats.rows:
                raise
            stale = await stale_result(spec, cache, error)
            for batch in self._split_result(stats, stale):
                yield batch

    def _split_result(self, stats: StreamStats, result: CallResult) -> list[TableBatch]:
        """Return the rows of a cached or recorded result in batches."""
        stats.cached_receipt = result.attrs
        size = self._options.batch_rows
        firsts = range(0, result.table.num_rows, size)
        return [TableBatch(result.table.slice(first, size), {}) for first in firsts]

    async def _fetch_since(
        self, stats: StreamStats, options: CallOptions, cache: ResultCache
    ) -> AsyncGenerator[TableBatch, None]:
        """Yield the rows of a job, with the earlier crawl that the call and the service allow."""
        spec = stats.input.spec
        if spec.since is not None and options.settings.offline:
            raise OfflineError("offline mode is on, and since asks the site anew")
        spec = await single_call.with_earlier_crawl(spec, cache)
        try:
            async with aclosing(self._fetch(spec, stats, options, cache)) as batches:
                async for batch in batches:
                    yield batch
        except InvalidRequest as error:  # of the start, before any row
            spec = single_call.without_earlier_crawl(spec, error)
            async with aclosing(self._fetch(spec, stats, options, cache)) as batches:
                async for batch in batches:
                    yield batch

    async def _fetch(
        self, spec: JobSpec, stats: StreamStats, options: CallOptions, cache: ResultCache
    ) -> AsyncGenerator[TableBatch, None]:
        size = self._options.batch_rows
        description = f"{spec.op} {receipt.shorten(spec.subject)}"
        unit = UNITS[spec.op]
        async with (
            cache.claim_job(spec) as claim,
            show_progress(
                description, spec.total, options, unit=unit, on_cancel=self._cancel
            ) as listener,
            options.connection.client(
                options.settings, on_start=listener.starting_service
            ) as client,
        ):
            await announce_providers(client, spec, options, listener)
            listener.update(phase="")
            context = StreamContext(
                client, spec, options, size, listener, stats, self._cancelled, claim
            )
            async with aclosing(_SOURCES[spec.op](context)) as batches:
                async for batch in batches:
                    yield batch
            if stats.outcome is not None:
                stats.outcome = single_call.with_since(stats.outcome, spec)
                line = receipt.summary(stats.outcome_so_far(), listener.elapsed_s)
                listener.ended(stats.outcome.status, line)
        _raise_or_warn(stats, options)

    # ------------------------------------------------------------------------------------- frames

    def _build_frame(self, stats: StreamStats, batch: TableBatch) -> pd.DataFrame:
        options, spec = self._options, stats.input.spec
        cached_receipt = stats.cached_receipt or {}
        attrs = {
            "kind": spec.op,
            "job_id": stats.job_id or cached_receipt.get("job_id"),
            "service": self._service,
            "request": spec.public_request,
            "batch": stats.batches,
            "first_row": stats.rows,
            "cache": cached_receipt.get("cache", "off"),
        }
        table = batch.table
        if options.has_labels:
            part = InputRows(stats.input.labels, table, datetime.now(UTC))
            table = input_rows.stack_inputs(spec.op, spec.columns, [part])
        if options.out is not None:
            parquet.write_part(options.out, stats.partition, stats.batches, table, attrs)
        stats.add_batch(batch.table)
        backend = self._call.dtype_backend
        return frame.build(table, attrs=attrs, dtype_backend=backend, objects=batch.objects)

    def _error_frame(self, stats: StreamStats) -> pd.DataFrame:
        spec = stats.input.spec
        part = InputRows(stats.input.labels, None, datetime.now(UTC), stats.error_message)
        table = input_rows.stack_inputs(spec.op, spec.columns, [part])
        return frame.build(table, dtype_backend=self._call.dtype_backend)

    def receipt(self) -> dict[str, Any] | None:
        """Return the receipt of the rows so far."""
        if not self._options.has_labels:
            return self._inputs[0].receipt()
        return receipt.of_runs(
            self._op,
            [stats.input_run() for stats in self._inputs],
            request=representative([stats.input for stats in self._inputs]).public_request,
            service=self._service,
            rows=sum(stats.rows for stats in self._inputs),
            started_at=self._started_at,
            finished_at=datetime.now(UTC),
        )


def _without_creatives(batch: TableBatch, known_ids: set[object]) -> TableBatch:
    """Omit the creatives of an earlier result."""
    if not known_ids:
        return batch
    is_new = [
        creative_id not in known_ids for creative_id in batch.table["creative_id"].to_pylist()
    ]
    return TableBatch(batch.table.filter(is_new), {})


def _raise_or_warn(stats: StreamStats, options: CallOptions) -> None:
    """Raise or warn where the job did not succeed; its rows were yielded before."""
    error = None if stats.outcome is None else stats.outcome.error()
    if error is None:
        if stats.outcome is not None and stats.rows == 0:
            caller.warn(receipt.empty_result_reason(stats.outcome))
        elif attrs := stats.receipt():
            warn_of_shortcoming(attrs)
        return
    if isinstance(error, JobCancelled) and options.on_cancel == "partial":
        return
    if isinstance(error, IncompleteResult) and options.on_incomplete != "raise":
        if options.on_incomplete == "warn":
            caller.warn(f"incomplete result: {error}")
        return
    raise error
