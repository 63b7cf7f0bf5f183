"""Starts searches, reads their status, and lists the providers of each engine."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webdata_nb.contract import limits, paths
from webdata_nb.contract.paths import LEASE_HEADER
from webdata_nb.contract.replies import EngineList, SearchStart, SearchStatus
from webdata_nb.contract.requests import SearchRequest
from webdata_nb.page.errors import BadInput
from webdata_nb.service.errors import JobFailure
from webdata_nb.service.routes.app_state import AppState, ResponseKey
from webdata_nb.service.routes.jobs import check_extract, check_headers, check_rendering, start
from webdata_nb.service.routes.replies import (
    StatusRoute,
    job_of,
    read_snapshot,
    seconds_taken,
    status_of,
    with_rows,
)
from webdata_nb.service.routes.routing import (
    CONDITION,
    AccountId,
    IdempotencyKeyHeader,
    IncludeData,
    JobId,
    StateDep,
    Wait,
    conditional,
    error_responses,
    examples,
    links,
    scopes,
    strict_router,
)
from webdata_nb.service.store.records import JobRecord, JobSnapshot, RowRange

# Another process may end the job, so the store is read at this interval as well.
POLL_S: Final = 1.0
_ALL_ROWS: Final = RowRange(0, limits.NUM_RESULTS[1])
_LINKS: Final = links(
    {
        "getSearch": "job_id",
        "watchSearch": "job_id",
        "exportSearch": "job_id",
        "cancelJob": "job_id",
        "retryJob": "job_id",
    }
)

router: Final = strict_router("search", route_class=StatusRoute)


@router.post(
    paths.SEARCH,
    summary="Start a search",
    response_model=SearchStart,
    responses={200: {"links": _LINKS}, **error_responses(409, 429)},
)
@scopes("search")
async def start_search(
    request: Request,
    state: StateDep,
    search_request: Annotated[SearchRequest, examples("startSearch")],
    *,
    idempotency_key: IdempotencyKeyHeader = None,
    wait: Wait = 0,
    include_data: IncludeData = True,
) -> Response:
    """Start a search, and scrape each result in the requested formats.

    The job is stored before the reply is sent. With `wait`, the reply waits for the end of the
    job; if it ends in time, the reply has a `result` (ours).
    """
    check_headers(state, search_request.headers, "body")
    await check_rendering(state, search_request, "body")
    check_extract(state, request, search_request.extract, "body", "extract")
    job, _ = await start(state, request, search_request, idempotency_key)
    reply = {
        "success": True,
        "job_id": job.id,
        "status": "started",
        "message": f"Search for {job.subject!r} started",
    }
    if wait and (result := await _wait_for_result(state, job, wait, include_data=include_data)):
        snapshot, expiry_fields = result
        rows = snapshot.rows if include_data else ()
        return with_rows(
            _envelope(snapshot.job, state.store.now()) | expiry_fields, rows, parent=reply
        )
    return JSONResponse(reply)


@router.get(
    paths.SEARCH_JOB,
    summary="Read a search with the results so far",
    response_model=SearchStatus,
    responses={**conditional(), **error_responses(404)},
    openapi_extra=CONDITION,
)
@scopes("search", "read")
async def get_search(
    request: Request,
    state: StateDep,
    account_id: AccountId,
    job_id: JobId,
    *,
    wait: Wait = 0,
    include_data: IncludeData = True,
) -> Response:
    """Read the progress of a search, and its results so far, by rank.

    When the rows are past their retention, the reply has `result_expired` and no rows.
    """
    key = ResponseKey.of(request, account_id, job_id)
    if wait:
        job = await job_of(state, account_id, job_id, "search")
        deadline = time.monotonic() + wait
        with state.events.listen(job.id) as listener:
            while True:
                # Read after `listen`, so that an end in between is not missed.
                job = await state.store.job(job.account_id, job.id)
                left_s = deadline - time.monotonic()
                if job.state.terminal or left_s <= 0 or state.events.closed:
                    break
                await listener.wait(min(left_s, POLL_S))
    row_range = _ALL_ROWS if include_data else None
    return await status_of(
        state,
        key,
        "search",
        row_range,
        examples=0,
        envelope=lambda snapshot: _envelope(snapshot.job, state.store.now()),
    )


async def _wait_for_result(
    state: AppState, job: JobRecord, wait_s: float, *, include_data: bool
) -> tuple[JobSnapshot, dict[str, Any]] | None:
    """Return the snapshot of a started job once it ends; None after the timeout."""
    deadline = time.monotonic() + wait_s
    row_range = _ALL_ROWS if include_data else None
    with state.events.listen(job.id) as listener:
        while (left_s := deadline - time.monotonic()) > 0 and not state.events.closed:
            if not job.state.terminal:  # a repeated idempotency key may return an ended job
                await listener.wait(min(left_s, POLL_S))
            # The notification of a job's end may lack rows.
            snapshot = listener.ended
            if snapshot is not None and len(snapshot.rows) == snapshot.job.published:
                return snapshot, {}
            result = await read_snapshot(
                state, job.account_id, job.id, "search", row_range, examples=0
            )
            job = result[0].job
            if job.state.terminal:
                return result
    return None


def _envelope(job: JobRecord, now: float) -> dict[str, object]:
    return {
        "success": True,
        "job_id": job.id,
        "status": job.state.value,
        "query": job.subject,
        "engine_requested": job.request.get("engine", "engine_one"),
        "engine_used": job.outcome.get("engine_used"),
        "provider_used": job.outcome.get("provider_used"),
        "fallback_used": job.outcome.get("fallback_used", False),
        "fallback_chain": job.outcome.get("fallback_chain", []),
        "providers_usable": job.outcome.get("providers_usable", []),
        "providers_unusable": job.outcome.get("providers_unusable", {}),
        "signature_agent": job.outcome.get("signature_agent"),
        "total_results": job.published,
        "completed_results": job.completed,
        "time_taken": seconds_taken(job, now),
        **job.credit_fields,
        "error": job.error,
    }


@router.get(
    paths.ENGINES, summary="List the providers of each engine (ours)", response_model=EngineList
)
@scopes("search", "read")
async def list_engines(request: Request, state: StateDep) -> Response:
    """List the providers of each engine in the order of requests."""
    session = state.sessions.context_of(request.headers.get(LEASE_HEADER))
    try:
        entries = state.engines.list_providers(session)
    except JobFailure as error:
        raise BadInput(str(error), loc=("settings", "engines")) from None
    return JSONResponse(EngineList(engines=entries).model_dump(mode="json"))
