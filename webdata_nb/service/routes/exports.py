"""Exports jobs as files: GET /v1/search/{job_id}/export, GET /v1/crawl/{job_id}/export."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from webdata_nb import __version__
from webdata_nb.contract import paths
from webdata_nb.contract.replies import CrawlPage, SearchExport
from webdata_nb.service.errors import NothingToExport
from webdata_nb.service.exports import (
    ExportRows,
    StoredRows,
    export_file_name,
    stream_csv,
    stream_json,
    stream_zip,
)
from webdata_nb.service.http.compression import etag_matches, etag_of
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.routes.replies import check_not_expired, job_of
from webdata_nb.service.routes.routing import (
    CONDITION,
    AccountId,
    ExportFormat,
    JobId,
    StateDep,
    conditional,
    error_responses,
    strict_router,
)
from webdata_nb.service.store.records import JobRecord

_Stream = Callable[[JobRecord, ExportRows], AsyncIterator[bytes]]
FORMATS: Final[dict[str, tuple[_Stream, str]]] = {
    "json": (stream_json, "application/json"),
    "csv": (stream_csv, "text/csv; charset=utf-8; header=present"),
    "zip": (stream_zip, "application/zip"),
}


router = strict_router()
_FILES: Final = {
    "text/csv": {"schema": {"type": "string"}},
    "application/zip": {"schema": {"type": "string", "format": "binary"}},
}
_RESPONSES: Final = {**conditional({"content": _FILES}), **error_responses(404, 410)}


@router.get(
    paths.SEARCH_EXPORT,
    summary="Download a search",
    tags=["search"],
    response_model=SearchExport,
    responses=_RESPONSES,
    openapi_extra=CONDITION,
)
async def export_search(
    request: Request,
    state: StateDep,
    account_id: AccountId,
    job_id: JobId,
    format: ExportFormat,  # noqa: A002 - the contract's name
) -> Response:
    """Download the results of a search so far, as a file."""
    return await _export(request, state, await job_of(state, account_id, job_id, "search"), format)


@router.get(
    paths.CRAWL_EXPORT,
    summary="Download a crawl",
    tags=["crawl"],
    response_model=list[CrawlPage],
    responses=_RESPONSES,
    openapi_extra=CONDITION,
)
async def export_crawl(
    request: Request,
    state: StateDep,
    account_id: AccountId,
    job_id: JobId,
    format: ExportFormat,  # noqa: A002 - the contract's name
) -> Response:
    """Download the pages of a crawl so far, as a file."""
    return await _export(request, state, await job_of(state, account_id, job_id, "crawl"), format)


async def _export(request: Request, state: AppState, job: JobRecord, name: str) -> Response:
    check_not_expired(state, job)
    if not job.published:
        raise NothingToExport(f"the job is {job.state.value} and has no results to export")
    write, media_type = FORMATS[name]
    headers = {"Cache-Control": "no-store"}
    if job.state.terminal:
        # Of an ended job's file; a new version of the package may write it differently.
        parts = (__version__, job.id, job.state.value, str(job.published), name)
        headers |= {"ETag": etag_of("\n".join(parts).encode()), "Vary": "Accept-Encoding"}
        # The compression middleware would read all rows before it answers 304.
        if etag_matches(request.headers.get("if-none-match"), headers["ETag"]):
            return Response(status_code=304, headers=headers)
    headers["Content-Disposition"] = f'attachment; filename="{export_file_name(job, name)}"'
    headers["X-Content-Type-Options"] = "nosniff"
    return StreamingResponse(
        write(job, StoredRows(state.store, job)), media_type=media_type, headers=headers
    )
