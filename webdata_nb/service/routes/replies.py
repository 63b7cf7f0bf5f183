"""Status replies: an envelope, and rows as the bytes that the store holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from webdata_nb.contract.states import JobKind
from webdata_nb.service.errors import NoSuchJob
from webdata_nb.service.http.etags import etag_of
from webdata_nb.service.routes.app_state import AppState
from webdata_nb.service.routes.expired import expired
from webdata_nb.service.routes.response_cache import Question, public
from webdata_nb.service.routes.routing import StrictRoute
from webdata_nb.service.store.records import Job, JobSnapshot, RowRange

# Large enough for few writes, small enough for memory that was used a moment ago.
_PART: Final = 96 * 1024


async def job_of(state: AppState, account_id: str, job_id: str, kind: JobKind) -> Job:
    """Return the caller's job of this kind; everything else is one and the same 404."""
    job = await state.store.job(account_id, job_id)
    if job.kind != kind:
        raise NoSuchJob("no such job")
    return job


async def look_at(
    state: AppState,
    account_id: str,
    job_id: str,
    kind: JobKind,
    window: RowRange | None,
    *,
    examples: int,
) -> tuple[JobSnapshot, dict[str, Any]]:
    """Return the caller's job with the rows that are still kept, and what a status says of others.

    Without a window there are no rows; a job of the other kind is as unknown as any.
    """

    def chosen(job: Job) -> RowRange | None:
        return window if job.kind == kind and expired(state, job) is None else None

    look = await state.store.job_snapshot(account_id, job_id, row_range=chosen, examples=examples)
    if look.job.kind != kind:
        raise NoSuchJob("no such job")
    gone = expired(state, look.job)
    return look, {} if gone is None else gone.fields()


async def status_of(
    state: AppState,
    question: Question,
    kind: JobKind,
    window: RowRange | None,
    *,
    examples: int,
    envelope: Callable[[JobSnapshot], dict[str, Any]],
) -> Response:
    """Return the status of the caller's job, as `envelope` and the rows of `window`."""
    # Before the look: what is committed from here on is another moment.
    moment = state.store.data_version()
    account_id, job_id = question.account_id, question.job_id
    look, gone = await look_at(state, account_id, job_id, kind, window, examples=examples)
    reply = with_rows(envelope(look) | gone, look.rows)
    if not look.job.state.terminal:
        return reply
    etag = reply.headers["ETag"] = reply.etag()
    if gone or not state.shelf.wants(question, reply.length):
        return reply
    body = reply.joined()
    state.shelf.keep(question, look.job, body, moment, etag=etag)
    return Response(body, media_type=reply.media_type, headers={"ETag": etag})


async def kept(state: AppState, question: Question) -> Response | None:
    """Return the reply to the same question if nothing that it tells has changed since.

    The rows of an ended job never change; its record does, when they go or it goes.
    """
    found = state.shelf.get(question)
    if found is None:
        return None
    moment = state.store.data_version()
    state.shelf.drop(question)
    if moment != found.moment:
        job = await state.store.job(question.account_id, found.job.id)
        if public(job) != found.job:
            return None
    if expired(state, found.job) is not None:
        return None
    state.shelf.keep(question, found.job, found.body, moment, etag=found.etag)
    return Response(found.body, media_type=_Rows.media_type, headers={"ETag": found.etag})


class StatusRoute(StrictRoute):
    """A route that answers a status which was asked for before, in the same words, from memory.

    FastAPI would take twice the time of the rest to read the same parameters once more.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler behind the look into memory."""
        handle = super().get_route_handler()
        if "GET" not in (self.methods or ()):
            return handle

        async def again(request: Request) -> Response:
            job_id = request.path_params["job_id"]
            question = Question.of(request, request.state.account_id, job_id)
            known = await kept(request.app.state.app_state, question)
            return await handle(request) if known is None else known

        return again


def with_rows(
    envelope: dict[str, Any], rows: Sequence[bytes], *, inside: dict[str, Any] | None = None
) -> _Rows:
    """Return a reply whose `data` are rows stored as JSON; they are not decoded on the way.

    With `inside` the reply is that object, and all this its `result`.
    """
    head = orjson.dumps(envelope)[:-1] + b',"data":['
    if inside is None:
        return _Rows(head, rows, b"]}")
    return _Rows(orjson.dumps(inside)[:-1] + b',"result":' + head, rows, b"]}}")


class _Rows(Response):
    """Sends rows as they were read, joined in parts, so that no reply is held twice."""

    media_type = "application/json"

    def __init__(self, head: bytes, rows: Sequence[bytes], tail: bytes) -> None:
        super().__init__(media_type=self.media_type)
        self._head, self._rows, self._tail = head, rows, tail
        self.length = len(head) + sum(map(len, rows)) + max(0, len(rows) - 1) + len(tail)
        self.headers["content-length"] = str(self.length)

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        for part in self._parts():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": self._tail})

    def etag(self) -> str:
        """Return the tag of an ended job's reply; its rows never change, so their sizes suffice."""
        return etag_of(self._head, orjson.dumps([len(row) for row in self._rows]))

    def joined(self) -> bytes:
        """Return the whole body."""
        return b"".join((*self._parts(), self._tail))

    def _parts(self) -> Iterator[bytes]:
        part, size = [self._head], len(self._head)
        for number, row in enumerate(self._rows):
            if size > _PART:
                yield b"".join(part)
                part, size = [], 0
            part += (b",", row) if number else (row,)
            size += len(row) + 1
        yield b"".join(part)


def seconds(job: Job) -> float | None:
    """Return the job's processing time so far."""
    elapsed = job.elapsed(time.time())
    return None if elapsed is None else round(elapsed, 6)
