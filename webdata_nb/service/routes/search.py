"""POST /v1/search and GET /v1/search/{job_id}."""

from __future__ import annotations

import time
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from webdata_nb.contract import limits, paths
from webdata_nb.contract.requests import SearchRequest
from webdata_nb.service.routes.problems import json_body, validated
from webdata_nb.service.routes.replies import (
    flag,
    job_of,
    kept,
    look_at,
    seconds,
    status_of,
    whole,
    with_rows,
)
from webdata_nb.service.routes.starts import Desk, check_extract, check_look, start
from webdata_nb.service.store.records import Job, Look, Window

# A job may also end in another process, which tells nobody here.
LOOK_S: Final = 1.0
_ALL: Final = Window(0, limits.NUM_RESULTS[1])


def routes(desk: Desk) -> list[Route]:
    """Return the search routes."""

    async def begin(request: Request) -> Response:
        body = await json_body(request)
        wanted = validated(SearchRequest, body, at="body")
        device = wanted.mobile_device
        await check_look(desk, mobile_device=device, wait_for=None, loc=("body",))
        check_extract(desk, request, wanted.extract, "body", "extract")
        wait_s, wanted_data = waiting(request), flag(request, "include_data", default=True)
        job, _ = await start(desk, request, wanted, body)
        reply = {
            "success": True,
            "job_id": job.id,
            "status": "started",
            "message": f"Search for {job.subject!r} started",
        }
        if wait_s and (result := await _result(desk, request, job, wait_s)):
            look, gone = result
            rows = look.rows if wanted_data else ()
            return with_rows(_envelope(look.job) | gone, rows, inside=reply)
        return JSONResponse(reply)

    async def status(request: Request) -> Response:
        if (known := await kept(desk, request)) is not None:
            return known
        if wait_s := waiting(request):
            await _ended(desk, await job_of(desk, request, "search"), wait_s)
        return await status_of(
            desk,
            request,
            "search",
            _ALL,
            examples=0,
            envelope=lambda look: _envelope(look.job),
        )

    return [
        Route(paths.SEARCH, begin, methods=["POST"]),
        Route(paths.SEARCH_JOB, status, methods=["GET"]),
    ]


def waiting(request: Request) -> int:
    """Return the seconds for which a reply may wait for the job's end."""
    return whole(request, "wait", default=0, low=0, high=limits.STATUS_WAIT_S)


async def _result(
    desk: Desk, request: Request, job: Job, wait_s: float
) -> tuple[Look, dict[str, Any]] | None:
    """Return what a job that was just begun came to; None where it goes on for longer."""
    deadline = time.monotonic() + wait_s
    with desk.hub.listen(job.id) as listener:
        while (left_s := deadline - time.monotonic()) > 0:
            if not job.state.terminal:  # a start repeated under its key may find an old job
                await listener.wait(min(left_s, LOOK_S))
            if (ended := listener.ended) is not None and _holds_all(ended):
                return ended, {}
            told = await look_at(desk, request, "search", _ALL, examples=0, job_id=job.id)
            job = told[0].job
            if job.state.terminal:
                return told
    return None


def _holds_all(ended: Look) -> bool:
    """Whether a job's end came with every row, so that none has to be read back."""
    return len(ended.rows) == ended.job.published


async def _ended(desk: Desk, job: Job, wait_s: float) -> None:
    """Wait until the job has ended, or the time is up."""
    deadline = time.monotonic() + wait_s
    with desk.hub.listen(job.id) as listener:
        while True:
            # After the listening began: an end in between must not be missed.
            job = await desk.store.job(job.account_id, job.id)
            left_s = deadline - time.monotonic()
            if job.state.terminal or left_s <= 0:
                return
            await listener.wait(min(left_s, LOOK_S))


def _envelope(job: Job) -> dict[str, object]:
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
        **job.cost,
        "error": job.error,
    }
