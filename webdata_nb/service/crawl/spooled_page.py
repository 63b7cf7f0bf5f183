"""Stores fetched pages in a job's spool, so that a killed crawl does not fetch them again."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace
from typing import Final

import msgspec

from webdata_nb.page.content.page_source import FileSlice
from webdata_nb.service.pages.page_pipeline import FetchedPage
from webdata_nb.service.store.job_context import PageSpool
from webdata_nb.service.store.records import SpoolLocation

_SIZES: Final = struct.Struct("!II")
# Session cookies are no part of the page, and must not be written to disk.
_OMITTED_HEADERS: Final = frozenset({"set-cookie", "set-cookie2"})
_decoder: Final = msgspec.json.Decoder(FetchedPage)


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
    """Return the parts of a page's record: sizes and the page without these, body, screenshot."""
    source, screenshot = page.source, page.screenshot
    headers = tuple(each for each in source.headers if each[0].lower() not in _OMITTED_HEADERS)
    source = replace(source, body=b"", headers=headers)
    # An empty screenshot stands for the one behind the body.
    head = msgspec.json.encode(replace(page, source=source, screenshot=screenshot and b""))
    return _SIZES.pack(len(head), len(page.source.body)) + head, page.source.body, screenshot or b""


def with_body_on_disk(page: FetchedPage, record: bytes, location: SpoolLocation) -> FetchedPage:
    """Replace a page's body by its place in the spool; `record` may be the first part alone."""
    head_size, body_size = _SIZES.unpack_from(record)
    body_start = location.start + _SIZES.size + head_size
    source = page.source.with_body_in(FileSlice(location.path, body_start, body_size))
    return replace(page, source=source)


def decode(record: bytes) -> FetchedPage | None:
    """Return the page of a record; None where another release wrote it in another format."""
    with suppress(ValueError, struct.error):
        head_size, body_size = _SIZES.unpack_from(record)
        head_end = _SIZES.size + head_size
        body_end = head_end + body_size
        page = _decoder.decode(memoryview(record)[_SIZES.size : head_end])
        screenshot = None if page.screenshot is None else record[body_end:]
        source = replace(page.source, body=record[head_end:body_end])
        return replace(page, source=source, screenshot=screenshot)
    return None
