"""POST /v1/search and GET /v1/search/{job_id}."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webdata_nb.contract import limits, paths
from webdata_nb.contract.replies import SearchStart, SearchStatus
from webdata_nb.contract.requests import SearchRequest
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.routes.job_start import check_extract, check_rendering, start
from webdata_nb.service.routes.parameters import IdempotencyKey, IncludeData, JobId, Wait
from webdata_nb.service.routes.replies import (
    StatusRoute,
    job_of,
    read_snapshot,
    seconds,
    status_of,
    with_rows,
)
from webdata_nb.service.routes.response_cache import ResponseKey
from webdata_nb.service.routes.routing import (
    CONDITION,
    AccountId,
    StateDep,
    conditional,
    examples,
    links,
    refusals,
    strict_router,
)
from webdata_nb.service.store.records import JobRecord, JobSnapshot, RowRange

# A job may also end in another process, which tells nobody here.
LOOK_S: Final = 1.0
_ALL: Final = RowRange(0, limits.NUM_RESULTS[1])
_LINKS: Final = links(
    {
        "getSearch": "job_id",
        "watchSearch": "job_id",
        "exportSearch": "job_id",
        "cancelJob": "job_id",
        "retryJob": "job_id",
    }
)

router = strict_router("search", route_class=StatusRoute)


@router.post(
    paths.SEARCH,
    summary="Start a search",
    response_model=SearchStart,
    responses={200: {"links": _LINKS}, **refusals(409, 429)},
)
async def start_search(
    request: Request,
    state: StateDep,
    wanted: Annotated[SearchRequest, examples("startSearch")],
    *,
    idempotency_key: IdempotencyKey = None,
    wait: Wait = 0,
    include_data: IncludeData = True,
) -> Response:
    """Start a search, and scrape each result in the formats that were asked for.

    The job is stored before the answer is sent. With `wait` the answer is held back for the job's
    end: a search that came to it is the reply's `result` (ours), else there is none.
    """
    await check_rendering(state, wanted, "body")
    check_extract(state, request, wanted.extract, "body", "extract")
    job, _ = await start(state, request, wanted, idempotency_key)
    reply = {
        "success": True,
        "job_id": job.id,
        "status": "started",
        "message": f"Search for {job.subject!r} started",
    }
    if wait and (result := await _result(state, job, wait, include_data=include_data)):
        snapshot, gone = result
        rows = snapshot.rows if include_data else ()
        return with_rows(_envelope(snapshot.job) | gone, rows, inside=reply)
    return JSONResponse(reply)


@router.get(
    paths.SEARCH_JOB,
    summary="Read a search with the results so far",
    response_model=SearchStatus,
    responses={**conditional(), **refusals(404)},
    openapi_extra=CONDITION,
)
async def get_search(
    request: Request,
    state: StateDep,
    account_id: AccountId,
    job_id: JobId,
    *,
    wait: Wait = 0,
    include_data: IncludeData = True,
) -> Response:
    """Read how far a search is, and the results that it has so far, by rank.

    Past the retention of the rows the reply says `result_expired`, and has none.
    """
    key = ResponseKey.of(request, account_id, job_id)
    if wait:
        await _ended(state, await job_of(state, account_id, job_id, "search"), wait)
    row_range = _ALL if include_data else None
    return await status_of(
        state,
        key,
        "search",
        row_range,
        examples=0,
        envelope=lambda snapshot: _envelope(snapshot.job),
    )


async def _result(
    state: AppState, job: JobRecord, wait_s: float, *, include_data: bool
) -> tuple[JobSnapshot, dict[str, Any]] | None:
    """Return what a job that was just begun came to; None where it goes on for longer."""
    deadline = time.monotonic() + wait_s
    row_range = _ALL if include_data else None
    with state.events.listen(job.id) as listener:
        while (left_s := deadline - time.monotonic()) > 0:
            if not job.state.terminal:  # a start repeated under its key may find an old job
                await listener.wait(min(left_s, LOOK_S))
            if (ended := listener.ended) is not None and _holds_all(ended):
                return ended, {}
            result = await read_snapshot(
                state, job.account_id, job.id, "search", row_range, examples=0
            )
            job = result[0].job
            if job.state.terminal:
                return result
    return None


def _holds_all(ended: JobSnapshot) -> bool:
    """Whether a job's end came with every row, so that none has to be read back."""
    return len(ended.rows) == ended.job.published


async def _ended(state: AppState, job: JobRecord, wait_s: float) -> None:
    """Wait until the job has ended, or the time is up."""
    deadline = time.monotonic() + wait_s
    with state.events.listen(job.id) as listener:
        while True:
            # After the listening began: an end in between must not be missed.
            job = await state.store.job(job.account_id, job.id)
            left_s = deadline - time.monotonic()
            if job.state.terminal or left_s <= 0:
                return
            await listener.wait(min(left_s, LOOK_S))


def _envelope(job: JobRecord) -> dict[str, object]:
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
        "total_results": job.published,
        "completed_results": job.completed,
        "time_taken": seconds(job),
        **job.credit_fields,
        "error": job.error,
    }
