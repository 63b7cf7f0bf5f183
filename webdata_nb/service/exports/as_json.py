"""A job's rows as JSON (contract, 2.7): the bytes that the store holds, never decoded."""

from __future__ import annotations

from collections.abc import AsyncIterator

import orjson

from webdata_nb.service.exports.source import Rows
from webdata_nb.service.store.records import Job


async def stream(job: Job, rows: Rows) -> AsyncIterator[bytes]:
    """Write a search as an object with `query` and `results`, a crawl as an array of pages."""
    if job.kind == "search":
        yield b'{"query":' + orjson.dumps(job.subject) + b',"results":'
    yield b"["
    between = b"\n"
    async for batch in rows:
        yield between + b",\n".join(batch)
        between = b",\n"
    yield b"\n]}\n" if job.kind == "search" else b"\n]\n"
