"""POST /v1/crawl and GET /v1/crawl/{job_id}."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from webdata_nb.contract import limits, paths
from webdata_nb.contract.requests import CrawlRequest
from webdata_nb.service.routes.problems import json_body, validated
from webdata_nb.service.routes.replies import kept, seconds, status_of, whole
from webdata_nb.service.routes.starts import Desk, check_extract, check_look, check_url, start
from webdata_nb.service.scrape.source import check_selectors
from webdata_nb.service.store.records import Look, Window

_TAGS = ("include_tags", "exclude_tags")


def routes(desk: Desk) -> list[Route]:
    """Return the crawl routes."""

    async def begin(request: Request) -> Response:
        body = await json_body(request)
        wanted = validated(CrawlRequest, body, at="body")
        check_url(desk.policy, wanted.url, field="url")
        for name in _TAGS:
            selectors = getattr(wanted.scrape_options, name)
            check_selectors(selectors, loc=("body", "scrape_options", name))
        await check_look(
            desk,
            mobile_device=wanted.scrape_options.mobile_device,
            wait_for=wanted.scrape_options.wait_for,
            loc=("body", "scrape_options"),
        )
        options = wanted.scrape_options
        check_extract(desk, request, options.extract, "body", "scrape_options", "extract")
        job, _ = await start(desk, request, wanted, body)
        reply = {"success": True, "job_id": job.id, "status": "started"}
        return JSONResponse({**reply, "message": f"Crawl of {job.subject} started"})

    async def status(request: Request) -> Response:
        if (known := await kept(desk, request)) is not None:
            return known
        page = whole(request, "page", default=1, low=1, high=10**9)
        low, high = limits.PER_PAGE
        count = whole(request, "per_page", default=limits.PER_PAGE_DEFAULT, low=low, high=high)
        window = Window((page - 1) * count, count)

        def envelope(look: Look) -> dict[str, Any]:
            return _envelope(look, page, count)

        examples = limits.RECEIPT_EXAMPLES
        return await status_of(desk, request, "crawl", window, examples=examples, envelope=envelope)

    return [
        Route(paths.CRAWL, begin, methods=["POST"]),
        Route(paths.CRAWL_JOB, status, methods=["GET"]),
    ]


def _envelope(look: Look, page: int, count: int) -> dict[str, Any]:
    job = look.job
    return {
        "success": True,
        "job_id": job.id,
        "status": job.state.value,
        "total_pages": job.expected,
        "completed_pages": job.published,
        "total_results": job.published,
        "page": page,
        "per_page": count,
        "time_taken": seconds(job),
        **job.cost,
        "error": job.error,
        "receipt": look.receipt.model_dump(),
    }
