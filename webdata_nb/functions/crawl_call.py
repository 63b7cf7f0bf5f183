"""How `crawl_df` looks to a type checker: a frame, or a stream of frames with `stream=True`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, Unpack, overload

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    import pandas as pd

    from webdata_nb.contract.fields import Strategy
    from webdata_nb.functions.call import OnCancel, OnIncomplete
    from webdata_nb.functions.many import OnError
    from webdata_nb.session import Connection
    from webdata_nb.stream import Stream
    from webdata_nb.tables.frame import DtypeBackend


class CrawlOptions(TypedDict, total=False):
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
    batch_rows: int | None


class CrawlDf(Protocol):
    """`crawl_df`."""

    @overload
    def __call__(
        self,
        url: str | Sequence[str],
        *,
        stream: Literal[False] = False,
        **options: Unpack[CrawlOptions],
    ) -> pd.DataFrame: ...

    @overload
    def __call__(
        self,
        url: str | Sequence[str],
        *,
        stream: Literal[True],
        **options: Unpack[CrawlOptions],
    ) -> Stream[pd.DataFrame]: ...


class AsyncCrawlDf(Protocol):
    """`acrawl_df`."""

    @overload
    async def __call__(
        self,
        url: str | Sequence[str],
        *,
        stream: Literal[False] = False,
        **options: Unpack[CrawlOptions],
    ) -> pd.DataFrame: ...

    @overload
    async def __call__(
        self,
        url: str | Sequence[str],
        *,
        stream: Literal[True],
        **options: Unpack[CrawlOptions],
    ) -> Stream[pd.DataFrame]: ...
