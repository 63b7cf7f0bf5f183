"""Divides the members of a row that come from its page into shared and own parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from webdata_nb.page.content.page_source import SOURCE
from webdata_nb.page.scrape.scraped import Scraped
from webdata_nb.service.store.records import RowParts

# The time of the visit, in the metadata of a page.
_TIME: Final = "fetched_at"


def end_of_row(content: Mapping[str, Any]) -> RowParts:
    """Return the end of a row: its formats and its metadata, whose time belongs to the visit."""
    metadata = content.get("metadata")
    if not isinstance(metadata, Mapping) or _TIME not in metadata:
        return RowParts((orjson.dumps(content)[1:],), ())
    before = {name: value for name, value in content.items() if name != "metadata"}
    names = list(metadata)
    place = names.index(_TIME)
    head = {name: metadata[name] for name in names[:place]}
    tail = {name: metadata[name] for name in names[place + 1 :]}
    return RowParts(
        (
            b'%b"metadata":{%b"fetched_at":' % (_members(before), _members(head)),
            b",%b}}" % _members(tail).rstrip(b",") if tail else b"}}",
        ),
        (orjson.dumps(metadata[_TIME]),),
    )


def source_of_values(scraped: Scraped | None) -> bytes:
    """Return the source of a page from which values were extracted, as JSON; else nothing."""
    source = None if scraped is None else scraped.formats.get(SOURCE)
    if not isinstance(source, str) or not source:
        return b""
    return orjson.dumps(source.encode("utf-8", "replace").decode())


def _members(fields: Mapping[str, Any]) -> bytes:
    """Return the members of a JSON object, each with a comma behind it."""
    return orjson.dumps(fields)[1:-1] + b"," if fields else b""
