"""Runs a search or a crawl at the service: start, wait, collect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Final

from webdata_nb.cache.fetched import Fetched
from webdata_nb.client import job_wait, paging
from webdata_nb.client.client import Client
from webdata_nb.contract.replies import ReceiptEntry, SearchStart, SearchStatus, StartReply
from webdata_nb.contract.states import JobKind
from webdata_nb.errors import (
    Expired,
    IncompleteResult,
    JobTimeout,
    NotFound,
    NotSupported,
    WebdataError,
)
from webdata_nb.frames import rows
from webdata_nb.frames.receipt import of_crawl, of_search
from webdata_nb.jobs.incremental_reader import CrawlRowReader
from webdata_nb.requests.call_options import CallOptions
from webdata_nb.requests.deadline import within
from webdata_nb.requests.job_spec import JobSpec

# Together with the cancel that comes before it, this stays within the bridge's 3 s of grace.
_SALVAGE_S: Final = 2.0
# A search that visits no page ends sooner, or its providers are slow and a bar is welcome.
_GLANCE_S: Final = 5
# Whoever is interrupted during the start still learns which job to cancel: see `LATE_ANSWER_S`.
PROMPT_S: Final = 1

log = logging.getLogger("webdata_nb")


async def run(
    client: Client,
    spec: JobSpec,
    call: CallOptions,
    report: job_wait.Report,
    started: Callable[[str], object],
) -> Fetched:
    """InputRun a search or a crawl to its end; `started` is told the job's id at once."""
    kind = kind_of(spec)
    # A deadline is the job's, not the start's: a short one leaves no time to wait in the start.
    patient = call.timeout_s is None or call.timeout_s > _GLANCE_S
    wait_s = PROMPT_S if spec.brief and patient else 0
    begun = await within(call.timeout_s, start(client, spec, wait_s=wait_s))
    started(begun.job_id)
    result = begun.result if isinstance(begun, SearchStart) else None
    if result is not None and result.status.terminal:
        report(job_wait.progress_of(kind, result, elapsed_s=0.0))
        return await _searched(result, brief=spec.brief)
    return await follow(
        client, kind, begun.job_id, spec.subject, call=call, report=report, brief=spec.brief
    )


def kind_of(spec: JobSpec) -> JobKind:
    """Return the kind of job that `spec` starts."""
    return "search" if spec.op == "search" else "crawl"


async def start(client: Client, spec: JobSpec, *, wait_s: int = 0) -> StartReply:
    """Start the job that `spec` stands for; a search may be answered with its result."""
    if spec.op == "search":
        return await client.start_search(spec.body, wait_s=wait_s)
    return await client.start_crawl(spec.body)


async def follow(
    client: Client,
    kind: JobKind,
    job_id: str,
    subject: str,
    *,
    call: CallOptions,
    report: job_wait.Report,
    cancel_remote: bool = True,
    brief: bool = False,
) -> Fetched:
    """Wait for a job's end and collect its rows; `subject` is what a crawl started from.

    A `brief` job, a search that visits no page, is first asked for its end without a stream.
    """
    seen: list[SearchStatus] = []

    async def glance() -> SearchStatus:
        seen[:] = [await client.search_status(job_id, wait_s=_GLANCE_S)]
        return seen[0]

    harvest = CrawlRowReader(client, job_id, report)
    collect = partial(_crawled, client, job_id, subject, harvest)
    if kind == "search":
        collect = partial(_found, client, job_id)
    try:
        async with harvest if kind == "crawl" else nullcontext():
            await job_wait.wait(
                client,
                kind,
                job_id,
                report=harvest.report,
                deadline_s=call.timeout_s,
                cancel_remote=cancel_remote,
                glance=glance if brief else None,
            )
    except asyncio.CancelledError:
        # `wait` has cancelled the job at the service by now; its rows so far are still there.
        if call.on_cancel != "partial":
            raise
        fetched = await _salvaged(collect())
        if fetched is None:
            raise
        return replace(fetched, shortfall=None, interrupted=True)
    except JobTimeout as error:
        fetched = await _salvaged(collect())
        if fetched is None:
            raise
        return replace(fetched, shortfall=None, late=error)
    if seen and seen[0].status.terminal:
        return await _searched(seen[0], brief=brief)
    fetched = await collect()
    if kind == "crawl" and call.cache and fetched.worth_keeping:
        return replace(fetched, receipt=await _receipt(client, job_id))
    return fetched


async def _receipt(client: Client, job_id: str) -> list[ReceiptEntry] | None:
    """Return the whole receipt; rows that arrived are worth having without it."""
    try:
        return await paging.receipt_entries(client, job_id)
    except (NotFound, NotSupported):
        return None  # an extra of ours, which another service need not have
    except WebdataError as error:
        log.warning("the receipt of job %s did not arrive: %s", job_id, error)
        return None


async def _found(client: Client, job_id: str) -> Fetched:
    """Return a search's rows as they are now; raises `Expired` where they are kept no longer."""
    return await _searched(await client.search_status(job_id))


async def _crawled(client: Client, job_id: str, subject: str, harvest: CrawlRowReader) -> Fetched:
    """Return a crawl's rows as they are now."""
    told = await client.crawl_status(job_id, per_page=1, include_data=False)
    batch, missing = await harvest.rest(told.total_results)
    return Fetched(batch, of_crawl(told, batch.table, url=subject), told.error or "", missing)


async def _searched(found: SearchStatus, *, brief: bool = False) -> Fetched:
    refuse_expired(found)
    # A few short rows take less time than their way to a thread and back.
    batch = (
        rows.batch("search", found.data)
        if brief
        else await asyncio.to_thread(rows.returning, "search", found.data)
    )
    return Fetched(batch, of_search(found, found.data), found.error or "", missing(found))


def refuse_expired(found: SearchStatus) -> None:
    """Raise `Expired` where the service has kept the results no longer."""
    if not found.result_expired:
        return
    hours = found.retention_hours
    kept = "a while" if hours is None else f"{hours:g} hours"
    raise Expired(
        f"the service keeps raw results for {kept}, and these are gone: start a new job",
        status=HTTPStatus.GONE,
    )


async def _salvaged(collecting: Awaitable[Fetched]) -> Fetched | None:
    """Collect the rows of a job that nobody waits for any more, if they come at once."""
    try:
        async with asyncio.timeout(_SALVAGE_S):
            return await collecting
    except (WebdataError, TimeoutError):
        return None


def missing(found: SearchStatus) -> IncompleteResult | None:
    """Return what says that fewer rows came than the service counts; None where all did."""
    expected, arrived = found.total_results, len(found.data)
    return IncompleteResult(expected, arrived) if arrived < expected else None
