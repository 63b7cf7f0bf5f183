"""Server-sent events: progress, each row once, and the end. `Last-Event-ID` resumes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any, Final

import orjson
from starlette.responses import Response, StreamingResponse

from webdata_nb.contract import paths
from webdata_nb.contract.events import STREAMED, StreamEvent
from webdata_nb.contract.states import JobKind
from webdata_nb.service.routes.expired import expired
from webdata_nb.service.routes.parameters import JobId, LastEventId
from webdata_nb.service.routes.replies import job_of
from webdata_nb.service.routes.routing import JSON, REF, AccountId, TheDesk, refusals, strict_router
from webdata_nb.service.routes.starts import Desk
from webdata_nb.service.store.records import Job, Listed
from webdata_nb.service.work.events import Listener

KEEPALIVE_S: Final = 15.0
# Changes are told at most this often: a bar that moves ten times a second is live.
PACE_S: Final = 0.1
ROWS: Final = 500


router = strict_router()


_STREAM: Final = "text/event-stream"


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
                "description": "Number of the row, from 1; of the last one for `Last-Event-ID`.",
            },
        },
    }


_EVENTS: Final = [_event_schema(name.value, model.__name__) for name, model in STREAMED.items()]
_ANSWERS: Final = {200: {"content": {_STREAM: {"schema": {"oneOf": _EVENTS}}}}, **refusals(404)}


@router.get(
    paths.CRAWL_EVENTS,
    summary="Watch a crawl as server-sent events: progress, page, done",
    tags=["crawl"],
    response_class=Response,
    responses=_ANSWERS,
)
async def watch_crawl(
    desk: TheDesk, account_id: AccountId, job_id: JobId, last_event_id: LastEventId = 0
) -> Response:
    """Watch a crawl: each row once, how far it is, and its end, after which the stream ends."""
    return await _watch(desk, account_id, job_id, "crawl", last_event_id)


@router.get(
    paths.SEARCH_EVENTS,
    summary="Watch a search as server-sent events: progress, page, done",
    tags=["search"],
    response_class=Response,
    responses=_ANSWERS,
)
async def watch_search(
    desk: TheDesk, account_id: AccountId, job_id: JobId, last_event_id: LastEventId = 0
) -> Response:
    """Watch a search: each row once, how far it is, and its end, after which the stream ends."""
    return await _watch(desk, account_id, job_id, "search", last_event_id)


async def _watch(
    desk: Desk, account_id: str, job_id: str, kind: JobKind, told: int
) -> StreamingResponse:
    job = await job_of(desk, account_id, job_id, kind)
    stream = _stream(desk, account_id, job.id, told)
    return StreamingResponse(stream, media_type=_STREAM, headers={"Cache-Control": "no-store"})


async def _stream(desk: Desk, account_id: str, job_id: str, told: int) -> AsyncIterator[bytes]:
    with desk.hub.listen(job_id) as listener:
        while True:
            job = await desk.store.job(account_id, job_id)
            kept = expired(desk, job) is None
            while kept and (rows := await desk.store.listed(job_id, start=told, count=ROWS)):
                told = rows[-1].position + 1
                yield b"".join(_page(job_id, row) for row in rows)
            yield _event(StreamEvent.PROGRESS, await _progress(desk, job))
            if job.state.terminal:
                done = {"job_id": job_id, "status": job.state.value, "error": job.error}
                yield _event(StreamEvent.DONE, done)
                return
            next_at = time.monotonic() + PACE_S
            while not await listener.wait(KEEPALIVE_S):
                yield b": still here\n\n"
            await _paced(listener, next_at)


async def _paced(listener: Listener, next_at: float) -> None:
    """Wait until the next step may be told; the end may be told at once."""
    while listener.ended is None and (left_s := next_at - time.monotonic()) > 0:
        await listener.wait(left_s)


async def _progress(desk: Desk, job: Job) -> dict[str, Any]:
    counts = (await desk.store.receipt(job.id, examples=0)).counts
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
        "total": job.expected,
        "failed": failed,
        "elapsed": job.elapsed(time.time()) or 0.0,
        **job.cost,
    }


def _page(job_id: str, row: Listed) -> bytes:
    page = {"position": row.position, "url": row.url, "success": row.success}
    return _event(StreamEvent.PAGE, {"job_id": job_id, **page}, row.position + 1)


def _event(name: StreamEvent, data: dict[str, Any], number: int | None = None) -> bytes:
    head = f"event: {name.value}\n" + ("" if number is None else f"id: {number}\n")
    return head.encode() + b"data: " + orjson.dumps(data) + b"\n\n"
