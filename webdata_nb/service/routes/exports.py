"""GET /v1/search/{job_id}/export and GET /v1/crawl/{job_id}/export."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from webdata_nb.contract import paths
from webdata_nb.contract.states import JobKind
from webdata_nb.service.errors import BadInput, NothingToExport
from webdata_nb.service.exports import as_csv, as_json, as_zip
from webdata_nb.service.exports.names import file_name
from webdata_nb.service.exports.source import Rows, StoredRows
from webdata_nb.service.routes.expired import check_kept
from webdata_nb.service.routes.replies import job_of
from webdata_nb.service.routes.starts import Desk
from webdata_nb.service.store.records import Job

_Stream = Callable[[Job, Rows], AsyncIterator[bytes]]
FORMATS: Final[dict[str, tuple[_Stream, str]]] = {
    "json": (as_json.stream, "application/json"),
    "csv": (as_csv.stream, "text/csv; charset=utf-8; header=present"),
    "zip": (as_zip.stream, "application/zip"),
}


def routes(desk: Desk) -> list[Route]:
    """Return the export routes."""

    def export(kind: JobKind) -> Any:
        async def download(request: Request) -> Response:
            name = request.query_params.get("format")
            if name not in FORMATS:
                raise BadInput(f"must be one of {', '.join(FORMATS)}", loc=("query", "format"))
            job = await job_of(desk, request, kind)
            check_kept(desk, job)
            if not job.published:
                raise NothingToExport(f"the job is {job.state.value} and has no results to export")
            write, media_type = FORMATS[name]
            return StreamingResponse(
                write(job, StoredRows(desk.store, job)),
                media_type=media_type,
                headers={
                    "Content-Disposition": f'attachment; filename="{file_name(job, name)}"',
                    "Cache-Control": "no-store",
                    "X-Content-Type-Options": "nosniff",
                },
            )

        return download

    return [
        Route(paths.SEARCH_EXPORT, export("search"), methods=["GET"]),
        Route(paths.CRAWL_EXPORT, export("crawl"), methods=["GET"]),
    ]
