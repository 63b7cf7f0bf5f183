"""Defines the Arrow schema of each table, and which of its columns a frame has.

A field with `webdata.type=json` in its metadata holds JSON text, one with `png` the bytes of an
image. pandas, polars and DuckDB all read JSON text the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, Literal

import pyarrow as pa

TableName = Literal[
    "search", "crawl", "creatives", "advertisers", "engines", "jobs", "weights", "usage"
]

VERSION: Final = 1
JSON: Final = b"json"
PNG: Final = b"png"
_KIND: Final = b"webdata.type"

TEXT: Final = pa.string()
WHEN: Final = pa.timestamp("us", tz="UTC")
# Parquet names the item field so; with this name a round trip keeps the schema.
TEXTS: Final = pa.list_(pa.field("element", pa.string()))


def _plain(data_type: pa.DataType, *names: str) -> list[pa.Field[Any]]:
    return [pa.field(name, data_type) for name in names]


def _json(*names: str) -> list[pa.Field[Any]]:
    return [pa.field(name, TEXT, metadata={_KIND: JSON}) for name in names]


_FORMATS: Final = [
    *_plain(TEXT, "markdown", "html", "raw_html"),
    *_plain(TEXTS, "links"),
    *_json("images", "headings", "structured_data"),
    pa.field("screenshot", pa.binary(), metadata={_KIND: PNG}),
]
_SCRAPED: Final = [*_FORMATS, *_json("extract", "metadata")]
_EXTRA: Final = _json("extra")

_BASE: Final[dict[TableName, list[pa.Field[Any]]]] = {
    "search": [
        *_plain(pa.int32(), "rank"),
        *_plain(TEXT, "url", "title", "snippet", "id", "error"),
        *_plain(pa.bool_(), "success", "scraped"),
    ],
    "crawl": [
        *_plain(TEXT, "url", "title", "status", "error"),
        *_plain(pa.int16(), "status_code", "depth"),
        *_plain(pa.float64(), "time_taken"),
        *_plain(pa.bool_(), "success"),
        *_plain(TEXT, "content_hash"),
        *_plain(WHEN, "fetched_at"),
        *_json("quality"),
    ],
    "creatives": [
        *_plain(pa.int32(), "position"),
        *_plain(TEXT, "advertiser_id", "creative_id", "preview_url", "advertiser_name", "format"),
        *_plain(WHEN, "first_shown", "last_shown"),
        *_plain(pa.int32(), "days_shown"),
        *_plain(pa.bool_(), "political"),
        *_plain(TEXT, "error"),
    ],
    "advertisers": [
        *_plain(pa.int32(), "rank"),
        *_plain(TEXT, "advertiser_id", "name", "region", "domain"),
        *_plain(pa.int64(), "ads_min", "ads_max"),
    ],
    "engines": [
        *_plain(TEXT, "engine"),
        *_plain(pa.int32(), "position"),
        *_plain(TEXT, "provider"),
        *_plain(pa.bool_(), "usable"),
        *_plain(TEXT, "why"),
        *_plain(pa.float64(), "resting_s"),
    ],
    "jobs": [
        *_plain(TEXT, "job_id", "type", "status", "subject"),
        *_plain(WHEN, "created_at", "started_at", "finished_at"),
        *_plain(pa.int32(), "total", "completed"),
        *_plain(TEXT, "error"),
    ],
    "weights": [
        *_plain(TEXT, "platform", "operation"),
        *_plain(pa.float64(), "weight"),
    ],
    "usage": [
        *_plain(TEXT, "plan"),
        *_plain(pa.float64(), "monthly", "monthly_left", "topup", "reserved", "used"),
        *_plain(WHEN, "period_start", "period_end"),
        *_plain(pa.int32(), "active", "limit"),
        *_json("operations"),
    ],
}
_SCRAPING: Final = frozenset({"search", "crawl"})
# The columns that each kind of enrichment adds to creatives, in their order.
_ENRICHED: Final[list[tuple[frozenset[str], pa.Field[Any]]]] = [
    (frozenset(kinds.split()), field)
    for kinds, fields in (
        ("details", _plain(TEXTS, "regions")),
        ("details", _plain(pa.int64(), "impressions_min", "impressions_max")),
        ("details", _plain(TEXT, "landing_domain")),
        ("details", _plain(TEXTS, "asset_urls")),
        ("details ocr", _plain(TEXT, "headline", "description")),
        ("ocr", _plain(TEXT, "text")),
        ("ocr", _plain(pa.float64(), "text_confidence")),
        ("assets", _json("assets")),
        ("previews", _json("preview")),
    )
    for field in fields
]

# The tables of columns in the docstrings of functions that return frames.
SEARCH_COLUMNS: Final = """\
================= ========= ==================================================
column            dtype     meaning
================= ========= ==================================================
rank              Int32     position among the organic results, from 1
url, title        str       the result
snippet           str       the engine's extract
id                str       the service's id of this result
error             str       why the page could not be scraped
success, scraped  boolean   whether the row is whole; whether a page was read
markdown, html    str       if asked for, as is `raw_html`
links             object    list of str, if asked for
images, headings  object    lists of dicts, if asked for
structured_data   object    dict, if asked for
screenshot        object    PNG bytes, if asked for
extract           object    if asked for
metadata          object    dict about the page, unless `formats` is `[]`
extra             object    dict of fields that this version does not know
================= ========= ==================================================
"""
CRAWL_COLUMNS: Final = """\
================= ====================== ===================================
column            dtype                  meaning
================= ====================== ===================================
url, title        str                    the page
status            str                    completed or failed
error             str                    why it failed
status_code       Int16                  of the HTTP answer
depth             Int16                  links away from the start
time_taken        float64                seconds
success           boolean                whether the page was read
content_hash      str                    equal for equal content
fetched_at        datetime64[us, UTC]    when
quality           object                 dict, how good the text is
markdown, html    str                    if asked for, as is `raw_html`
links             object                 list of str, if asked for
images, headings  object                 lists of dicts, if asked for
structured_data   object                 dict, if asked for
screenshot        object                 PNG bytes, if asked for
extract           object                 if asked for
metadata          object                 dict about the page
extra             object                 dict of fields unknown to this version
================= ====================== ===================================
"""


def _optional_fields(table: TableName) -> list[pa.Field[Any]]:
    if table == "creatives":
        return [field for _, field in _ENRICHED]
    return _SCRAPED if table in _SCRAPING else []


SCHEMAS: Final[dict[TableName, pa.Schema]] = {
    name: pa.schema([*base, *_optional_fields(name), *_EXTRA]) for name, base in _BASE.items()
}


def schema_id(table: TableName) -> str:
    """Return the schema name that files contain, such as `crawl/1`."""
    return f"{table}/{VERSION}"


def kind(field: pa.Field[Any]) -> bytes | None:
    """Return `json` or `png` for a column that needs decoding, else None."""
    return (field.metadata or {}).get(_KIND)


def holds_objects(field: pa.Field[Any]) -> bool:
    """Return whether a frame has Python objects in this column: lists or decoded JSON."""
    return kind(field) == JSON or pa.types.is_list(field.type)


def shown(
    table: TableName, *, formats: Sequence[str] = (), extract: bool = False, metadata: bool = False
) -> tuple[str, ...]:
    """Return the columns of a frame. They depend on the request and never on the data."""
    wanted = {*formats, *(["extract"] if extract else ()), *(["metadata"] if metadata else ())}
    scraped = [field.name for field in _SCRAPED if field.name in wanted]
    base = [field.name for field in _BASE[table]]
    return (*base, *(scraped if table in _SCRAPING else ()), "extra")


def shown_creatives(enrichment: Collection[str]) -> tuple[str, ...]:
    """Return the columns of creatives for a set of `details`, `assets`, `previews` and `ocr`."""
    added = [field.name for kinds, field in _ENRICHED if not kinds.isdisjoint(enrichment)]
    return (*(field.name for field in _BASE["creatives"]), *added, "extra")
