"""Server-sent events: progress, each row once it is final, and the end. `Last-Event-ID` resumes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any, Final

import orjson
from starlette.responses import Response, StreamingResponse

from webdata_nb.contract import paths
from webdata_nb.contract.events import STREAMED, StreamEvent
from webdata_nb.contract.states import JobKind
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.routes.expiry import expiry_of
from webdata_nb.service.routes.parameters import JobId, LastEventId
from webdata_nb.service.routes.replies import job_of
from webdata_nb.service.routes.routing import (
    JSON,
    REF,
    AccountId,
    StateDep,
    refusals,
    strict_router,
)
from webdata_nb.service.routes.stream_position import StreamPosition
from webdata_nb.service.store.records import JobRecord, RowSummary
from webdata_nb.service.work.events import JobListener

KEEPALIVE_S: Final = 15.0
# Changes are told at most this often: a bar that moves ten times a second is live.
PACE_S: Final = 0.1
ROWS: Final = 500


router = strict_router()


_STREAM: Final = "text/event-stream"
_RESUME: Final = (
    "Events that tell of a row have an id; a reader that sends the last one as `Last-Event-ID` is "
    "told what came behind it. A comment line comes when nothing happens for 15 seconds. Readers "
    "ignore events whose name they do not know."
)
_PROGRESS: Final = (
    "| `progress` | how far the job is: `job_id`, `type`, `status`, `completed` and `total` rows, "
    "`failed` (rows by error kind), `elapsed` seconds, `credits`, `credits_reserved` |"
)
_DONE: Final = "| `done` | the job ended: `job_id`, `status`, `error`; the stream ends |"
_RANKED: Final = (
    "| `ranked` | a result has its rank, and its page is yet to be fetched: `job_id`, `position` "
    "(from 0), `rank` (from 1), `url` |"
)
_FINAL: Final = (
    "| `page` | a row is final, with its page's formats where they were asked for: `job_id`, "
    "`position`, `url`, `success` as the row has it; rows become final in any order |"
)
_CRAWL: Final = f"""Watch a crawl as it goes on.

| event | data |
|---|---|
{_PROGRESS}
| `page` | a row is there, for good: `job_id`, `position` (from 0), `url`, `success` |
{_DONE}

{_RESUME}
"""
_SEARCH: Final = f"""Watch a search as it goes on.

| event | data |
|---|---|
{_PROGRESS}
{_RANKED}
{_FINAL}
{_DONE}

{_RESUME} The rows of a job that was cancelled or failed are final as they are.
"""


def _event_schema(name: str, model: str) -> dict[str, Any]:
    """Describe one event: until OpenAPI 3.2 the schema of a stream is that of an event."""
    carried = {"$ref": REF.format(model=model)}
    data = {"type": "string", "contentMediaType": JSON, "contentSchema": carried}
    return {
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "event": {"const": name, "description": "Name of the event."},
            "data": {**data, "description": f"The event as JSON: `{model}`."},
            "id": {
                "type": "string",
                "description": "Of events that tell of a row: what to send as `Last-Event-ID`.",
            },
        },
    }


def _answers(*names: StreamEvent) -> dict[int | str, dict[str, Any]]:
    """Describe the stream of one kind of job."""
    events = [_event_schema(name.value, STREAMED[name].__name__) for name in names]
    described = f"Events: {', '.join(names)}."
    content = {_STREAM: {"schema": {"oneOf": events}}}
    return {200: {"description": described, "content": content}, **refusals(404)}


_CRAWL_EVENTS: Final = (StreamEvent.PROGRESS, StreamEvent.PAGE, StreamEvent.DONE)


@router.get(
    paths.CRAWL_EVENTS,
    summary="Watch a crawl as server-sent events: progress, page, done",
    description=_CRAWL,
    tags=["crawl"],
    response_class=Response,
    responses=_answers(*_CRAWL_EVENTS),
)
async def watch_crawl(
    state: StateDep, account_id: AccountId, job_id: JobId, last_event_id: LastEventId = "0"
) -> Response:
    """Watch a crawl: how far it is, each row once, and its end."""
    return await _watch(state, account_id, job_id, "crawl", StreamPosition.parse(last_event_id))


@router.get(
    paths.SEARCH_EVENTS,
    summary="Watch a search as server-sent events: progress, ranked, page, done",
    description=_SEARCH,
    tags=["search"],
    response_class=Response,
    responses=_answers(*StreamEvent),
)
async def watch_search(
    state: StateDep, account_id: AccountId, job_id: JobId, last_event_id: LastEventId = "0"
) -> Response:
    """Watch a search: how far it is, each row when it is ranked and when it is final, its end."""
    return await _watch(state, account_id, job_id, "search", StreamPosition.parse(last_event_id))


async def _watch(
    state: AppState, account_id: str, job_id: str, kind: JobKind, told: StreamPosition
) -> StreamingResponse:
    job = await job_of(state, account_id, job_id, kind)
    stream = _stream(state, account_id, job.id, told)
    return StreamingResponse(stream, media_type=_STREAM, headers={"Cache-Control": "no-store"})


async def _stream(
    state: AppState, account_id: str, job_id: str, told: StreamPosition
) -> AsyncIterator[bytes]:
    with state.events.listen(job_id) as listener:
        while True:
            job = await state.store.job(account_id, job_id)
            rows = _crawled if job.kind == "crawl" else _found
            if expiry_of(state, job) is None:
                async for events, cursor in rows(state, job, told):
                    yield events
                    told = cursor
            yield _event(StreamEvent.PROGRESS, await _progress(state, job))
            if job.state.terminal:
                done = {"job_id": job_id, "status": job.state.value, "error": job.error}
                yield _event(StreamEvent.DONE, done)
                return
            next_at = time.monotonic() + PACE_S
            while not await listener.wait(KEEPALIVE_S):
                yield b": still here\n\n"
            await _paced(listener, next_at)


async def _crawled(
    state: AppState, job: JobRecord, told: StreamPosition
) -> AsyncIterator[tuple[bytes, StreamPosition]]:
    """Tell of the rows of a crawl that became visible: they are final."""
    while rows := await state.store.row_summaries(job.id, start=told.announced, count=ROWS):
        events = [_page(job.id, row, told.announce(row.position)) for row in rows]
        told = told.announce(rows[-1].position)
        yield b"".join(events), told


async def _found(
    state: AppState, job: JobRecord, told: StreamPosition
) -> AsyncIterator[tuple[bytes, StreamPosition]]:
    """Tell of the rows of a search that were ranked, and of those that became final."""
    rows, events = await state.store.row_summaries(job.id, start=0, count=ROWS), list[bytes]()
    for row in rows[told.announced :]:
        told = told.announce(row.position)
        ranked = {"position": row.position, "rank": row.position + 1, "url": row.url}
        events.append(_event(StreamEvent.RANKED, {"job_id": job.id, **ranked}, told))
    for row in rows:
        if (row.final or job.state.terminal) and not told.has(row.position):
            told = told.finish(row.position)
            events.append(_page(job.id, row, told))
    if events:
        yield b"".join(events), told


async def _paced(listener: JobListener, next_at: float) -> None:
    """Wait until the next step may be told; the end may be told at once."""
    while listener.ended is None and (left_s := next_at - time.monotonic()) > 0:
        await listener.wait(left_s)


async def _progress(state: AppState, job: JobRecord) -> dict[str, Any]:
    counts = (await state.store.receipt(job.id, examples=0)).counts
    failed = {
        outcome.removeprefix("failed:"): count
        for outcome, count in counts.items()
        if outcome.startswith("failed:")
    }
    return {
        "job_id": job.id,
        "type": job.kind,
        "status": job.state.value,
        "completed": job.published if job.kind == "crawl" else job.completed,
        "total": job.expected_rows,
        "failed": failed,
        "elapsed": job.elapsed(time.time()) or 0.0,
        **job.credit_fields,
    }


def _page(job_id: str, row: RowSummary, told: StreamPosition) -> bytes:
    page = {"position": row.position, "url": row.url, "success": row.success}
    return _event(StreamEvent.PAGE, {"job_id": job_id, **page}, told)


def _event(name: StreamEvent, data: dict[str, Any], told: StreamPosition | None = None) -> bytes:
    head = f"event: {name.value}\n" + ("" if told is None else f"id: {told.id()}\n")
    return head.encode() + b"data: " + orjson.dumps(data) + b"\n\n"
