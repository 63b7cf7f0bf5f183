"""Defines the Arrow schema of each table, and which of its columns a frame has.

A field with `webdata.type=json` in its metadata holds JSON text, one with `png` the bytes of an
image. Lists of items with fixed fields are lists of structs. pandas, polars and DuckDB all read
JSON text the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, Literal

import pyarrow as pa

TableName = Literal[
    "search",
    "crawl",
    "creatives",
    "advertisers",
    "captures",
    "engines",
    "jobs",
    "weights",
    "usage",
]

VERSION: Final = 1
JSON: Final = b"json"
PNG: Final = b"png"
# The column of fields that have no column of their own.
EXTRA: Final = "extra"
_KIND: Final = b"webdata.type"

TEXT: Final = pa.string()
WHEN: Final = pa.timestamp("us", tz="UTC")
# Parquet names the item field so; with this name a round trip keeps the schema.
TEXTS: Final = pa.list_(pa.field("element", pa.string()))


def _items(**fields: pa.DataType) -> pa.DataType:
    """Return the type of a list of items; `extra` is the JSON text of what fits no field."""
    struct = pa.struct([*fields.items(), ("extra", TEXT)])
    return pa.list_(pa.field("element", struct))


# The columns that hold lists of items with fixed fields.
ITEM_TYPES: Final[dict[str, pa.DataType]] = {
    "headings": _items(level=pa.int16(), text=TEXT, anchor=TEXT),
    "images": _items(url=TEXT, alt=TEXT, width=pa.int32(), height=pa.int32(), caption=TEXT),
}


def _plain(data_type: pa.DataType, *names: str) -> list[pa.Field[Any]]:
    return [pa.field(name, data_type) for name in names]


def _json(*names: str) -> list[pa.Field[Any]]:
    return [pa.field(name, TEXT, metadata={_KIND: JSON}) for name in names]


_EXTRA: Final = _json(EXTRA)
# Printed frames are cut in the middle, so the columns are ordered from short values to long texts.
_SCRAPED: Final = [
    *_json("metadata", "extract", "structured_data"),
    *(pa.field(name, data_type) for name, data_type in ITEM_TYPES.items()),
    *_plain(TEXTS, "links"),
    pa.field("screenshot", pa.binary(), metadata={_KIND: PNG}),
]
# Columns of crawls that depend on the request.
_RIGHTS: Final = _json("rights")
_DATED: Final = _plain(pa.float64(), "capture_distance_s")
_PAGE_TEXTS: Final = _plain(TEXT, "raw_html", "html", "markdown")
# The columns of a crawl with `audit=True`.
_AUDITED: Final = [
    *_plain(pa.int32(), "inlinks", "outlinks"),
    *_plain(pa.float64(), "pagerank"),
    *_plain(pa.bool_(), "indexable"),
    *_plain(TEXT, "indexable_reason"),
    *_plain(pa.int32(), "cluster"),
    *_json("redirect_chain"),
    *_plain(TEXTS, "found_on"),
    *_json("page_facts"),
]
AUDIT_COLUMNS: Final = tuple(field.name for field in _AUDITED)

# The columns that a frame has whatever the request, and those that depend on it.
_BASE: Final[dict[TableName, list[pa.Field[Any]]]] = {
    "search": [
        *_plain(pa.int32(), "rank"),
        *_plain(TEXT, "url"),
        *_plain(pa.bool_(), "success", "scraped"),
        *_plain(TEXT, "provider", "error", "id"),
        *_EXTRA,
        *_plain(TEXT, "title", "snippet"),
    ],
    "crawl": [
        *_plain(TEXT, "url", "status", "error"),
        *_plain(pa.int16(), "status_code", "depth"),
        *_plain(pa.float64(), "time_taken"),
        *_plain(pa.bool_(), "success"),
        *_plain(TEXT, "content_hash"),
        *_plain(WHEN, "fetched_at"),
        *_json("quality"),
        *_EXTRA,
        *_plain(TEXT, "title"),
    ],
    "creatives": [
        *_plain(pa.int32(), "position"),
        *_plain(TEXT, "advertiser_id", "creative_id", "format"),
        *_plain(WHEN, "first_shown", "last_shown"),
        *_plain(pa.int32(), "days_shown"),
        *_plain(pa.bool_(), "political"),
        *_plain(TEXT, "error"),
        *_EXTRA,
        *_plain(TEXT, "preview_url", "advertiser_name"),
    ],
    "advertisers": [
        *_plain(pa.int32(), "rank"),
        *_plain(TEXT, "advertiser_id", "region"),
        *_plain(pa.int64(), "ads_min", "ads_max"),
        *_EXTRA,
        *_plain(TEXT, "domain", "name"),
    ],
    "captures": [
        *_plain(TEXT, "url"),
        *_plain(WHEN, "captured_at"),
        *_plain(pa.int16(), "status_code"),
        *_plain(TEXT, "mime_type", "digest"),
        *_plain(pa.int64(), "length"),
        *_plain(TEXT, "index"),
        *_plain(pa.int64(), "offset"),
        *_EXTRA,
        *_plain(TEXT, "archive_url"),
    ],
    "engines": [
        *_plain(TEXT, "engine"),
        *_plain(pa.int32(), "position"),
        *_plain(TEXT, "provider"),
        *_plain(pa.bool_(), "usable"),
        *_plain(pa.float64(), "resting_s"),
        *_EXTRA,
        *_plain(TEXT, "why"),
    ],
    "jobs": [
        *_plain(TEXT, "job_id", "type", "status"),
        *_plain(WHEN, "created_at", "started_at", "finished_at"),
        *_plain(pa.int32(), "total", "completed"),
        *_plain(TEXT, "error"),
        *_EXTRA,
        *_plain(TEXT, "subject"),
    ],
    "weights": [
        *_plain(TEXT, "platform"),
        *_EXTRA,
        *_plain(TEXT, "operation"),
        *_plain(pa.float64(), "weight"),
    ],
    "usage": [
        *_plain(TEXT, "plan"),
        *_json("operations"),
        *_EXTRA,
        *_plain(WHEN, "period_start", "period_end"),
        *_plain(pa.int32(), "active", "limit"),
        *_plain(pa.float64(), "monthly", "monthly_left", "topup", "reserved", "used"),
    ],
}
_SCRAPING: Final = frozenset({"search", "crawl"})
# The columns that each kind of enrichment adds to creatives, in their order.
_ENRICHED: Final[list[tuple[frozenset[str], pa.Field[Any]]]] = [
    (frozenset(kinds.split()), field)
    for kinds, fields in (
        ("details", _plain(TEXTS, "regions")),
        ("details", _plain(pa.int64(), "impressions_min", "impressions_max")),
        ("details", _plain(TEXTS, "asset_urls")),
        ("assets", _json("assets")),
        ("previews", _json("preview")),
        ("ocr", _plain(pa.float64(), "text_confidence")),
        ("details", _plain(TEXT, "landing_domain")),
        ("details ocr", _plain(TEXT, "headline", "description")),
        ("ocr", _plain(TEXT, "text")),
    )
    for field in fields
]

# The tables of columns in the docstrings of functions that return frames.
SEARCH_COLUMNS: Final = """\
================= ========= ==================================================
column            dtype     meaning
================= ========= ==================================================
rank              Int32     position among the organic results, from 1
url               str       the result
success, scraped  boolean   whether the row is whole; whether a page was read
provider          str       the provider of the web, or `local`, that found it
error             str       why the page could not be scraped
id                str       the service's id of this result
extra             object    dict of fields that this version does not know
metadata          object    dict about the page, unless `formats` is `[]`
extract           object    if asked for
structured_data   object    dict, if asked for
headings, images  object    lists of dicts, if asked for
links             object    list of str, if asked for
screenshot        object    PNG bytes, if asked for
title             str       of the result
snippet           str       the engine's extract
html, markdown    str       if asked for, as is `raw_html`
================= ========= ==================================================
"""
CRAWL_COLUMNS: Final = """\
================== ====================== ===================================
column             dtype                  meaning
================== ====================== ===================================
url                str                    the page
status             str                    completed or failed
error              str                    why it failed
status_code        Int16                  of the HTTP answer
depth              Int16                  links away from the start
time_taken         float64                seconds
success            boolean                whether the page was read
content_hash       str                    equal for equal content
fetched_at         datetime64[us, UTC]    when
quality            object                 dict, how good the text is
extra              object                 dict of fields unknown to this version
capture_distance_s float64                seconds from `as_of` to the capture
rights             object                 dict, with `rights` or `purpose`
inlinks, outlinks  Int32                  pages linking to it, and linked to
pagerank           float64                share of a random surfer's visits
indexable          boolean                whether search engines may list it
indexable_reason   str                    why not
cluster            Int32                  equal for nearly equal pages
redirect_chain     object                 list of dicts
found_on           object                 list of 20 pages linking to it
page_facts         object                 dict, for `audit_df`
metadata           object                 dict about the page
extract            object                 if asked for
structured_data    object                 dict, if asked for
headings, images   object                 lists of dicts, if asked for
links              object                 list of str, if asked for
screenshot         object                 PNG bytes, if asked for
title              str                    of the page
html, markdown     str                    if asked for, as is `raw_html`
================== ====================== ===================================
"""


def _fields(table: TableName) -> list[pa.Field[Any]]:
    base = _BASE[table]
    if table == "creatives":
        return [*base, *(field for _, field in _ENRICHED)]
    if table not in _SCRAPING:
        return base
    texts = base.index(_EXTRA[0]) + 1
    audited = _AUDITED if table == "crawl" else []
    requested = (*_DATED, *_RIGHTS) if table == "crawl" else ()
    return [*base[:texts], *requested, *audited, *_SCRAPED, *base[texts:], *_PAGE_TEXTS]


SCHEMAS: Final[dict[TableName, pa.Schema]] = {name: pa.schema(_fields(name)) for name in _BASE}


def in_order(table: TableName, names: Collection[str]) -> tuple[str, ...]:
    """Return the columns among `names` in the order of the table."""
    return tuple(name for name in SCHEMAS[table].names if name in names)


def are_columns_of(table: TableName, schema: pa.Schema) -> bool:
    """Return whether the columns of a file are some of the table's, in its order."""
    current = pa.schema(field for field in SCHEMAS[table] if field.name in schema.names)
    return current.equals(schema, check_metadata=True)


def schema_id(table: TableName) -> str:
    """Return the schema name that files contain, such as `crawl/1`."""
    return f"{table}/{VERSION}"


def kind(field: pa.Field[Any]) -> bytes | None:
    """Return `json` or `png` for a column that needs decoding, else None."""
    return (field.metadata or {}).get(_KIND)


def has_items(field: pa.Field[Any]) -> bool:
    """Return whether a column holds lists of structs."""
    return pa.types.is_list(field.type) and pa.types.is_struct(field.type.value_type)


def holds_objects(field: pa.Field[Any]) -> bool:
    """Return whether a frame has Python objects in this column: lists or decoded JSON."""
    return kind(field) == JSON or pa.types.is_list(field.type)


def frame_columns(
    table: TableName,
    *,
    formats: Sequence[str] = (),
    extract: bool = False,
    metadata: bool = False,
    audit: bool = False,
    rights: bool = False,
    dated: bool = False,
) -> tuple[str, ...]:
    """Return the columns of a frame. They depend on the request and never on the data."""
    optional = {
        "extract": extract,
        "metadata": metadata,
        "rights": rights,
        "capture_distance_s": dated,
    }
    wanted = {*formats, *(name for name, is_wanted in optional.items() if is_wanted)}
    wanted |= set(AUDIT_COLUMNS if audit else ())
    base = (field.name for field in _BASE[table])
    return in_order(table, {*base, *(wanted if table in _SCRAPING else ())})


def creatives_columns(enrichment: Collection[str]) -> tuple[str, ...]:
    """Return the columns of creatives for a set of `details`, `assets`, `previews` and `ocr`."""
    added = [field.name for kinds, field in _ENRICHED if not kinds.isdisjoint(enrichment)]
    return (*(field.name for field in _BASE["creatives"]), *added)
