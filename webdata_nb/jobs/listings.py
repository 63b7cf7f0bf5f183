"""What a service tells about itself and its jobs, as frames."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from webdata_nb.client import paging
from webdata_nb.contract import limits
from webdata_nb.frames import frame, rows, schemas
from webdata_nb.recording import cassette
from webdata_nb.requests import arguments
from webdata_nb.requests.blocking import blocking
from webdata_nb.requests.call_options import CallOptions
from webdata_nb.requests.deadline import within

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from webdata_nb.client.client import Client
    from webdata_nb.contract.replies import Reply
    from webdata_nb.frames.frame import DtypeBackend
    from webdata_nb.frames.schemas import TableName
    from webdata_nb.session import Connection


async def ajobs_df(
    *,
    limit: int = limits.JOBS_LISTED_DEFAULT,
    session: Connection | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
    dtype_backend: DtypeBackend = "pandas",
) -> pd.DataFrame:
    """List this key's jobs at the service, newest first.

    `ajobs_df` is the same for async code. Listing jobs is an extra of our service.

    Parameters
    ----------
    limit
        Jobs at most.
    session
        What `connect()` returned; the default session when None.
    timeout
        Seconds to wait for the answer.
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
        subject                                 str                    the query or start URL
        created_at, started_at, finished_at     datetime64[us, UTC]    when
        total, completed                        Int32                  rows
        error                                   str                    why it failed
        extra                                   object                 fields unknown here
        ======================================= ====================== ========================

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    NotFound, NotSupported
        The service does not list jobs.
    WebdataError
        The root of these, and of what a connection may meet.

    Examples
    --------
    >>> df = crawl_df(start_url, max_pages=5, refresh=True)
    >>> jobs_df(limit=1)["type"].tolist()
    ['crawl']
    """
    newest = arguments.whole("limit", limit, least=1)
    call = CallOptions.of(session=session, timeout=timeout, dtype_backend=dtype_backend)
    return await listed(
        "jobs", {"limit": newest}, call, lambda client: paging.all_jobs(client, newest=newest)
    )


jobs_df = blocking(ajobs_df)


async def aweights_df(
    *,
    session: Connection | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
    dtype_backend: DtypeBackend = "pandas",
) -> pd.DataFrame:
    """Return what each operation costs at the service, in credits.

    `aweights_df` is the same for async code.

    Parameters
    ----------
    session
        What `connect()` returned; the default session when None.
    timeout
        Seconds to wait for the answer.
    dtype_backend
        `"pandas"` or `"pyarrow"`.

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
        What a connection may meet.

    Examples
    --------
    >>> weights = weights_df().set_index(["platform", "operation"])["weight"]
    >>> float(weights["crawl", "page"])
    1.0
    """
    call = CallOptions.of(session=session, timeout=timeout, dtype_backend=dtype_backend)
    return await listed("weights", {}, call, lambda client: client.weights())


weights_df = blocking(aweights_df)


async def aengines_df(
    *,
    session: Connection | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
    dtype_backend: DtypeBackend = "pandas",
) -> pd.DataFrame:
    """List whom each search engine asks, in order, and what those lack that cannot be asked.

    `aengines_df` is the same for async code. Listing engines is an extra of our service.

    Parameters
    ----------
    session
        What `connect()` returned; the default session when None.
    timeout
        Seconds to wait for the answer.
    dtype_backend
        `"pandas"` or `"pyarrow"`.

    Returns
    -------
    pandas.DataFrame
        Neither addresses nor keys are in it.

        ============= ========= =====================================================
        column        dtype     meaning
        ============= ========= =====================================================
        engine        str       `engine_one`, `engine_two` or `engine_three`
        position      Int32     place in the engine's list, from 1
        provider      str       its name in settings
        usable        boolean   whether it has all that it needs
        why           str       what it lacks, or why it is left alone for a while
        resting_s     float64   seconds for which it is left alone after a failure
        extra         object    fields unknown to this version
        ============= ========= =====================================================

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    InvalidRequest
        The settings name a provider that does not exist.
    NotFound, NotSupported
        The service does not list engines.
    WebdataError
        What a connection may meet.

    Examples
    --------
    >>> engines = engines_df()
    >>> engines[engines["usable"]].groupby("engine")["provider"].last()["engine_one"]
    'local'
    """
    call = CallOptions.of(session=session, timeout=timeout, dtype_backend=dtype_backend)
    return await listed("engines", {}, call, lambda client: client.engines())


engines_df = blocking(aengines_df)


async def ausage_df(
    *,
    session: Connection | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
    dtype_backend: DtypeBackend = "pandas",
) -> pd.DataFrame:
    """Return what this key's account has and has used, in one row.

    `ausage_df` is the same for async code. The account of the local service has no limit, and is
    counted all the same. Telling usage is an extra of our service.

    Parameters
    ----------
    session
        What `connect()` returned; the default session when None.
    timeout
        Seconds to wait for the answer.
    dtype_backend
        `"pandas"` or `"pyarrow"`.

    Returns
    -------
    pandas.DataFrame
        ========================= =================== ========================================
        column                    dtype               meaning
        ========================= =================== ========================================
        plan                      str                 the plan's name
        monthly                   float64             credits that each period grants
        monthly_left, topup       float64             credits left of the period, of top-ups
        reserved                  float64             credits held for what is under way
        used                      float64             credits charged in this period
        period_start, period_end  datetime64[us, UTC] the billing period
        active, limit             Int32               jobs and calls under way, and their cap
        operations                object              list of what was charged, by operation
        extra                     object              fields unknown to this version
        ========================= =================== ========================================

        `monthly`, `monthly_left` and `limit` are missing where there is no limit.

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    NotFound, NotSupported
        The service does not tell.
    WebdataError
        The root of these, and of what a connection may meet.

    Examples
    --------
    >>> df = crawl_df(start_url, max_pages=5, refresh=True)
    >>> bool(usage_df()["used"].iloc[0] >= len(df))
    True
    """
    call = CallOptions.of(session=session, timeout=timeout, dtype_backend=dtype_backend)
    return await listed("usage", {}, call, _usage)


usage_df = blocking(ausage_df)


async def _usage(client: Client) -> list[Reply]:
    return [await client.usage()]


async def listed(
    table: TableName,
    params: Mapping[str, Any],
    call: CallOptions,
    ask: Callable[[Client], Awaitable[Sequence[Reply]]],
) -> pd.DataFrame:
    """Return what `ask` lists as a frame; raises what `within` and the client do."""
    shown = schemas.shown(table)
    found, attrs = await recorded(table, params, call, ask)
    return await asyncio.to_thread(
        frame.build, found, shown=shown, attrs=attrs, dtype_backend=call.dtype_backend
    )


async def recorded(
    table: TableName,
    params: Mapping[str, Any],
    call: CallOptions,
    ask: Callable[[Client], Awaitable[Sequence[Reply]]],
) -> tuple[pa.Table, dict[str, Any]]:
    """Return a listing and what it tells of itself, from a recording or into one."""
    question, subject = cassette.recording_key(table, params), str(params.get("query", ""))
    if (folder := call.settings.replay) is not None:
        names = schemas.SCHEMAS[table].names
        path, found, attrs = await asyncio.to_thread(cassette.get, folder, question, subject, names)
        return found, {**attrs, "cache": "replay", "file": str(path)}
    async with call.connection.client(call.settings) as client:
        replies = await within(call.timeout_s, ask(client))
    found = rows.to_table(table, [reply.model_dump(mode="json") for reply in replies])
    attrs = {
        "kind": table,
        "service": call.connection.scope(call.settings).service,
        "finished_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    if (folder := call.settings.record) is not None:
        await asyncio.to_thread(cassette.put, folder, question, subject, found, attrs)
    return found, attrs
