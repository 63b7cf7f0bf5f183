"""Server-sent events: progress, each row once, and the end. `Last-Event-ID` resumes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from webdata_nb.contract import paths
from webdata_nb.contract.events import StreamEvent
from webdata_nb.contract.states import JobKind
from webdata_nb.service.errors import BadInput
from webdata_nb.service.routes.expired import expired
from webdata_nb.service.routes.replies import job_of
from webdata_nb.service.routes.starts import Desk, account_of
from webdata_nb.service.store.records import Job, Listed
from webdata_nb.service.work.events import Listener

KEEPALIVE_S: Final = 15.0
# Changes are told at most this often: a bar that moves ten times a second is live.
PACE_S: Final = 0.1
ROWS: Final = 500


def routes(desk: Desk) -> list[Route]:
    """Return the two streams."""

    def stream(kind: JobKind) -> Any:
        async def events(request: Request) -> Response:
            job = await job_of(desk, request, kind)
            told = _last_event(request)
            return StreamingResponse(
                _stream(desk, account_of(request), job.id, told),
                media_type="text/event-stream",
                headers={"Cache-Control": "no-store"},
            )

        return events

    return [
        Route(paths.CRAWL_EVENTS, stream("crawl"), methods=["GET"]),
        Route(paths.SEARCH_EVENTS, stream("search"), methods=["GET"]),
    ]


def _last_event(request: Request) -> int:
    """Return how many rows the listener knows: an event's id is its row's position, from 1."""
    text = request.headers.get("last-event-id", "0")
    if not (text.isascii() and text.isdecimal()):
        raise BadInput("must be a whole number", loc=("header", "Last-Event-ID"))
    return int(text[:12])


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
