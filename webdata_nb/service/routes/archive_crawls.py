"""Starts crawls of archives: POST /v1/archive-crawls, of the local service alone.

A service for a team must not read files of its own disk for its clients.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webdata_nb.contract import paths
from webdata_nb.contract.requests import ArchiveCrawlRequest
from webdata_nb.service.routes.crawl import check_options
from webdata_nb.service.routes.job_start import start
from webdata_nb.service.routes.parameters import IdempotencyKey
from webdata_nb.service.routes.routing import StateDep, strict_router

router = strict_router("crawl")


@router.post(paths.ARCHIVE_CRAWLS, include_in_schema=False)
async def start_archive_crawl(
    request: Request,
    state: StateDep,
    crawl_request: ArchiveCrawlRequest,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Start a crawl of a WARC or WACZ file on this machine."""
    await check_options(request, state, crawl_request)
    job, _ = await start(state, request, crawl_request, idempotency_key)
    reply = {"success": True, "job_id": job.id, "status": "started"}
    return JSONResponse({**reply, "message": f"Crawl of {job.subject} started"})
