"""Defines each option of the public functions once: its name, type, default and description.

A function takes a group of options as `**options: Unpack[...]`, and
`webdata_nb.toolkit.requests.signatures` derives its signature and docstring from the group. The
docstring of a group describes its options in numpydoc form. An option without an entry in
`DEFAULTS` is None by default. The module imports nothing heavy, so that a command line can read it
quickly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    import pandas as pd

    from webdata_nb.contract.choices import ArchiveSource, Engine, Format, Purpose, Strategy
    from webdata_nb.settings import Duration
    from webdata_nb.toolkit.dask_executor import DaskClient
    from webdata_nb.toolkit.frames.frame import DtypeBackend
    from webdata_nb.toolkit.session import Connection

OnIncomplete = Literal["raise", "warn", "ignore"]
OnCancel = Literal["raise", "partial"]
OnError = Literal["row", "raise"]
Scope = Literal["folder", "site", "any"]

DEFAULTS: Final[Mapping[str, object]] = {
    "cache": True,
    "refresh": False,
    "stale_if_error": False,
    "on_incomplete": "raise",
    "on_cancel": "raise",
    "on_error": "row",
    "dtype_backend": "pandas",
    "only_new": False,
    # Of rows; the contract's field of this name is the size of a page.
    "limit": None,
    # The URL decides; the contract's field is of a service that knows no folders.
    "scope": None,
}

# Names of the contract for what another option says. They are taken, and not listed in signatures.
UNLISTED: Final = frozenset({"allow_external_links"})


# Requests


class MarkdownOptionsDict(TypedDict, total=False):
    """The settings of the format `markdown`."""

    mode: Literal["article", "full"] | None


class ScreenshotOptionsDict(TypedDict, total=False):
    """The settings of the format `screenshot`; sizes in CSS pixels."""

    capture: Literal["viewport", "full_page"] | None
    full_page: bool | None
    width: int | None
    height: int | None


class FormatOptionsDict(TypedDict, total=False):
    """The settings of single formats."""

    markdown: MarkdownOptionsDict | None
    screenshot: ScreenshotOptionsDict | None


class SearchInputOptions(TypedDict, total=False):
    """Select results and engines; lists of engines, languages and countries are combined.

    num_results
        Unique results wanted, 1 to 50 (default 10); fewer come where fewer exist.
    engine
        `"engine_one"` (default), `"engine_two"` or `"engine_three"`; another one steps in where
        it gives nothing.
    language
        Preferred language of the results, such as `"en"` (default) or `"pt-BR"`.
    country
        Two-letter country code.
    safe_search
        Request filtered results (default False).
    """

    num_results: int | None
    engine: Engine | Sequence[Engine] | None
    language: str | Sequence[str] | None
    country: str | Sequence[str] | None
    safe_search: bool | None


class SingleSearchInputOptions(TypedDict, total=False):
    """The options of `SearchInputOptions`, without lists."""

    num_results: int | None
    engine: Engine | None
    language: str | None
    country: str | None
    safe_search: bool | None


class ResultPageOptions(TypedDict, total=False):
    """Choose what a search reads from the pages of its results.

    formats
        What to scrape from each page: any of `"markdown"`, `"html"`, `"raw_html"`,
        `"links"`, `"images"`, `"headings"`, `"structured_data"`, `"records"`, `"screenshot"`
        (default `["markdown"]`). With `[]`, a search visits no result page.
    format_options
        `{"markdown": {"mode": ...}, "screenshot": {"capture", "full_page", "width", "height"}}`;
        sizes in CSS pixels.
    only_main_content
        Leave out navigation, footers and the like (default True).
    mobile
        Visit pages as a phone does.
    mobile_device
        Visit pages as the named device.
    headers
        HTTP headers for the pages; search engines never get them, and no file stores them.
    cookies
        Cookies for the pages; search engines never get them, and no file stores them.
    extract
        What to extract from each page, into `extract`: a pydantic class, a JSON Schema, a dict of
        names and types such as `{"name": str, "price": float}`, or the request `{"prompt": ...,
        "schema": ..., "provider": ..., "model": ...}` with any of these entries. Without a
        language model it is filled from what pages declare. `extract_df` returns the fields as
        columns.
    """

    formats: Sequence[Format] | None
    format_options: FormatOptionsDict | None
    only_main_content: bool | None
    mobile: bool | None
    mobile_device: str | None
    headers: Mapping[str, str] | None
    cookies: Mapping[str, str] | None
    extract: type[Any] | Mapping[str, Any] | None


class ScrapedPageOptions(ResultPageOptions, total=False):
    """Choose how the pages of a crawl or of a list are loaded and read.

    headers
        HTTP headers for the pages; no file stores them.
    cookies
        Cookies for the pages; no file stores them.
    wait_for
        Seconds to wait in a browser before the page is read, a duration such as `"500ms"`, or a
        CSS selector to wait for. A number above 60 is in milliseconds, as in the HTTP contract.
    include_tags
        CSS selectors of elements to read; all others are omitted.
    exclude_tags
        CSS selectors of elements to omit.
    render
        Load pages in a browser (default: where another option needs it). True loads all pages,
        `"auto"` those that are empty without their scripts, False none.
    """

    wait_for: Duration | None
    include_tags: Sequence[str] | None
    exclude_tags: Sequence[str] | None
    render: bool | Literal["auto"] | None


class ScrapeOptionsDict(ScrapedPageOptions, total=False):
    """The `scrape_options` of a crawl; its `timeout` is `page_timeout` of a list of pages."""

    timeout: Duration | None


class PageOptions(ScrapedPageOptions, total=False):
    """The page options of a list of pages, as arguments.

    page_timeout
        Seconds for each page (default 30), or a duration such as `"1min"`. A number from 1000 is
        in milliseconds, as in the HTTP contract.
    scrape_options
        The page options as a dict: `formats` to `render`, and `timeout` for `page_timeout`. An
        option that is passed both ways is an error.
    """

    page_timeout: Duration | None
    scrape_options: ScrapeOptionsDict | None


class CrawlPageOptions(TypedDict, total=False):
    """The page options of a crawl: what its rows contain, and in a dict how pages are loaded.

    scrape_options
        How each page is loaded and read, as a dict with any of these entries: `headers` and
        `cookies` for the pages (no file stores them); `mobile` to visit pages as a phone does,
        `mobile_device` as the named device; `wait_for`, seconds to wait in a browser before the
        page is read, a duration such as `"500ms"`, or a CSS selector to wait for; `timeout`,
        seconds for each page (default 30), or a duration (a `wait_for` above 60 and a `timeout`
        from 1000 are milliseconds, as in the HTTP contract); `include_tags`, CSS selectors of
        elements to read, and `exclude_tags` of elements to omit; `format_options`, `{"markdown":
        {"mode": ...}, "screenshot": {"capture", "full_page", "width", "height"}}` with sizes in CSS
        pixels. It takes `formats`, `only_main_content`, `extract` and `render` as well; an option
        that is passed both ways is an error.
    """

    formats: Sequence[Format] | None
    only_main_content: bool | None
    extract: type[Any] | Mapping[str, Any] | None
    render: bool | Literal["auto"] | None
    scrape_options: ScrapeOptionsDict | None


class SearchOptions(SearchInputOptions, ResultPageOptions, total=False):
    """The request options of a search."""


class RightsOptions(TypedDict, total=False):
    """Choose what pages may be used for.

    rights
        Add the column `rights`: what the site and the page declare about their use, each
        declaration with its source, line and time (default False). With what the pages are for,
        `"search"`, `"ai-input"`, `"ai-train"` or `"research"`, a page that is refused for it is no
        row; the receipt has it as `rights`, with the rule. A service that does not offer it is not
        asked to crawl.
    """

    rights: bool | Purpose | None


class SiteOptions(TypedDict, total=False):
    """Choose which pages of a site a crawl visits.

    scope
        `"folder"` keeps to the folder of the start page, such as `/docs/` for
        `https://example.com/docs/start.html`; `"site"` keeps to its site, and `"any"` follows
        links to other sites as well (`allow_external_links=True` is another name for it). By
        default, a URL that names a folder (`.../docs/`, `.../docs/index.html`, or `.../docs` where
        that redirects to `.../docs/`) crawls the folder; the URL of a site or of another page, or
        a call with `include_paths`, the site. The receipt counts the pages elsewhere on the site.
    max_pages
        Pages at most, 1 to 1000 (default 100); pages that failed count. With `crawl_df` and a
        folder as `out`, or with `audit`, up to 100,000.
    max_depth
        Links away from the start at most, 1 to 10 (default 10).
    concurrency
        Pages fetched at a time, 1 to 10 (default 5).
    crawl_strategy
        `"bfs"` (breadth first, default), `"dfs"` (depth first) or `"bff"` (best first: the page
        with the highest estimated importance, by its inlinks; `metadata["crawl_score"]` has the
        estimate).
    allow_external_links
        Follow links to other sites (default False): the contract's name for `scope="any"`.
    respect_robots_txt
        Obey robots.txt (default True).
    include_paths
        Glob patterns of URL paths to keep to, such as `"/docs/**"`.
    exclude_paths
        Glob patterns of URL paths to exclude.
    filter_faceted_urls
        Visit only one of many URLs that show one page under sort, filter, session or tracking
        parameters (default False).
    sitemap
        Start from the site's sitemaps as well (default False; not every service offers it).
    llms_txt
        Start from the links of the site's `/llms.txt` as well (default False; not every service
        offers it).
    respect_nofollow
        Leave out links that say `rel=nofollow`, and all links of a page whose robots directives
        do (default False: such a link says what its author vouches for, robots.txt what may be
        read; not every service offers it).
    audit
        Collect what `audit_df` needs of each page, and add columns about links, redirects and
        indexing (default False; not every service offers it).
    check_links
        At the end of the crawl, request each link once that leads to another site, or to a page
        that the crawl did not get to: with HEAD, and with GET where that fails. The receipt has
        the outcomes, `audit_df` and `links_df` what became of them (default False; not every
        service offers it).
    """

    scope: Scope | None
    max_pages: int | None
    max_depth: int | None
    concurrency: int | None
    crawl_strategy: Strategy | None
    allow_external_links: bool | None
    respect_robots_txt: bool | None
    include_paths: Sequence[str] | None
    exclude_paths: Sequence[str] | None
    filter_faceted_urls: bool | None
    sitemap: bool | None
    llms_txt: bool | None
    respect_nofollow: bool | None
    audit: bool | None
    check_links: bool | None


class SinceDict(TypedDict, total=False):
    """The earlier crawl of an incremental one, with its check.

    base
        The earlier crawl, as `since` takes it without a dict: `"last"`, a time, a frame of
        `crawl_df` or the id of a job.
    recheck
        Share of the unchanged pages that are fetched in full nevertheless, 0 to 1 (default 0.01).
    """

    base: str | pd.DataFrame | dt.date
    recheck: float | None


class AsOfDict(TypedDict, total=False):
    """What a crawl of a web archive, or of an archive file, reads.

    date
        The date or time, such as `"2024-06-01"`, `"yesterday"` or `"7 days ago"`.
    source
        `"wayback"` (default), the Wayback Machine, or `"commoncrawl"`; or the path of a WARC or
        WACZ file, without a date.
    max_distance
        Days between a capture and that date at most (default 30), a timedelta, or a duration such
        as `"2 weeks"`.
    """

    date: str | dt.date
    source: ArchiveSource | str | Path | None
    max_distance: Duration | None


class SourceOptions(TypedDict, total=False):
    """Let a crawl read pages from elsewhere than from their site.

    as_of
        Crawl the site as it was at a date or time, such as `"2024-06-01"` or `"7 days ago"` (a day
        is its first moment in UTC): of each URL, the nearest capture of a web archive. The site is
        not asked. Adds the column `capture_distance_s`. Not every service offers it. A dict has the
        entries `date`, `source` (`"wayback"`, the default, or `"commoncrawl"`) and `max_distance`
        (days between a capture and the date at most, 30 by default, or a duration). A URL without
        such a capture is `not_archived` in the receipt, and no row. As `{"source": path}` it is the
        path of a WARC or WACZ file, in which `url` is where to start; the local service reads it.
    since
        Take pages that the site calls unchanged from an earlier crawl: `"last"`, the last one of
        this call in the cache, or a time such as `"yesterday"` or `"7 days ago"`, the last one
        before it (every page is fetched where there is none; a time without a zone is local); its
        frame, or the id of its job. Not every service offers it. As `{"base": ..., "recheck":
        share}`, that share of the unchanged pages is fetched in full nevertheless, 0 to 1 (default
        0.01). The receipt says how many had changed, and what that means for the others.
    """

    as_of: str | dt.date | AsOfDict | None
    since: str | pd.DataFrame | dt.date | SinceDict | None


class CrawlOptions(SiteOptions, RightsOptions, CrawlPageOptions, total=False):
    """The request options of a crawl."""


class SinglePageOptions(PageOptions, RightsOptions, total=False):
    """The request options of single pages.

    respect_robots_txt
        Obey robots.txt (default True).
    """

    respect_robots_txt: bool | None


class CreativesOptions(TypedDict, total=False):
    """The request options of a listing of creatives.

    region
        Where the ads were shown (default `"anywhere"`).
    date_range
        `"yesterday"`, `"last_7_days"`, `"last_30_days"` or `"YYYY-MM-DD..YYYY-MM-DD"`.
    limit
        Rows at most, however many pages they are on; all of them when None.
    max_rows
        The same as `limit`: pass one of them.
    only_new
        Send a new request, and leave out the creatives of the last cached answer to the same
        call; without such an answer, everything is new.
    skip_details
        Leave out the details of each creative (default True).
    should_download_assets
        Download the files of each creative (default False).
    should_download_previews
        Download the preview of each creative (default False).
    ocr
        Read the text in the picture of each creative (default False).
    timeout_ms
        Milliseconds that the service waits for the source, 5000 to 90000 (default 30000).
    """

    region: str | Sequence[str] | None
    date_range: str | Sequence[str] | None
    limit: int | None
    max_rows: int | None
    only_new: bool
    skip_details: bool | None
    should_download_assets: bool | None
    should_download_previews: bool | None
    ocr: bool | None
    timeout_ms: int | None


class WebhookOptions(TypedDict, total=False):
    """Where the service reports the end of a job.

    webhook_url, webhook_secret
        Where the service reports the job's end, and the key that it signs the report with, such as
        `url` and `secret` of `receive_webhooks()`. No file stores them.
    """

    webhook_url: str | None
    webhook_secret: str | None


# Calls


class ConnectionOptions(TypedDict, total=False):
    """Which service a call talks to, and how long it waits.

    session
        What `connect()` returned; the default session when None.
    timeout
        Seconds to wait for the answer, or a duration such as `"2min"`.
    """

    session: Connection | None
    timeout: Duration | None


class CacheOptions(TypedDict, total=False):
    """Which service a call talks to, what it displays, and how it uses the cache.

    session
        What `connect()` returned; the default session when None.
    progress
        None chooses for the environment (or as in `options.progress` and WEBDATA_PROGRESS): a
        panel in a notebook, HTML without clicks, marimo's bar, a bar in a terminal, the log
        elsewhere. False shows nothing, True shows a bar everywhere; `"panel"`, `"html"`,
        `"marimo"`, `"bar"` or `"log"` for that one.
    cache
        Whether to answer from the cache and to store the answer there.
    ttl
        Seconds for which a cached answer is fresh, or a duration such as `"1h"` or `"7d"` (default
        24 hours, 7 days for crawls).
    refresh
        Send a new request, whatever the cache holds, and store the new answer.
    offline
        Answer from the cache only, however old its answer is.
    stale_if_error
        Answer with an older result, and a warning, where the service cannot: True for one of
        any age, or its greatest age, in seconds or such as `"2d"`.
    timeout
        Seconds to wait for the job's end, or a duration such as `"10min"`; then JobTimeout, and
        the job continues.
    """

    session: Connection | None
    progress: bool | str | None
    cache: bool
    ttl: Duration | None
    refresh: bool
    offline: bool | None
    stale_if_error: bool | Duration
    timeout: Duration | None


class IncompleteOptions(TypedDict, total=False):
    """What happens to an incomplete answer.

    on_incomplete
        Where fewer rows arrive than the service counts: `"raise"`, `"warn"` or `"ignore"`.
    """

    on_incomplete: OnIncomplete


class CancelOptions(TypedDict, total=False):
    """What happens to the rows of a cancelled job.

    on_cancel
        When the job is cancelled or the call interrupted: `"raise"`, or `"partial"` for the rows
        so far.
    """

    on_cancel: OnCancel


class InputListOptions(TypedDict, total=False):
    """How several inputs of one call are run.

    on_error
        With several inputs: `"row"` makes an input that failed a row with `success` False and
        its `error`; `"raise"` ends the call with it.
    executor
        With several inputs: a `concurrent.futures.Executor` that runs them, such as a process
        pool; by default up to 16 run side by side here. A Dask `Client`, or `"dask"` for the one
        of this process, runs partitions of the inputs on the workers of a cluster, up to 1,000,000
        inputs; it needs `out`, a directory or fsspec URL that gets one Parquet part for each
        partition. Where the call is repeated, existing parts are not run again.
    budget
        Credits that this call may cost at most, by the service's catalog; where it may cost
        more, OverBudget, and nothing was started.
    """

    on_error: OnError
    executor: Executor | DaskClient | Literal["dask"] | None
    budget: float | None


class PartitionOptions(InputListOptions, total=False):
    """How several short inputs are run; a crawl is a partition of its own.

    partition
        With Dask: the number of inputs in one partition (default: about 10 seconds of work).
    """

    partition: int | None


class OutputOptions(TypedDict, total=False):
    """The form of the frame, and where its rows are also written.

    dtype_backend
        `"pandas"` or `"pyarrow"` (Arrow types, except for columns of lists; JSON columns
        are then JSON text).
    out
        A `.parquet`, `.jsonl`, `.csv` or `.xlsx` file, or fsspec URL, to write the rows to as
        well. A warning says once what CSV and Excel lose.
    """

    dtype_backend: DtypeBackend
    out: str | Path | None


class CallArguments(CacheOptions, IncompleteOptions, CancelOptions, OutputOptions, total=False):
    """The options that `CallOptions` checks."""


class TableOptions(
    CacheOptions, IncompleteOptions, CancelOptions, InputListOptions, OutputOptions, total=False
):
    """The options of a call that are no part of its request.

    out
        A `.parquet`, `.jsonl`, `.csv` or `.xlsx` file, or fsspec URL, to write the rows to as
        well. A warning says once what CSV and Excel lose. With `stream`, a directory, here or at
        such a URL, that gets a Parquet dataset, partitioned by job (by listing for creatives), for
        more rows than memory holds. With Dask, a directory for the parts.
    """


# Functions


class SearchRequestOptions(SearchOptions, WebhookOptions, total=False):
    """The options that a search request is built from."""


class CrawlRequestOptions(CrawlOptions, WebhookOptions, total=False):
    """The options that a crawl request is built from."""


class SearchDfOptions(SearchOptions, TableOptions, PartitionOptions, total=False):
    """The options of `search_df`."""


class CrawlDfOptions(CrawlOptions, SourceOptions, TableOptions, total=False):
    """The options of `crawl_df`."""


class RankDfOptions(SearchInputOptions, total=False):
    """The options of `rank_df`."""

    session: Connection | None
    progress: bool | str | None
    timeout: float | None
    on_error: OnError
    budget: float | None
    dtype_backend: DtypeBackend


class WatchDfOptions(CrawlOptions, total=False):
    """The options of `watch_df`."""

    recheck: float | None
    session: Connection | None
    progress: bool | str | None
    timeout: Duration | None


class CreativesDfOptions(CreativesOptions, TableOptions, PartitionOptions, total=False):
    """The options of `creatives_df`."""


class ScrapeDfOptions(
    SinglePageOptions, CacheOptions, CancelOptions, PartitionOptions, OutputOptions, total=False
):
    """The options of `scrape_df`."""


class SearchJobOptions(
    SingleSearchInputOptions, ResultPageOptions, WebhookOptions, ConnectionOptions, total=False
):
    """The options of `search_job`."""


class CrawlJobOptions(CrawlOptions, WebhookOptions, ConnectionOptions, total=False):
    """The options of `crawl_job`."""


class ExportOptions(TypedDict, total=False):
    """The options of `export_df`."""

    session: Connection | None
    progress: bool | str | None
    cache: bool
    timeout: Duration | None
    on_incomplete: OnIncomplete
    on_cancel: OnCancel
    dtype_backend: DtypeBackend
    out: str | Path | None


class ListingOptions(ConnectionOptions, total=False):
    """The options of a listing that the service answers at once."""

    dtype_backend: DtypeBackend


class CommandOptions(TypedDict, total=False):
    """The options of a call that commands offer.

    out
        File to write the rows to, `.parquet`, `.jsonl`, `.csv` or `.xlsx`.
    timeout
        Seconds to wait for the job's end, or a duration such as `10min`.
    """

    out: str | Path | None
    timeout: Duration | None
    cache: bool
    refresh: bool
    offline: bool | None
    ttl: Duration | None
    on_incomplete: OnIncomplete


# The order of options in signatures, docstrings and the reference

# What most calls are about, before any heading; a function has those that it takes.
USUAL: Final = (
    *("num_results", "engine", "language", "country"),
    *("region", "date_range", "limit", "only_new", "ocr", "should_download_previews"),
    *("columns", "max_pages", "scope", "include_paths", "exclude_paths"),
    *("formats", "extract", "render", "refresh", "timeout", "out"),
)
# The options below each heading: groups, and names, of which some belong to no group but are
# arguments of single functions. A name has precedence over a group.
HEADINGS: Final[Mapping[str, tuple[type | str, ...]]] = {
    "Which pages": (SiteOptions, SourceOptions, "recheck"),
    "Which results": (SearchInputOptions,),
    "Which creatives": (CreativesOptions,),
    "What of each page": (PageOptions, CrawlPageOptions, "audit", "check_links"),
    "Rights": (RightsOptions, "respect_robots_txt", "respect_nofollow"),
    "Caching": ("cache", "refresh", "ttl", "offline", "stale_if_error"),
    "Running": (CacheOptions, IncompleteOptions, CancelOptions, WebhookOptions, "wait", "budget"),
    "Several inputs": (PartitionOptions,),
    "Output": (OutputOptions, "stream", "lazy"),
}
