"""The advertising creatives of one advertiser as a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from webdata_nb.calls.batches import FrameStream, streamed
from webdata_nb.calls.multi_input import FanOutOptions, OnError, answers
from webdata_nb.contract import limits
from webdata_nb.requests import arguments
from webdata_nb.requests.blocking import blocking
from webdata_nb.requests.call_options import CallOptions, OnCancel, OnIncomplete
from webdata_nb.requests.job_spec import JobSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    import pandas as pd

    from webdata_nb.api.overloads import AsyncCreativesDf, CreativesDf
    from webdata_nb.frames.frame import DtypeBackend
    from webdata_nb.session import Connection

# What may be given as a list, and the column that then tells the inputs apart.
_LISTS: Final = {"advertiser": "advertiser", "region": "region", "date_range": "date_range"}


async def _acreatives_df(
    advertiser: str | Sequence[str],
    *,
    region: str | Sequence[str] | None = None,
    date_range: str | Sequence[str] | None = None,
    max_rows: int | None = None,
    only_new: bool = False,
    limit: int | None = None,
    skip_details: bool | None = None,
    should_download_assets: bool | None = None,
    should_download_previews: bool | None = None,
    ocr: bool | None = None,
    timeout_ms: int | None = None,
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
) -> pd.DataFrame | FrameStream:
    """List an advertiser's creatives from the ads transparency source, one row each.

    `acreatives_df` is the same for async code. Every page is read, unless `max_rows` ends it
    sooner; a call that broke off goes on at its cursor when it is made again within a day (not
    with `refresh`, and not without the cache). No creative comes twice. Arguments left at None
    are not sent, so the service's defaults hold; those named here are the local service's.

    Parameters
    ----------
    advertiser
        The advertiser's id, such as `"AR17828074650563772417"`, or the URL of its page. A list
        here, and in `region` and `date_range`, asks for every combination; one frame tells them
        apart by columns of these names, with `fetched_at`, `success` and `error`.
    region
        Where the ads were shown (default `"anywhere"`).
    date_range
        `"yesterday"`, `"last_7_days"`, `"last_30_days"` or `"YYYY-MM-DD..YYYY-MM-DD"`.
    max_rows
        Rows at most; all of them when None.
    only_new
        Ask anew, and leave out what the last cached answer to the same call had; without one,
        everything is new.
    limit
        Rows per request, 1 to 40 (default 40).
    skip_details
        Leave out the details of each creative (default True).
    should_download_assets, should_download_previews, ocr
        Enrichment of each creative (default False).
    timeout_ms
        Milliseconds that the service waits for the source, 5000 to 90000 (default 30000).
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
        Seconds for which a cached answer is fresh (default 24 hours).
    refresh
        Ask again, whatever the cache holds, and keep the new answer.
    offline
        Answer from the cache only, however old its answer is.
    stale_if_error
        Answer with an older result, and a warning, where the service cannot: True for one of
        any age, or its greatest age in seconds.
    timeout
        Seconds to wait for all pages together; then ConnectionFailed.
    on_incomplete
        Where rows are missing: `"raise"`, `"warn"` or `"ignore"`.
    on_cancel
        When the call is interrupted: `"raise"`, or `"partial"` for the rows so far.
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
        a directory, here or at such a URL, that gets a Parquet dataset, partitioned by listing,
        for more rows than memory holds.
    stream
        Return at once, with a stream of frames to loop over: one for each page of `limit` rows,
        as it arrives. Several inputs run side by side. Leaving the loop ends the listing, which
        goes on there when the call is made again. Streamed rows are not kept in the cache as an
        answer, but are taken from it.

    Returns
    -------
    pandas.DataFrame or FrameStream
        With `stream`, a stream of such frames, for `for` and for `async for`, whose `receipt` is
        the whole call's once the loop has ended; else the frame. The receipt is
        `df.attrs["webdata"]`.

        ================================== =================== ================================
        column                             dtype               meaning
        ================================== =================== ================================
        position                           Int32               place in the listing, from 1
        advertiser_id, creative_id         str                 the source's ids
        preview_url                        str                 address of the preview
        advertiser_name, format            str                 text, image or video
        first_shown, last_shown            datetime64[us, UTC] when
        days_shown                         Int32               days
        political                          boolean             declared as such
        error                              str                 what could not be read or done
        regions, asset_urls                object              lists (1)
        impressions_min, impressions_max   Int64               where the source tells (1)
        landing_domain                     str                 (1)
        headline, description              str                 (1), (2)
        text                               str                 lines of the picture (2)
        text_confidence                    float64             0 to 1 (2)
        assets                             object              list of downloaded files (3)
        preview                            object              the downloaded preview (4)
        extra                              object              fields unknown to this version
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
    >>> df = creatives_df("AR17828074650563772417", max_rows=3)
    >>> df["position"].tolist()
    [1, 2, 3]
    """
    given = {
        "advertiser": advertiser,
        "max_rows": max_rows,
        "only_new": only_new,
        "region": region,
        "date_range": date_range,
        "limit": limit,
        "skip_details": skip_details,
        "should_download_assets": should_download_assets,
        "should_download_previews": should_download_previews,
        "ocr": ocr,
        "timeout_ms": timeout_ms,
    }
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
    fan_out = FanOutOptions.of(on_error=on_error, executor=executor, budget=budget)
    if not stream:
        return await answers(JobSpec.creatives, given, _LISTS, call=call, fan_out=fan_out)
    size = limits.CREATIVES_LIMIT_DEFAULT if limit is None else limit
    return await streamed(
        JobSpec.creatives, given, _LISTS, call=call, fan_out=fan_out, out=out, size=size
    )


_acreatives_df.__name__ = _acreatives_df.__qualname__ = "acreatives_df"
acreatives_df: AsyncCreativesDf = cast("AsyncCreativesDf", _acreatives_df)
creatives_df: CreativesDf = cast("CreativesDf", blocking(_acreatives_df))
