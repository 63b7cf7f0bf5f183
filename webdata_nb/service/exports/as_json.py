"""A job's rows as JSON (contract, 2.7): the bytes that the store holds, never decoded."""

from __future__ import annotations

from collections.abc import AsyncIterator

import orjson

from webdata_nb.service.exports.source import PARTIAL, Rows, is_partial
from webdata_nb.service.store.records import JobRecord


async def stream(job: JobRecord, rows: Rows) -> AsyncIterator[bytes]:
    """Write a search as an object with `query` and `results`, a crawl as an array of pages.

    A partial search says so beside its results. An array has no place for that, so each page of a
    partial crawl has the field `partial_export`.
    """
    partial = is_partial(job)
    if job.kind == "search":
        yield b'{"query":' + orjson.dumps(job.subject) + b',"results":'
    yield b"["
    between = b"\n"
    async for batch in rows:
        marked = [_marked(row) for row in batch] if partial and job.kind != "search" else batch
        yield between + b",\n".join(marked)
        between = b",\n"
    if job.kind != "search":
        yield b"\n]\n"
        return
    status = orjson.dumps(job.state.value)
    yield b'\n],"partial":true,"status":' + status + b"}\n" if partial else b"\n]}\n"


def _marked(row: bytes) -> bytes:
    """Add a field to a row without decoding it: a row is a JSON object, and never an empty one."""
    return row.rstrip()[:-1] + b',"' + PARTIAL.encode() + b'":true}'
