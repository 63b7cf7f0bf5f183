"""A job's rows as CSV (RFC 4180, UTF-8): columns by the request, cells that compute nothing.

The columns are documented in the guide. Lists and objects are JSON text, an absent value is an
empty cell, and `contract.cells` tells how a escape_formula cell is read back.
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
from webdata_nb.service.exports.source import PARTIAL, Rows, is_partial
from webdata_nb.service.store.records import JobRecord


def _own_fields(model: type[PageFields]) -> tuple[str, ...]:
    """Return the fields of a row that do not depend on the requested formats."""
    return tuple(name for name in model.model_fields if name not in PageFields.model_fields)


_SEARCH: Final = _own_fields(SearchItem)
_CRAWL: Final = _own_fields(CrawlPage)


def columns(job: JobRecord) -> tuple[str, ...]:
    """Return the columns of a job's CSV: a function of its request, never of its data."""
    crawl = job.kind == "crawl"
    options = job.request.get("scrape_options") or {} if crawl else job.request
    asked = options.get("formats", ["markdown"])
    formats = tuple(name for name in FORMATS if name in asked)
    extract = ("extract",) if options.get("extract") else ()
    metadata = ("metadata",) if crawl or formats else ()
    return (_CRAWL if crawl else _SEARCH) + formats + extract + metadata


async def stream(job: JobRecord, rows: Rows) -> AsyncIterator[bytes]:
    """Write a header line, then a line a row."""
    names = columns(job)
    # Every record of a partial export says so, in a column that a complete one does not have.
    more = {PARTIAL: True} if is_partial(job) else {}
    names = (*names, *more)
    yield _lines([names])
    async for batch in rows:
        yield await asyncio.to_thread(_records, names, batch, more)


def _records(names: Sequence[str], batch: Sequence[bytes], more: Mapping[str, Any]) -> bytes:
    rows: list[Mapping[str, Any]] = [orjson.loads(row) | more for row in batch]
    return _lines([[_cell(row.get(name)) for name in names] for row in rows])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return escape_formula(text)


def _lines(records: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(records)
    return text.getvalue().encode()
