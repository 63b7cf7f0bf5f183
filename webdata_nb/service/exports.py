"""Writes the visible rows of a job as one file while it is sent: JSON, CSV or ZIP.

The number of rows is fixed at the start. If rows are missing later, because they expired, the
connection breaks: a short file would look complete.
"""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import re
import zipfile
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import orjson

from webdata_nb.contract.cells import escape_formula
from webdata_nb.contract.choices import FORMAT_VALUES, FORMATS
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.contract.replies import CrawlPage, PageFields, SearchItem
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
    mark = b',"' + PARTIAL_FIELD.encode() + b'":true}'
    async for batch in rows:
        yield separator + b",\n".join(
            # A row is a JSON object and never empty.
            batch if is_search or not partial else [row.rstrip()[:-1] + mark for row in batch]
        )
        separator = b",\n"
    if not is_search:
        yield b"\n]\n"
        return
    status = orjson.dumps(job.state.value)
    yield b'\n],"partial":true,"status":' + status + b"}\n" if partial else b"\n]}\n"


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


_MAX_SLUG_LENGTH: Final = 60


def slug(text: str) -> str:
    """Return up to 60 lower-case ASCII letters, digits and single dashes of a text."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_MAX_SLUG_LENGTH].strip("-")


def result_folder(number: int, url: str) -> str:
    """Return the folder of one result; its number makes it unique and avoids reserved names."""
    try:
        parts = urlsplit(url)
    except ValueError:
        page = ""
    else:
        page = f"{parts.netloc.rpartition('@')[2]} {parts.path}"
    return f"results/{number:04d}-{slug(page)}".rstrip("-")


def export_file_name(job: JobRecord, suffix: str) -> str:
    """Return the file name of an export."""
    subject = job.subject if job.kind == "search" else job.subject.partition("://")[2]
    words = [job.kind, slug(subject), slug(job.id)[:8]]
    return f"{'-'.join(word for word in words if word)}.{suffix}"


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One result of the job and its files below `folder`; a row of `index.json`."""

    number: int
    url: str
    title: str
    snippet: str
    success: bool
    error: str | None
    folder: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExportIndex:
    """A job and its results; the content of `index.json`."""

    kind: str
    subject: str
    job_id: str
    status: str
    results: tuple[IndexEntry, ...]
    partial: bool = False


_STYLE: Final = "\n" + Path(__file__).with_suffix(".css").read_text("utf-8")
# Forbids scripts and requests even if the page contained unescaped text.
_CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def render_index(index: ExportIndex) -> str:
    """Return the index as one HTML document."""
    failed = sum(not entry.success for entry in index.results)
    counts = f"{len(index.results)} result{'' if len(index.results) == 1 else 's'}"
    if failed:
        counts += f", {failed} of them failed"
    kind = "Search" if index.kind == "search" else "Crawl"
    items = "".join(map(_list_item, index.results))
    partial = " (partial)" if index.partial else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_CONTENT_SECURITY_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{kind}: {escape(index.subject)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<header>
<h1>{escape(index.subject)}</h1>
<p>{kind} · {counts} · {escape(index.status)}{partial} · job {escape(index.job_id)}</p>
<nav><a href="data.json">data.json</a><a href="index.json">index.json</a></nav>
</header>
<ol>
{items}</ol>
</main>
</body>
</html>
"""


def _list_item(entry: IndexEntry) -> str:
    heading = escape(entry.title or entry.url)
    try:
        is_web = urlsplit(entry.url).scheme in {"http", "https"}  # not `javascript`
    except ValueError:
        is_web = False
    if is_web:
        heading = f'<a href="{escape(entry.url)}" rel="noopener noreferrer">{heading}</a>'
    parts = [f"<h2>{heading}</h2>"]
    if entry.title:
        parts.append(f'<p class="url">{escape(entry.url)}</p>')
    if entry.snippet:
        parts.append(f"<p>{escape(entry.snippet)}</p>")
    if entry.error:
        parts.append(f'<p class="error">{escape(entry.error)}</p>')
    files = "".join(
        f'<a href="{escape(f"{entry.folder}/{name}")}">{escape(name)}</a>' for name in entry.files
    )
    parts.append(f"<nav>{files}</nav>")
    return f"<li><span>{entry.number}</span><div>{''.join(parts)}</div></li>\n"


_TEXT_FILES: Final = {
    name: "content.md" if name == "markdown" else f"{name}.txt"
    for name, value in FORMAT_VALUES.items()
    if value.type == "text"
}
_JSON_FILES: Final = {
    name: f"{name}.json"
    for name in (*FORMAT_VALUES, "extract", "metadata")
    if name not in {*_TEXT_FILES, "screenshot"}
}
_SCREENSHOT_FILE: Final = "screenshot.png"
# The range of years in a ZIP timestamp.
_MIN_YEAR: Final = 1980
_MAX_YEAR: Final = 2107
_INDENTED: Final = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


async def stream_zip(job: JobRecord, rows: ExportRows) -> AsyncIterator[bytes]:
    """Write the archive in pieces; memory holds one batch and the index."""
    archive = _ZipStream(job.finished_at or job.created_at)
    entries: list[IndexEntry] = []
    async for batch in rows:
        entries += await asyncio.to_thread(_write_batch, archive, batch, len(entries))
        yield archive.take_output()
    with archive.open_entry("data.json") as data:
        async for piece in stream_json(job, rows):
            await asyncio.to_thread(data.write, piece)
            yield archive.take_output()
    index = ExportIndex(
        job.kind, job.subject, job.id, job.state.value, tuple(entries), is_partial(job)
    )
    archive.add("index.json", orjson.dumps(index, option=_INDENTED))
    archive.add("index.html", render_index(index).encode())
    archive.close()
    yield archive.take_output()


class _OutputBuffer:
    """An unseekable file that holds written data until it is sent."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> int:
        self.data += data
        return len(data)

    def flush(self) -> None:
        """Do nothing: `zipfile` requires the method."""


@dataclass(slots=True)
class _ZipStream:
    """Writes a ZIP archive to a stream, with the length of each entry after its data."""

    timestamp: float
    _output: _OutputBuffer = field(default_factory=_OutputBuffer)
    _zip: zipfile.ZipFile = field(init=False)

    def __post_init__(self) -> None:
        self._zip = zipfile.ZipFile(self._output, "w", zipfile.ZIP_DEFLATED)  # type: ignore[call-overload] # it needs only `write` and `flush`

    def take_output(self) -> bytes:
        """Return the data since the last call."""
        data = bytes(self._output.data)
        self._output.data.clear()
        return data

    def add(self, name: str, data: bytes) -> None:
        """Write a small entry."""
        self._zip.writestr(self._entry_info(name), data)

    def open_entry(self, name: str) -> Any:
        """Open an entry that may exceed 4 GiB."""
        return self._zip.open(self._entry_info(name), "w", force_zip64=True)

    def close(self) -> None:
        """Write the central directory."""
        self._zip.close()

    def _entry_info(self, name: str) -> zipfile.ZipInfo:
        time = datetime.fromtimestamp(self.timestamp, UTC)
        year = min(max(time.year, _MIN_YEAR), _MAX_YEAR)
        info = zipfile.ZipInfo(name, (year, *time.timetuple()[1:6]))
        is_compressed = name.endswith(_SCREENSHOT_FILE)
        info.compress_type = zipfile.ZIP_STORED if is_compressed else zipfile.ZIP_DEFLATED
        info.external_attr = 0o644 << 16
        return info


def _write_batch(archive: _ZipStream, batch: Sequence[bytes], offset: int) -> list[IndexEntry]:
    """Write the files of some results, and return their entries in the index."""
    entries = []
    for number, content in enumerate(batch, start=offset + 1):
        row = orjson.loads(content)
        url = str(row.get("url") or "")
        folder = result_folder(number, url)
        contents = _content_files(row)
        other_fields = {name: value for name, value in row.items() if name not in contents}
        files = {"result.json": orjson.dumps(other_fields, option=_INDENTED)}
        files |= dict(contents.values())
        for name, data in files.items():
            archive.add(f"{folder}/{name}", data)
        entries.append(
            IndexEntry(
                number=number,
                url=url,
                title=str(row.get("title") or ""),
                snippet=str(row.get("snippet") or ""),
                success=bool(row.get("success")),
                error=row.get("error"),
                folder=folder,
                files=tuple(files),
            )
        )
    return entries


def _content_files(row: Mapping[str, Any]) -> dict[str, tuple[str, bytes]]:
    """Return the name and the content of the file of each field that becomes a file."""
    files: dict[str, tuple[str, bytes]] = {}
    for field_name, value in row.items():
        if value is None:
            continue
        if field_name in _TEXT_FILES:
            files[field_name] = _TEXT_FILES[field_name], str(value).encode()
        elif field_name in _JSON_FILES:
            files[field_name] = _JSON_FILES[field_name], orjson.dumps(value, option=_INDENTED)
        elif field_name == "screenshot":
            with suppress(ValueError, TypeError):  # it stays in the row if it is no image
                files[field_name] = _SCREENSHOT_FILE, base64.b64decode(value, validate=True)
    return files
