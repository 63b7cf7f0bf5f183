"""Crawls sites and returns their pages as a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.api.frame_functions import frame_or_stream
from webdata_nb.toolkit.bridge import blocking
from webdata_nb.toolkit.calls import archive_crawl, long_crawl
from webdata_nb.toolkit.calls.dated_crawl import dated_crawl_inputs
from webdata_nb.toolkit.calls.incremental import incremental_inputs
from webdata_nb.toolkit.frames.schemas import CRAWL_COLUMNS
from webdata_nb.toolkit.requests.dated import dated_options
from webdata_nb.toolkit.requests.inputs import crawl_inputs
from webdata_nb.toolkit.requests.options import CrawlDfOptions
from webdata_nb.toolkit.requests.signatures import with_options
from webdata_nb.toolkit.requests.since import Since

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pandas as pd
    from dask.dataframe import DataFrame as DaskFrame

    from webdata_nb.toolkit.api.frame_functions import AsyncCrawlDf, CrawlDf
    from webdata_nb.toolkit.calls.batches import FrameStream
    from webdata_nb.toolkit.requests.inputs import Input


@with_options(CrawlDfOptions, columns=CRAWL_COLUMNS)
async def _acrawl_df(
    url: str | Path | Sequence[str | Path],
    *,
    stream: bool = False,
    batch_rows: int | None = None,
    lazy: bool = False,
    archive: str | Path | None = None,
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
        Streamed rows come from the cache if it has them, but are not stored in it.
    batch_rows
        With `stream`: rows of each frame but the last, 1 to 1000 (default 20).
    lazy
        Return a `dask.dataframe` over the Parquet parts in `out`, without reading a row: for more
        rows than memory holds. Each part is a partition; the columns are those of a call with
        lists. Without Dask as `executor`, the partitions run here, one after the other.
    archive
        The path of a WARC or WACZ file to read pages from, instead of requesting them; `url` is
        where to start in it. Nothing is sent. A URL without a capture in it is `not_archived` in
        the receipt, and no row; `fetched_at` is the time of the capture. The local service reads
        the file.

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
        is then the time of the capture. The columns from `inlinks` to `page_facts` are there with
        `audit=True`.

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
    if options["audit"]:
        _check_audit({"stream": stream, "lazy": lazy})
    inputs = _archived_inputs(url, archive, options, lazy=lazy)
    if inputs is not None:
        return await frame_or_stream(
            inputs, options, stream=stream, batch_rows=batch_rows, lazy=lazy
        )
    sites = cast("str | Sequence[str]", url)  # paths are of archives
    since = Since.check(options["since"], options["recheck"])
    if archive_crawl.is_recorded(options):
        if since is not None:
            raise InvalidArgument(
                "a WARC file has all responses of a crawl, and since requests few of them: "
                "leave out one of since and out"
            )
        others: Mapping[str, object] = {
            "stream": stream,
            "batch_rows": batch_rows,
            "lazy": lazy,
        }
        return await archive_crawl.record(sites, options, others)
    if since is not None:
        inputs = incremental_inputs(sites, options, since, stream=stream, lazy=lazy)
        return await frame_or_stream(inputs, options, stream=False, batch_rows=batch_rows)
    if long_crawl.is_long(options) and not options["audit"]:
        return await long_crawl.run(sites, options, stream=stream, lazy=lazy)
    inputs = crawl_inputs(sites, options, lazy=lazy)
    return await frame_or_stream(inputs, options, stream=stream, batch_rows=batch_rows, lazy=lazy)


def _archived_inputs(
    url: str | Path | Sequence[str | Path],
    archive: str | Path | None,
    options: CrawlDfOptions,
    *,
    lazy: bool,
) -> Sequence[Input] | None:
    """Return the crawls of a call that reads an archive, a file or one on the web; else None."""
    reads_file = archive is not None or archive_crawl.has_archive(url)
    if (dated := dated_options(options)) is not None:
        others = {
            "since": options["since"] is not None,
            "recheck": options["recheck"] is not None,
            "archive": reads_file,
            "a WARC file as out": archive_crawl.is_recorded(options),
        }
        sites = cast("str | Sequence[str]", url)
        return dated_crawl_inputs(sites, options, dated, others, lazy=lazy)
    if not reads_file:
        return None
    if Since.check(options["since"], options["recheck"]) is not None:
        raise InvalidArgument("since compares with the pages of a site, not of an archive")
    return archive_crawl.archive_inputs(url, archive, options, lazy=lazy)


def _check_audit(forms: Mapping[str, object]) -> None:
    """Refuse what has no frame with all rows of one crawl, which an audit compares."""
    if used_forms := [name for name, value in forms.items() if value]:
        raise InvalidArgument(
            f"audit=True compares all pages of a crawl, so {used_forms[0]} has no meaning with "
            "it: leave one of them out"
        )


acrawl_df = cast("AsyncCrawlDf", _acrawl_df)
crawl_df = cast("CrawlDf", blocking(_acrawl_df))
