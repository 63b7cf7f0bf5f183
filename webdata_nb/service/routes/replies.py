"""Status replies: an envelope, and rows as the bytes that the store holds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from webdata_nb.contract.states import JobKind
from webdata_nb.service.errors import BadInput, NoSuchJob
from webdata_nb.service.routes.starts import Desk, account_of
from webdata_nb.service.store.records import Job

_FLAGS = {"true": True, "1": True, "false": False, "0": False}


async def job_of(desk: Desk, request: Request, kind: JobKind) -> Job:
    """Return the caller's job of this kind; everything else is one and the same 404."""
    job = await desk.store.job(account_of(request), request.path_params["job_id"])
    if job.kind != kind:
        raise NoSuchJob("no such job")
    return job


def with_rows(envelope: dict[str, Any], rows: Sequence[bytes]) -> Response:
    """Return a reply whose `data` are rows stored as JSON; they are not decoded on the way."""
    head = orjson.dumps(envelope)[:-1]
    body = b"".join([head, b',"data":[', b",".join(rows), b"]}"])
    return Response(body, media_type="application/json")


def seconds(job: Job) -> float | None:
    """Return the job's processing time so far."""
    elapsed = job.elapsed(time.time())
    return None if elapsed is None else round(elapsed, 6)


def flag(request: Request, name: str, *, default: bool) -> bool:
    """Return a boolean query parameter."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if text.lower() not in _FLAGS:
        raise BadInput("must be true or false", loc=("query", name))
    return _FLAGS[text.lower()]


def whole(request: Request, name: str, *, default: int, low: int, high: int) -> int:
    """Return a whole-number query parameter within its bounds."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or not low <= int(text[:12]) <= high:
        raise BadInput(f"must be a whole number from {low} to {high}", loc=("query", name))
    return int(text)
