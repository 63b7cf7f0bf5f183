"""GET /v1/crawl/{job_id}/receipt: every URL that a crawl saw, and what became of it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from webdata_nb.contract import limits, outcomes, paths
from webdata_nb.contract.replies import ReceiptEntry, ReceiptPage
from webdata_nb.service.errors import BadInput, FetchError
from webdata_nb.service.routes.replies import job_of, whole
from webdata_nb.service.routes.starts import Desk
from webdata_nb.service.store.records import Job, Seen
from webdata_nb.service.web.urls import canonical


def routes(desk: Desk) -> list[Route]:
    """Return the receipt's route."""

    async def receipt(request: Request) -> Response:
        job = await job_of(desk, request, "crawl")
        page = whole(request, "page", default=1, low=1, high=10**9)
        low, high = limits.RECEIPT_PER_PAGE
        default = limits.RECEIPT_PER_PAGE_DEFAULT
        count = whole(request, "per_page", default=default, low=low, high=high)
        outcome = _outcome(request.query_params.get("outcome"))
        url = request.query_params.get("url")
        if url is not None:
            return await _one(desk, job, url, outcome)
        counts = (await desk.store.receipt(job.id, examples=0)).counts
        total = sum(counts.values()) if outcome is None else counts.get(outcome, 0)
        start = (page - 1) * count
        found = await desk.store.receipt_page(job.id, start=start, count=count, outcome=outcome)
        return _reply(job, found, total=total, page=page, per_page=count)

    return [Route(paths.CRAWL_RECEIPT, receipt, methods=["GET"])]


async def _one(desk: Desk, job: Job, url: str, outcome: str | None) -> Response:
    """Look a URL up as it is, then in the form in which crawls write URLs."""
    found = await desk.store.receipt_entry(job.id, url)
    if found is None:
        try:
            url = canonical(url)
        except FetchError as error:
            raise BadInput(str(error), loc=("query", "url")) from None
        found = await desk.store.receipt_entry(job.id, url)
    data = [found] if found is not None and outcome in {None, found.outcome} else []
    return _reply(job, data, total=len(data), page=1, per_page=1, url=url)


def _outcome(text: str | None) -> str | None:
    known = text is None or text in outcomes.MEANINGS or text.startswith(outcomes.FAILED)
    if not known:
        allowed = ", ".join([*outcomes.MEANINGS, f"{outcomes.FAILED}<kind>"])
        raise BadInput(f"must be one of {allowed}", loc=("query", "outcome"))
    return text


def _reply(
    job: Job, found: list[Seen], *, total: int, page: int, per_page: int, url: str | None = None
) -> Response:
    entries = [ReceiptEntry(url=s.url, outcome=s.outcome, detail=s.detail) for s in found]
    reply = ReceiptPage(
        job_id=job.id,
        status=job.state,
        total_results=total,
        page=page,
        per_page=per_page,
        url=url,
        data=entries,
    )
    return JSONResponse(reply.model_dump(mode="json", exclude_none=True))
