"""Rows in batches while they arrive: a frame at a time, and no more in memory."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.cache.result import Result, warn_of
from webdata_nb.cache.result_cache import ResultCache
from webdata_nb.calls import budget
from webdata_nb.calls.cached_call import PASSING, stale
from webdata_nb.calls.combined_progress import CombinedProgress
from webdata_nb.calls.multi_input import MAX_CONCURRENT_INPUTS
from webdata_nb.contract import limits
from webdata_nb.display.progress_view import UNITS
from webdata_nb.errors import (
    AuthError,
    IncompleteResult,
    JobCancelled,
    LocalServiceError,
    WebdataError,
)
from webdata_nb.frames import dataset, frame, receipt, rows, stacked
from webdata_nb.frames.rows import Batch
from webdata_nb.frames.stacked import Part
from webdata_nb.jobs.progress_scope import shown
from webdata_nb.recording import cassette
from webdata_nb.requests import arguments
from webdata_nb.requests.call_options import CallOptions, FanOutOptions
from webdata_nb.requests.inputs import Input
from webdata_nb.requests.job_spec import JobSpec
from webdata_nb.stream import Stream, merged
from webdata_nb.streams import creatives_listing, job_stream
from webdata_nb.streams.job_stream import Flow
from webdata_nb.streams.stream_stats import StreamStats

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

BATCH_ROWS: Final = 20
_LIVE: Final[Mapping[str, Callable[[Flow], AsyncGenerator[Batch, None]]]] = {
    "search": job_stream.search,
    "crawl": job_stream.crawl,
    "creatives": creatives_listing.stream,
}


@dataclass(frozen=True, slots=True)
class Streaming:
    """How a stream is carried out: `labelled` where there are several inputs."""

    call: CallOptions
    fan_out: FanOutOptions
    size: int
    labelled: bool
    target: Path | str | None


class FrameStream(Stream["pd.DataFrame"]):
    """The frames of a call with `stream=True`, as they arrive, for `for` and for `async for`.

    Nothing begins before the first frame is asked for, and each loop begins anew. Leaving a loop
    early cancels what runs. In async code that follows shortly after a `break`;
    `contextlib.aclosing(aiter(stream))` waits for it.

    Attributes
    ----------
    receipt : dict or None
        What `df.attrs["webdata"]` tells of a whole call, as it was when the last loop ended,
        however that was; None before.

    Examples
    --------
    >>> stream = crawl_df(start_url, max_pages=5, stream=True, batch_rows=2, cache=False)
    >>> [len(batch) for batch in stream]
    [2, 2, 1]
    >>> stream.receipt["counts"]["rows"]
    5
    """

    def __init__(self, inputs: Sequence[Input], streaming: Streaming) -> None:
        super().__init__(self._frames)
        self._inputs = inputs
        self._streaming = streaming
        self._receipt: dict[str, Any] | None = None

    @property
    def receipt(self) -> dict[str, Any] | None:
        """What `df.attrs["webdata"]` tells of a whole call; None before the end of a loop."""
        return self._receipt

    async def _frames(self) -> AsyncGenerator[pd.DataFrame, None]:
        reading = _Reading(self._inputs, self._streaming)
        self._receipt = None
        try:
            async with aclosing(reading.frames()) as frames:
                async for framed in frames:
                    yield framed
        finally:
            self._receipt = reading.receipt()


async def streamed(
    inputs: Sequence[Input],
    call: CallOptions,
    fan_out: FanOutOptions,
    *,
    out: str | Path | None,
    size: int | None,
) -> FrameStream:
    """Return the stream of a single input without labels, or of all inputs of a list.

    Raises
    ------
    InvalidArgument
        An option that is not allowed, or that has no meaning for a stream; nothing was sent.
    OverBudget
        The inputs may cost more than the call allows.
    """
    arguments.only_with("executor", fan_out.executor, "stream=False")
    most = BATCH_ROWS if size is None else arguments.whole("batch_rows", size, least=1)
    arguments.at_most("batch_rows", most, limits.PER_PAGE[1])
    target = arguments.folder_path(out)
    await budget.check([each.spec for each in inputs], call, fan_out.budget)
    labelled = bool(inputs[0].labels)
    return FrameStream(inputs, Streaming(call, fan_out, most, labelled, target))


class _Reading:
    """One loop over a stream.

    Crawls come one after the other, since each is long; the rest side by side.
    """

    def __init__(self, inputs: Sequence[Input], streaming: Streaming) -> None:
        self._streaming = streaming
        self._call = streaming.call
        self._halt = asyncio.Event()
        self._began = datetime.now(UTC)
        service = self._call.connection.scope(self._call.settings).service
        self._service = service
        self._tallies = [StreamStats(each, service) for each in inputs]
        self._op = inputs[0].spec.op

    async def frames(self) -> AsyncGenerator[pd.DataFrame, None]:
        """Give every frame.

        Raises
        ------
        JobFailed, JobCancelled, JobTimeout, IncompleteResult
            After the last batch: how a job ended. With several inputs and `on_error="row"` it is
            a row of its own instead.
        """
        if len(self._tallies) == 1 or self._op == "crawl":
            for tally in self._tallies:
                async with aclosing(self._of_input(tally, self._call)) as frames:
                    async for framed in frames:
                        yield framed
            return
        settings = replace(self._call.settings, progress=False)
        quiet = replace(self._call, settings=settings)
        what = f"{self._op} of {len(self._tallies)} inputs"
        unit = UNITS[self._op]
        async with shown(what, None, self._call, unit=unit, instead=self._stop) as listener:
            overview = CombinedProgress(
                listener, [tally.each.spec.total for tally in self._tallies]
            )
            sources = [
                partial(self._overseen, overview, number, quiet)
                for number in range(len(self._tallies))
            ]
            async with aclosing(merged(sources, MAX_CONCURRENT_INPUTS)) as frames:
                async for framed in frames:
                    yield framed

    async def _overseen(
        self, overview: CombinedProgress, number: int, call: CallOptions
    ) -> AsyncGenerator[pd.DataFrame, None]:
        tally = self._tallies[number]
        seen = replace(call, also=partial(overview.seen, number))
        async with aclosing(self._of_input(tally, seen)) as frames:
            async for framed in frames:
                yield framed
        overview.ended(number, tally.rows if tally.error is None else None)

    async def _stop(self) -> None:
        """Do what a click on Cancel is for.

        The task may be the reader's own: it is told by the jobs' ends, not by a cancellation.
        """
        self._halt.set()
        ids = [tally.job_id for tally in self._tallies if tally.under_way]
        if ids:
            async with self._call.connection.client(self._call.settings) as client:
                await asyncio.gather(*map(client.cancel_quietly, ids))

    async def _of_input(
        self, tally: StreamStats, call: CallOptions
    ) -> AsyncGenerator[pd.DataFrame, None]:
        if self._halt.is_set():
            return
        tally.begin()
        try:
            async with aclosing(self._recorded(tally, call)) as parts:
                async for part in parts:
                    yield await asyncio.to_thread(self._framed, tally, part)
        except WebdataError as error:
            tally.error = f"{type(error).__name__}: {error}"
            if self._ends_all(error):
                raise
            yield self._failed(tally)
        finally:
            tally.end()

    def _ends_all(self, error: WebdataError) -> bool:
        stopped = isinstance(error, JobCancelled) and self._halt.is_set()
        fatal = stopped or isinstance(error, AuthError | LocalServiceError)
        return fatal or not self._streaming.labelled or self._streaming.fan_out.on_error == "raise"

    # ----------------------------------------------------------------------------- where rows are

    async def _recorded(self, tally: StreamStats, call: CallOptions) -> AsyncGenerator[Batch, None]:
        """Give the rows, from a recording or into one where there is one."""
        spec = tally.each.spec
        asked = cassette.recording_key(spec.op, spec.params(local=True))
        if (folder := call.settings.replay) is not None:
            played = await asyncio.to_thread(
                cassette.get, folder, asked, spec.subject, spec.columns
            )
            for part in self._of_result(tally, Result.played(*played)):
                yield part
            return
        folder = call.settings.record
        taped: list[pa.Table] = [_empty(spec)]
        async with aclosing(self._known_or_asked(tally, call)) as parts:
            async for part in parts:
                if folder is not None:
                    taped.append(part.table)
                yield part
        whole = tally.ended is None or tally.ended.trouble() is None
        if folder is not None and whole:
            table = stacked.concat(taped)
            told = tally.attrs() or {}
            await asyncio.to_thread(cassette.put, folder, asked, spec.subject, table, told)

    async def _known_or_asked(
        self, tally: StreamStats, call: CallOptions
    ) -> AsyncGenerator[Batch, None]:
        """Give the rows that the cache has, or what the service says."""
        spec = tally.each.spec
        memory = ResultCache.of_spec(spec, call)
        known: set[object] = set()
        if spec.only_new:
            before = await asyncio.to_thread(memory.last, ("creative_id",))
            known = set() if before is None else set(before.table["creative_id"].to_pylist())
        elif (found := await asyncio.to_thread(memory.find, spec.columns)) is not None:
            for part in self._of_result(tally, Result.kept(found)):
                yield part
            return
        try:
            async with aclosing(self._asked(tally, call)) as parts:
                async for part in parts:
                    yield _without(_selected(part, spec), known)
        except PASSING as error:
            if tally.rows:
                raise
            result = await stale(spec, memory, error)
            for part in self._of_result(tally, result):
                yield part

    def _of_result(self, tally: StreamStats, result: Result) -> list[Batch]:
        tally.kept = result.attrs
        return self._slices(result.table)

    def _slices(self, table: pa.Table) -> list[Batch]:
        firsts = range(0, table.num_rows, self._streaming.size)
        return [Batch(table.slice(first, self._streaming.size), {}) for first in firsts]

    async def _asked(self, tally: StreamStats, call: CallOptions) -> AsyncGenerator[Batch, None]:
        spec = tally.each.spec
        what = f"{spec.op} {receipt.shorten(spec.subject)}"
        async with (
            shown(what, spec.total, call, unit=UNITS[spec.op], instead=self._stop) as listener,
            call.connection.client(call.settings) as client,
        ):
            size = self._streaming.size
            made = _LIVE[spec.op](Flow(client, spec, call, size, listener, tally, self._halt))
            async with aclosing(made) as parts:
                async for part in parts:
                    yield part
            if tally.ended is not None:
                listener.ended(tally.ended.outcome.status)
        _judge(tally, call)

    # ------------------------------------------------------------------------------- what is made

    def _framed(self, tally: StreamStats, part: Batch) -> pd.DataFrame:
        streaming, spec = self._streaming, tally.each.spec
        attrs = {
            "kind": spec.op,
            "job_id": tally.job_id or (tally.kept or {}).get("job_id"),
            "service": self._service,
            "request": spec.public,
            "batch": tally.batches,
            "first_row": tally.rows,
            "cache": (tally.kept or {}).get("cache", "off"),
        }
        table = part.table
        if streaming.labelled:
            labelled = Part(tally.each.labels, table, datetime.now(UTC))
            table = stacked.stack(spec.op, spec.columns, [labelled])
        if streaming.target is not None:
            name, number = tally.partition, tally.batches
            dataset.write_part(streaming.target, name, number, table, attrs)
        tally.add(part.table)
        backend = self._call.dtype_backend
        return frame.build(table, attrs=attrs, dtype_backend=backend, objects=part.objects)

    def _failed(self, tally: StreamStats) -> pd.DataFrame:
        spec = tally.each.spec
        words = Part(tally.each.labels, None, datetime.now(UTC), tally.error)
        table = stacked.stack(spec.op, spec.columns, [words])
        return frame.build(table, dtype_backend=self._call.dtype_backend)

    def receipt(self) -> dict[str, Any] | None:
        """Return the receipt of what was read."""
        if not self._streaming.labelled:
            return self._tallies[0].attrs()
        return receipt.of_runs(
            self._op,
            [tally.run() for tally in self._tallies],
            request=self._tallies[0].each.spec.public,
            service=self._service,
            rows=sum(tally.rows for tally in self._tallies),
            started_at=self._began,
            finished_at=datetime.now(UTC),
        )


def _selected(part: Batch, spec: JobSpec) -> Batch:
    return Batch(part.table.select(list(spec.columns)), part.objects)


def _empty(spec: JobSpec) -> pa.Table:
    return rows.joined(spec.op, ()).table.select(list(spec.columns))


def _without(part: Batch, known: set[object]) -> Batch:
    """Leave out the creatives that an earlier answer had."""
    if not known:
        return part
    kept = [each not in known for each in part.table["creative_id"].to_pylist()]
    return Batch(part.table.filter(kept), {})


def _judge(tally: StreamStats, call: CallOptions) -> None:
    """Raise or warn where the job did not end well; its rows were handed over."""
    if tally.ended is None or (trouble := tally.ended.trouble()) is None:
        if tally.ended is not None and tally.rows == 0:
            warnings.warn(receipt.empty_result_reason(tally.ended.outcome), stacklevel=2)
        elif told := tally.attrs():
            warn_of(told)
        return
    if isinstance(trouble, JobCancelled) and call.on_cancel == "partial":
        return
    if isinstance(trouble, IncompleteResult) and call.on_incomplete != "raise":
        if call.on_incomplete == "warn":
            warnings.warn(f"incomplete result: {trouble}", stacklevel=2)
        return
    raise trouble
