"""A page that came as it is spooled, and read back after a restart."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import orjson

from webdata_nb.service.content.source import Slice, Source
from webdata_nb.service.pages.page_pipeline import Arrived
from webdata_nb.service.store.records import SpoolLocation

_SIZES: Final = struct.Struct("!II")
# What a site sets for its visitors is no part of a page, and nothing to lie on a disk.
_LEFT_OUT: Final = frozenset({"set-cookie", "set-cookie2"})


def encode(came: Arrived) -> tuple[bytes, bytes, bytes]:
    """Return the record of a page: sizes and what is known of it, its body, its screenshot."""
    source = came.source
    known: dict[str, Any] = {
        "url": came.url,
        "elapsed_s": came.elapsed_s,
        "rendered": came.rendered,
        "pictured": came.screenshot is not None,
        "page_height": came.page_height,
        "asked": source.url,
        "final": source.final_url,
        "status": source.status,
        "type": source.content_type,
        "redirects": source.redirects,
        "fetched_at": source.fetched_at,
        "headers": [each for each in source.headers if each[0].lower() not in _LEFT_OUT],
    }
    head = orjson.dumps(known)
    sizes = _SIZES.pack(len(head), len(source.body))
    return sizes + head, source.body, came.screenshot or b""


def with_body_on_disk(came: Arrived, record: bytes, at: SpoolLocation) -> Arrived:
    """Return a page whose record is kept, or its beginning, with its body left where that lies."""
    head, size = _SIZES.unpack_from(record)
    where = Slice(at.path, at.start + _SIZES.size + head, size)
    source = came.source.lying(where)
    return replace(came, source=source)


def decode(record: bytes) -> Arrived | None:
    """Return the page of a record; None where another release wrote it, in another form."""
    with suppress(KeyError, TypeError, ValueError, struct.error):
        return _decoded(record)
    return None


def _decoded(record: bytes) -> Arrived:
    head, body = _SIZES.unpack_from(record)
    end = _SIZES.size + head
    known = orjson.loads(record[_SIZES.size : end])
    return Arrived(
        known["url"],
        Source(
            url=known["asked"],
            final_url=known["final"],
            status=known["status"],
            content_type=known["type"],
            body=record[end : end + body],
            redirects=tuple((url, status) for url, status in known["redirects"]),
            fetched_at=datetime.fromisoformat(known["fetched_at"]),
            headers=tuple((name, value) for name, value in known["headers"]),
        ),
        known["elapsed_s"],
        rendered=known["rendered"],
        screenshot=record[end + body :] if known["pictured"] else None,
        page_height=known.get("page_height"),  # records of earlier releases have none
    )
