"""The sink of streams: the rows of a call as frames, one batch at a time."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.errors import (
    AuthError,
    JobCancelled,
    JobTimeout,
    LocalServiceError,
    WebdataError,
)
from webdata_nb.toolkit.cache.result_cache import raise_or_warn
from webdata_nb.toolkit.calls import budget
from webdata_nb.toolkit.calls.lists import MAX_CONCURRENT_INPUTS, CombinedProgress
from webdata_nb.toolkit.calls.pipeline import TRANSIENT_ERRORS, Call
from webdata_nb.toolkit.display.bars import UNITS, View
from webdata_nb.toolkit.frames import frame, input_rows, receipt, rows, storage
from webdata_nb.toolkit.frames.input_rows import InputRows
from webdata_nb.toolkit.frames.receipt import InputRun
from webdata_nb.toolkit.frames.rows import CallResult, JobOutcome
from webdata_nb.toolkit.jobs.sources import RowSource, show_progress
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.arguments import PARTITION_NEEDS, CallOptions, FanOutOptions
from webdata_nb.toolkit.requests.inputs import (
    Input,
    refuse_invalid_inputs,
    representative,
    valid_specs,
)
from webdata_nb.toolkit.stream import Stream, merged

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

BATCH_ROWS: Final = 20


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a stream runs; `has_labels` where there are several inputs."""

    call: CallOptions
    fan_out: FanOutOptions
    batch_rows: int
    has_labels: bool
    out: Path | str | None


class StreamStats:
    """The state of one input of a stream.

    Attributes
    ----------
    outcome : JobOutcome or None
        How the job ended, as the service reports it.
    cached_receipt : dict or None
        The receipt of a cached or recorded result, which is this input's as well.
    error_message : str or None
        Why the input failed, where it is one of several.
    source : RowSource or None
        Where its rows come from; None where the cache or a recording has them.
    """

    def __init__(self, request_input: Input, service: str) -> None:
        self.input = request_input
        self.outcome: JobOutcome | None = None
        self.cached_receipt: dict[str, Any] | None = None
        self.error_message: str | None = None
        self.source: RowSource | None = None
        self._job_left_running = False
        self.rows: int = 0
        self.batches: int = 0
        self._failed_rows = 0
        self._service = service
        self._started_at: datetime | None = None
        self._finished_at: datetime | None = None
        self._extraction: dict[str, Any] = {}
        self._listing_name = f"{request_input.spec.op}-{secrets.token_hex(6)}"

    @property
    def job_id(self) -> str:
        """The job at the service; empty before its start."""
        return "" if self.source is None else self.source.job_id

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

    def fail(self, error: WebdataError) -> None:
        """Note the error that ended the input; after a timeout, its job continues."""
        self.error_message = f"{type(error).__name__}: {error}"
        self._job_left_running = isinstance(error, JobTimeout) and self.outcome is None

    def add_batch(self, table: pa.Table) -> None:
        """Count a batch that is about to be yielded."""
        self.rows += table.num_rows
        self.batches += 1
        self._failed_rows += receipt.count_failed_rows(table)
        self._extraction = receipt.summed_extractions(
            self._extraction, receipt.extractions_of_table(table)
        )

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
        status = JobStatus.RUNNING if self._job_left_running else unfinished
        job_id = self.job_id or None
        return JobOutcome(spec.op, spec.subject, status.value, job_id, total=None, **counts)

    def input_run(self) -> InputRun:
        """Return the entry of this input in the receipt of several inputs."""
        return InputRun(dict(self.input.labels), self.receipt(), self.error_message)


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
    >>> stream = crawl_df(start_url, max_pages=5, stream=2, cache=False)
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
    batch_rows: int,
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
    folder = arguments.check_dataset_path(out)
    if fan_out.on_error == "raise":
        refuse_invalid_inputs(inputs)
    await budget.check(valid_specs(inputs), options, fan_out.budget)
    has_labels = bool(inputs[0].labels)
    return FrameStream(inputs, StreamOptions(options, fan_out, batch_rows, has_labels, folder))


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
        settings = replace(self._call.settings, progress=False)
        input_options = replace(self._call, settings=settings)
        view = View(f"{self._op} of {len(self._inputs)} inputs", None, unit=UNITS[self._op])
        async with show_progress(view, self._call, on_cancel=self._cancel) as bar:
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
        sources = [stats.source for stats in self._inputs if stats.source is not None]
        await asyncio.gather(*(source.cancel() for source in sources))

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
            stats.fail(error)
            is_cancelled = isinstance(error, JobCancelled) and self._cancelled.is_set()
            is_fatal = is_cancelled or isinstance(error, AuthError | LocalServiceError)
            ends_loop = not self._options.has_labels or self._options.fan_out.on_error == "raise"
            if is_fatal or ends_loop:
                raise
            spec = stats.input.spec
            part = InputRows(stats.input.labels, None, datetime.now(UTC), stats.error_message)
            table = input_rows.stack_inputs(spec.op, spec.columns, [part])
            yield frame.build(table, dtype_backend=self._call.dtype_backend)
        finally:
            stats.finish()

    # ------------------------------------------------------------------------ where rows come from

    async def _recorded_batches(
        self, stats: StreamStats, options: CallOptions
    ) -> AsyncGenerator[CallResult, None]:
        """Yield the rows of a recording, or record the rows, where the settings ask for it."""
        if stats.input.error is not None:
            raise stats.input.error
        call = Call.of(stats.input.spec, options)
        replayed = await call.replayed()
        if replayed is not None:
            for batch in self._split_result(stats, replayed):
                yield batch
            return
        spec = call.spec
        tables: list[pa.Table] = [rows.concat(spec.op, ()).table.select(list(spec.columns))]
        async with aclosing(self._cached_or_fetched_batches(stats, call)) as batches:
            async for batch in batches:
                if options.settings.record is not None:
                    tables.append(batch.table)
                yield batch
        if options.settings.record is not None:
            table = input_rows.concat_tables(tables)
            await call.record(CallResult(table, stats.receipt() or {}, outcome=stats.outcome))

    async def _cached_or_fetched_batches(
        self, stats: StreamStats, call: Call
    ) -> AsyncGenerator[CallResult, None]:
        earlier = await call.earlier_listing()
        known_ids = set() if earlier is None else earlier.creative_ids
        cached = await call.cached()
        if cached is not None:
            for batch in self._split_result(stats, cached):
                yield batch
            return
        try:
            async with aclosing(self._fetch(stats, await call.with_earlier_crawl())) as batches:
                async for batch in batches:
                    table = batch.table.select(list(call.spec.columns))
                    yield replace(batch, table=table).without_creatives(known_ids)
        except TRANSIENT_ERRORS as error:
            if stats.rows:
                raise
            for batch in self._split_result(stats, await call.stale(error)):
                yield batch

    def _split_result(self, stats: StreamStats, result: CallResult) -> list[CallResult]:
        """Return the rows of a cached or recorded result in batches."""
        stats.cached_receipt = result.attrs
        size = self._options.batch_rows
        firsts = range(0, result.table.num_rows, size)
        return [CallResult(result.table.slice(first, size)) for first in firsts]

    async def _fetch(self, stats: StreamStats, call: Call) -> AsyncGenerator[CallResult, None]:
        """Yield the rows of a job or a listing as they arrive."""
        async with (
            call.cache.claim_job(call.spec) as claim,
            call.source(
                claim,
                on_cancel=self._cancel,
                batch_rows=self._options.batch_rows,
                as_they_arrive=True,
                cancelled=self._cancelled,
            ) as source,
        ):
            stats.source = source
            async with aclosing(source.batches()) as batches:
                async for batch in batches:
                    yield batch
            # The rows were given away: their counts are those of the batches.
            stats.outcome = source.outcome(rows.concat(call.spec.op, ()).table)
            source.ended(stats.outcome_so_far())
        # The rows of a job that did not succeed were yielded before.
        raise_or_warn(stats.outcome_so_far(), stats.receipt() or {}, call.options)

    # ------------------------------------------------------------------------------------- frames

    def _build_frame(self, stats: StreamStats, batch: CallResult) -> pd.DataFrame:
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
            storage.write_part(options.out, stats.partition, stats.batches, table, attrs)
        stats.add_batch(batch.table)
        backend = self._call.dtype_backend
        return frame.build(table, attrs=attrs, dtype_backend=backend, objects=batch.objects)

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
