"""Starts jobs without waiting for their end, and attaches to started jobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Unpack

from webdata_nb.bridge import blocking, synced
from webdata_nb.cache.job_refs import JobRef
from webdata_nb.cache.result_cache import ResultCache, find_job_ref
from webdata_nb.client import job_wait
from webdata_nb.contract.states import JobKind
from webdata_nb.errors import NotFound
from webdata_nb.jobs import runner
from webdata_nb.jobs.job import Job, checked_id, started_job
from webdata_nb.recording import recorder
from webdata_nb.requests import arguments
from webdata_nb.requests.call_options import CallOptions, within
from webdata_nb.requests.inputs import request_values
from webdata_nb.requests.job_spec import JobSpec
from webdata_nb.requests.options import (
    ConnectionOptions,
    CrawlJobOptions,
    CrawlRequestOptions,
    OnCancel,
    OnIncomplete,
    SearchJobOptions,
    SearchRequestOptions,
    WebhookOptions,
)
from webdata_nb.requests.signatures import with_options

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from webdata_nb.client.client import Client
    from webdata_nb.frames.frame import DtypeBackend
    from webdata_nb.session import Connection


@with_options(SearchJobOptions)
async def asearch_job(query: str, **options: Unpack[SearchJobOptions]) -> Job:
    """Start a search and return at once, with the job in hand.

    `asearch_job` is the same for async code.

    Parameters
    ----------
    query
        The search terms of one search.
    timeout
        Seconds to wait for the answer to the start.

    Returns
    -------
    Job
        It goes on at the service, whatever becomes of this process.

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    WebdataError
        What a start may meet.

    Examples
    --------
    >>> job = search_job("aurora forecast", num_results=3, formats=[])
    >>> len(job.df())
    3
    """
    spec = JobSpec.search(query, **request_values(options, SearchRequestOptions))
    return await _start(spec, options)


search_job = synced(asearch_job)


@with_options(CrawlJobOptions)
async def acrawl_job(url: str, **options: Unpack[CrawlJobOptions]) -> Job:
    """Start a crawl and return at once, with the job in hand.

    `acrawl_job` is the same for async code.

    Parameters
    ----------
    url
        Where to start: an absolute http or https URL.
    timeout
        Seconds to wait for the answer to the start.

    Returns
    -------
    Job
        It goes on at the service, whatever becomes of this process.

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    WebdataError
        What a start may meet.

    Examples
    --------
    >>> job = crawl_job(start_url, max_pages=5)
    >>> len(job.df())
    5
    """
    spec = JobSpec.crawl(url, **request_values(options, CrawlRequestOptions))
    return await _start(spec, options)


crawl_job = synced(acrawl_job)


class _JobOptions(ConnectionOptions, WebhookOptions, total=False):
    """The options of a job's start that are no part of what it fetches."""


async def _start(spec: JobSpec, options: _JobOptions) -> Job:
    if options["webhook_url"] is None:
        arguments.only_with("webhook_secret", options["webhook_secret"], "webhook_url")
    call = CallOptions.of(session=options["session"], timeout=options["timeout"], cache=True)
    replay = call.settings.replay
    if replay is not None:
        job_id = await recorder.replay_job_start(replay, spec)
    else:
        async with call.connection.client(call.settings) as client:
            job_id = (await within(call.timeout_s, runner.start(client, spec))).job_id
    if call.settings.record is not None:
        await recorder.record_job_start(call.settings.record, spec, job_id)
    job_ref = ResultCache.of_spec(spec, call).job_ref_of(spec, job_id)
    return await asyncio.to_thread(started_job, job_ref, call.connection, remember=replay is None)


async def ajob(
    job_id: str,
    *,
    session: Connection | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
) -> Job:
    """Attach to a job that runs or has run, such as one that outlived its kernel.

    `ajob` is the same for async code. `jobs_df()` lists what there is to attach to. A job that
    was started on this machine shows the columns that its call would have shown, any other one
    every column there is.

    Parameters
    ----------
    job_id
        The job, as receipts, `jobs_df()` and errors name it.
    session
        What `connect()` returned; the default session when None.
    timeout
        Seconds to wait for the service's word on the job.

    Returns
    -------
    Job
        With the state that the service tells.

    Raises
    ------
    NotFound
        No such job for this key.
    WebdataError
        What a connection may meet.

    Examples
    --------
    >>> begun = crawl_job(start_url, max_pages=5)
    >>> job(begun.job_id).kind
    'crawl'
    """
    call = CallOptions.of(session=session, timeout=timeout)
    named = checked_id(job_id)
    scope = call.connection.scope(call.settings)
    if call.settings.replay is not None:
        played = await recorder.find_job(call.settings.replay, named, scope.service)
        return started_job(played, call.connection, remember=False)
    known = await asyncio.to_thread(find_job_ref, named, call)
    async with call.connection.client(call.settings) as client:
        finding = _found(client, named, known)
        kind, last = await within(call.timeout_s, finding)
    job_ref = known or JobRef.for_foreign_job(named, kind, scope.service)
    return Job(job_ref, call.connection, last)


job = synced(ajob)


async def _found(client: Client, job_id: str, known: JobRef | None) -> tuple[JobKind, Any]:
    """Return a job's kind and progress, whichever of both kinds it is."""
    kinds: tuple[JobKind, ...] = ("crawl", "search")
    if known is not None:
        kinds = ("search",) if known.op == "search" else ("crawl",)
    for kind in kinds[:-1]:
        try:
            return kind, await _asked(client, kind, job_id)
        except NotFound:
            continue
    return kinds[-1], await _asked(client, kinds[-1], job_id)


async def _asked(client: Client, kind: JobKind, job_id: str) -> Any:
    reply = await client.status(kind, job_id)
    return job_wait.progress_of(kind, reply, elapsed_s=0.0)


async def aexport_df(
    job_id: str,
    *,
    session: Connection | None = None,
    progress: bool | str | None = None,
    cache: bool = True,
    timeout: float | None = None,  # noqa: ASYNC109 - the user's name; asyncio.timeout does it
    on_incomplete: OnIncomplete = "raise",
    on_cancel: OnCancel = "raise",
    dtype_backend: DtypeBackend = "pandas",
    out: str | Path | None = None,
) -> pd.DataFrame:
    """Return the rows of a job by its id, waiting for its end where it still runs.

    `aexport_df` is the same for async code. A job that is collected once is answered by the
    cache, without a word to the service, also when the service has forgotten it.

    Parameters
    ----------
    job_id
        The job, as receipts, `jobs_df()` and errors name it.
    session, progress, cache, timeout, on_incomplete, on_cancel, dtype_backend, out
        As in `crawl_df`.

    Returns
    -------
    pandas.DataFrame
        As the call that started the job would return; of a job started elsewhere, every column.

    Raises
    ------
    NotFound
        No such job for this key.
    Expired
        The service no longer has the rows, and the cache never had them.
    JobFailed, JobCancelled, JobTimeout, IncompleteResult
        As in `crawl_df`.

    Examples
    --------
    >>> begun = crawl_job(start_url, max_pages=5)
    >>> len(export_df(begun.job_id))
    5
    """
    call = CallOptions.of(
        session=session,
        progress=progress,
        cache=cache,
        timeout=timeout,
        on_incomplete=on_incomplete,
        on_cancel=on_cancel,
        dtype_backend=dtype_backend,
        out=out,
    )
    known = await asyncio.to_thread(find_job_ref, checked_id(job_id), call)
    if known is None or not cache or call.settings.replay is not None:
        found = await ajob(job_id, session=session, timeout=timeout)
    else:
        found = started_job(known, call.connection, remember=False)
    return await found.collect(call)


export_df = blocking(aexport_df)
