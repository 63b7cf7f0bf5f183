"""Types the functions that return a frame, or with `stream=True` a stream of frames."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, Unpack, overload

from webdata_nb.contract.limits import PER_PAGE
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.calls import budget, lists, partitions, pipeline
from webdata_nb.toolkit.calls.frame_stream import BATCH_ROWS, FrameStream, open_stream
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.call_options import CallOptions, FanOutOptions
from webdata_nb.toolkit.requests.inputs import valid_specs
from webdata_nb.toolkit.requests.options import (
    CallArguments,
    CrawlDfOptions,
    CreativesDfOptions,
    OnIncomplete,
    SearchDfOptions,
    TableOptions,
)

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from dask.dataframe import DataFrame as DaskFrame

    from webdata_nb.toolkit.requests.inputs import Input

FrameT_co = TypeVar("FrameT_co", covariant=True)
StreamT_co = TypeVar("StreamT_co", covariant=True)
LazyT_co = TypeVar("LazyT_co", covariant=True)


async def frame_or_stream(
    inputs: Sequence[Input],
    options: TableOptions,
    *,
    stream: bool | int,
    lazy: bool = False,
) -> pd.DataFrame | DaskFrame | FrameStream:
    """Return the frame of a call's inputs, lazy or not, or the stream of its batches."""
    fan_out = FanOutOptions.check(options)
    batch_rows = _batch_rows(stream)
    if arguments.check_flag("lazy", lazy) or fan_out.dask is not None:
        if batch_rows is not None:
            raise InvalidArgument("stream=True runs its inputs here: without Dask and lazy=True")
        on_incomplete = options["on_incomplete"]
        return await run_partitions(inputs, options, fan_out, on_incomplete, lazy=lazy)
    if batch_rows is None:
        call = CallOptions.check(options, options["on_incomplete"])
        if fan_out.budget is not None:
            await budget.check(valid_specs(inputs), call, fan_out.budget)
        if inputs[0].labels:
            return await lists.run(inputs, call, fan_out)
        return await pipeline.run(inputs[0].spec, call)
    stream_options: TableOptions = {**options, "out": None}
    call = CallOptions.check(stream_options, options["on_incomplete"])
    return await open_stream(inputs, call, fan_out, out=options["out"], batch_rows=batch_rows)


def _batch_rows(stream: object) -> int | None:
    """Return the rows of each frame of a stream; None without one."""
    if isinstance(stream, bool):
        return BATCH_ROWS if stream else None
    try:
        rows = arguments.check_integer("stream", stream, minimum=1)
        arguments.check_maximum("stream", rows, PER_PAGE[1])
    except InvalidArgument:
        raise InvalidArgument(
            f"stream must be True, False or the rows of each frame, 1 to {PER_PAGE[1]}; it is "
            f"{format_value(stream)}"
        ) from None
    return rows


async def run_partitions(
    inputs: Sequence[Input],
    options: CallArguments,
    fan_out: FanOutOptions,
    on_incomplete: OnIncomplete = "raise",
    *,
    lazy: bool = False,
) -> pd.DataFrame | DaskFrame:
    """Return the frame of a call in partitions, on a Dask cluster or here."""
    cause = "lazy=True" if lazy else "a Dask executor"
    if fan_out.executor is not None:
        raise InvalidArgument("with lazy=True, executor must be a Dask client, 'dask' or None")
    out = arguments.check_dataset_path(options.get("out"), cause)
    if out is None:
        raise InvalidArgument(f"{cause} needs out=: a directory or fsspec URL for the parts")
    call_arguments: CallArguments = {**options, "out": None}
    call = CallOptions.check(call_arguments, on_incomplete)
    return await partitions.run(inputs, call, fan_out, out=out, lazy=lazy)


class SearchFunction(Protocol[FrameT_co, StreamT_co, LazyT_co]):
    """The type of `search_df` and its other forms."""

    @overload
    def __call__(
        self,
        query: str | Sequence[str],
        *,
        stream: Literal[False] = False,
        lazy: Literal[False] = False,
        **options: Unpack[SearchDfOptions],
    ) -> FrameT_co: ...

    @overload
    def __call__(
        self,
        query: str | Sequence[str],
        *,
        stream: Literal[True] | int,
        lazy: Literal[False] = False,
        **options: Unpack[SearchDfOptions],
    ) -> StreamT_co: ...

    @overload
    def __call__(
        self,
        query: str | Sequence[str],
        *,
        stream: Literal[False] = False,
        lazy: Literal[True],
        **options: Unpack[SearchDfOptions],
    ) -> LazyT_co: ...


class CrawlFunction(Protocol[FrameT_co, StreamT_co, LazyT_co]):
    """The type of `crawl_df` and its other forms."""

    @overload
    def __call__(
        self,
        url: str | Path | Sequence[str | Path],
        *,
        stream: Literal[False] = False,
        lazy: Literal[False] = False,
        **options: Unpack[CrawlDfOptions],
    ) -> FrameT_co: ...

    @overload
    def __call__(
        self,
        url: str | Path | Sequence[str | Path],
        *,
        stream: Literal[True] | int,
        lazy: Literal[False] = False,
        **options: Unpack[CrawlDfOptions],
    ) -> StreamT_co: ...

    @overload
    def __call__(
        self,
        url: str | Path | Sequence[str | Path],
        *,
        stream: Literal[False] = False,
        lazy: Literal[True],
        **options: Unpack[CrawlDfOptions],
    ) -> LazyT_co: ...


class CreativesFunction(Protocol[FrameT_co, StreamT_co]):
    """The type of `creatives_df` and its other forms."""

    @overload
    def __call__(
        self,
        advertiser: str | Sequence[str],
        *,
        stream: Literal[False] = False,
        **options: Unpack[CreativesDfOptions],
    ) -> FrameT_co: ...

    @overload
    def __call__(
        self,
        advertiser: str | Sequence[str],
        *,
        stream: Literal[True],
        **options: Unpack[CreativesDfOptions],
    ) -> StreamT_co: ...


if TYPE_CHECKING:
    AsyncFrame: TypeAlias = Coroutine[Any, Any, pd.DataFrame]
    AsyncStream: TypeAlias = Coroutine[Any, Any, FrameStream]
    AsyncLazyFrame: TypeAlias = Coroutine[Any, Any, DaskFrame]
    SearchDf: TypeAlias = SearchFunction[pd.DataFrame, FrameStream, DaskFrame]
    AsyncSearchDf: TypeAlias = SearchFunction[AsyncFrame, AsyncStream, AsyncLazyFrame]
    CrawlDf: TypeAlias = CrawlFunction[pd.DataFrame, FrameStream, DaskFrame]
    AsyncCrawlDf: TypeAlias = CrawlFunction[AsyncFrame, AsyncStream, AsyncLazyFrame]
    CreativesDf: TypeAlias = CreativesFunction[pd.DataFrame, FrameStream]
    AsyncCreativesDf: TypeAlias = CreativesFunction[AsyncFrame, AsyncStream]
