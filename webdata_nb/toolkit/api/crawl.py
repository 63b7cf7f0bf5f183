"""Crawls sites and returns their pages as a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

from webdata_nb.toolkit.api.frame_functions import frame_or_stream
from webdata_nb.toolkit.bridge import blocking
from webdata_nb.toolkit.calls import crawl_files
from webdata_nb.toolkit.frames.schemas import CRAWL_COLUMNS
from webdata_nb.toolkit.requests.crawls import crawl_inputs
from webdata_nb.toolkit.requests.job_spec import is_long
from webdata_nb.toolkit.requests.options import CrawlDfOptions
from webdata_nb.toolkit.requests.signatures import with_options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd
    from dask.dataframe import DataFrame as DaskFrame

    from webdata_nb.toolkit.api.frame_functions import AsyncCrawlDf, CrawlDf
    from webdata_nb.toolkit.calls.frame_stream import FrameStream


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


acrawl_df = cast("AsyncCrawlDf", _acrawl_df)
crawl_df = cast("CrawlDf", blocking(_acrawl_df))
