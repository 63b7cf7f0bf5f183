"""Writes a job's stored rows as JSON or CSV, read from the store in small batches.

JSON (contract, 2.7) consists of the stored bytes, which are not decoded. CSV is that of RFC 4180 in
UTF-8, with escaped formulas: the request determines the columns, lists and objects are JSON text,
and a missing value is an empty cell. `contract.cells` escapes formulas and reverses it.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson

from webdata_nb.contract.cells import escape_formula
from webdata_nb.contract.choices import FORMATS
from webdata_nb.contract.replies.crawl import CrawlPage
from webdata_nb.contract.replies.pages import PageFields
from webdata_nb.contract.replies.search import SearchItem
from webdata_nb.contract.states import JobStatus
from webdata_nb.service.errors import ResultsExpired
from webdata_nb.service.store.records import JobRecord
from webdata_nb.service.store.sql.store import Store

# A row may have several megabytes, so the batch size limits the memory of an export.
BATCH_SIZE: Final = 4

PARTIAL_FIELD: Final = "partial_export"
"""The field or column that marks each row of a partial export."""


def is_partial(job: JobRecord) -> bool:
    """Whether an export may lack rows: the job is active, or ended without success."""
    return job.state is not JobStatus.COMPLETED


ExportRows: TypeAlias = AsyncIterable[Sequence[bytes]]
"""Stored rows in batches; each iteration starts at the first row."""


class StoredRows(ExportRows):
    """The rows that were visible when the export began."""

    def __init__(self, store: Store, job: JobRecord) -> None:
        self._store, self._job = store, job

    async def __aiter__(self) -> AsyncIterator[Sequence[bytes]]:
        job = self._job
        for start in range(0, job.published, BATCH_SIZE):
            count = min(BATCH_SIZE, job.published - start)
            rows = await self._store.rows(job.account_id, job.id, start=start, count=count)
            if len(rows) < count:
                # The error closes the connection, so that the file does not look complete.
                raise ResultsExpired("the results expired during the export")
            yield rows


async def stream_json(job: JobRecord, rows: ExportRows) -> AsyncIterator[bytes]:
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


def _own_fields(model: type[PageFields]) -> tuple[str, ...]:
    """Return the fields of a row that do not depend on the requested formats."""
    return tuple(name for name in model.model_fields if name not in PageFields.model_fields)


_SEARCH: Final = _own_fields(SearchItem)
_RIGHTS: Final = ("rights",)
_CAPTURES: Final = ("capture_distance_s",)
_CRAWL: Final = tuple(name for name in _own_fields(CrawlPage) if name not in {*_RIGHTS, *_CAPTURES})


def csv_columns(job: JobRecord) -> tuple[str, ...]:
    """Return the columns of a job's CSV, which depend on its request only."""
    is_crawl = job.kind == "crawl"
    options = job.request.get("scrape_options") or {} if is_crawl else job.request
    requested = options.get("formats", ["markdown"])
    formats = tuple(name for name in FORMATS if name in requested)
    extract = ("extract",) if options.get("extract") else ()
    metadata = ("metadata",) if is_crawl or formats else ()
    has_rights = is_crawl and (job.request.get("rights") or job.request.get("purpose"))
    own = _CRAWL + (_RIGHTS if has_rights else ()) if is_crawl else _SEARCH
    own += _CAPTURES if (job.request.get("source") or {}).get("web_archive") else ()
    return own + formats + extract + metadata


async def stream_csv(job: JobRecord, rows: ExportRows) -> AsyncIterator[bytes]:
    """Write a header line and a line per row; a partial export has an additional column."""
    partial_mark = {PARTIAL_FIELD: True} if is_partial(job) else {}
    names = (*csv_columns(job), *partial_mark)
    yield _csv_lines([names])
    async for batch in rows:
        yield await asyncio.to_thread(_format_batch, names, batch, partial_mark)


def _format_batch(
    names: Sequence[str], batch: Sequence[bytes], partial_mark: Mapping[str, Any]
) -> bytes:
    rows: list[Mapping[str, Any]] = [orjson.loads(row) | partial_mark for row in batch]
    return _csv_lines([[_cell(row.get(name)) for name in names] for row in rows])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return escape_formula(text)


def _csv_lines(records: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(records)
    return text.getvalue().encode()
