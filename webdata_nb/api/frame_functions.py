"""Types the functions that return a frame, or with `stream=True` a stream of frames."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, Unpack, overload

from webdata_nb.calls import budget, multi_input, single_call
from webdata_nb.calls.batches import FrameStream, open_stream
from webdata_nb.requests import arguments
from webdata_nb.requests.call_options import CallOptions, FanOutOptions
from webdata_nb.requests.inputs import valid_specs
from webdata_nb.requests.options import (
    CrawlDfOptions,
    CreativesDfOptions,
    SearchDfOptions,
    TableOptions,
)

if TYPE_CHECKING:
    import pandas as pd

    from webdata_nb.requests.inputs import Input

FrameT_co = TypeVar("FrameT_co", covariant=True)
StreamT_co = TypeVar("StreamT_co", covariant=True)


async def frame_or_stream(
    inputs: Sequence[Input], options: TableOptions, *, stream: bool, batch_rows: int | None
) -> pd.DataFrame | FrameStream:
    """Return the frame of a call's inputs, or the stream of its batches."""
    fan_out = FanOutOptions.check(options)
    if not arguments.check_flag("stream", stream):
        arguments.check_requirement("batch_rows", batch_rows, "stream=True")
        call = CallOptions.check(options, options["on_incomplete"])
        if fan_out.budget is not None:
            await budget.check(valid_specs(inputs), call, fan_out.budget)
        if inputs[0].labels:
            return await multi_input.run(inputs, call, fan_out)
        return await single_call.run(inputs[0].spec, call)
    stream_options: TableOptions = {**options, "out": None}
    call = CallOptions.check(stream_options, options["on_incomplete"])
    return await open_stream(inputs, call, fan_out, out=options["out"], batch_rows=batch_rows)


class SearchFunction(Protocol[FrameT_co, StreamT_co]):
    """The type of `search_df` and its other forms."""

    @overload
    def __call__(
        self,
        query: str | Sequence[str],
        *,
        stream: Literal[False] = False,
        batch_rows: int | None = None,
        **options: Unpack[SearchDfOptions],
    ) -> FrameT_co: ...

    @overload
    def __call__(
        self,
        query: str | Sequence[str],
        *,
        stream: Literal[True],
        batch_rows: int | None = None,
        **options: Unpack[SearchDfOptions],
    ) -> StreamT_co: ...


class CrawlFunction(Protocol[FrameT_co, StreamT_co]):
    """The type of `crawl_df` and its other forms."""

    @overload
    def __call__(
        self,
        url: str | Sequence[str],
        *,
        stream: Literal[False] = False,
        batch_rows: int | None = None,
        **options: Unpack[CrawlDfOptions],
    ) -> FrameT_co: ...

    @overload
    def __call__(
        self,
        url: str | Sequence[str],
        *,
        stream: Literal[True],
        batch_rows: int | None = None,
        **options: Unpack[CrawlDfOptions],
    ) -> StreamT_co: ...


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
    SearchDf: TypeAlias = SearchFunction[pd.DataFrame, FrameStream]
    AsyncSearchDf: TypeAlias = SearchFunction[AsyncFrame, AsyncStream]
    CrawlDf: TypeAlias = CrawlFunction[pd.DataFrame, FrameStream]
    AsyncCrawlDf: TypeAlias = CrawlFunction[AsyncFrame, AsyncStream]
    CreativesDf: TypeAlias = CreativesFunction[pd.DataFrame, FrameStream]
    AsyncCreativesDf: TypeAlias = CreativesFunction[AsyncFrame, AsyncStream]
