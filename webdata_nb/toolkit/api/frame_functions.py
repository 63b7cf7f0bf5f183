"""The functions that return frames: searches, crawls, pages, ads and watches; what they cost."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from webdata_nb.contract import limits
from webdata_nb.contract.limits import PER_PAGE
from webdata_nb.contract.requests import SearchRequest
from webdata_nb.errors import InvalidArgument, InvalidCall, OfflineError
from webdata_nb.suggestions import closest, did_you_mean, format_value
from webdata_nb.toolkit.bridge import PORTAL, blocking
from webdata_nb.toolkit.cache import result_cache
from webdata_nb.toolkit.cache.result_cache import ResultCache
from webdata_nb.toolkit.calls import budget, crawl_files, lists, partitions, pipeline
from webdata_nb.toolkit.calls.frame_stream import BATCH_ROWS, FrameStream, open_stream
from webdata_nb.toolkit.calls.watch import Watch
from webdata_nb.toolkit.frames import frame, input_rows, storage
from webdata_nb.toolkit.frames.input_rows import InputRows
from webdata_nb.toolkit.frames.schemas import CRAWL_COLUMNS, SEARCH_COLUMNS
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.arguments import CallOptions, FanOutOptions, check_flag
from webdata_nb.toolkit.requests.inputs import (
    LAST,
    Input,
    crawl_inputs,
    creatives_inputs,
    is_long,
    page_inputs,
    request_values,
    search_inputs,
    valid_specs,
)
from webdata_nb.toolkit.requests.options import (
    DEFAULTS,
    UNLISTED,
    CallArguments,
    ConnectionOptions,
    CrawlDfOptions,
    CrawlOptions,
    CreativesDfOptions,
    RankDfOptions,
    ScrapeDfOptions,
    SearchDfOptions,
    SearchInputOptions,
    SinglePageOptions,
    TableOptions,
    WatchDfOptions,
)
from webdata_nb.toolkit.requests.signatures import with_lists, with_options
from webdata_nb.toolkit.session import Connection
from webdata_nb.toolkit.sites import ranks
from webdata_nb.toolkit.sites.changes_file import CHANGES_COLUMNS
from webdata_nb.toolkit.sites.ranks import RANKS_COLUMNS, RanksFile, Searched

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    import pandas as pd
    from dask.dataframe import DataFrame as DaskFrame

    from webdata_nb.toolkit.calls.budget import Estimate

# Types of functions that return a frame, or with `stream=True` a stream of frames


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
        return await run_partitions(inputs, options, fan_out, lazy=lazy)
    if batch_rows is None:
        call = CallOptions.check(options)
        await budget.check(valid_specs(inputs), call, fan_out.budget)
        if inputs[0].labels:
            return await lists.run(inputs, call, fan_out)
        return await pipeline.run(inputs[0].spec, call)
    call = CallOptions.check_without_out(options)
    return await open_stream(inputs, call, fan_out, out=options["out"], batch_rows=batch_rows)


def _batch_rows(stream: object) -> int | None:
    """Return the rows of each frame of a stream; None without one."""
    if isinstance(stream, bool):
        return BATCH_ROWS if stream else None
    rows = 0
    with suppress(InvalidArgument):
        rows = arguments.check_count("stream", stream)
    if not 0 < rows <= PER_PAGE[1]:
        raise InvalidArgument(
            f"stream must be True, False or the rows of each frame, 1 to {PER_PAGE[1]}; it is "
            f"{format_value(stream)}"
        )
    return rows


async def run_partitions(
    inputs: Sequence[Input],
    options: CallArguments,
    fan_out: FanOutOptions,
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
    call = CallOptions.check_without_out(options)
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


# Searches


@with_options(SearchDfOptions, columns=SEARCH_COLUMNS)
async def _asearch_df(
    query: str | Sequence[str],
    *,
    stream: bool | int = False,
    lazy: bool = False,
    **options: Unpack[SearchDfOptions],
) -> pd.DataFrame | DaskFrame | FrameStream:
    """Search the web and return the ranked results, one row each.

    `asearch_df` is the same for async code. An omitted argument is not sent, so the
    service's default applies; the signature shows the defaults of the contract.

    Parameters
    ----------
    query
        The search terms. Lists here, and in `engine`, `language` and `country`, search for every
        combination, in order; columns of these names tell the rows apart.
    stream
        Return a stream of frames immediately, to loop over: the results in batches, in the order
        in which their pages are read; `rank` holds their place. Several inputs run concurrently,
        and their batches alternate. Leaving the loop cancels the running jobs. Streamed rows come
        from the cache if it has them, but are not stored in it. True makes frames of 20 rows at
        most; a number from 1 to 1000 is that of the rows of a frame at most.
    lazy
        Return a `dask.dataframe` over the Parquet parts in `out`, without reading a row: for more
        rows than memory holds. Each part is a partition; the columns are those of a call with
        lists. Without Dask as `executor`, the partitions run here, one after the other.

    Returns
    -------
    pandas.DataFrame, FrameStream or dask.dataframe.DataFrame
        The frame; with `stream`, a stream of such frames for `for` and `async for`. After the
        loop, its `receipt` is that of the whole call. With `lazy`, a lazy frame.
        With lists, `query`, each other list's column and `fetched_at` come first. The other
        columns depend on `formats` and `extract`, never on what was found. The receipt is
        `df.attrs["webdata"]`; its `line` says in one line what happened.

        {columns}

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    OverBudget
        See `budget`.
    JobFailed
        The job failed; `reason` says why, `partial` holds what arrived.
    JobCancelled, JobTimeout, IncompleteResult
        See `on_cancel`, `timeout`, `on_incomplete`; what arrived is on the error.
    OfflineError
        Offline mode is on and the cache has no answer.
    WebdataError
        The root of these, and of what a connection may meet.

    Warns
    -----
    WebdataWarning
        No result was found, and the message names the providers; or another provider than the
        first one answered, and the message names what was asked, what failed and what answered.

    Examples
    --------
    >>> df = search_df("aurora forecast", num_results=3, formats=[])
    >>> df[["rank", "url", "title"]].shape
    (3, 3)
    >>> df.attrs["webdata"]["status"]
    'completed'
    """
    inputs = search_inputs(query, options, lazy=lazy)
    return await frame_or_stream(inputs, options, stream=stream, lazy=lazy)


asearch_df: Final = cast("AsyncSearchDf", _asearch_df)
search_df: Final = cast("SearchDf", blocking(_asearch_df))


# Crawls


@with_options(CrawlDfOptions, columns=CRAWL_COLUMNS)
async def _acrawl_df(
    url: str | Path | Sequence[str | Path],
    *,
    stream: bool | int = False,
    lazy: bool = False,
    **options: Unpack[CrawlDfOptions],
) -> pd.DataFrame | DaskFrame | FrameStream:
    """Crawl a site from a start page and return its pages, one row each.

    `acrawl_df` is the same for async code. An omitted argument is not sent, so the service's
    default applies; the signature shows the defaults of the local service.

    Parameters
    ----------
    url
        Where to start: an absolute http or https URL. A list crawls each of its URLs; the column
        `start_url` of the frame names the start of each row. The path of a `.warc`, `.warc.gz` or
        `.wacz` file crawls the pages in it, from its first one; so does a list of such paths.
    stream
        Return a stream of frames immediately, to loop over: the rows in batches, as they arrive.
        Several start URLs are crawled one after the other. Leaving the loop cancels the crawl.
        Streamed rows come from the cache if it has them, but are not stored in it. True makes
        frames of 20 rows; a number from 1 to 1000 is that of the rows of each frame but the last.
    lazy
        Return a `dask.dataframe` over the Parquet parts in `out`, without reading a row: for more
        rows than memory holds. Each part is a partition; the columns are those of a call with
        lists. Without Dask as `executor`, the partitions run here, one after the other.

    Returns
    -------
    pandas.DataFrame, FrameStream or dask.dataframe.DataFrame
        The frame; with `stream`, a stream of such frames for `for` and `async for`. After the
        loop, its `receipt` is that of the whole call. With `lazy`, a lazy frame.
        In the order of the crawl. The columns depend on `formats` and `extract`, never on what
        was found. A page that could not be read is a row with `success` False and its `error`. The
        receipt is `df.attrs["webdata"]`: its `line` says in one line what happened, its
        `receipt` counts every URL that was seen.

        With `max_pages` above 1,000, `out` must be a folder or a URL. The rows are written there
        as they arrive, in Parquet files of 500 rows, and the frame has their columns without the
        content. The same call continues a crawl that was interrupted, and returns a finished one
        from its files; with `refresh=True` it starts anew. Not every service offers this.

        With a file `.warc.gz` as `out`, the local service writes each request and response as it
        was sent, without cookies and other secrets, and the receipt. `crawl_df` reads such a file.
        Until the crawl is complete it has `.partial` in its name. The cache is not used.

        `capture_distance_s` is there with `as_of`, negative for a capture before it; `fetched_at`
        is then the time of the capture, as with an archive file. A URL without a capture in the
        file is `not_archived` in the receipt, and no row. The columns from `inlinks` to
        `page_facts` are there with `audit=True`.

        {columns}

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    OverBudget
        See `budget`.
    JobFailed
        The job failed; `reason` says why, `partial` holds what arrived.
    JobCancelled, JobTimeout, IncompleteResult
        See `on_cancel`, `timeout`, `on_incomplete`; what arrived is on the error.
    OfflineError
        Offline mode is on and the cache has no answer.
    WebdataError
        The root of these, and of what a connection may meet.

    Warns
    -----
    UserWarning
        The crawl ended without a page; the message says what became of the URLs.

    Examples
    --------
    >>> df = crawl_df(start_url, max_pages=5)
    >>> df[["url", "title", "status_code"]].shape
    (5, 3)
    >>> df["success"].all()
    np.True_
    """
    inputs = crawl_inputs(url, options, lazy=lazy, forms={"stream": stream})
    if (path := inputs[0].spec.warc) is not None:
        return await crawl_files.to_warc(inputs[0].spec, path, options)
    if is_long(options) and not (stream or options["audit"]):
        return await crawl_files.to_parts(inputs[0].spec, options)
    return await frame_or_stream(inputs, options, stream=stream, lazy=lazy)


acrawl_df: Final = cast("AsyncCrawlDf", _acrawl_df)
crawl_df: Final = cast("CrawlDf", blocking(_acrawl_df))


# Known pages


@with_options(ScrapeDfOptions)
async def ascrape_df(urls: str | Sequence[str], **options: Unpack[ScrapeDfOptions]) -> pd.DataFrame:
    """Read known pages, without following their links, and return one row for each URL.

    `ascrape_df` is the same for async code. Each URL has its own cached answer; the service reads
    the others in one job, or in a job for each where it offers no lists.

    Parameters
    ----------
    urls
        The pages, in the order of the rows; a URL that occurs twice is read once and has two rows.
    timeout
        Seconds to wait for the end of a job; then JobTimeout, and the job goes on.
    on_error
        `"row"`: a page that cannot be read is a row with `success` False and its `error`;
        `"raise"` ends the call where a job fails.

    Returns
    -------
    pandas.DataFrame
        `start_url`, the URL in `urls`, then the columns of `crawl_df`; `url` is the URL after
        redirects.

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    OverBudget
        See `budget`.
    WebdataError
        An error that concerns all pages, such as a wrong key.

    Examples
    --------
    >>> df = scrape_df([start_url, start_url + "about"])
    >>> len(df)
    2
    """
    fan_out, call = FanOutOptions.check(options), cast("CallArguments", options)
    if fan_out.dask is not None:
        inputs = page_inputs(urls, options)
        partitions = replace(fan_out, row_each=True)
        return cast("pd.DataFrame", await run_partitions(inputs, call, partitions))
    return await scrape_pages(urls, options, CallOptions.check(call), fan_out)


scrape_df: Final = blocking(ascrape_df)


@with_options(ConnectionOptions)
async def arecords_df(
    pages: pd.DataFrame | str | Sequence[str],
    *,
    by: Literal["record", "page"] = "record",
    groups: bool = False,
    group: int | None = None,
    **options: Unpack[ConnectionOptions],
) -> pd.DataFrame:
    """Return the repeated things of pages as a table, without a schema: cards, rows, results.

    `arecords_df` is the same for async code.

    Parameters
    ----------
    pages
        A frame of pages with the column `records`, from a call with `formats=["records"]`; a column
        `raw_html` or `html` is read here. Or a URL, or a list of URLs, which are read as
        `scrape_df` does.
    by
        `"record"` finds the records within the pages, and continues them over pages of one listing.
        `"page"` makes one record of each page: what differs between pages of one template is a
        column.
    groups
        Return a row for each group of records, in place of the records.
    group
        The group to return, as `groups=True` numbers them: the one with most distinct text is 1,
        with `by="page"` the template of most pages.

    Returns
    -------
    pandas.DataFrame
        ======= ======== =====================================================================
        column  dtype    meaning
        ======= ======== =====================================================================
        url     str      the page
        record  Int32    position among the records of the page, from 1
        group   Int32    number of the group
        ...              the parts of the records, in their order
        _source object   dict of the column of each value and where it stands: the CSS selector
                         of the record, the way to the element, and the attribute
        ======= ======== =====================================================================

        Columns are named by what the page declares, its header cells, labels, class names or
        elements. Numbers are Int64 or Float64, with their unit in the name of the column; amounts
        of money are Float64 with the column `<name>_currency` (ISO 4217, str); days are
        datetime64[us], times datetime64[us, UTC] if the page says their offset; URLs and images
        are absolute URLs (str); lists are lists of str; everything else is str. What is the same
        in all records, such as labels and buttons, is left out. Values of more than 2,000
        characters are cut.

        With `groups`, `group`, `pages`, `records` (Int32), `columns` (list of their names),
        `example` (the first text) and `path` (the elements around a record).

    Raises
    ------
    InvalidArgument
        The columns are missing, or there is no such group.
    WebdataError
        With a URL, as in `scrape_df`.

    Notes
    -----
    Elements whose path of tags is the same are compared by the paths below them, and their parts
    are aligned; without a model and deterministic. Rows of cards are taken for one list, and
    records may be runs of siblings, such as a heading with what follows it. The method is that of
    partial tree alignment (Zhai and Liu, 2005), on sets of paths; decision 18 has its figures.

    Examples
    --------
    >>> import pandas as pd
    >>> html = "<ul><li><b>Hat</b> <i>34 €</i></li><li><b>Cap</b> <i>12 €</i></li></ul>"
    >>> pages = pd.DataFrame({"url": ["http://a.test/"], "html": [html]})
    >>> records_df(pages)[["text", "price", "price_currency"]].values.tolist()
    [['Hat', 34.0, 'EUR'], ['Cap', 12.0, 'EUR']]
    """
    check_flag("groups", groups)
    if by not in ("record", "page"):
        raise InvalidArgument(f'by must be "record" or "page"; it is {format_value(by)}')
    if group is not None:
        arguments.check_count("group", group)
    if groups and group is not None:
        raise InvalidArgument("groups=True lists the groups: pass it without group")
    # The parser is loaded only here.
    from webdata_nb.toolkit.frames import records  # noqa: PLC0415

    if not isinstance(pages, str) and hasattr(pages, "columns"):
        df = cast("pd.DataFrame", pages)
    else:  # records are those of the whole page, so its main content need not be found
        df = await ascrape_df(pages, formats=["records"], only_main_content=False, **options)
    return await asyncio.to_thread(records.records_of, df, by=by, groups=groups, group=group)


records_df: Final = blocking(arecords_df)


async def scrape_pages(
    urls: str | Sequence[str],
    options: SinglePageOptions,
    call: CallOptions,
    fan_out: FanOutOptions,
) -> pd.DataFrame:
    """Return one row for each URL, in their order."""
    inputs = page_inputs(urls, options)
    await budget.check(valid_specs(inputs), call, fan_out.budget)
    return await lists.run(inputs, call, replace(fan_out, row_each=True))


# Creatives


@with_options(CreativesDfOptions)
async def _acreatives_df(
    advertiser: str | Sequence[str],
    *,
    stream: bool = False,
    **options: Unpack[CreativesDfOptions],
) -> pd.DataFrame | FrameStream:
    """List an advertiser's creatives from the ads transparency source, one row each.

    `acreatives_df` is the same for async code. Every page is read, unless `limit` ends the
    listing sooner. An interrupted call continues at its cursor if it is repeated within a day (not
    with `refresh`, and not without the cache). No creative is listed twice. An omitted argument is
    not sent, so the service's default applies; the signature shows the defaults of the local
    service.

    Parameters
    ----------
    advertiser
        The advertiser's id, such as `"AR17828074650563772417"`, or the URL of its page. Lists
        here, and in `region` and `date_range`, request every combination; columns of these names
        tell the rows apart, with `fetched_at`, `success` and `error`.
    timeout
        Seconds to wait for all pages together; then ConnectionFailed.
    on_incomplete
        Where rows are missing: `"raise"`, `"warn"` or `"ignore"`.
    on_cancel
        When the call is interrupted: `"raise"`, or `"partial"` for the rows so far.
    stream
        Return a stream of frames immediately, to loop over: one for each page of up to 40 rows, as
        it arrives. Several inputs run concurrently. Leaving the loop ends the listing; the same
        call continues it later. Streamed rows come from the cache if it has them, but are not
        stored in it as an answer.

    Returns
    -------
    pandas.DataFrame or FrameStream
        The frame; with `stream`, a stream of such frames for `for` and `async for`. After the
        loop, its `receipt` is that of the whole call. The receipt is
        `df.attrs["webdata"]`.

        ================================== =================== ================================
        column                             dtype               meaning
        ================================== =================== ================================
        position                           Int32               place in the listing, from 1
        advertiser_id, creative_id         str                 the source's ids
        format                             str                 text, image or video
        first_shown, last_shown            datetime64[us, UTC] when
        days_shown                         Int32               days
        political                          boolean             declared as such
        error                              str                 what could not be read or done
        extra                              object              fields unknown to this version
        preview_url, advertiser_name       str                 preview's address, advertiser
        regions, asset_urls                object              lists (1)
        impressions_min, impressions_max   Int64               where the source tells (1)
        assets                             object              list of downloaded files (3)
        preview                            object              the downloaded preview (4)
        text_confidence                    float64             0 to 1 (2)
        landing_domain                     str                 (1)
        headline, description              str                 (1), (2)
        text                               str                 lines of the picture (2)
        ================================== =================== ================================

        (1) with `skip_details=False` or `should_download_assets`, (2) with `ocr`, (3) with
        `should_download_assets`, (4) with `should_download_previews`. A file is a dict of url,
        sha256, mime, bytes, width, height and `file`, its path in the cache.

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    OverBudget
        See `budget`.
    IncompleteResult
        See `on_incomplete`; a cursor that repeats counts as missing rows.
    OfflineError
        Offline mode is on and the cache has no answer.
    WebdataError
        The root of these, and of what a connection may meet.

    Warns
    -----
    UserWarning
        There was no creative.

    Examples
    --------
    >>> df = creatives_df("AR17828074650563772417", limit=3)
    >>> df["position"].tolist()
    [1, 2, 3]
    """
    inputs = creatives_inputs(advertiser, options)
    most = inputs[0].spec.max_rows or limits.CREATIVES_LIMIT_DEFAULT
    page_rows = min(most, limits.CREATIVES_LIMIT_DEFAULT)
    frame = await frame_or_stream(
        inputs, options, stream=page_rows if check_flag("stream", stream) else False
    )
    return cast("pd.DataFrame | FrameStream", frame)


acreatives_df: Final = cast("AsyncCreativesDf", _acreatives_df)
creatives_df: Final = cast("CreativesDf", blocking(_acreatives_df))


# Ranks


@with_options(RankDfOptions, columns=RANKS_COLUMNS)
async def arank_df(
    queries: str | Sequence[str],
    *,
    site: str | Sequence[str],
    out: str | Path | None = None,
    **options: Unpack[RankDfOptions],
) -> pd.DataFrame:
    """Search for each query, and return the rank of a site among the results: one snapshot.

    `arank_df` is the same for async code. Every call asks the engines anew, whatever the cache
    holds, and stores the results there. No result page is visited, so a query costs what its search
    costs. A call that is cancelled takes no snapshot.

    Parameters
    ----------
    queries
        The search terms. Lists here, and in `engine`, `language` and `country`, search for every
        combination; each is searched once.
    site
        A host such as `"example.com"`, which includes its subdomains, or a host and the start of a
        path, such as `"example.com/docs"`; `www.`, http or https, and a slash at the end make no
        difference. With a list, each site has rows of its own.
    num_results
        Unique results to look at, 1 to 50 (default 10).
    timeout
        Seconds to wait for each search; then it has failed.
    on_error
        `"row"` makes a search that failed a row with `status` `failed` and its `error`; `"raise"`
        ends the call with it.
    out
        A `.parquet` file to append the snapshot to. Several calls may append to it at the same
        time.

    Returns
    -------
    pandas.DataFrame
        One row for each query and site, and each engine, language and country of lists.
        `df.webdata.ranks()` and `df.webdata.changes()` compare the snapshots of a file, as
        `plot_ranks` does.

        {columns}

    Raises
    ------
    InvalidArgument
        An argument that is not allowed, or a file of something else; nothing was sent.
    OverBudget
        See `budget`.
    OfflineError
        Offline mode is on.
    OSError
        `out` cannot be written. `history_df(rank_df, ...)` returns the ranks of this call
        nevertheless.
    WebdataError
        What concerns all searches, such as a wrong key.

    Warns
    -----
    UserWarning
        Other providers than the first ones answered: their ranks may not be comparable.

    Examples
    --------
    >>> df = rank_df(["aurora forecast", "rain gauge"], site="example.com")
    >>> df[["query", "status"]].to_numpy().tolist()
    [['aurora forecast', 'not_ranked'], ['rain gauge', 'not_ranked']]
    """
    sites = ranks.parse_sites(site)
    inputs = rank_inputs(queries, options)
    path = _path(out)
    file = None if path is None else RanksFile(path)
    if file is not None:
        await asyncio.to_thread(file.check)
    call = CallOptions.check(_rank_call(options))
    if call.settings.offline:
        raise OfflineError("offline mode is on, and rank_df asks the engines anew")
    fan_out = FanOutOptions.check({"on_error": options["on_error"], "budget": options["budget"]})
    fan_out = replace(fan_out, warns_of_empty=False)
    await budget.check(valid_specs(inputs), call, fan_out.budget)
    taken_at = datetime.now(UTC)
    name = result_cache.snapshot_id(taken_at)
    searched = await lists.run(
        inputs, replace(call, snapshot=name, dtype_backend="pandas"), fan_out
    )
    searches = ranks.searches_of(searched, [each.labels for each in inputs])
    table = ranks.rank_table(searches, sites, **_asked(options), snapshot=name, taken_at=taken_at)
    whole = None
    if file is not None:
        try:
            whole = await asyncio.to_thread(file.append, table)
        except OSError as error:
            error.add_note("history_df(rank_df, ...) returns the ranks of this call nevertheless")
            raise
    attrs = ranks.ranks_receipt(
        searched.attrs[frame.ATTRS], table, whole, None if file is None else str(file.path)
    )
    return frame.build(table, attrs=attrs, dtype_backend=call.dtype_backend)


rank_df: Final = blocking(arank_df)


def rank_inputs(queries: str | Sequence[str], options: RankDfOptions) -> Sequence[Input]:
    """Return the searches of a call, each combination once; their labels say what was asked."""
    values: dict[str, Any] = {**request_values(options, SearchInputOptions), "formats": []}
    for name in ("engine", "language", "country"):
        if isinstance(values.get(name), str):
            values[name] = [values[name]]
    terms = [queries] if isinstance(queries, str) else queries
    inputs = search_inputs(terms, cast("SearchDfOptions", values))
    if not inputs[0].labels:
        raise InvalidArgument(
            f"queries must be a query or a list of queries; it is {format_value(queries)}"
        )
    return list({tuple(each.labels.items()): each for each in inputs}.values())


def _rank_call(options: RankDfOptions) -> CallArguments:
    """Return the options of the searches, which are requested anew and cached."""
    names = ("session", "progress", "timeout", "dtype_backend")
    given = cast("CallArguments", {name: options.get(name, DEFAULTS.get(name)) for name in names})
    return {**given, "cache": True, "refresh": True}


def _asked(options: RankDfOptions) -> dict[str, Any]:
    """Return what was asked for where no label says it."""
    defaults = {name: field.default for name, field in SearchRequest.model_fields.items()}
    wanted = options.get("num_results")
    return {
        "engine": defaults["engine"],
        "num_results": defaults["num_results"] if wanted is None else int(wanted),
    }


# Watches


_SUFFIX: Final = ".parquet"


@with_options(WatchDfOptions, columns=CHANGES_COLUMNS)
async def awatch_df(
    url: str,
    *,
    columns: str | Sequence[str] | None = None,
    out: str | Path | None = None,
    wait: bool = True,
    **options: Unpack[WatchDfOptions],
) -> pd.DataFrame:
    """Crawl a site again, and return what has changed since the last call, by field.

    `awatch_df` is the same for async code. The crawl is one with `since="last"`: the site is asked
    for each page whether it has changed. The first call has nothing to compare with, and returns
    no changes.

    Parameters
    ----------
    url
        Where the crawl starts.
    columns
        What to compare: `title`, `description`, `content_hash`, the `formats` of the call, and the
        fields of `extract`. By default, title, description, all formats except `raw_html`, and all
        fields of `extract`.
    out
        A `.parquet` file to append the changes to. It also remembers the pages: a page that cannot
        be read for once keeps its last values, and a call that is killed loses no change. Without
        it, the crawl is compared with the last one in the cache.
    wait
        Whether to wait for another call with the same arguments that is not finished, for
        `timeout` seconds at most; otherwise WatchRunning.
    recheck
        Share of the unchanged pages that are fetched in full nevertheless, 0 to 1 (default 0.01).
        The receipt says how many had changed, and what that means for the others.
    timeout
        Seconds to wait for the crawl's end; then JobTimeout, and no change is reported.

    Returns
    -------
    pandas.DataFrame
        One row for each changed field: of changed and added pages in the order of the crawl, then
        of removed ones. A page that could not be read is none of these. `changes` in the receipt
        counts pages.

        {columns}

    Raises
    ------
    InvalidArgument
        An argument that is not allowed, or a file of something else; nothing was sent.
    NotSupported
        The service offers no incremental crawls; nothing was started.
    WatchRunning
        See `wait`.
    WebdataError
        As `crawl_df` raises. Nothing was compared, and the next call makes up for it.
    OSError
        `out` cannot be written, such as on a full disk, or another process has held its lock for a
        minute. The next call finds the same changes.

    Examples
    --------
    >>> len(watch_df(start_url, max_pages=5))
    0
    >>> watch_df(start_url, columns="title", max_pages=5)["field"].tolist()
    []
    """
    if not isinstance(url, str):
        raise InvalidArgument(f"url must be the URL of one site; it is {format_value(url)}")
    for name in ("audit", "check_links"):
        if options[name]:
            raise InvalidArgument(f"{name} is not possible with watch_df: use crawl_df, and diff")
    if is_long(options):
        raise InvalidArgument(
            f"max_pages must be from 1 to {limits.MAX_PAGES[1]}; it is {options['max_pages']}"
        )
    values = {
        **request_values(options, CrawlOptions),
        "since": {"base": LAST, "recheck": options["recheck"]},
    }
    [item] = crawl_inputs(url, cast("CrawlDfOptions", values))
    call = CallOptions.of(
        session=options["session"],
        progress=options["progress"],
        timeout=options["timeout"],
        cache=True,
    )
    names = None
    if columns is not None:
        names = arguments.list_items("columns", [columns] if isinstance(columns, str) else columns)
        if names is None:
            raise InvalidArgument(
                f"columns must be a name or a list of names; it is {format_value(columns)}"
            )
    path = _path(out)
    is_waiting = arguments.check_flag("wait", wait)
    return await Watch.of(item.spec, call, names, path, wait=is_waiting).run()


watch_df: Final = blocking(awatch_df)


def _path(out: object) -> Path | None:
    """Return the file of changes."""
    if out is None:
        return None
    is_url = isinstance(out, str) and storage.is_remote(out)
    if is_url or not isinstance(out, str | Path) or Path(out).suffix != _SUFFIX:
        raise InvalidArgument(
            f"out must be the path of a {_SUFFIX} file of this machine; it is {format_value(out)}"
        )
    return arguments.check_file_path("out", out)


# Costs and cached answers


P = ParamSpec("P")


_INPUTS: Final[Mapping[str, Callable[..., Sequence[Input]]]] = {
    "search_df": search_inputs,
    "crawl_df": crawl_inputs,
    "creatives_df": creatives_inputs,
    "scrape_df": page_inputs,
    "rank_df": rank_inputs,
}


def estimate(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> Estimate:
    """Return what a call may cost at most, without making it.

    Requests the service's catalog of weights, unless the cache has every answer.

    Parameters
    ----------
    function
        `search_df`, `rank_df`, `crawl_df`, `scrape_df` or `creatives_df`, an async twin, or one of
        these methods of a session.
    *args, **kwargs
        The arguments of the call.

    Returns
    -------
    Estimate
        `credits` where every page succeeds (failed pages cost nothing), None where the call has
        no bound; `parts` by operation; `inputs`, and how many of them are `cached`.

    Raises
    ------
    InvalidArgument
        Another function, or an argument that is not allowed.
    WebdataError
        What a connection may meet.

    Examples
    --------
    >>> estimate(crawl_df, start_url, max_pages=50).credits
    50.0
    """
    inputs, call, options = _inputs(function, args, kwargs)
    if "site" in options:
        ranks.parse_sites(options["site"])
    return PORTAL.run(budget.estimate_cost(valid_specs(inputs), call))


def history_df(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> pd.DataFrame:
    """Return every cached answer to a call, oldest first; sends nothing.

    Parameters
    ----------
    function
        `search_df`, `rank_df`, `crawl_df`, `scrape_df` or `creatives_df`, an async twin, or one of
        these methods of a session.
    *args, **kwargs
        The arguments of the call; lists give the history of every combination.

    Returns
    -------
    pandas.DataFrame
        `taken_at` (datetime64[us, UTC]), then the columns of the call. All results that one call
        stored for a list of inputs have one `taken_at`, the time of that call. Of `rank_df`, its
        columns, with the ranks in every cached answer to its searches.

    Raises
    ------
    InvalidArgument
        Another function, or an argument that is not allowed.

    Examples
    --------
    >>> df = search_df("aurora forecast", formats=[])
    >>> history_df(search_df, "aurora forecast", formats=[])["taken_at"].nunique()
    1
    """
    inputs, call, options = _inputs(function, args, kwargs)
    history: list[tuple[Input, result_cache.Snapshot]] = []
    for each in inputs:
        if each.error is None:
            cache = ResultCache.of_spec(each.spec, call)
            stored = result_cache.history(cache.root, cache.key, columns=each.spec.columns)
            history += [(each, snapshot) for snapshot in stored]
    history.sort(key=lambda entry: entry[1].call[1])
    if "site" in options:
        tables = [
            ranks.rank_table(
                [Searched(each.labels, snapshot.table.to_pylist(), None)],
                ranks.parse_sites(options["site"]),
                **_asked(cast("RankDfOptions", options)),
                snapshot=snapshot.call[0] or snapshot.path.stem,
                taken_at=snapshot.call[1],
            )
            for each, snapshot in history
        ]
        names = [each.name for each in ranks.parse_sites(options["site"])]
        attrs = {"kind": "ranks", "snapshots": len(tables), "subject": ", ".join(names)}
        table = input_rows.concat_tables([ranks.RANKS_SCHEMA.empty_table(), *tables])
        return frame.build(table, attrs=attrs, dtype_backend=call.dtype_backend)
    spec, labels = inputs[0].spec, inputs[0].labels
    tables = []
    for each, snapshot in history:
        table = snapshot.table
        if each.labels:
            rows = InputRows(each.labels, table, snapshot.at)
            table = input_rows.stack_inputs(each.spec.op, each.spec.columns, [rows])
        tables.append(input_rows.with_taken_at(table, snapshot.call[1]))
    if not tables:
        table = input_rows.stack_inputs(spec.op, spec.columns, [InputRows(labels, None, None)])
        plain = table if labels else table.select(list(spec.columns))
        tables.append(input_rows.with_taken_at(plain, None))
    attrs = {"kind": f"{spec.op} history", "snapshots": len(history), "subject": spec.subject}
    return frame.build(
        input_rows.concat_tables(tables), attrs=attrs, dtype_backend=call.dtype_backend
    )


def _inputs(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[Sequence[Input], CallOptions, Mapping[str, Any]]:
    """Return the inputs, the checked options and all arguments of a call."""
    inputs = _INPUTS.get(str(getattr(function, "__name__", "")).removeprefix("a"))
    if inputs is None:
        name = getattr(function, "__name__", None)
        suggestion = did_you_mean(closest(name, _INPUTS))
        raise InvalidArgument(
            f"function must be one of {', '.join(_INPUTS)}; "
            f"it is {name or format_value(function)}{suggestion}"
        )
    signature = inspect.signature(function)
    args, kwargs = with_lists(signature, args, kwargs)
    unlisted = {name: kwargs.pop(name) for name in UNLISTED & kwargs.keys()}
    if unlisted and inputs is not crawl_inputs:
        raise InvalidCall.of(function.__name__, signature, args, kwargs | unlisted)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        raise InvalidCall.of(function.__name__, signature, args, kwargs) from None
    (_, subject), *passed = bound.arguments.items()
    options: dict[str, Any] = {name: DEFAULTS.get(name) for name in signature.parameters}
    owner = getattr(function, "__self__", None)
    options["session"] = owner if isinstance(owner, Connection) else None
    options |= {**dict(passed), **unlisted}
    if inputs is rank_inputs:
        call = _rank_call(cast("RankDfOptions", options))
    else:
        # The options that decide where an answer is looked up; the others have no effect.
        names = ("session", "cache", "ttl", "refresh", "offline", "timeout", "dtype_backend")
        call = cast("CallArguments", {name: options[name] for name in names})
    return inputs(subject, options), CallOptions.check(call), options
