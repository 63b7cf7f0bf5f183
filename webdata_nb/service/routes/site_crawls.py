"""Starts, reads and cancels crawls of several sites: POST and GET /v1/site-crawls."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webdata_nb.contract import paths
from webdata_nb.contract.replies import (
    SiteCrawlCancel,
    SiteCrawlStart,
    SiteCrawlStatus,
    SiteOfCrawl,
)
from webdata_nb.contract.requests import LongCrawlRequest, NoParameters, SiteCrawlRequest
from webdata_nb.contract.url_keys import site_of
from webdata_nb.service.errors import BadInput, InvalidJobState
from webdata_nb.service.routes.crawl import check_options
from webdata_nb.service.routes.job_start import check_url, start_together
from webdata_nb.service.routes.jobs import cancel
from webdata_nb.service.routes.parameters import IdempotencyKey, SiteCrawlId
from webdata_nb.service.routes.routing import (
    AccountId,
    StateDep,
    error_responses,
    examples,
    links,
    strict_router,
)
from webdata_nb.service.store.records import JobRecord
from webdata_nb.service.web.urls import canonical_url

_NO_PARAMETERS: Final = NoParameters()
_LINKS = links({"getSiteCrawl": "site_crawl_id", "cancelSiteCrawl": "site_crawl_id"})

router = strict_router("crawl")


@router.post(
    paths.SITE_CRAWLS,
    summary="Start a crawl of each of several sites (ours)",
    response_model=SiteCrawlStart,
    responses={200: {"links": _LINKS}, **error_responses(409, 429)},
)
async def start_site_crawl(
    request: Request,
    state: StateDep,
    site_request: Annotated[SiteCrawlRequest, examples("startSiteCrawl")],
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Start a crawl of each site; a link from one site to another is handed over.

    Each crawl is a job with an id of its own: status, rows, receipt, events, exports, webhooks and
    cancellation are those of any crawl. All jobs are stored before the reply is sent, or none.
    A crawl reads its own site first. When it has no URL left it waits, without taking up a slot,
    until none of the crawls is active. Then it takes the URLs of its site that the others have
    found, each once, in their order, as if its start page linked to them. A crawl ends when its
    budget is used up, or when nothing can be handed over any more.
    """
    await check_options(request, state, site_request)
    for number, url in enumerate(site_request.urls):
        check_url(state.engines.egress.policy, url, "urls", number)
    _check_sites(site_request.urls)
    body = {"max_pages": site_request.max_pages, **await request.json()}
    del body["urls"]
    crawls = [LongCrawlRequest.model_validate({**body, "url": url}) for url in site_request.urls]
    started = await start_together(state, request, crawls, idempotency_key)
    jobs = [{"job_id": job.id, "url": job.subject} for job in started.jobs]
    reply = {"success": True, "site_crawl_id": started.id, "status": "started", "jobs": jobs}
    return JSONResponse(reply)


def _check_sites(urls: tuple[str, ...]) -> None:
    number_by_site: dict[str, int] = {}
    for number, url in enumerate(urls):
        first = number_by_site.setdefault(site_of(canonical_url(url)), number)
        if first != number:
            raise BadInput(
                f"entries {first} and {number} are of one site: each site may be there once",
                loc=("body", "urls", number),
            )


@router.get(
    paths.SITE_CRAWL,
    summary="Read the states of the crawls of several sites (ours)",
    response_model=SiteCrawlStatus,
    responses=error_responses(404),
)
async def get_site_crawl(
    state: StateDep, account_id: AccountId, site_crawl_id: SiteCrawlId
) -> Response:
    """Read which crawls run, wait or have ended; rows and receipts are those of the jobs."""
    site_crawl = await state.store.site_crawls.site_crawl(account_id, site_crawl_id)
    reply = SiteCrawlStatus(
        success=True,
        site_crawl_id=site_crawl.id,
        created_at=datetime.fromtimestamp(site_crawl.created_at, UTC),
        states=Counter(job.state for job in site_crawl.jobs),
        handed_over=site_crawl.handed_over,
        jobs=[_site(job) for job in site_crawl.jobs],
    )
    return JSONResponse(reply.model_dump(mode="json"))


def _site(job: JobRecord) -> SiteOfCrawl:
    return SiteOfCrawl(
        job_id=job.id,
        url=job.subject,
        status=job.state,
        is_parked=job.is_parked,
        total_pages=job.expected_rows,
        completed_pages=job.published,
        error=job.error,
    )


@router.post(
    paths.SITE_CRAWL_CANCEL,
    summary="Cancel all crawls of a site crawl that have not ended; repeating it succeeds (ours)",
    response_model=SiteCrawlCancel,
    responses=error_responses(404),
)
async def cancel_site_crawl(
    state: StateDep,
    account_id: AccountId,
    site_crawl_id: SiteCrawlId,
    _body: Annotated[NoParameters, examples("cancelSiteCrawl")] = _NO_PARAMETERS,
) -> Response:
    """Cancel the jobs that are pending or running. Their rows so far are kept and charged."""
    site_crawl = await state.store.site_crawls.site_crawl(account_id, site_crawl_id)
    cancelled = []
    for job in site_crawl.jobs:
        with suppress(InvalidJobState):  # it has ended
            cancelled.append((await cancel(state, account_id, job.id)).id)
    return JSONResponse({"success": True, "site_crawl_id": site_crawl.id, "cancelled": cancelled})
