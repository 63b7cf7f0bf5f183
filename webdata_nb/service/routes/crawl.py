"""POST /v1/crawl and GET /v1/crawl/{job_id}."""

from __future__ import annotations

from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webdata_nb.contract import limits, outcomes, paths
from webdata_nb.contract.replies import CrawlStatus, StartReply
from webdata_nb.contract.requests import CrawlRequest
from webdata_nb.contract.states import JobStatus
from webdata_nb.service.content.page_source import check_selectors
from webdata_nb.service.routes.job_start import check_extract, check_rendering, check_url, start
from webdata_nb.service.routes.parameters import (
    IdempotencyKey,
    IncludeData,
    JobId,
    PageNumber,
    PerPage,
)
from webdata_nb.service.routes.replies import StatusRoute, seconds, status_of
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
from webdata_nb.service.store.records import JobSnapshot, RowRange

_TAGS = ("include_tags", "exclude_tags")
_LINKS = links(
    {
        "getCrawl": "job_id",
        "watchCrawl": "job_id",
        "exportCrawl": "job_id",
        "getCrawlReceipt": "job_id",
        "cancelJob": "job_id",
        "retryJob": "job_id",
    }
)

router = strict_router("crawl", route_class=StatusRoute)


@router.post(
    paths.CRAWL,
    summary="Start a crawl",
    response_model=StartReply,
    responses={200: {"links": _LINKS}, **refusals(409, 429)},
)
async def start_crawl(
    request: Request,
    state: StateDep,
    wanted: Annotated[CrawlRequest, examples("startCrawl")],
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Start a crawl of a site from one page, following its links.

    The job is stored before the answer is sent, and goes on after a restart of the service. Its
    rows are pages in the order in which the crawl found them.
    """
    check_url(state.engines.egress.policy, wanted.url, field="url")
    for name in _TAGS:
        selectors = getattr(wanted.scrape_options, name)
        check_selectors(selectors, loc=("body", "scrape_options", name))
    options = wanted.scrape_options
    await check_rendering(state, options, "body", "scrape_options")
    check_extract(state, request, options.extract, "body", "scrape_options", "extract")
    job, _ = await start(state, request, wanted, idempotency_key)
    reply = {"success": True, "job_id": job.id, "status": "started"}
    return JSONResponse({**reply, "message": f"Crawl of {job.subject} started"})


@router.get(
    paths.CRAWL_JOB,
    summary="Read a crawl with a page of its rows",
    response_model=CrawlStatus,
    responses={**conditional(), **refusals(404)},
    openapi_extra=CONDITION,
)
async def get_crawl(
    request: Request,
    state: StateDep,
    account_id: AccountId,
    job_id: JobId,
    *,
    page: PageNumber = 1,
    per_page: PerPage = limits.PER_PAGE_DEFAULT,
    include_data: IncludeData = True,
) -> Response:
    """Read how far a crawl is, its receipt, and one page of the rows that it has so far.

    Rows stay where they are: a page that was full reads the same later. Past the retention of the
    rows the reply says `result_expired`, and has none.
    """
    key = ResponseKey.of(request, account_id, job_id)
    row_range = RowRange((page - 1) * per_page, per_page) if include_data else None

    def envelope(snapshot: JobSnapshot) -> dict[str, Any]:
        return _envelope(snapshot, page, per_page)

    return await status_of(
        state, key, "crawl", row_range, examples=limits.RECEIPT_EXAMPLES, envelope=envelope
    )


def _envelope(snapshot: JobSnapshot, page: int, count: int) -> dict[str, Any]:
    job = snapshot.job
    ended_well = job.state is JobStatus.COMPLETED
    warning = outcomes.completion_warning(snapshot.receipt.counts) if ended_well else ""
    return {
        "success": True,
        "job_id": job.id,
        "status": job.state.value,
        "total_pages": job.expected_rows,
        "completed_pages": job.published,
        "total_results": job.published,
        "page": page,
        "per_page": count,
        "time_taken": seconds(job),
        **job.credit_fields,
        "error": job.error,
        "receipt": snapshot.receipt.model_copy(update={"warning": warning or None}).model_dump(),
    }
