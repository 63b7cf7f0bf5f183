"""Starts crawls; reads their status, receipt and page facts; lists captures of web archives."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webdata_nb.contract import limits, outcomes, paths
from webdata_nb.contract.archives import WRITTEN_SUFFIX
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.contract.replies import (
    CapturesReply,
    CrawlStatus,
    PageFactsPage,
    ReceiptEntry,
    ReceiptPage,
    Revalidation,
    StartReply,
)
from webdata_nb.contract.requests import CapturesRequest, CrawlRequest, ExtendedCrawlRequest
from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.page.content.page_source import check_selectors
from webdata_nb.page.errors import BadInput, FetchError
from webdata_nb.page.urls import canonical_url
from webdata_nb.service.archives import CdxQuery, InvalidCursor
from webdata_nb.service.crawl.crawl_results import page_facts
from webdata_nb.service.crawl.earlier_pages import difference
from webdata_nb.service.crawl.sitemaps import SitemapSeeds
from webdata_nb.service.errors import EarlierCrawlUnusable, NoSuchJob, SourceError
from webdata_nb.service.routes.app_state import AppState, ResponseKey
from webdata_nb.service.routes.jobs import (
    check_extract,
    check_headers,
    check_rendering,
    check_url,
    start,
)
from webdata_nb.service.routes.replies import (
    StatusRoute,
    check_not_expired,
    expiry_of,
    job_of,
    seconds_taken,
    status_of,
)
from webdata_nb.service.routes.routing import (
    CONDITION,
    AccountId,
    Cursor,
    EntriesPerPage,
    EntryUrl,
    FactsPerPage,
    IdempotencyKeyHeader,
    IncludeData,
    JobId,
    Outcome,
    PageNumber,
    PerPage,
    StateDep,
    conditional,
    error_responses,
    examples,
    links,
    scopes,
    strict_router,
)
from webdata_nb.service.store.records import (
    JobRecord,
    JobSnapshot,
    JournalEntry,
    RowRange,
    UrlOutcome,
)

_SELECTOR_FIELDS = ("include_tags", "exclude_tags")
CRAWL_LINKS = links(
    {
        "getCrawl": "job_id",
        "watchCrawl": "job_id",
        "exportCrawl": "job_id",
        "getCrawlReceipt": "job_id",
        "getCrawlPageFacts": "job_id",
        "cancelJob": "job_id",
        "retryJob": "job_id",
    }
)

router: Final = strict_router("crawl", route_class=StatusRoute)


@router.post(
    paths.CRAWL,
    summary="Start a crawl",
    response_model=StartReply,
    responses={200: {"links": CRAWL_LINKS}, **error_responses(409, 429)},
)
@scopes("crawl")
async def start_crawl(
    request: Request,
    state: StateDep,
    crawl_request: Annotated[CrawlRequest, examples("startCrawl")],
    idempotency_key: IdempotencyKeyHeader = None,
) -> Response:
    """Start a crawl of a site from one page, following its links.

    The job is stored before the reply is sent, and continues after a restart of the service.
    Its rows are pages in the order in which the crawl found them.
    """
    return await _start(request, state, crawl_request, idempotency_key)


@router.post(
    paths.EXTENDED_CRAWLS,
    summary="Start a crawl with another source, base, sink or size (ours)",
    response_model=StartReply,
    responses={200: {"links": CRAWL_LINKS}, **error_responses(409, 429)},
)
@scopes("crawl")
async def start_extended_crawl(
    request: Request,
    state: StateDep,
    crawl_request: Annotated[ExtendedCrawlRequest, examples("startExtendedCrawl")],
    idempotency_key: IdempotencyKeyHeader = None,
) -> Response:
    """Start a crawl of up to 100,000 pages, of a list of pages, of an archive or since another one.

    Its job is like that of any crawl: status, rows, receipt, events, exports and the cancellation
    use the same id and paths.

    - More than 1,000 pages have a checkpoint every 1,000. Rows and order are those of one without.
      At each checkpoint the credits of its rows are charged and those of the next 1,000 pages
      reserved, and other jobs that wait run first. If the credits do not suffice for them, the
      job fails and keeps its rows.
    - With `urls`, each page is one row, in their order, and no link is followed. A page that could
      not be read is a row with its error.
    - With `source.web_archive`, pages are captures of a web archive at about a date. The site is
      not asked: of each URL, robots.txt included, the capture nearest to `as_of` is read. A row's
      `fetched_at` is the time of its capture, and `capture_distance_s` the seconds from `as_of` to
      it. The receipt has a URL without a capture in the distance as `not_archived`.
    - With `base`, each page of an earlier crawl is asked for on the condition that it has changed,
      and the rows are those of a full crawl. A page that the site calls unchanged (status 304) is
      the earlier one, with the outcome `unchanged`. A share of these pages, `recheck`, is fetched
      in full: `verified` if the site was right, `contradicted` if not. The earlier crawl may have
      selected other pages, but must have read them with the same options.
    - `source.file` and `sink.warc` are files of the machine, which only the local service uses.
    """
    # Refuse files that this service must not use, or not by this name.
    file, warc = crawl_request.source.file, crawl_request.sink.warc
    files = {
        ("source", "file", "path"): None if file is None else file.path,
        ("sink", "warc"): warc,
    }
    for loc, path in files.items():
        if path is None:
            continue
        # A service for a team must not use files of its own disk for its clients.
        if state.engines.egress.policy.mode != "local":
            raise BadInput("only the local service uses files of its machine", loc=("body", *loc))
        if not Path(path).is_absolute():
            raise BadInput("must be an absolute path", loc=("body", *loc))
    if warc is not None and not warc.lower().endswith(WRITTEN_SUFFIX):
        raise BadInput(f"must end in {WRITTEN_SUFFIX}", loc=("body", "sink", "warc"))
    if crawl_request.base is not None:
        loc = ("body", "base", "job_id")
        try:
            earlier = await state.store.job(request.state.account_id, crawl_request.base.job_id)
        except NoSuchJob:
            raise EarlierCrawlUnusable("the account has no such crawl", loc=loc) from None
        if expiry_of(state, earlier) is not None:
            raise EarlierCrawlUnusable("the pages of that crawl are deleted", loc=loc)
        session = state.sessions.context_of(request.headers.get(paths.LEASE_HEADER))
        if reason := difference(earlier, crawl_request, session):
            message = f"the pages of that crawl cannot be used: {reason}"
            raise EarlierCrawlUnusable(message, loc=loc)
    return await _start(request, state, crawl_request, idempotency_key)


async def _start(
    request: Request, state: AppState, crawl_request: CrawlRequest, idempotency_key: str | None
) -> Response:
    """Start a crawl whose URLs and options can be carried out; raises `BadInput`."""
    # Without a start page there is an archive file, or a list, whose pages fail one by one.
    if crawl_request.url:
        check_url(state.engines.egress.policy, crawl_request.url, "url")
    # Refuse options that cannot be carried out.
    for name in _SELECTOR_FIELDS:
        selectors = getattr(crawl_request.scrape_options, name)
        check_selectors(selectors, loc=("body", "scrape_options", name))
    options = crawl_request.scrape_options
    check_headers(state, options.headers, "body", "scrape_options")
    await check_rendering(state, options, "body", "scrape_options")
    check_extract(state, request, options.extract, "body", "scrape_options", "extract")
    job, _ = await start(state, request, crawl_request, idempotency_key)
    reply = {"success": True, "job_id": job.id, "status": "started"}
    return JSONResponse({**reply, "message": f"Crawl of {job.subject} started"})


@router.get(
    paths.CRAWL_JOB,
    summary="Read a crawl with a page of its rows",
    response_model=CrawlStatus,
    responses={**conditional(), **error_responses(404)},
    openapi_extra=CONDITION,
)
@scopes("crawl", "read")
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
    """Read the progress of a crawl, its receipt, and one page of its rows so far.

    Positions of rows do not change, so a full page stays the same. When the rows are past their
    retention, the reply has `result_expired` and no rows.
    """
    key = ResponseKey.of(request, account_id, job_id)
    row_range = RowRange((page - 1) * per_page, per_page) if include_data else None

    def envelope(snapshot: JobSnapshot) -> dict[str, Any]:
        now = state.store.now()
        job = snapshot.job
        completed = job.state is JobStatus.COMPLETED
        counts = snapshot.receipt.counts
        warning = outcomes.completion_warning(counts) if completed else ""
        extensions = {
            "warning": warning or None,
            "revalidation": Revalidation.of(counts),
            "signature_agent": job.outcome.get("signature_agent"),
            "low_confidence": job.outcome.get("low_confidence", {}),
            "folder": job.outcome.get("folder"),
        }
        return {
            "success": True,
            "job_id": job.id,
            "status": job.state.value,
            "total_pages": job.expected_rows,
            "completed_pages": job.published,
            "total_results": job.published,
            "page": page,
            "per_page": per_page,
            "time_taken": seconds_taken(job, now),
            **job.credit_fields,
            "error": job.error,
            "receipt": snapshot.receipt.model_copy(update=extensions).model_dump(),
        }

    return await status_of(
        state, key, "crawl", row_range, examples=limits.RECEIPT_EXAMPLES, envelope=envelope
    )


# Clients repeat a call after the Retry-After of its reply.
_PATIENCE_S: Final = 10.0


@router.post(
    paths.CAPTURES,
    summary="List the captures that a web archive has of a URL (ours)",
    response_model=CapturesReply,
    responses=error_responses(501, 502, 504),
)
@scopes("crawl")
async def list_captures(
    request: Request,
    state: StateDep,
    captures_request: Annotated[CapturesRequest, examples("listCaptures")],
) -> Response:
    """List a page of the index of the Wayback Machine, or of one crawl of Common Crawl.

    The reply is immediate, without a job, and nothing is charged. A reply may be empty and have a
    `cursor`: the next one is of another crawl. All accounts share the pace that the archive allows.
    If it asks to wait, the status is 503 with a Retry-After.
    """
    session = state.sessions.context_of(request.headers.get(paths.LEASE_HEADER))
    archive = await state.engines.open_archive(
        captures_request.source, session, patience_s=_PATIENCE_S
    )
    query = CdxQuery(
        captures_request.url,
        captures_request.match,
        _captured_at(captures_request.start),
        _captured_at(captures_request.end),
        distinct=True,
    )
    try:
        page = await archive.list_captures(
            query, limit=captures_request.limit, cursor=captures_request.cursor
        )
    except InvalidCursor:
        raise BadInput("not a cursor of this listing", loc=("body", "cursor")) from None
    except FetchError as error:
        raise SourceError(f"{archive.name}: {error}") from None
    index = {
        "index": page.index,
        "outcome": page.outcome,
        "detail": page.detail,
        "captures": len(page.captures),
    }
    captures = [
        {
            "url": capture.url,
            "captured_at": capture.captured_at.isoformat(),
            "status_code": capture.status,
            "mime_type": capture.mime_type,
            "digest": capture.digest,
            "length": capture.length,
            "archive_url": archive.archive_url(capture),
            "index": capture.index,
            "offset": capture.offset,
        }
        for capture in page.captures
    ]
    return JSONResponse(
        {"success": True, "captures": captures, "indexes": [index], "cursor": page.cursor}
    )


def _captured_at(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


@router.get(
    paths.CRAWL_RECEIPT,
    summary="Read the outcome of every URL that a crawl saw (ours)",
    response_model=ReceiptPage,
    responses={**conditional(), **error_responses(404)},
    openapi_extra=CONDITION,
)
@scopes("crawl", "read")
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
        entry = await state.store.receipt_entry(job.id, url)
        if entry is None:
            try:
                url = canonical_url(url)
            except FetchError as error:
                raise BadInput(str(error), loc=("query", "url")) from None
            entry = await state.store.receipt_entry(job.id, url)
        found = [entry] if entry is not None and outcome in {None, entry.outcome} else []
        return _receipt_reply(job, found, total=len(found), page=1, per_page=1, url=url)
    counts = (await state.store.receipt(job.id, examples=0)).counts
    total = sum(counts.values()) if outcome is None else counts.get(outcome, 0)
    start = (page - 1) * per_page
    entries = await state.store.receipt_page(job.id, start=start, count=per_page, outcome=outcome)
    return _receipt_reply(job, entries, total=total, page=page, per_page=per_page)


def _receipt_reply(
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


@router.get(
    paths.CRAWL_PAGE_FACTS,
    summary="Read the facts of a crawl's pages for an audit (ours)",
    response_model=PageFactsPage,
    responses={**conditional(), **error_responses(404, 410)},
    openapi_extra=CONDITION,
)
@scopes("crawl", "read")
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
    start = 0
    if cursor is not None:
        if not (cursor.isascii() and cursor.isdecimal()) or len(cursor) > len(str(2**31)):
            raise BadInput("not a cursor of this listing", loc=("query", "cursor"))
        start = int(cursor)
    entries = await state.store.journal(job.id, start=start, count=per_page)
    seeds = SitemapSeeds.from_snapshots(await state.store.pinned_files(job.id))
    pages = None if seeds is None else seeds.pages
    body = await asyncio.to_thread(_facts_body, job, entries, pages)
    return Response(body, media_type="application/json")


def _facts_body(
    job: JobRecord, entries: Sequence[JournalEntry], pages: Sequence[str] | None
) -> bytes:
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
