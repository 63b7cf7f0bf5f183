"""Lists, cancels and retries jobs."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import orjson
from starlette.responses import JSONResponse, Response

from webdata_nb.contract import limits, paths
from webdata_nb.contract.replies import CancelReply, JobList, RetryReply
from webdata_nb.contract.requests import NoParameters
from webdata_nb.contract.states import may_retry
from webdata_nb.page.errors import BadInput
from webdata_nb.service.credits import tariff
from webdata_nb.service.errors import InvalidJobState, JobFailure, UnreadableSecrets
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.routes.job_start import caller_key_id, idempotency_key_of
from webdata_nb.service.routes.parameters import (
    Cursor,
    IdempotencyKey,
    JobId,
    ListLimit,
    list_cursor,
    read_list_cursor,
)
from webdata_nb.service.routes.routing import (
    CONDITION,
    AccountId,
    StateDep,
    conditional,
    error_responses,
    examples,
    strict_router,
)
from webdata_nb.service.store.records import JobRecord, NewJob
from webdata_nb.service.work import job_log
from webdata_nb.service.work.stored_requests import crawl_request, search_request

_NO_PARAMETERS: Final = NoParameters()

router = strict_router("jobs")


@router.get(
    paths.JOBS,
    summary="List your jobs (ours)",
    response_model=JobList,
    responses=conditional(),
    openapi_extra=CONDITION,
)
async def list_jobs(
    state: StateDep,
    account_id: AccountId,
    limit: ListLimit = limits.JOBS_LISTED_DEFAULT,
    cursor: Cursor = None,
) -> Response:
    """List the account's jobs, newest first, for as long as their records are kept."""
    before = read_list_cursor(cursor)
    jobs = await state.store.jobs(account_id, limit=limit + 1, before=before)
    reply: dict[str, Any] = {"success": True, "jobs": [_summary(job) for job in jobs[:limit]]}
    if len(jobs) > limit:
        reply["cursor"] = list_cursor(jobs[limit - 1])
    return Response(orjson.dumps(reply), media_type="application/json")


@router.post(
    paths.JOB_CANCEL,
    summary="Cancel a pending or running job; repeating it succeeds",
    response_model=CancelReply,
    responses=error_responses(404),
)
async def cancel_job(
    state: StateDep,
    account_id: AccountId,
    job_id: JobId,
    _body: Annotated[NoParameters, examples("cancelJob")] = _NO_PARAMETERS,
) -> Response:
    """Cancel a job. Its rows so far are kept and charged; pages being loaded are dropped.

    Cancelling a completed or failed job is a 400.
    """
    now = state.store.now()
    job = await state.store.cancel(account_id, job_id, now=now)
    if job.finished_at == now:  # not cancelled before
        job_log.log_end(job)
    state.webhooks.wake()
    await state.runner.cancel(job.id)
    if job.kind == "crawl":
        return JSONResponse({"success": True, "job_id": job.id, "status": "cancelled"})
    return JSONResponse({"success": True, "message": "Job cancelled", "job_id": job.id})


@router.post(
    paths.JOB_RETRY,
    summary="Start a failed or cancelled job again, with its stored configuration",
    response_model=RetryReply,
    responses=error_responses(404, 409, 429),
)
async def retry_job(
    state: StateDep,
    account_id: AccountId,
    job_id: JobId,
    _body: Annotated[NoParameters, examples("retryJob")] = _NO_PARAMETERS,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Start a new job with the configuration of one that failed or was cancelled.

    The old job does not change. Retrying a job in any other state is a 400.
    """
    old = await state.store.job(account_id, job_id)
    if not may_retry(old.state):
        raise InvalidJobState(
            f"the job is {old.state.value}; only failed or cancelled jobs can be retried",
            state=old.state.value,
        )
    if old.locked:
        raise UnreadableSecrets("no key of this service opens the job's secrets; start it anew")
    new = await _start_again(state, old, idempotency_key)
    if old.kind == "crawl":
        body = {"success": True, "job_id": new.id, "status": "pending"}
        return JSONResponse({**body, "original_job_id": old.id})
    body = {"success": True, "message": "Job restarted", "original_job_id": old.id}
    return JSONResponse({**body, "new_job_id": new.id, "type": "search"})


async def _start_again(state: AppState, old: JobRecord, idempotency_key: str | None) -> JobRecord:
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
        max_charges=tariff.max_charges(job_request),
        key_id=caller_key_id(),
    )
    state.runner.wake()  # before `accept`, so that the claim shares its transaction
    key = None if idempotency_key is None else idempotency_key_of(idempotency_key, "retry", old.id)
    job, _ = await state.store.accept(new_job, key=key, now=state.store.now())
    return job


def _summary(job: JobRecord) -> dict[str, Any]:
    return {
        "job_id": job.id,
        "type": job.kind,
        "status": job.state.value,
        "subject": job.subject,
        "created_at": _time(job.created_at),
        "started_at": _time(job.started_at),
        "finished_at": _time(job.finished_at),
        "total": job.expected_rows,
        "completed": job.published,
        "error": job.error,
    }


def _time(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)
