"""How the streaming functions look to a type checker: a frame, or its pieces with `stream=True`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, Unpack, overload

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    import pandas as pd

    from webdata_nb.calls.batches import FrameStream
    from webdata_nb.calls.multi_input import OnError
    from webdata_nb.contract.fields import Engine, Format, Strategy
    from webdata_nb.frames.frame import DtypeBackend
    from webdata_nb.requests.call_options import OnCancel, OnIncomplete
    from webdata_nb.session import Connection

Inputs = str | Sequence[str]


class TableOptions(TypedDict, total=False):
    """What the three functions take besides their requests."""

    session: Connection | None
    progress: bool | str | None
    cache: bool
    ttl: float | None
    refresh: bool
    offline: bool | None
    stale_if_error: bool | float
    timeout: float | None
    on_incomplete: OnIncomplete
    on_cancel: OnCancel
    on_error: OnError
    executor: Executor | None
    budget: float | None
    dtype_backend: DtypeBackend
    out: str | Path | None


class CrawlOptions(TableOptions, total=False):
    """Every argument of `crawl_df` but `url` and `stream`; a test compares them."""

    max_pages: int | None
    max_depth: int | None
    concurrency: int | None
    crawl_strategy: Strategy | None
    allow_external_links: bool | None
    respect_robots_txt: bool | None
    include_paths: Sequence[str] | None
    exclude_paths: Sequence[str] | None
    scrape_options: Mapping[str, Any] | None
    filter_faceted_urls: bool | None
    sitemap: bool | None
    respect_nofollow: bool | None
    batch_rows: int | None


class SearchOptions(TableOptions, total=False):
    """Every argument of `search_df` but `query` and `stream`; a test compares them."""

    num_results: int | None
    engine: Engine | Sequence[Engine] | None
    language: Inputs | None
    country: Inputs | None
    safe_search: bool | None
    formats: Sequence[Format] | None
    format_options: Mapping[str, Any] | None
    only_main_content: bool | None
    mobile: bool | None
    mobile_device: str | None
    headers: Mapping[str, str] | None
    cookies: Mapping[str, str] | None
    extract: Mapping[str, Any] | None
    batch_rows: int | None


class CreativesOptions(TableOptions, total=False):
    """Every argument of `creatives_df` but `advertiser` and `stream`; a test compares them."""

    region: Inputs | None
    date_range: Inputs | None
    max_rows: int | None
    only_new: bool
    limit: int | None
    skip_details: bool | None
    should_download_assets: bool | None
    should_download_previews: bool | None
    ocr: bool | None
    timeout_ms: int | None


class CrawlDf(Protocol):
    """`crawl_df`."""

    @overload
    def __call__(
        self, url: Inputs, *, stream: Literal[False] = False, **options: Unpack[CrawlOptions]
    ) -> pd.DataFrame: ...

    @overload
    def __call__(
        self, url: Inputs, *, stream: Literal[True], **options: Unpack[CrawlOptions]
    ) -> FrameStream: ...


class AsyncCrawlDf(Protocol):
    """`acrawl_df`."""

    @overload
    async def __call__(
        self, url: Inputs, *, stream: Literal[False] = False, **options: Unpack[CrawlOptions]
    ) -> pd.DataFrame: ...

    @overload
    async def __call__(
        self, url: Inputs, *, stream: Literal[True], **options: Unpack[CrawlOptions]
    ) -> FrameStream: ...


class SearchDf(Protocol):
    """`search_df`."""

    @overload
    def __call__(
        self, query: Inputs, *, stream: Literal[False] = False, **options: Unpack[SearchOptions]
    ) -> pd.DataFrame: ...

    @overload
    def __call__(
        self, query: Inputs, *, stream: Literal[True], **options: Unpack[SearchOptions]
    ) -> FrameStream: ...


class AsyncSearchDf(Protocol):
    """`asearch_df`."""

    @overload
    async def __call__(
        self, query: Inputs, *, stream: Literal[False] = False, **options: Unpack[SearchOptions]
    ) -> pd.DataFrame: ...

    @overload
    async def __call__(
        self, query: Inputs, *, stream: Literal[True], **options: Unpack[SearchOptions]
    ) -> FrameStream: ...


class CreativesDf(Protocol):
    """`creatives_df`."""

    @overload
    def __call__(
        self,
        advertiser: Inputs,
        *,
        stream: Literal[False] = False,
        **options: Unpack[CreativesOptions],
    ) -> pd.DataFrame: ...

    @overload
    def __call__(
        self, advertiser: Inputs, *, stream: Literal[True], **options: Unpack[CreativesOptions]
    ) -> FrameStream: ...


class AsyncCreativesDf(Protocol):
    """`acreatives_df`."""

    @overload
    async def __call__(
        self,
        advertiser: Inputs,
        *,
        stream: Literal[False] = False,
        **options: Unpack[CreativesOptions],
    ) -> pd.DataFrame: ...

    @overload
    async def __call__(
        self, advertiser: Inputs, *, stream: Literal[True], **options: Unpack[CreativesOptions]
    ) -> FrameStream: ...
