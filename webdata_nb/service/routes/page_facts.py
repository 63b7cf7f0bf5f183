"""Reads the facts of a crawl's pages for an audit: GET /v1/crawl/{job_id}/page-facts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
from starlette.responses import Response

from webdata_nb.contract import limits, paths
from webdata_nb.contract.replies import PageFactsPage
from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.page.errors import BadInput
from webdata_nb.service.crawl.page_facts import page_facts
from webdata_nb.service.crawl.sitemaps import SitemapSeeds
from webdata_nb.service.routes.expiry import check_not_expired
from webdata_nb.service.routes.parameters import Cursor, FactsPerPage, JobId
from webdata_nb.service.routes.replies import job_of
from webdata_nb.service.routes.routing import (
    CONDITION,
    AccountId,
    StateDep,
    conditional,
    error_responses,
    strict_router,
)
from webdata_nb.service.store.records import JobRecord, StoredEntry

router = strict_router("crawl")


@router.get(
    paths.CRAWL_PAGE_FACTS,
    summary="Read the facts of a crawl's pages for an audit (ours)",
    response_model=PageFactsPage,
    responses={**conditional(), **error_responses(404, 410)},
    openapi_extra=CONDITION,
)
async def get_crawl_page_facts(
    state: StateDep,
    account_id: AccountId,
    job_id: JobId,
    *,
    per_page: FactsPerPage = limits.PAGE_FACTS_DEFAULT,
    cursor: Cursor = None,
) -> Response:
    """Read links, redirects and declarations of each URL that the crawl decided on.

    The listing has failed pages and those without a row too. Links and canonical URLs are there
    for every crawl, the other facts for those that were started with `audit`.
    """
    job = await job_of(state, account_id, job_id, "crawl")
    check_not_expired(state, job)
    start = _read_cursor(cursor)
    entries = await state.store.journal(job.id, start=start, count=per_page)
    seeds = SitemapSeeds.from_snapshots(await state.store.pinned_files(job.id))
    pages = None if seeds is None else seeds.pages
    body = await asyncio.to_thread(_body, job, entries, pages)
    return Response(body, media_type="application/json")


def _body(job: JobRecord, entries: Sequence[StoredEntry], pages: Sequence[str] | None) -> bytes:
    seeds = None if pages is None else frozenset(map(canonical_key, pages))
    reply: dict[str, Any] = {
        "success": True,
        "job_id": job.id,
        "status": job.state.value,
        "data": [page_facts(entry, seeds) for entry in entries],
    }
    # A page may be short, since damaged entries are left out, so the last one is empty.
    if entries:
        reply["cursor"] = str(entries[-1].ordinal + 1)
    return orjson.dumps(reply)


def _read_cursor(text: str | None) -> int:
    if text is None:
        return 0
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(2**31)):
        raise BadInput("not a cursor of this listing", loc=("query", "cursor"))
    return int(text)
