"""A job's rows as a ZIP: an index for people and one for programs, all data, a folder a result.

::

    index.html            a page to open; nothing in it runs or loads anything
    index.json            the same list for programs
    data.json             the JSON export
    results/0001-<page>/  result.json, content.md, html.txt, links.json, screenshot.png ...

Every name is generated: a number, and ASCII letters of the URL. HTML is kept as text, so that a
click on a file of a hostile page runs nothing.
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

from webdata_nb.service.exports import as_json, names
from webdata_nb.service.exports.index_page import Listing, Result, page
from webdata_nb.service.exports.source import Rows, is_partial
from webdata_nb.service.store.records import JobRecord

_TEXT: Final = {"markdown": "content.md", "html": "html.txt", "raw_html": "raw_html.txt"}
_JSON: Final = {
    name: f"{name}.json"
    for name in ("links", "images", "headings", "structured_data", "extract", "metadata")
}
_SCREENSHOT: Final = "screenshot.png"
# The earliest and latest years that a ZIP can name.
_YEARS: Final = (1980, 2107)
_INDENTED: Final = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


async def stream(job: JobRecord, rows: Rows) -> AsyncIterator[bytes]:
    """Write the archive piece by piece; what is held is one batch, and a line for each result."""
    archive = _Archive(job.finished_at or job.created_at)
    results: list[Result] = []
    async for batch in rows:
        results += await asyncio.to_thread(_folders, archive, batch, len(results))
        yield archive.taken()
    with archive.entry("data.json") as data:
        async for piece in as_json.stream(job, rows):
            await asyncio.to_thread(data.write, piece)
            yield archive.taken()
    listing = Listing(
        job.kind, job.subject, job.id, job.state.value, tuple(results), is_partial(job)
    )
    archive.add("index.json", _index(listing))
    archive.add("index.html", page(listing).encode())
    archive.close()
    yield archive.taken()


class _Outlet:
    """A file that cannot be sought: what was written waits here until it is sent."""

    def __init__(self) -> None:
        self.waiting = bytearray()

    def write(self, data: bytes) -> int:
        self.waiting += data
        return len(data)

    def flush(self) -> None:
        """Do nothing; the stream takes what is there."""


@dataclass(slots=True)
class _Archive:
    """A ZIP under construction, of whatever size: its entries tell their lengths behind them."""

    at: float
    _outlet: _Outlet = field(default_factory=_Outlet)
    _zip: zipfile.ZipFile = field(init=False)

    def __post_init__(self) -> None:
        self._zip = zipfile.ZipFile(self._outlet, "w", zipfile.ZIP_DEFLATED)  # type: ignore[call-overload] # it needs no more of a file

    def taken(self) -> bytes:
        """Return what was written since the last call."""
        data = bytes(self._outlet.waiting)
        self._outlet.waiting.clear()
        return data

    def add(self, name: str, data: bytes) -> None:
        """Write a small entry."""
        self._zip.writestr(self._described(name), data)

    def entry(self, name: str) -> Any:
        """Open an entry that may grow beyond 4 GiB."""
        return self._zip.open(self._described(name), "w", force_zip64=True)

    def close(self) -> None:
        """Write the directory."""
        self._zip.close()

    def _described(self, name: str) -> zipfile.ZipInfo:
        moment = datetime.fromtimestamp(self.at, UTC)
        year = min(max(moment.year, _YEARS[0]), _YEARS[1])
        info = zipfile.ZipInfo(name, (year, *moment.timetuple()[1:6]))
        # An image is compressed already.
        stored = name.endswith(_SCREENSHOT)
        info.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
        info.external_attr = 0o644 << 16
        return info


def _folders(archive: _Archive, batch: Sequence[bytes], before: int) -> list[Result]:
    return [
        _folder(archive, orjson.loads(row), number)
        for number, row in enumerate(batch, start=before + 1)
    ]


def _folder(archive: _Archive, row: Mapping[str, Any], number: int) -> Result:
    """Write one result's files, and return its line of the index."""
    folder = names.folder(number, str(row.get("url") or ""))
    contents = _contents(row)
    kept = {name: value for name, value in row.items() if name not in contents}
    files = {"result.json": orjson.dumps(kept, option=_INDENTED)}
    files |= dict(contents.values())
    for name, data in files.items():
        archive.add(f"{folder}/{name}", data)
    return Result(
        number=number,
        url=str(row.get("url") or ""),
        title=str(row.get("title") or ""),
        snippet=str(row.get("snippet") or ""),
        success=bool(row.get("success")),
        error=row.get("error"),
        folder=folder,
        files=tuple(files),
    )


def _contents(row: Mapping[str, Any]) -> dict[str, tuple[str, bytes]]:
    """Return the fields of a row that become files: their names and contents."""
    found: dict[str, tuple[str, bytes]] = {}
    for field_name, value in row.items():
        if value is None:
            continue
        if field_name in _TEXT:
            found[field_name] = _TEXT[field_name], str(value).encode()
        elif field_name in _JSON:
            found[field_name] = _JSON[field_name], orjson.dumps(value, option=_INDENTED)
        elif field_name == "screenshot" and (png := _decoded(value)) is not None:
            found[field_name] = _SCREENSHOT, png
    return found


def _decoded(text: Any) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        return None


def _index(listing: Listing) -> bytes:
    return orjson.dumps(listing, option=_INDENTED)
