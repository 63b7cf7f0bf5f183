"""Frames of what a service lists: jobs, weights, engines and usage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Unpack

from webdata_nb.contract import limits
from webdata_nb.toolkit import recording
from webdata_nb.toolkit.bridge import blocking
from webdata_nb.toolkit.client import paging
from webdata_nb.toolkit.frames import frame, rows, schemas
from webdata_nb.toolkit.frames.rows import CallResult
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.arguments import CallOptions, within
from webdata_nb.toolkit.requests.options import ListingOptions
from webdata_nb.toolkit.requests.signatures import with_options

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from webdata_nb.contract.replies import Reply
    from webdata_nb.toolkit.client.client import Client
    from webdata_nb.toolkit.frames.frame import DtypeBackend
    from webdata_nb.toolkit.frames.schemas import TableName
    from webdata_nb.toolkit.session import Connection


async def ajobs_df(
    *,
    limit: int = limits.JOBS_LISTED_DEFAULT,
    session: Connection | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
    dtype_backend: DtypeBackend = "pandas",
) -> pd.DataFrame:
    """List the jobs of this API key at the service, newest first.

    `ajobs_df` is the same for async code. Only our service lists jobs.

    Parameters
    ----------
    limit
        Maximum number of jobs.
    session
        What `connect()` returned; the default session when None.
    timeout
        Seconds to wait for the reply.
    dtype_backend
        `"pandas"` or `"pyarrow"`.

    Returns
    -------
    pandas.DataFrame
        ======================================= ====================== ========================
        column                                  dtype                  meaning
        ======================================= ====================== ========================
        job_id                                  str                    as receipts name it
        type                                    str                    search or crawl
        status                                  str                    of the job
        created_at, started_at, finished_at     datetime64[us, UTC]    when
        total, completed                        Int32                  rows
        error                                   str                    why it failed
        extra                                   object                 fields unknown here
        subject                                 str                    the query or start URL
        ======================================= ====================== ========================

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    NotSupported
        The service does not list jobs.
    WebdataError
        The root of these, and of any error of the connection.

    Examples
    --------
    >>> df = crawl_df(start_url, max_pages=5, refresh=True)
    >>> jobs_df(limit=1)["type"].tolist()
    ['crawl']
    """
    newest = arguments.check_count("limit", limit)
    options = CallOptions.of(session=session, timeout=timeout, dtype_backend=dtype_backend)
    return await listing_frame(
        "jobs", {"limit": newest}, options, lambda client: paging.all_jobs(client, newest=newest)
    )


jobs_df: Final = blocking(ajobs_df)


@with_options(ListingOptions)
async def aweights_df(**options: Unpack[ListingOptions]) -> pd.DataFrame:
    """Return what each operation costs at the service, in credits.

    `aweights_df` is the same for async code.

    Returns
    -------
    pandas.DataFrame
        ==================== ========= ======================================
        column               dtype     meaning
        ==================== ========= ======================================
        platform, operation  str       what is charged
        weight               float64   credits for one
        extra                object    fields unknown to this version
        ==================== ========= ======================================

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    WebdataError
        Any error of the connection.

    Examples
    --------
    >>> weights = weights_df().set_index(["platform", "operation"])["weight"]
    >>> float(weights["crawl", "page"])
    1.0
    """
    call = CallOptions.of(**options)
    return await listing_frame("weights", {}, call, lambda client: client.weights())


weights_df: Final = blocking(aweights_df)


@with_options(ListingOptions)
async def aengines_df(**options: Unpack[ListingOptions]) -> pd.DataFrame:
    """List the search providers of each engine in order, and why some are not usable.

    `aengines_df` is the same for async code. Only our service lists engines.

    Returns
    -------
    pandas.DataFrame
        The frame holds neither addresses nor keys.

        ============= ========= =====================================================
        column        dtype     meaning
        ============= ========= =====================================================
        engine        str       `engine_one`, `engine_two` or `engine_three`
        position      Int32     place in the engine's list, from 1
        provider      str       its name in settings
        usable        boolean   whether it has all that it needs
        resting_s     float64   seconds of the pause after a failure
        extra         object    fields unknown to this version
        why           str       what it lacks, or why it is paused
        ============= ========= =====================================================

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    InvalidRequest
        The settings name a provider that does not exist.
    NotSupported
        The service does not list engines.
    WebdataError
        Any error of the connection.

    Examples
    --------
    >>> engines = engines_df()
    >>> engines[engines["usable"]].groupby("engine")["provider"].last()["engine_one"]
    'local'
    """
    call = CallOptions.of(**options)
    return await listing_frame("engines", {}, call, lambda client: client.engines())


engines_df: Final = blocking(aengines_df)


@with_options(ListingOptions)
async def ausage_df(**options: Unpack[ListingOptions]) -> pd.DataFrame:
    """Return the credits and the usage of this API key's account, in one row.

    `ausage_df` is the same for async code. The account of the local service has no limit, but is
    counted as well. Only our service reports usage.

    Returns
    -------
    pandas.DataFrame
        ========================= =================== ========================================
        column                    dtype               meaning
        ========================= =================== ========================================
        plan                      str                 the plan's name
        operations                object              list of what was charged, by operation
        scopes                    object              list of what this key opens
        extra                     object              fields unknown to this version
        period_start, period_end  datetime64[us, UTC] the billing period
        key_ends_at               datetime64[us, UTC] when this key ends
        active, limit             Int32               jobs and calls under way, and their cap
        monthly                   float64             credits that each period grants
        monthly_left, topup       float64             credits left of the period, of top-ups
        reserved                  float64             credits held for what is under way
        used                      float64             credits charged in this period
        ========================= =================== ========================================

        `monthly`, `monthly_left` and `limit` are missing where there is no limit, and `key_ends_at`
        where the key does not end.

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    NotSupported
        The service does not report usage.
    WebdataError
        The root of these, and of any error of the connection.

    Examples
    --------
    >>> df = crawl_df(start_url, max_pages=5, refresh=True)
    >>> bool(usage_df()["used"].iloc[0] >= len(df))
    True
    """
    call = CallOptions.of(**options)
    return await listing_frame("usage", {}, call, _usage)


usage_df: Final = blocking(ausage_df)


async def _usage(client: Client) -> list[Reply]:
    return [await client.usage()]


async def listing_frame(
    table: TableName,
    params: Mapping[str, Any],
    options: CallOptions,
    fetch: Callable[[Client], Awaitable[Sequence[Reply]]],
    facts: Callable[[], Mapping[str, Any]] = dict,
) -> pd.DataFrame:
    """Return what `fetch_listing` does as a frame; raises as `within` and the client do."""
    listing, attrs = await fetch_listing(table, params, options, fetch, facts)
    return await asyncio.to_thread(
        frame.build,
        listing,
        columns=schemas.frame_columns(table),
        attrs=attrs,
        dtype_backend=options.dtype_backend,
    )


async def fetch_listing(
    table: TableName,
    params: Mapping[str, Any],
    options: CallOptions,
    fetch: Callable[[Client], Awaitable[Sequence[Reply]]],
    facts: Callable[[], Mapping[str, Any]] = dict,
) -> tuple[pa.Table, dict[str, Any]]:
    """Return a listing and its receipt, replayed or recorded where the settings ask for it.

    `facts` returns what else the receipt has, once `fetch` is done.
    """
    key, subject = recording.recording_key(table, params), str(params.get("query", ""))
    settings = options.settings
    if settings.replay is not None:
        names = schemas.SCHEMAS[table].names
        replayed = await asyncio.to_thread(recording.get, settings.replay, key, subject, names)
        return replayed.table, replayed.attrs
    async with options.connection.client(settings) as client:
        replies = await within(options.timeout_s, fetch(client))
    listing = rows.to_table(table, [reply.model_dump(mode="json") for reply in replies])
    attrs = {
        "kind": table,
        "service": options.connection.scope(settings).service,
        "finished_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        **facts(),
    }
    if settings.record is not None:
        result = CallResult(listing, attrs)
        await asyncio.to_thread(recording.write_result, settings.record, key, subject, result)
    return listing, attrs
