"""Lists the captures of web archives: POST /v1/captures."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webdata_nb.contract import paths
from webdata_nb.contract.replies import CapturesReply
from webdata_nb.contract.requests import CapturesRequest
from webdata_nb.page.errors import BadInput, FetchError
from webdata_nb.service.archives import CdxCapture, CdxQuery, IndexPage, InvalidCursor, WebArchive
from webdata_nb.service.errors import SourceError
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.routes.routing import StateDep, error_responses, examples, strict_router

router = strict_router("crawl")
# Clients repeat a call after the Retry-After of its reply.
_PATIENCE_S: Final = 10.0


@router.post(
    paths.CAPTURES,
    summary="List the captures that a web archive has of a URL (ours)",
    response_model=CapturesReply,
    responses=error_responses(501, 502, 504),
)
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
    archive = await _archive(request, state, captures_request)
    query = CdxQuery(
        captures_request.url,
        captures_request.match,
        _time(captures_request.start),
        _time(captures_request.end),
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
    return JSONResponse(_reply(archive, page))


async def _archive(
    request: Request, state: AppState, captures_request: CapturesRequest
) -> WebArchive:
    session = state.sessions.context_of(request.headers.get(paths.LEASE_HEADER))
    return await state.engines.open_archive(
        captures_request.source, session, patience_s=_PATIENCE_S
    )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _reply(archive: WebArchive, page: IndexPage) -> dict[str, Any]:
    index = {
        "index": page.index,
        "outcome": page.outcome,
        "detail": page.detail,
        "captures": len(page.captures),
    }
    return {
        "success": True,
        "captures": [_entry(archive, capture) for capture in page.captures],
        "indexes": [index],
        "cursor": page.cursor,
    }


def _entry(archive: WebArchive, capture: CdxCapture) -> dict[str, Any]:
    return {
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
