"""Stores fetched pages in a job's spool, so that a killed crawl does not fetch them again."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import orjson

from webdata_nb.page.content.page_source import FileSlice, PageSource
from webdata_nb.service.pages.page_pipeline import FetchedPage
from webdata_nb.service.store.job_context import PageSpool
from webdata_nb.service.store.records import SpoolLocation

_SIZES: Final = struct.Struct("!II")
# Session cookies are no part of the page, and must not be written to disk.
_OMITTED_HEADERS: Final = frozenset({"set-cookie", "set-cookie2"})


async def save(spool: PageSpool, number: int, page: FetchedPage) -> FetchedPage | None:
    """Write a page to the spool and return it without its body; None where there is no room."""
    parts = encode(page)
    location = await spool.write(number, *parts)
    return None if location is None else with_body_on_disk(page, parts[0], location)


async def load(spool: PageSpool, number: int) -> FetchedPage | None:
    """Return a page that an earlier attempt saved, without its body; None where there is none."""
    record = await spool.read(number)
    page = None if record is None else decode(record)
    if record is None or page is None:
        return None
    return with_body_on_disk(page, record, spool.location(number))


def encode(page: FetchedPage) -> tuple[bytes, bytes, bytes]:
    """Return the parts of a page's record: sizes and metadata, body, screenshot."""
    source = page.source
    metadata: dict[str, Any] = {
        "url": page.url,
        "elapsed_s": page.elapsed_s,
        "rendered": page.rendered,
        "pictured": page.screenshot is not None,
        "page_height": page.page_height,
        "claimed_hash": page.claimed_hash,
        "asked": source.url,
        "final": source.final_url,
        "status": source.status,
        "type": source.content_type,
        "redirects": source.redirects,
        "fetched_at": source.fetched_at,
        "headers": [
            (name, value) for name, value in source.headers if name.lower() not in _OMITTED_HEADERS
        ],
    }
    head = orjson.dumps(metadata)
    sizes = _SIZES.pack(len(head), len(source.body))
    return sizes + head, source.body, page.screenshot or b""


def with_body_on_disk(page: FetchedPage, record: bytes, location: SpoolLocation) -> FetchedPage:
    """Replace a page's body by its place in the spool; `record` may be the first part alone."""
    head_size, body_size = _SIZES.unpack_from(record)
    body_start = location.start + _SIZES.size + head_size
    source = page.source.with_body_in(FileSlice(location.path, body_start, body_size))
    return replace(page, source=source)


def decode(record: bytes) -> FetchedPage | None:
    """Return the page of a record; None where another release wrote it in another format."""
    with suppress(KeyError, TypeError, ValueError, struct.error):
        return _decode(record)
    return None


def _decode(record: bytes) -> FetchedPage:
    head_size, body_size = _SIZES.unpack_from(record)
    head_end = _SIZES.size + head_size
    body_end = head_end + body_size
    metadata = orjson.loads(record[_SIZES.size : head_end])  # noqa: TID251 - our own record
    return FetchedPage(
        metadata["url"],
        PageSource(
            url=metadata["asked"],
            final_url=metadata["final"],
            status=metadata["status"],
            content_type=metadata["type"],
            body=record[head_end:body_end],
            redirects=tuple((url, status) for url, status in metadata["redirects"]),
            fetched_at=datetime.fromisoformat(metadata["fetched_at"]),
            headers=tuple((name, value) for name, value in metadata["headers"]),
        ),
        metadata["elapsed_s"],
        rendered=metadata["rendered"],
        screenshot=record[body_end:] if metadata["pictured"] else None,
        page_height=metadata["page_height"],
        claimed_hash=metadata["claimed_hash"],
    )
