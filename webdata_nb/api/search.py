"""Search results as a frame."""

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

    from webdata_nb.api.overloads import AsyncSearchDf, SearchDf
    from webdata_nb.contract.fields import Engine, Format
    from webdata_nb.frames.frame import DtypeBackend
    from webdata_nb.session import Connection

# What may be given as a list, and the column that then tells the inputs apart.
_LISTS: Final = {"query": "query", "engine": "engine", "language": "language", "country": "country"}


async def _asearch_df(
    query: str | Sequence[str],
    *,
    num_results: int | None = None,
    engine: Engine | Sequence[Engine] | None = None,
    language: str | Sequence[str] | None = None,
    country: str | Sequence[str] | None = None,
    safe_search: bool | None = None,
    formats: Sequence[Format] | None = None,
    format_options: Mapping[str, Any] | None = None,
    only_main_content: bool | None = None,
    mobile: bool | None = None,
    mobile_device: str | None = None,
    headers: Mapping[str, str] | None = None,
    cookies: Mapping[str, str] | None = None,
    extract: Mapping[str, Any] | None = None,
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
    """Search the web and return the ranked results, one row each.

    `asearch_df` is the same for async code. Arguments left at None are not sent, so the
    service's defaults hold; the contract's are named here.

    Parameters
    ----------
    query
        The search terms. A list here, and in `engine`, `language` and `country`, asks for every
        combination, in order; one frame tells them apart by columns of these names.
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
        Ask for filtered results (default False).
    formats
        What to scrape from each result page: any of `"markdown"`, `"html"`, `"raw_html"`,
        `"links"`, `"images"`, `"headings"`, `"structured_data"`, `"screenshot"` (default
        `["markdown"]`). `[]` finds results without visiting them.
    format_options
        `{"markdown": {"mode": ...}, "screenshot": {"capture", "full_page", "width", "height"}}`;
        sizes in CSS pixels.
    only_main_content
        Leave out navigation, footers and the like (default True).
    mobile, mobile_device
        Visit pages as a phone does, or as the named device.
    headers, cookies
        Sent to result pages only, never to search engines. They are kept in no file.
    extract
        `{"prompt": ..., "schema": ..., "provider": ..., "model": ...}`, each of them optional: what
        to extract from each page, into `extract`. Without a language model it is filled from
        what pages declare.
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
        Return at once, with a stream of frames to loop over: the results in batches, as their
        pages are read, so that `rank` says their place. Several inputs run side by side, and
        their batches come in between each other. Leaving the loop cancels what runs. Streamed
        rows are not kept in the cache, but are taken from it.
    batch_rows
        With `stream`: rows of a frame at most, 1 to 1000 (default 20).

    Returns
    -------
    pandas.DataFrame or FrameStream
        With `stream`, a stream of such frames, for `for` and for `async for`, whose `receipt` is
        the whole call's once the loop has ended; else the frame.
        With lists, `query`, each other list's column and `fetched_at` come first. The other
        columns depend on `formats` and `extract`, never on what was found. The receipt is
        `df.attrs["webdata"]`; its `line` says in one line what happened.

        ================= ========= ==================================================
        column            dtype     meaning
        ================= ========= ==================================================
        rank              Int32     position among the organic results, from 1
        url, title        str       the result
        snippet           str       the engine's extract
        id                str       the service's id of this result
        error             str       why the page could not be scraped
        success, scraped  boolean   whether the row is whole; whether a page was read
        markdown, html    str       if asked for, as is `raw_html`
        links             object    list of str, if asked for
        images, headings  object    lists of dicts, if asked for
        structured_data   object    dict, if asked for
        screenshot        object    PNG bytes, if asked for
        extract           object    if asked for
        metadata          object    dict about the page, unless `formats` is `[]`
        extra             object    dict of fields that this version does not know
        ================= ========= ==================================================

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
        No result was found; the message names who was asked.

    Examples
    --------
    >>> df = search_df("aurora forecast", num_results=3, formats=[])
    >>> list(df.columns)[:4]
    ['rank', 'url', 'title', 'snippet']
    >>> df.attrs["webdata"]["status"]
    'completed'
    """
    given = {
        "query": query,
        "num_results": num_results,
        "engine": engine,
        "language": language,
        "country": country,
        "safe_search": safe_search,
        "formats": formats,
        "format_options": format_options,
        "only_main_content": only_main_content,
        "mobile": mobile,
        "mobile_device": mobile_device,
        "headers": headers,
        "cookies": cookies,
        "extract": extract,
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
        arguments.only_with("batch_rows", batch_rows, "stream=True")
        return await answers(JobSpec.search, given, _LISTS, call=call, fan_out=fan_out)
    return await streamed(
        JobSpec.search, given, _LISTS, call=call, fan_out=fan_out, out=out, size=batch_rows
    )


_asearch_df.__name__ = _asearch_df.__qualname__ = "asearch_df"
asearch_df: AsyncSearchDf = cast("AsyncSearchDf", _asearch_df)
search_df: SearchDf = cast("SearchDf", blocking(_asearch_df))
