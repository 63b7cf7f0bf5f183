"""Starts, lists, cancels, retries and deletes jobs, and verifies extracted values."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec
import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webdata_nb.contract import limits, paths
from webdata_nb.contract.outcomes import RETRYABLE, JobKind
from webdata_nb.contract.paths import LEASE_HEADER
from webdata_nb.contract.replies import (
    CancelReply,
    DeleteReply,
    JobList,
    PageVerdict,
    RetryReply,
    VerifyReply,
)
from webdata_nb.contract.requests import (
    CrawlRequest,
    Extract,
    NoParameters,
    PageToVerify,
    ScrapeOptions,
    SearchRequest,
    VerifyRequest,
)
from webdata_nb.page.content.page_source import check_selectors
from webdata_nb.page.errors import BadInput, PageError, ScrapeError
from webdata_nb.page.extract.results import page_digest
from webdata_nb.service import ledger
from webdata_nb.service.errors import InvalidJobState, JobFailure, NoSuchJob, UnreadableSecrets
from webdata_nb.service.observability.logs import Caller, caller_key_id
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.routes.replies import expiry_of
from webdata_nb.service.routes.routing import (
    CONDITION,
    CallerDep,
    Cursor,
    IdempotencyKeyHeader,
    JobId,
    ListLimit,
    StateDep,
    check_scope,
    conditional,
    error_responses,
    examples,
    list_cursor,
    read_list_cursor,
    scopes,
    strict_router,
)
from webdata_nb.service.signing.request_signer import SIGNATURE_HEADERS
from webdata_nb.service.store.records import (
    IdempotencyKey,
    JobRecord,
    NewJob,
    StoredSource,
)
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.work.engines import crawl_request, search_request


def check_url(policy: EgressPolicy, url: str, *loc: str | int) -> None:
    """Raise `BadInput` for a URL of a body that the egress policy forbids."""
    try:
        policy.check_url(url)
    except PageError as error:
        raise BadInput(str(error), loc=("body", *loc)) from None


async def check_rendering(
    state: AppState, job_request: SearchRequest | ScrapeOptions, *loc: str
) -> None:
    """Raise `BadInput` for unknown devices, and for options that need a missing browser."""
    mobile_device, wait_for = job_request.mobile_device, getattr(job_request, "wait_for", None)
    if (field := _needs_browser(job_request)) is not None:
        try:
            await state.engines.egress.check_browser()
        except ScrapeError as error:
            raise BadInput(str(error), loc=(*loc, field)) from None
    if isinstance(wait_for, str):
        check_selectors((wait_for,), loc=(*loc, "wait_for"))
    if mobile_device is not None:
        try:
            await state.engines.egress.check_device(mobile_device)
        except BadInput as error:
            raise BadInput(str(error), loc=(*loc, "mobile_device")) from None


def _needs_browser(job_request: SearchRequest | ScrapeOptions) -> str | None:
    """Return the option that loads every page in a browser; None if there is none."""
    if not job_request.formats and isinstance(job_request, SearchRequest):
        return None  # no page is visited
    render = getattr(job_request, "render", None)
    if "screenshot" in job_request.formats:
        return "formats"
    if render is False:
        return None
    fields = ("render", "wait_for", "mobile", "mobile_device")
    needed = (
        name for name in fields if getattr(job_request, name, None) not in (None, False, "auto")
    )
    return next(needed, None)


def check_headers(state: AppState, headers: Mapping[str, str] | None, *loc: str) -> None:
    """Raise `BadInput` for headers that a service which signs its requests sets itself."""
    if state.engines.egress.signer is None:
        return
    taken = next((name for name in headers or {} if name.lower() in SIGNATURE_HEADERS), None)
    if taken is not None:
        raise BadInput(
            f"the header {taken!r} cannot be set at a service that signs its requests",
            loc=(*loc, "headers"),
        )


def check_extract(
    state: AppState, request: Request, job_request: Extract | None, *loc: str
) -> None:
    """Raise `BadInput` for an extraction that this service or session cannot perform."""
    session = state.sessions.context_of(request.headers.get(LEASE_HEADER))
    state.engines.check_extract(job_request, session, loc)


async def start(
    state: AppState,
    request: Request,
    job_request: SearchRequest | CrawlRequest,
    idempotency_key: str | None,
) -> tuple[JobRecord, bool]:
    """Store a job and wake the runner; a repeated idempotency key returns the first job.

    Raises `StoreUnavailable` while running jobs wait for disk space.
    """
    if (pending_error := state.retry.pending_error) is not None:
        raise pending_error
    body = await request.json()  # without defaults, which may change before a retry
    context = state.sessions.context_of(request.headers.get(LEASE_HEADER))
    job = NewJob(
        id=str(uuid.uuid4()),
        account_id=request.state.account_id,
        kind="crawl" if isinstance(job_request, CrawlRequest) else "search",
        subject=job_request.subject if isinstance(job_request, CrawlRequest) else job_request.query,
        request=body,
        context=await state.webhooks.add_options(job_request, context),
        max_charges=ledger.max_charges(job_request),
        key_id=caller_key_id(),
    )
    key = None if idempotency_key is None else idempotency_key_of(idempotency_key, job.kind, body)
    state.runner.wake()  # before `accept`, so that the claim shares its transaction
    return await state.store.accept(job, key=key, now=state.store.now())


def idempotency_key_of(key: str, operation: str, body: Mapping[str, Any] | str) -> IdempotencyKey:
    """Return a key with the hash of its request: the body of a start, or a job's id."""
    canonical = orjson.dumps([operation, body], option=orjson.OPT_SORT_KEYS)
    return IdempotencyKey(key, hashlib.sha256(canonical).hexdigest())


async def check_kind(state: AppState, caller: Caller, job_id: str) -> None:
    """Raise `ScopeMissing` if a job is of a kind that the key may not start."""
    if not caller.scopes >= {"search", "crawl"}:
        check_scope(caller, (await state.store.job(caller.account_id, job_id)).kind)


_NO_PARAMETERS: Final = NoParameters()

router: Final = strict_router("jobs")


@router.get(
    paths.JOBS,
    summary="List your jobs (ours)",
    response_model=JobList,
    responses=conditional(),
    openapi_extra=CONDITION,
)
@scopes("search", "crawl", "read")
async def list_jobs(
    state: StateDep,
    caller: CallerDep,
    limit: ListLimit = limits.JOBS_LISTED_DEFAULT,
    cursor: Cursor = None,
) -> Response:
    """List the account's jobs, newest first, for as long as their records are kept.

    A key with the scope `search` only, or `crawl` only, lists jobs of that kind.
    """
    only: JobKind = "search" if "search" in caller.scopes else "crawl"
    reads_all = "read" in caller.scopes or caller.scopes >= {"search", "crawl"}
    jobs = await state.store.jobs(
        caller.account_id,
        limit=limit + 1,
        before=read_list_cursor(cursor),
        kind=None if reads_all else only,
    )
    summaries = [
        {
            "job_id": job.id,
            "type": job.kind,
            "status": job.state.value,
            "subject": job.subject,
            "created_at": time_of(job.created_at),
            "started_at": time_of(job.started_at),
            "finished_at": time_of(job.finished_at),
            "total": job.expected_rows,
            "completed": job.published,
            "error": job.error,
        }
        for job in jobs[:limit]
    ]
    reply: dict[str, Any] = {"success": True, "jobs": summaries}
    if len(jobs) > limit:
        reply["cursor"] = list_cursor(jobs[limit - 1])
    return Response(orjson.dumps(reply), media_type="application/json")


@router.post(
    paths.JOB_CANCEL,
    summary="Cancel a pending or running job; repeating it succeeds",
    response_model=CancelReply,
    responses=error_responses(404),
)
@scopes("search", "crawl")
async def cancel_job(
    state: StateDep,
    caller: CallerDep,
    job_id: JobId,
    _body: Annotated[NoParameters, examples("cancelJob")] = _NO_PARAMETERS,
) -> Response:
    """Cancel a job. Its rows so far are kept and charged; pages being loaded are dropped.

    Cancelling a completed or failed job is a 400. The key needs the scope that starts jobs of this
    kind.
    """
    await check_kind(state, caller, job_id)
    return await cancel(state, caller.account_id, job_id)


async def cancel(state: AppState, account_id: str, job_id: str) -> Response:
    """Cancel a job of an account, and answer so."""
    job = await state.store.cancel(account_id, job_id, now=state.store.now())
    state.webhooks.wake()
    await state.runner.cancel(job.id)
    if job.kind == "crawl":
        return JSONResponse({"success": True, "job_id": job.id, "status": "cancelled"})
    return JSONResponse({"success": True, "message": "Job cancelled", "job_id": job.id})


@router.delete(
    paths.JOB,
    summary="Delete an ended job and its rows (ours)",
    response_model=DeleteReply,
    responses=error_responses(404),
)
@scopes("search", "crawl")
async def delete_job(state: StateDep, caller: CallerDep, job_id: JobId) -> Response:
    """Delete a completed, failed or cancelled job with all that is stored of it.

    From the reply on, the job is unknown to every request: its status, rows, exports, receipt and
    webhook deliveries, a retry, a crawl `since` it, the local search, and a start with its
    Idempotency-Key. What is left of it in the database is deleted in the background. The credits
    that it has cost stay charged. Deleting a pending or running job is a 400: cancel it first.
    The key needs the scope that starts jobs of this kind.
    """
    await check_kind(state, caller, job_id)
    await state.store.delete(caller.account_id, job_id, now=state.store.now())
    state.notify_deleted()
    await state.store.wait_for_other_processes()  # which may have cached replies
    return JSONResponse({"success": True, "job_id": job_id, "status": "deleted"})


@router.post(
    paths.JOB_RETRY,
    summary="Start a failed or cancelled job again, with its stored configuration",
    response_model=RetryReply,
    responses=error_responses(404, 409, 429),
)
@scopes("search", "crawl")
async def retry_job(
    state: StateDep,
    caller: CallerDep,
    job_id: JobId,
    _body: Annotated[NoParameters, examples("retryJob")] = _NO_PARAMETERS,
    idempotency_key: IdempotencyKeyHeader = None,
) -> Response:
    """Start a new job with the configuration of one that failed or was cancelled.

    The old job does not change. Retrying a job in any other state is a 400. The key needs the scope
    that starts jobs of this kind.
    """
    old = await state.store.job(caller.account_id, job_id)
    check_scope(caller, old.kind)
    if old.state not in RETRYABLE:
        raise InvalidJobState(
            f"the job is {old.state.value}; only failed or cancelled jobs can be retried",
            state=old.state.value,
        )
    if old.locked:
        raise UnreadableSecrets("no key of this service opens the job's secrets; start it anew")
    if (pending_error := state.retry.pending_error) is not None:
        raise pending_error
    try:
        job_request = crawl_request(old) if old.kind == "crawl" else search_request(old)
    except JobFailure as error:
        raise BadInput(str(error), loc=("path", "job_id")) from None
    new_job = NewJob(
        id=str(uuid.uuid4()),
        account_id=old.account_id,
        kind=old.kind,
        subject=old.subject,
        request=old.request,
        context=old.context,
        max_charges=ledger.max_charges(job_request),
        key_id=caller_key_id(),
    )
    state.runner.wake()  # before `accept`, so that the claim shares its transaction
    key = None if idempotency_key is None else idempotency_key_of(idempotency_key, "retry", old.id)
    new, _ = await state.store.accept(new_job, key=key, now=state.store.now())
    if old.kind == "crawl":
        body = {"success": True, "job_id": new.id, "status": "pending"}
        return JSONResponse({**body, "original_job_id": old.id})
    body = {"success": True, "message": "Job restarted", "original_job_id": old.id}
    return JSONResponse({**body, "new_job_id": new.id, "type": "search"})


def time_of(at: float | None) -> datetime | None:
    """Return a time of the store as replies have it."""
    return None if at is None else datetime.fromtimestamp(at, UTC)


@router.post(
    paths.VERIFY,
    summary="Compare extracted values with the stored pages (ours)",
    response_model=VerifyReply,
)
@scopes("search", "crawl", "read")
async def verify_values(
    state: StateDep,
    caller: CallerDep,
    verify_request: Annotated[VerifyRequest, examples("verifyValues")],
) -> Response:
    """Say of each value whether the page from which it was extracted contains it.

    The service keeps the source of pages from which values are extracted, as long as the rows. It
    is read again, and each value gets its place, a quote and a verdict. Nothing is fetched, and
    nothing is charged.
    """
    urls: dict[str, list[str]] = defaultdict(list)
    for page in verify_request.pages:
        urls[page.job_id].append(page.url)
    sources: dict[tuple[str, str], StoredSource] = {}
    reasons: dict[str, str] = {}
    for job_id, of_job in urls.items():
        found, reasons[job_id] = await _sources(state, caller, job_id, of_job)
        keys = ((job_id, url) for url in of_job)
        sources.update(zip(keys, found, strict=True))
    compared = (
        _compare(state, page, sources[page.job_id, page.url], reasons[page.job_id])
        for page in verify_request.pages
    )
    pages = list(await asyncio.gather(*compared))
    return JSONResponse({"success": True, "pages": pages})


async def _sources(
    state: AppState, caller: Caller, job_id: str, urls: Sequence[str]
) -> tuple[Sequence[StoredSource], str]:
    """Return the sources of pages of a job, and why one that is missing is."""
    no_sources = [StoredSource()] * len(urls)
    try:
        job = await state.store.job(caller.account_id, job_id)
    except NoSuchJob:
        return no_sources, "the service has no such job, or not any more"
    check_scope(caller, job.kind, "read")
    if expiry_of(state, job) is not None:
        return no_sources, "the rows of the job are past their retention"
    reason = "the job has no row with this URL, or extracted nothing from it"
    return await state.store.page_sources(caller.account_id, job_id, urls), reason


async def _compare(
    state: AppState, page: PageToVerify, source: StoredSource, reason: str
) -> dict[str, object]:
    if source.text is None:
        outcome: PageVerdict = "failed" if source.damage else "gone"
        return _verdict(page, outcome, detail=source.damage or reason)
    digest = page_digest(source.text)
    if page.digest not in {None, digest}:
        detail = "the stored page is not the one of the digest"
        return _verdict(page, "changed", digest=digest, detail=detail)
    try:
        evidence = await state.engines.find_evidence(source.text, page.url, page.extract)
    except PageError as error:
        return _verdict(page, "failed", digest=digest, detail=str(error))
    return _verdict(page, "compared", digest=digest) | {"values": msgspec.to_builtins(evidence)}


def _verdict(
    page: PageToVerify, outcome: PageVerdict, *, digest: str | None = None, detail: str = ""
) -> dict[str, object]:
    values: list[object] = []
    return {
        "job_id": page.job_id,
        "url": page.url,
        "outcome": outcome,
        "digest": digest,
        "detail": detail,
        "values": values,
    }
