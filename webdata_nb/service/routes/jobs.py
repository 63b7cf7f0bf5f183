"""Job control: list, cancel, retry."""

from __future__ import annotations

import base64
import binascii
import time
import uuid
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from webdata_nb.contract import limits, paths
from webdata_nb.contract.requests import CrawlRequest, SearchRequest
from webdata_nb.contract.states import JobKind, may_retry
from webdata_nb.service.credits import tariff
from webdata_nb.service.errors import BadInput, SecretsLost, WrongState
from webdata_nb.service.routes.problems import Invalid, json_body
from webdata_nb.service.routes.replies import whole
from webdata_nb.service.routes.starts import Desk, account_of
from webdata_nb.service.store.records import Job, NewJob

_REQUESTS: Final[dict[JobKind, type[SearchRequest | CrawlRequest]]] = {
    "search": SearchRequest,
    "crawl": CrawlRequest,
}


def routes(desk: Desk) -> list[Route]:
    """Return the job-control routes."""

    async def listing(request: Request) -> Response:
        low, high = limits.JOBS_LISTED
        limit = whole(request, "limit", default=limits.JOBS_LISTED_DEFAULT, low=low, high=high)
        before = _read_cursor(request.query_params.get("cursor"))
        jobs = await desk.store.jobs(account_of(request), limit=limit + 1, before=before)
        reply: dict[str, Any] = {"success": True, "jobs": [_summary(job) for job in jobs[:limit]]}
        if len(jobs) > limit:
            reply["cursor"] = _cursor(jobs[limit - 1])
        return Response(orjson.dumps(reply), media_type="application/json")

    async def cancel(request: Request) -> Response:
        await _no_parameters(request)
        job_id = request.path_params["job_id"]
        job = await desk.store.cancel(account_of(request), job_id, now=time.time())
        desk.webhooks.wake()
        await desk.runner.cancel(job.id)
        if job.kind == "crawl":
            return JSONResponse({"success": True, "job_id": job.id, "status": "cancelled"})
        return JSONResponse({"success": True, "message": "Job cancelled", "job_id": job.id})

    async def retry(request: Request) -> Response:
        await _no_parameters(request)
        old = await desk.store.job(account_of(request), request.path_params["job_id"])
        if not may_retry(old.state):
            raise WrongState(
                f"the job is {old.state.value}; only failed or cancelled jobs can be retried",
                state=old.state.value,
            )
        if old.locked:
            raise SecretsLost("no key of this service opens the job's secrets; start it anew")
        new = await _again(desk, old)
        if old.kind == "crawl":
            body = {"success": True, "job_id": new.id, "status": "pending"}
            return JSONResponse({**body, "original_job_id": old.id})
        body = {"success": True, "message": "Job restarted", "original_job_id": old.id}
        return JSONResponse({**body, "new_job_id": new.id, "type": "search"})

    return [
        Route(paths.JOBS, listing, methods=["GET"]),
        Route(paths.JOB_CANCEL, cancel, methods=["POST"]),
        Route(paths.JOB_RETRY, retry, methods=["POST"]),
    ]


async def _again(desk: Desk, old: Job) -> Job:
    copy = NewJob(
        id=str(uuid.uuid4()),
        account_id=old.account_id,
        kind=old.kind,
        subject=old.subject,
        request=old.request,
        context=old.context,
        most=tariff.most(_REQUESTS[old.kind].model_validate(old.request)),
    )
    desk.runner.wake()  # first: its claim shares the job's own transaction
    job, _ = await desk.store.accept(copy, now=time.time())
    return job


async def _no_parameters(request: Request) -> None:
    for name in await json_body(request):
        raise Invalid(
            [{"loc": ["body", name], "msg": "no parameters are allowed", "type": "extra_forbidden"}]
        )


def _summary(job: Job) -> dict[str, Any]:
    return {
        "job_id": job.id,
        "type": job.kind,
        "status": job.state.value,
        "subject": job.subject,
        "created_at": _time(job.created_at),
        "started_at": _time(job.started_at),
        "finished_at": _time(job.finished_at),
        "total": job.expected,
        "completed": job.published,
        "error": job.error,
    }


def _time(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)


def _cursor(job: Job) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([job.created_at, job.id])).decode()


def _read_cursor(text: str | None) -> tuple[float, str] | None:
    if text is None:
        return None
    try:
        at, job_id = orjson.loads(base64.urlsafe_b64decode(text))
        return float(at), str(job_id)
    except (ValueError, TypeError, binascii.Error):
        raise BadInput("not a cursor of this listing", loc=("query", "cursor")) from None
