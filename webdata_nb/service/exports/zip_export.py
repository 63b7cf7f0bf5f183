"""Writes a job's rows as a ZIP archive with indexes, all data and a folder per result.

::

    index.html            a page without scripts and external resources
    index.json            the same list for programs
    data.json             the JSON export
    results/0001-<page>/  result.json, content.md, html.txt, links.json, screenshot.png ...

All names are generated from a number and the ASCII letters of the URL. HTML is stored as `.txt`, so
that opening a file of a hostile page runs no script.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import zipfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from webdata_nb.service.exports import json_export
from webdata_nb.service.exports.file_names import result_folder
from webdata_nb.service.exports.index_page import ExportIndex, IndexEntry, render_index
from webdata_nb.service.exports.stored_rows import ExportRows, is_partial
from webdata_nb.service.store.records import JobRecord

_TEXT_FILES: Final = {"markdown": "content.md", "html": "html.txt", "raw_html": "raw_html.txt"}
_JSON_FILES: Final = {
    name: f"{name}.json"
    for name in ("links", "images", "headings", "structured_data", "extract", "metadata")
}
_SCREENSHOT_FILE: Final = "screenshot.png"
# The range of years in a ZIP timestamp.
_MIN_YEAR: Final = 1980
_MAX_YEAR: Final = 2107
_INDENTED: Final = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


async def stream(job: JobRecord, rows: ExportRows) -> AsyncIterator[bytes]:
    """Write the archive in pieces; memory holds one batch and the index."""
    archive = _ZipStream(job.finished_at or job.created_at)
    entries: list[IndexEntry] = []
    async for batch in rows:
        entries += await asyncio.to_thread(_write_batch, archive, batch, len(entries))
        yield archive.take_output()
    with archive.open_entry("data.json") as data:
        async for piece in json_export.stream(job, rows):
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
    return [
        _write_result(archive, orjson.loads(row), number)
        for number, row in enumerate(batch, start=offset + 1)
    ]


def _write_result(archive: _ZipStream, row: Mapping[str, Any], number: int) -> IndexEntry:
    """Write one result's files, and return its entry in the index."""
    folder = result_folder(number, str(row.get("url") or ""))
    contents = _content_files(row)
    other_fields = {name: value for name, value in row.items() if name not in contents}
    files = {"result.json": orjson.dumps(other_fields, option=_INDENTED)}
    files |= dict(contents.values())
    for name, data in files.items():
        archive.add(f"{folder}/{name}", data)
    return IndexEntry(
        number=number,
        url=str(row.get("url") or ""),
        title=str(row.get("title") or ""),
        snippet=str(row.get("snippet") or ""),
        success=bool(row.get("success")),
        error=row.get("error"),
        folder=folder,
        files=tuple(files),
    )


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
        elif field_name == "screenshot" and (png := _decode_base64(value)) is not None:
            files[field_name] = _SCREENSHOT_FILE, png
    return files


def _decode_base64(text: Any) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        return None
