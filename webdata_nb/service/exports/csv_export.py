"""Writes a job's rows as CSV (RFC 4180, UTF-8), with escaped formulas.

The request determines the columns. Lists and objects are JSON text, and a missing value is an
empty cell. `contract.cells` escapes formulas and reverses it.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import orjson

from webdata_nb.contract.cells import escape_formula
from webdata_nb.contract.choices import FORMATS
from webdata_nb.contract.replies.crawl import CrawlPage
from webdata_nb.contract.replies.pages import PageFields
from webdata_nb.contract.replies.search import SearchItem
from webdata_nb.service.exports.stored_rows import PARTIAL_FIELD, ExportRows, is_partial
from webdata_nb.service.store.records import JobRecord


def _own_fields(model: type[PageFields]) -> tuple[str, ...]:
    """Return the fields of a row that do not depend on the requested formats."""
    return tuple(name for name in model.model_fields if name not in PageFields.model_fields)


_SEARCH: Final = _own_fields(SearchItem)
_RIGHTS: Final = ("rights",)
_CAPTURES: Final = ("capture_distance_s",)
_CRAWL: Final = tuple(name for name in _own_fields(CrawlPage) if name not in {*_RIGHTS, *_CAPTURES})


def columns(job: JobRecord) -> tuple[str, ...]:
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


async def stream(job: JobRecord, rows: ExportRows) -> AsyncIterator[bytes]:
    """Write a header line and a line per row; a partial export has an additional column."""
    partial_mark = {PARTIAL_FIELD: True} if is_partial(job) else {}
    names = (*columns(job), *partial_mark)
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
