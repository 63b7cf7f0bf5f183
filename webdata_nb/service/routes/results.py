"""Delivers the results of jobs: as files, and as server-sent events while a job runs.

A stream of events has progress, rows and the end of a job, and is resumable by event id.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated, Any, Final

import orjson
from fastapi import Header
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from webdata_nb import __version__
from webdata_nb.contract import outcomes, paths
from webdata_nb.contract.events import STREAMED, StreamEvent
from webdata_nb.contract.outcomes import JobKind
from webdata_nb.contract.replies import CrawlPage, SearchExport
from webdata_nb.service.errors import AccountSuspended, NothingToExport, StoreUnavailable
from webdata_nb.service.exports import (
    ExportRows,
    StoredRows,
    export_file_name,
    stream_csv,
    stream_json,
    stream_zip,
)
from webdata_nb.service.http.compression import etag_matches, etag_of
from webdata_nb.service.observability.logs import Caller
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.routes.replies import check_not_expired, expiry_of, job_of
from webdata_nb.service.routes.routing import (
    CONDITION,
    JSON,
    REF,
    AccountId,
    ExportFormat,
    JobId,
    StateDep,
    conditional,
    error_responses,
    scopes,
    strict_router,
    text_parameter,
)
from webdata_nb.service.store.job_context import JobListener
from webdata_nb.service.store.records import JobRecord, RowSummary

EVENT_ID_PATTERN: Final = r"[0-9]{1,12}(\.[0-9a-f]{1,16})?(-end)?"
_END: Final = "-end"
_EVENT_ID: Final = re.compile(EVENT_ID_PATTERN)


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """The number of announced rows, a bit set of the final rows of a search, and whether it ended.

    Rows of a crawl are final when they become visible, in order, so their number suffices. Rows of
    a search become visible together when they are ranked, and final in any order.
    """

    announced: int = 0
    final: int = 0
    ended: bool = False

    @classmethod
    def parse(cls, event_id: str) -> StreamPosition:
        """Parse an event id; raises `ValueError` if it is invalid."""
        if not _EVENT_ID.fullmatch(event_id):
            raise ValueError("must be the id of an event of this stream")
        rows = event_id.removesuffix(_END)
        announced, _, final = rows.partition(".")
        return cls(int(announced), int(final or "0", 16), ended=rows != event_id)

    def id(self) -> str:
        """Return the event id from which the stream resumes at this position."""
        rows = f"{self.announced}.{self.final:x}" if self.final else str(self.announced)
        return rows + _END if self.ended else rows

    def end(self) -> StreamPosition:
        """Return the position after the `done` event."""
        return replace(self, ended=True)

    def is_final(self, position: int) -> bool:
        """Whether the `page` event of a search's row was sent."""
        return bool(self.final >> position & 1)

    def announce(self, position: int) -> StreamPosition:
        """Return the position after the rows up to `position` are announced."""
        return StreamPosition(position + 1, self.final)

    def finish(self, position: int) -> StreamPosition:
        """Return the position after the `page` event of a search's row."""
        return StreamPosition(self.announced, self.final | 1 << position)


def _event_id(text: str) -> str:
    StreamPosition.parse(text)
    return text


LastEventId = Annotated[
    str,
    *text_parameter(_event_id, pattern=f"^{EVENT_ID_PATTERN}$"),
    Header(
        alias="Last-Event-ID",
        description="Id of the last event that the client received; the stream resumes after it.",
    ),
]


KEEPALIVE_S: Final = 15.0
# Shortest interval between updates; ten a second are enough for a progress bar.
UPDATE_INTERVAL_S: Final = 0.1
ROWS_PER_READ: Final = 500
# How long a stream waits before it reads an unavailable store again.
_STORE_READ_INTERVAL_S: Final = 1.0
# The last bytes of a stream whose process stops: when to open it again. It is no event.
RECONNECT: Final = b": this process stops; open the stream again\nretry: 1000\n\n"
STILL_HERE: Final = b": still here\n\n"
KEY_ENDED: Final = b": the key is not valid any more\n\n"
_UNAVAILABLE: Final = b": the database is not available; the stream continues after it\n\n"


router: Final = strict_router()


_LookUp = Callable[[], Awaitable[Caller | None]]
EVENT_STREAM: Final = "text/event-stream"
_RESUME: Final = (
    "Events of rows and `done` have an id; a client that sends the last one as `Last-Event-ID` "
    "receives the events after it. After `done` there are none: the answer is 204, at which an "
    "`EventSource` stops. The stream sends a comment line after 15 seconds without an event, and "
    "stays open while the database is not available. It ends without `done` when the key does. A "
    "process that stops ends its streams without `done`, with `retry:` as the time in milliseconds "
    "after which to open them again. Clients must ignore unknown event names."
)
_PROGRESS: Final = (
    "| `progress` | progress of the job: `job_id`, `type`, `status`, `completed` and `total` rows, "
    "`failed` (rows by error kind), `links_checked`, `elapsed` seconds, `credits`, "
    "`credits_reserved` |"
)
_DONE: Final = "| `done` | the job ended: `job_id`, `status`, `error`; the stream ends |"
_RANKED: Final = (
    "| `ranked` | a result is ranked, and its page is not fetched yet: `job_id`, `position` "
    "(from 0), `rank` (from 1), `url` |"
)
_FINAL: Final = (
    "| `page` | a row is final, with the requested formats of its page: `job_id`, "
    "`position`, `url`, `success` as the row has it; rows become final in any order |"
)
_CRAWL: Final = f"""Watch the progress of a crawl.

| event | data |
|---|---|
{_PROGRESS}
| `page` | a row is final: `job_id`, `position` (from 0), `url`, `success` |
{_DONE}

{_RESUME}
"""
_SEARCH: Final = f"""Watch the progress of a search.

| event | data |
|---|---|
{_PROGRESS}
{_RANKED}
{_FINAL}
{_DONE}

{_RESUME} All rows of a cancelled or failed job are final.
"""


def _stream_responses(*names: StreamEvent) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of the stream of one kind of job."""
    events = []  # before OpenAPI 3.2, a stream has the schema of its events
    for name in names:
        model = STREAMED[name].__name__
        data = {
            "type": "string",
            "contentMediaType": JSON,
            "contentSchema": {"$ref": REF.format(model=model)},
            "description": f"The event as JSON: `{model}`.",
        }
        properties = {
            "event": {"const": name.value, "description": "Name of the event."},
            "data": data,
            "id": {
                "type": "string",
                "description": "Of events of rows and `done`: what to send as `Last-Event-ID`.",
            },
        }
        events.append({"type": "object", "required": ["event", "data"], "properties": properties})
    description = f"Events: {', '.join(names)}."
    content = {EVENT_STREAM: {"schema": {"oneOf": events}}}
    return {
        200: {"description": description, "content": content},
        204: {"description": "`Last-Event-ID` is that of `done`: there are no more events."},
        **error_responses(404),
    }


_CRAWL_EVENTS: Final = (StreamEvent.PROGRESS, StreamEvent.PAGE, StreamEvent.DONE)


@router.get(
    paths.CRAWL_EVENTS,
    summary="Watch a crawl as server-sent events: progress, page, done",
    description=_CRAWL,
    tags=["crawl"],
    response_class=Response,
    responses=_stream_responses(*_CRAWL_EVENTS),
)
@scopes("crawl", "read")
async def watch_crawl(
    request: Request, state: StateDep, job_id: JobId, last_event_id: LastEventId = "0"
) -> Response:
    """Stream progress, each final row and the end of a crawl."""
    return await _watch(request, state, job_id, "crawl", StreamPosition.parse(last_event_id))


@router.get(
    paths.SEARCH_EVENTS,
    summary="Watch a search as server-sent events: progress, ranked, page, done",
    description=_SEARCH,
    tags=["search"],
    response_class=Response,
    responses=_stream_responses(*StreamEvent),
)
@scopes("search", "read")
async def watch_search(
    request: Request, state: StateDep, job_id: JobId, last_event_id: LastEventId = "0"
) -> Response:
    """Stream progress, each row when it is ranked and when it is final, and the end."""
    return await _watch(request, state, job_id, "search", StreamPosition.parse(last_event_id))


async def _watch(
    request: Request, state: AppState, job_id: str, kind: JobKind, position: StreamPosition
) -> Response:
    job = await job_of(state, request.state.account_id, job_id, kind)
    if position.ended and job.state.terminal:
        return Response(status_code=HTTPStatus.NO_CONTENT, headers={"Cache-Control": "no-store"})
    stream = _stream(state, job, position, request.state.look_up_caller)
    return StreamingResponse(stream, media_type=EVENT_STREAM, headers={"Cache-Control": "no-store"})


async def _stream(
    state: AppState,
    started: JobRecord,
    position: StreamPosition,
    look_up_caller: _LookUp,
) -> AsyncIterator[bytes]:
    """Yield events until the job ends, or the key: a stream may last for hours."""
    account_id, job_id = started.account_id, started.id
    with state.events.listen(job_id) as listener:
        while True:
            if not await is_valid(look_up_caller):
                yield KEY_ENDED
                return
            try:
                snapshot = await state.store.job_snapshot(
                    account_id, job_id, row_range=lambda _: None, examples=0
                )
                job, counts = snapshot.job, snapshot.receipt.counts
                async for events, next_position in _row_events(state, job, position):
                    yield events
                    position = next_position
                failed = {
                    outcome.removeprefix("failed:"): count
                    for outcome, count in counts.items()
                    if outcome.startswith("failed:")
                }
                progress = {
                    "job_id": job.id,
                    "type": job.kind,
                    "status": job.state.value,
                    "completed": job.published if job.kind == "crawl" else job.completed,
                    "total": job.expected_rows,
                    "failed": failed,
                    "links_checked": outcomes.links_checked(counts),
                    "elapsed": job.elapsed(state.store.now()) or 0.0,
                    **job.credit_fields,
                }
            except StoreUnavailable:
                yield _UNAVAILABLE
                if state.events.closed:
                    yield RECONNECT
                    return
                await wait_unless_stopped(state, listener, _STORE_READ_INTERVAL_S)
                continue
            yield _event(StreamEvent.PROGRESS, progress)
            if job.state.terminal:
                end = {"job_id": job_id, "status": job.state.value, "error": job.error}
                yield _event(StreamEvent.DONE, end, position.end())
                return
            if state.events.closed:
                yield RECONNECT
                return
            next_at = time.monotonic() + UPDATE_INTERVAL_S
            while not await listener.wait(KEEPALIVE_S):
                if not await is_valid(look_up_caller):
                    yield KEY_ENDED
                    return
                yield STILL_HERE
            # The next update is due after an interval; the end is sent at once.
            while (
                listener.ended is None
                and not state.events.closed
                and (left_s := next_at - time.monotonic()) > 0
            ):
                await listener.wait(left_s)


async def is_valid(look_up_caller: _LookUp) -> bool:
    """Whether the key of a stream is valid, as far as the store can say now."""
    try:
        return await look_up_caller() is not None
    except AccountSuspended:
        return False
    except StoreUnavailable:
        return True


async def _row_events(
    state: AppState, job: JobRecord, position: StreamPosition
) -> AsyncIterator[tuple[bytes, StreamPosition]]:
    """Yield events of rows that changed, each with the position after it."""
    if expiry_of(state, job) is not None:
        return
    if job.kind == "crawl":
        # Newly visible rows of a crawl are final.
        while position.announced < job.published and (
            rows := await state.store.row_summaries(
                job.id, start=position.announced, count=ROWS_PER_READ
            )
        ):
            events = [_page(job.id, row, position.announce(row.position)) for row in rows]
            position = position.announce(rows[-1].position)
            yield b"".join(events), position
        return
    # The rows of a search become ranked, then final in any order.
    rows = await state.store.row_summaries(job.id, start=0, count=ROWS_PER_READ)
    events = []
    for row in rows[position.announced :]:
        position = position.announce(row.position)
        ranked = {"position": row.position, "rank": row.position + 1, "url": row.url}
        events.append(_event(StreamEvent.RANKED, {"job_id": job.id, **ranked}, position))
    for row in rows:
        if (row.final or job.state.terminal) and not position.is_final(row.position):
            position = position.finish(row.position)
            events.append(_page(job.id, row, position))
    if events:
        yield b"".join(events), position


async def wait_unless_stopped(state: AppState, listener: JobListener, seconds: float) -> None:
    """Wait that long; a process that stops does not wait."""
    next_at = time.monotonic() + seconds
    while not state.events.closed and (left_s := next_at - time.monotonic()) > 0:
        await listener.wait(left_s)


def _page(job_id: str, row: RowSummary, position: StreamPosition) -> bytes:
    page = {"position": row.position, "url": row.url, "success": row.success}
    return _event(StreamEvent.PAGE, {"job_id": job_id, **page}, position)


def _event(
    name: StreamEvent, data: dict[str, Any], position: StreamPosition | None = None
) -> bytes:
    head = f"event: {name.value}\n" + ("" if position is None else f"id: {position.id()}\n")
    return head.encode() + b"data: " + orjson.dumps(data) + b"\n\n"


_Stream = Callable[[JobRecord, ExportRows], AsyncIterator[bytes]]
FORMATS: Final[dict[str, tuple[_Stream, str]]] = {
    "json": (stream_json, "application/json"),
    "csv": (stream_csv, "text/csv; charset=utf-8; header=present"),
    "zip": (stream_zip, "application/zip"),
}


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
@scopes("search", "read")
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
@scopes("crawl", "read")
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
