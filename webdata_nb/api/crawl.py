"""The pages of a site as a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from webdata_nb.calls.batches import FrameStream, streamed
from webdata_nb.calls.multi_input import FanOutOptions, OnError, answers
from webdata_nb.requests import arguments
from webdata_nb.requests.blocking import blocking
from webdata_nb.requests.call_options import CallOptions, OnCancel, OnIncomplete
from webdata_nb.requests.job_spec import JobSpec

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    import pandas as pd

    from webdata_nb.api.overloads import AsyncCrawlDf, CrawlDf
    from webdata_nb.contract.fields import Strategy
    from webdata_nb.frames.frame import DtypeBackend
    from webdata_nb.session import Connection

# What may be given as a list, and the column that then tells the inputs apart.
_LISTS: Final = {"url": "start_url"}


async def _acrawl_df(
    url: str | Sequence[str],
    *,
    max_pages: int | None = None,
    max_depth: int | None = None,
    concurrency: int | None = None,
    crawl_strategy: Strategy | None = None,
    allow_external_links: bool | None = None,
    respect_robots_txt: bool | None = None,
    include_paths: Sequence[str] | None = None,
    exclude_paths: Sequence[str] | None = None,
    scrape_options: Mapping[str, Any] | None = None,
    filter_faceted_urls: bool | None = None,
    sitemap: bool | None = None,
    respect_nofollow: bool | None = None,
    session: Connection | None = None,
    progress: bool | str | None = None,
    cache: bool = True,
    ttl: float | None = None,
    refresh: bool = False,
    offline: bool | None = None,
    stale_if_error: bool | float = False,
    timeout: float | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
    on_incomplete: OnIncomplete = "raise",
    on_cancel: OnCancel = "raise",
    on_error: OnError = "row",
    executor: Executor | None = None,
    budget: float | None = None,
    dtype_backend: DtypeBackend = "pandas",
    out: str | Path | None = None,
    stream: bool = False,
    batch_rows: int | None = None,
) -> pd.DataFrame | FrameStream:
    """Crawl a site from one page on and return its pages, one row each.

    `acrawl_df` is the same for async code. Arguments left at None are not sent, so the service's
    defaults hold; those named here are the local service's.

    Parameters
    ----------
    url
        Where to start: an absolute http or https URL. A list crawls each, and one frame tells
        them apart by `start_url`.
    max_pages
        Pages at most, 1 to 1000 (default 100); pages that failed count.
    max_depth
        Links away from the start at most, 1 to 10 (default 10).
    concurrency
        Pages fetched at a time, 1 to 10 (default 5).
    crawl_strategy
        `"bfs"` (breadth first, default), `"dfs"` (depth first) or `"bff"` (best first: the page
        that most links lead to, as far as the crawl can tell; `metadata["crawl_score"]` says how
        much).
    allow_external_links
        Follow links to other sites (default False).
    respect_robots_txt
        Obey the site's robots.txt (default True).
    include_paths, exclude_paths
        Glob patterns of URL paths to keep to, and to leave out, such as `"/docs/**"`.
    scrape_options
        How each page is read, as a dict: `formats` (as in `search_df`, default `["markdown"]`),
        `only_main_content`, `wait_for` and `timeout` (milliseconds; `wait_for` may be a CSS
        selector), `mobile`, `include_tags`, `exclude_tags`, `extract`; the local service also
        knows `format_options`, `mobile_device`, `headers`, `cookies` and `render`. Headers and
        cookies are kept in no file.
    filter_faceted_urls
        Visit only one of many URLs that show one page under sort, filter, session or tracking
        parameters (default False).
    sitemap
        Start from the site's sitemaps as well (default False; not every service offers it).
    respect_nofollow
        Leave links out that say `rel=nofollow`, and all links of a page whose robots directives
        do (default False: such a link says what its author vouches for, robots.txt what may be
        read; not every service offers it).
    session
        What `connect()` returned; the default session when None.
    progress
        None chooses by place (or as `options.progress` and WEBDATA_PROGRESS say): a panel in a
        notebook, HTML where nobody can click, marimo's bar, a bar in a terminal, the log
        elsewhere. False for silence, True for a bar in any place; `"panel"`, `"html"`,
        `"marimo"`, `"bar"` or `"log"` for that one.
    cache
        Whether to answer from the cache and to keep the answer there.
    ttl
        Seconds for which a cached answer is fresh (default 7 days).
    refresh
        Crawl again, whatever the cache holds, and keep the new answer.
    offline
        Answer from the cache only, however old its answer is.
    stale_if_error
        Answer with an older result, and a warning, where the service cannot: True for one of
        any age, or its greatest age in seconds.
    timeout
        Seconds to wait for the job's end; then JobTimeout, and the job goes on.
    on_incomplete
        Where fewer rows arrive than the service counts: `"raise"`, `"warn"` or `"ignore"`.
    on_cancel
        When the job is cancelled or the call interrupted: `"raise"`, or `"partial"` for the rows
        so far.
    on_error
        With several inputs: `"row"` makes an input that failed a row with `success` False and
        its `error`; `"raise"` ends the call with it.
    executor
        With several inputs: a `concurrent.futures.Executor` that runs them, such as a process
        pool; by default up to 16 run side by side here.
    budget
        Credits that this call may cost at most, by the service's catalog; where it may cost
        more, OverBudget, and nothing was started.
    dtype_backend
        `"pandas"` or `"pyarrow"` (Arrow types throughout; JSON columns are then JSON text).
    out
        A `.parquet` or `.jsonl` file, or fsspec URL, to write the rows to as well; with `stream`,
        a directory, here or at such a URL, that gets a Parquet dataset, partitioned by job, for
        more rows than memory holds.
    stream
        Return at once, with a stream of frames to loop over: the rows in batches, as they arrive.
        Several start URLs come one after the other. Leaving the loop cancels the crawl.
        Streamed rows are not kept in the cache, but are taken from it.
    batch_rows
        With `stream`: rows of each frame but the last, 1 to 1000 (default 20).

    Returns
    -------
    pandas.DataFrame or FrameStream
        With `stream`, a stream of such frames, for `for` and for `async for`, whose `receipt` is
        the whole call's once the loop has ended; else the frame.
        In the order of the crawl. The columns depend on `scrape_options`, never on what was
        found. A page that could not be read is a row with `success` False and its `error`. The
        receipt is `df.attrs["webdata"]`: its `line` says in one line what happened, its
        `receipt` counts every URL that was seen.

        ================= ====================== ===================================
        column            dtype                  meaning
        ================= ====================== ===================================
        url, title        str                    the page
        status            str                    completed or failed
        error             str                    why it failed
        status_code       Int16                  of the HTTP answer
        depth             Int16                  links away from the start
        time_taken        float64                seconds
        success           boolean                whether the page was read
        content_hash      str                    equal for equal content
        fetched_at        datetime64[us, UTC]    when
        quality           object                 dict, how good the text is
        markdown, html    str                    if asked for, as is `raw_html`
        links             object                 list of str, if asked for
        images, headings  object                 lists of dicts, if asked for
        structured_data   object                 dict, if asked for
        screenshot        object                 PNG bytes, if asked for
        extract           object                 if asked for
        metadata          object                 dict about the page
        extra             object                 dict of fields unknown to this version
        ================= ====================== ===================================

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
    >>> list(df.columns)[:4]
    ['url', 'title', 'status', 'error']
    >>> df["success"].all()
    np.True_
    """
    given = {
        "url": url,
        "max_pages": max_pages,
        "max_depth": max_depth,
        "concurrency": concurrency,
        "crawl_strategy": crawl_strategy,
        "allow_external_links": allow_external_links,
        "respect_robots_txt": respect_robots_txt,
        "include_paths": include_paths,
        "exclude_paths": exclude_paths,
        "scrape_options": scrape_options,
        "filter_faceted_urls": filter_faceted_urls,
        "sitemap": sitemap,
        "respect_nofollow": respect_nofollow,
    }
    fan_out = FanOutOptions.of(on_error=on_error, executor=executor, budget=budget)
    call = CallOptions.of(
        session=session,
        progress=progress,
        cache=cache,
        ttl=ttl,
        refresh=refresh,
        offline=offline,
        stale_if_error=stale_if_error,
        timeout=timeout,
        on_incomplete=on_incomplete,
        on_cancel=on_cancel,
        dtype_backend=dtype_backend,
        out=None if arguments.flag("stream", stream) else out,
    )
    if not stream:
        arguments.only_with("batch_rows", batch_rows, "stream=True")
        return await answers(JobSpec.crawl, given, _LISTS, call=call, fan_out=fan_out)
    return await streamed(
        JobSpec.crawl, given, _LISTS, call=call, fan_out=fan_out, out=out, size=batch_rows
    )


_acrawl_df.__name__ = _acrawl_df.__qualname__ = "acrawl_df"
acrawl_df: AsyncCrawlDf = cast("AsyncCrawlDf", _acrawl_df)
crawl_df: CrawlDf = cast("CrawlDf", blocking(_acrawl_df))
