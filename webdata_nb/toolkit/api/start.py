"""Starts jobs without waiting for their end, and attaches to started jobs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Unpack

from webdata_nb.contract import limits
from webdata_nb.errors import InvalidArgument, NotFound, PermissionDenied
from webdata_nb.toolkit import recording
from webdata_nb.toolkit.bridge import blocking, synced
from webdata_nb.toolkit.cache.result_cache import JobRef, ResultCache, find_job_ref
from webdata_nb.toolkit.client import job_wait
from webdata_nb.toolkit.jobs import sources
from webdata_nb.toolkit.jobs.job import Job, checked_id, started_job
from webdata_nb.toolkit.requests import arguments
from webdata_nb.toolkit.requests.arguments import CallOptions, within
from webdata_nb.toolkit.requests.inputs import JobSpec, crawl_fields, is_long, request_values
from webdata_nb.toolkit.requests.options import (
    ConnectionOptions,
    CrawlJobOptions,
    CrawlRequestOptions,
    ExportOptions,
    SearchJobOptions,
    SearchRequestOptions,
    WebhookOptions,
)
from webdata_nb.toolkit.requests.signatures import with_options

if TYPE_CHECKING:
    import pandas as pd

    from webdata_nb.contract.events import Progress
    from webdata_nb.toolkit.client.client import Client


@with_options(SearchJobOptions)
async def asearch_job(query: str, **options: Unpack[SearchJobOptions]) -> Job:
    """Start a search and return its job without waiting for the end.

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
        The job runs at the service, also after the end of this process.

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    WebdataError
        Other errors of a start, such as a wrong key.

    Examples
    --------
    >>> job = search_job("aurora forecast", num_results=3, formats=[])
    >>> len(job.df())
    3
    """
    spec = JobSpec.search(query, **request_values(options, SearchRequestOptions))
    return await _start(spec, options)


search_job: Final = synced(asearch_job)


@with_options(CrawlJobOptions)
async def acrawl_job(url: str, **options: Unpack[CrawlJobOptions]) -> Job:
    """Start a crawl and return its job without waiting for the end.

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
        The job runs at the service, also after the end of this process.

    Raises
    ------
    InvalidArgument
        An argument that is not allowed; nothing was sent.
    WebdataError
        Other errors of a start, such as a wrong key.

    Examples
    --------
    >>> job = crawl_job(start_url, max_pages=5)
    >>> len(job.df())
    5
    """
    if is_long(options) and not options["audit"]:
        raise InvalidArgument(
            f"max_pages must be from 1 to {limits.MAX_PAGES[1]}; it is {options['max_pages']}: "
            "crawl_df takes more, with a folder for the rows as out"
        )
    spec = JobSpec.crawl(url, **crawl_fields(options, CrawlRequestOptions))
    return await _start(spec, options)


crawl_job: Final = synced(acrawl_job)


class _JobOptions(ConnectionOptions, WebhookOptions, total=False):
    """The options of a job's start that are no part of what it fetches."""


async def _start(spec: JobSpec, options: _JobOptions) -> Job:
    if options["webhook_url"] is None:
        arguments.check_requirement("webhook_secret", options["webhook_secret"], "webhook_url")
    call = CallOptions.of(session=options["session"], timeout=options["timeout"], cache=True)
    replay = call.settings.replay
    if replay is not None:
        job_id = await recording.replay_job_start(replay, spec)
    else:
        async with call.connection.client(call.settings) as client:
            job_id = (await sources.start(client, spec, call)).job_id
    if call.settings.record is not None:
        await recording.record_job_start(call.settings.record, spec, job_id)
    job_ref = ResultCache.of_spec(spec, call).job_ref_of(spec, job_id)
    return await asyncio.to_thread(started_job, job_ref, call.connection, remember=replay is None)


@with_options(ConnectionOptions)
async def ajob(job_id: str, **options: Unpack[ConnectionOptions]) -> Job:
    """Attach to a running or ended job, such as one that outlived its kernel.

    `ajob` is the same for async code. `jobs_df()` lists the jobs. A job that was started on this
    machine has the columns of its call; any other job has every column.

    Parameters
    ----------
    job_id
        The job's id, as in receipts, `jobs_df()` and errors.

    Returns
    -------
    Job
        With its current state at the service.

    Raises
    ------
    NotFound
        No such job for this key.
    WebdataError
        Other errors of the connection.

    Examples
    --------
    >>> begun = crawl_job(start_url, max_pages=5)
    >>> job(begun.job_id).kind
    'crawl'
    """
    call = CallOptions.of(**options)
    job_id = checked_id(job_id)
    scope = call.connection.scope(call.settings)
    if call.settings.replay is not None:
        recorded = await recording.find_job(call.settings.replay, job_id, scope.service)
        return started_job(recorded, call.connection, remember=False)
    job_ref = await asyncio.to_thread(find_job_ref, job_id, call)
    async with call.connection.client(call.settings) as client:
        progress = await within(call.timeout_s, _job_progress(client, job_id, job_ref))
    job_ref = job_ref or JobRef.for_foreign_job(job_id, progress.type, scope.service)
    return Job(job_ref, call.connection, progress)


job: Final = synced(ajob)


async def _job_progress(client: Client, job_id: str, job_ref: JobRef | None) -> Progress:
    """Return a job's progress; one of an unknown kind is tried as a crawl, then as a search."""
    if job_ref is not None:
        return await job_wait.current_progress(client, job_ref.kind, job_id)
    with suppress(NotFound, PermissionDenied):  # the key may read jobs of the other kind alone
        return await job_wait.current_progress(client, "crawl", job_id)
    return await job_wait.current_progress(client, "search", job_id)


@with_options(ExportOptions)
async def aexport_df(job_id: str, **options: Unpack[ExportOptions]) -> pd.DataFrame:
    """Return the rows of a job by its id, waiting for its end if it still runs.

    `aexport_df` is the same for async code. The cache answers for a job whose rows were collected
    before, without a request, also when the service has deleted it.

    Parameters
    ----------
    job_id
        The job's id, as in receipts, `jobs_df()` and errors.

    Returns
    -------
    pandas.DataFrame
        As the call that started the job would return; every column for a job started elsewhere.

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
    call = CallOptions.of(**options)
    job_ref = await asyncio.to_thread(find_job_ref, checked_id(job_id), call)
    if job_ref is None or not call.cache or call.settings.replay is not None:
        existing_job = await ajob(job_id, session=options["session"], timeout=options["timeout"])
    else:
        existing_job = started_job(job_ref, call.connection, remember=False)
    return await existing_job.collect(call)


export_df: Final = blocking(aexport_df)
