"""POST /v1/search and GET /v1/search/{job_id}."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from webdata_nb.contract import limits, paths
from webdata_nb.contract.requests import SearchRequest
from webdata_nb.service.extract import extractor
from webdata_nb.service.routes.problems import json_body, validated
from webdata_nb.service.routes.replies import flag, job_of, seconds, with_rows
from webdata_nb.service.routes.starts import Desk, account_of, check_look, start
from webdata_nb.service.routes.unbuilt import refuse
from webdata_nb.service.store.records import Job


def routes(desk: Desk) -> list[Route]:
    """Return the search routes."""

    async def begin(request: Request) -> Response:
        body = await json_body(request)
        wanted = validated(SearchRequest, body, at="body")
        refuse(wanted)
        device = wanted.mobile_device
        await check_look(desk, mobile_device=device, wait_for=None, loc=("body",))
        extractor(wanted.extract, loc=("body", "extract"))
        job, _ = await start(desk, request, wanted, body)
        reply = {"success": True, "job_id": job.id, "status": "started"}
        return JSONResponse({**reply, "message": f"Search for {job.subject!r} started"})

    async def status(request: Request) -> Response:
        job = await job_of(desk, request, "search")
        rows = []
        if flag(request, "include_data", default=True):
            rows = await desk.store.pages(
                account_of(request), job.id, start=0, count=limits.NUM_RESULTS[1]
            )
        return with_rows(_envelope(job), rows)

    return [
        Route(paths.SEARCH, begin, methods=["POST"]),
        Route(paths.SEARCH_JOB, status, methods=["GET"]),
    ]


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
        "error": job.error,
    }
