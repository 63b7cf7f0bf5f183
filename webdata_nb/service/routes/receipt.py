"""Reads the receipt of a crawl, the outcome of every URL: GET /v1/crawl/{job_id}/receipt."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from webdata_nb.contract import limits, paths
from webdata_nb.contract.replies import ReceiptEntry, ReceiptPage
from webdata_nb.page.errors import BadInput, FetchError
from webdata_nb.page.urls import canonical_url
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.routes.parameters import (
    EntriesPerPage,
    EntryUrl,
    JobId,
    Outcome,
    PageNumber,
)
from webdata_nb.service.routes.replies import job_of
from webdata_nb.service.routes.routing import (
    CONDITION,
    AccountId,
    StateDep,
    conditional,
    error_responses,
    strict_router,
)
from webdata_nb.service.store.records import JobRecord, UrlOutcome

router = strict_router("crawl")


@router.get(
    paths.CRAWL_RECEIPT,
    summary="Read the outcome of every URL that a crawl saw (ours)",
    response_model=ReceiptPage,
    responses={**conditional(), **error_responses(404)},
    openapi_extra=CONDITION,
)
async def get_crawl_receipt(
    state: StateDep,
    account_id: AccountId,
    job_id: JobId,
    *,
    page: PageNumber = 1,
    per_page: EntriesPerPage = limits.RECEIPT_PER_PAGE_DEFAULT,
    outcome: Outcome = None,
    url: EntryUrl = None,
) -> Response:
    """Read the receipt's entries by URL: all, those of one outcome, or that of one URL."""
    job = await job_of(state, account_id, job_id, "crawl")
    if url is not None:
        return await _read_one(state, job, url, outcome)
    counts = (await state.store.receipt(job.id, examples=0)).counts
    total = sum(counts.values()) if outcome is None else counts.get(outcome, 0)
    start = (page - 1) * per_page
    entries = await state.store.receipt_page(job.id, start=start, count=per_page, outcome=outcome)
    return _reply(job, entries, total=total, page=page, per_page=per_page)


async def _read_one(state: AppState, job: JobRecord, url: str, outcome: str | None) -> Response:
    """Look up a URL as it is, then in canonical form."""
    entry = await state.store.receipt_entry(job.id, url)
    if entry is None:
        try:
            url = canonical_url(url)
        except FetchError as error:
            raise BadInput(str(error), loc=("query", "url")) from None
        entry = await state.store.receipt_entry(job.id, url)
    entries = [entry] if entry is not None and outcome in {None, entry.outcome} else []
    return _reply(job, entries, total=len(entries), page=1, per_page=1, url=url)


def _reply(
    job: JobRecord,
    url_outcomes: list[UrlOutcome],
    *,
    total: int,
    page: int,
    per_page: int,
    url: str | None = None,
) -> Response:
    entries = [ReceiptEntry(url=s.url, outcome=s.outcome, detail=s.detail) for s in url_outcomes]
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
