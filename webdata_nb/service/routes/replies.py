"""Builds status replies from a job's envelope and its stored rows, without decoding the rows.

Rows that are past their retention are left out, whether they are deleted yet or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from webdata_nb.contract import paths
from webdata_nb.contract.outcomes import JobKind
from webdata_nb.service.errors import NoSuchJob, ResultsExpired
from webdata_nb.service.http.compression import etag_of
from webdata_nb.service.routes.app_state import AppState, ResponseKey, without_secrets
from webdata_nb.service.routes.routing import StrictRoute
from webdata_nb.service.store.records import JobRecord, JobSnapshot, RowRange
from webdata_nb.service.work.retention import expired_at, retention_hours

# Large enough for few writes, small enough for the processor's cache.
_PART_BYTES: Final = 96 * 1024


async def job_of(state: AppState, account_id: str, job_id: str, kind: JobKind) -> JobRecord:
    """Return the account's job of this kind; raises `NoSuchJob` for any other."""
    job = await state.store.job(account_id, job_id)
    if job.kind != kind:
        raise NoSuchJob("no such job")
    return job


async def read_snapshot(
    state: AppState,
    account_id: str,
    job_id: str,
    kind: JobKind,
    row_range: RowRange | None,
    *,
    examples: int,
) -> tuple[JobSnapshot, dict[str, Any]]:
    """Return a snapshot of the account's job, and the fields of a status about expired rows.

    Without a range the snapshot has no rows. Raises `NoSuchJob` for a job of the other kind.
    """

    def range_of(job: JobRecord) -> RowRange | None:
        return row_range if job.kind == kind and expiry_of(state, job) is None else None

    snapshot = await state.store.job_snapshot(
        account_id, job_id, row_range=range_of, examples=examples
    )
    if snapshot.job.kind != kind:
        raise NoSuchJob("no such job")
    expiry = expiry_of(state, snapshot.job)
    return snapshot, {} if expiry is None else expiry.fields()


async def status_of(
    state: AppState,
    key: ResponseKey,
    kind: JobKind,
    row_range: RowRange | None,
    *,
    examples: int,
    envelope: Callable[[JobSnapshot], dict[str, Any]],
) -> Response:
    """Return the status of the account's job: `envelope` and the rows of `row_range`."""
    # Read before the snapshot: later commits have another version.
    data_version = state.store.data_version()
    account_id, job_id = key.account_id, key.job_id
    snapshot, expiry_fields = await read_snapshot(
        state, account_id, job_id, kind, row_range, examples=examples
    )
    reply = with_rows(envelope(snapshot) | expiry_fields, snapshot.rows)
    if not snapshot.job.state.terminal:
        return reply
    etag = reply.headers["ETag"] = reply.etag()
    if expiry_fields or not state.response_cache.should_cache(key, reply.length):
        return reply
    body = reply.body_bytes()
    state.response_cache.put(key, snapshot.job, body, data_version, etag=etag)
    return Response(body, media_type=reply.media_type, headers={"ETag": etag})


async def cached_response(state: AppState, key: ResponseKey) -> Response | None:
    """Return the cached reply if it is still valid.

    The rows of an ended job never change. Its record changes when rows or job are deleted.
    """
    cached = state.response_cache.get(key)
    if cached is None:
        return None
    data_version = state.store.data_version()
    state.response_cache.drop(key)
    if data_version != cached.data_version:
        job = await state.store.job(key.account_id, cached.job.id)
        if without_secrets(job) != cached.job:
            return None
    if expiry_of(state, cached.job) is not None:
        return None
    state.response_cache.put(key, cached.job, cached.body, data_version, etag=cached.etag)
    return Response(cached.body, media_type=RowsResponse.media_type, headers={"ETag": cached.etag})


class StatusRoute(StrictRoute):
    """A route; that of a status answers repeated requests from the response cache."""

    async def read(self, request: Request) -> Response | None:
        """Return the cached response, or a new one."""
        if self.path in {paths.CRAWL_JOB, paths.SEARCH_JOB}:
            key = ResponseKey.of(request, request.state.account_id, request.path_params["job_id"])
            cached = await cached_response(request.app.state.app_state, key)
            if cached is not None:
                return cached
        return await super().read(request)


def with_rows(
    envelope: dict[str, Any], rows: Sequence[bytes], *, parent: dict[str, Any] | None = None
) -> RowsResponse:
    """Return a reply whose `data` contains rows stored as JSON.

    With `parent`, the reply is that object, with the envelope and rows as its `result`.
    """
    head = orjson.dumps(envelope)[:-1] + b',"data":['
    if parent is None:
        return RowsResponse(head, rows, b"]}")
    return RowsResponse(orjson.dumps(parent)[:-1] + b',"result":' + head, rows, b"]}}")


class RowsResponse(Response):
    """Sends stored rows in parts, so that a reply is not copied as a whole."""

    media_type = "application/json"

    def __init__(self, head: bytes, rows: Sequence[bytes], tail: bytes) -> None:
        super().__init__(media_type=self.media_type)
        self._head, self._rows, self._tail = head, rows, tail
        self.length: int = len(head) + sum(map(len, rows)) + max(0, len(rows) - 1) + len(tail)
        self.headers["content-length"] = str(self.length)

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the reply in parts."""
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        for part in self._parts():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": self._tail})

    def etag(self) -> str:
        """Return the entity tag of an ended job; its rows do not change, so sizes suffice."""
        return etag_of(self._head, orjson.dumps([len(row) for row in self._rows]))

    def body_bytes(self) -> bytes:
        """Return the whole body."""
        return b"".join((*self._parts(), self._tail))

    def _parts(self) -> Iterator[bytes]:
        part, size = [self._head], len(self._head)
        for number, row in enumerate(self._rows):
            if size > _PART_BYTES:
                yield b"".join(part)
                part, size = [], 0
            part += (b",", row) if number else (row,)
            size += len(row) + 1
        yield b"".join(part)


def seconds_taken(job: JobRecord, now: float) -> float | None:
    """Return the processing time of the job so far."""
    elapsed = job.elapsed(now)
    return None if elapsed is None else round(elapsed, 6)


@dataclass(frozen=True, slots=True)
class ResultExpiry:
    """When the rows of a job expired, and their retention."""

    hours: float
    at: datetime

    def fields(self) -> dict[str, Any]:
        """Return the fields of a status reply (contract, 2.2)."""
        hours = int(self.hours) if float(self.hours).is_integer() else self.hours
        return {
            "result_expired": True,
            "retention_hours": hours,
            "expired_at": self.at.isoformat().replace("+00:00", "Z"),
        }


def expiry_of(state: AppState, job: JobRecord) -> ResultExpiry | None:
    """Return the expiry of a job's rows by the clock, deleted or not; None before it."""
    at = expired_at(state.retention, job, state.clock())
    if at is None:
        return None
    return ResultExpiry(retention_hours(state.retention, job), datetime.fromtimestamp(at, UTC))


def check_not_expired(state: AppState, job: JobRecord) -> None:
    """Raise `ResultsExpired` if the rows are past their retention."""
    if (expiry := expiry_of(state, job)) is not None:
        until = f"{expiry.at:%Y-%m-%d %H:%M} UTC"
        raise ResultsExpired(
            f"the results were kept for {expiry.hours:g} hours, until {until}; start a new job"
        )
