"""Starts crawls that read or write files of this machine, in the local service alone.

A service for a team must not use files of its own disk for its clients.
"""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webdata_nb.contract import paths
from webdata_nb.contract.archive_requests import ArchiveCrawlRequest, RecordedCrawlRequest
from webdata_nb.contract.archives import WRITTEN_SUFFIX
from webdata_nb.contract.requests import CrawlRequest
from webdata_nb.page.errors import BadInput
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.routes.crawl import check_options
from webdata_nb.service.routes.job_start import check_url, start
from webdata_nb.service.routes.parameters import IdempotencyKey
from webdata_nb.service.routes.routing import StateDep, strict_router

router = strict_router("crawl")


@router.post(paths.LOCAL_ARCHIVE_CRAWLS, include_in_schema=False)
async def start_archive_crawl(
    request: Request,
    state: StateDep,
    crawl_request: ArchiveCrawlRequest,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Start a crawl of a WARC or WACZ file."""
    if not Path(crawl_request.archive).is_absolute():
        raise BadInput("must be an absolute path", loc=("body", "archive"))
    return await _start(request, state, crawl_request, idempotency_key)


@router.post(paths.LOCAL_RECORDED_CRAWLS, include_in_schema=False)
async def start_recorded_crawl(
    request: Request,
    state: StateDep,
    crawl_request: RecordedCrawlRequest,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Start a crawl of a site that writes a WARC file."""
    check_url(state.engines.egress.policy, crawl_request.url, "url")
    is_absolute = Path(crawl_request.warc).is_absolute()
    if not is_absolute or not crawl_request.warc.lower().endswith(WRITTEN_SUFFIX):
        raise BadInput(f"must be the absolute path of a {WRITTEN_SUFFIX}", loc=("body", "warc"))
    return await _start(request, state, crawl_request, idempotency_key)


async def _start(
    request: Request, state: AppState, crawl_request: CrawlRequest, idempotency_key: str | None
) -> Response:
    await check_options(request, state, crawl_request)
    job, _ = await start(state, request, crawl_request, idempotency_key)
    reply = {"success": True, "job_id": job.id, "status": "started"}
    return JSONResponse({**reply, "message": f"Crawl of {job.subject} started"})
