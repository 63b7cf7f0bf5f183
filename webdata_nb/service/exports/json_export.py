"""Writes a job's rows as JSON (contract, 2.7) from the stored bytes, without decoding them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import orjson

from webdata_nb.service.exports.stored_rows import PARTIAL_FIELD, ExportRows, is_partial
from webdata_nb.service.store.records import JobRecord


async def stream(job: JobRecord, rows: ExportRows) -> AsyncIterator[bytes]:
    """Write a search as an object with `query` and `results`, a crawl as an array of pages.

    A partial search has the fields `partial` and `status`. In a partial crawl, each page has the
    field `partial_export`, since an array has no fields.
    """
    partial = is_partial(job)
    is_search = job.kind == "search"
    if is_search:
        yield b'{"query":' + orjson.dumps(job.subject) + b',"results":'
    yield b"["
    separator = b"\n"
    async for batch in rows:
        yield separator + b",\n".join(batch if is_search or not partial else map(_mark, batch))
        separator = b",\n"
    if not is_search:
        yield b"\n]\n"
        return
    status = orjson.dumps(job.state.value)
    yield b'\n],"partial":true,"status":' + status + b"}\n" if partial else b"\n]}\n"


def _mark(row: bytes) -> bytes:
    """Add the field for partial exports to a row, which is a JSON object and never empty."""
    return row.rstrip()[:-1] + b',"' + PARTIAL_FIELD.encode() + b'":true}'
