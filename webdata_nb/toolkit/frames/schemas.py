"""Defines the Arrow schema of each table, and which of its columns a frame has.

A field with `webdata.type=json` in its metadata holds JSON text, one with `png` the bytes of an
image. Lists of items with fixed fields are lists of structs. pandas, polars and DuckDB all read
JSON text the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa

from webdata_nb.contract.choices import FORMAT_VALUES, FormatValue, ValueType

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

# An Arrow type, or the mark of a column that needs decoding.
ColumnType: TypeAlias = pa.DataType | bytes
_FORMAT_TYPES: Final[Mapping[ValueType, ColumnType]] = {
    "text": TEXT,
    "png": PNG,
    "json": JSON,
    "texts": TEXTS,
    "integer": pa.int32(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
}
_ITEM_FIELDS: Final[Mapping[str, pa.DataType]] = {
    "text": TEXT,
    "int16": pa.int16(),
    "int32": pa.int32(),
}


def _format_type(value: FormatValue) -> ColumnType:
    if value.type != "items":
        return _FORMAT_TYPES[value.type]
    # `extra` is the JSON text of what fits no field.
    fields = [(name, _ITEM_FIELDS[type_]) for name, type_ in value.fields.items()]
    return pa.list_(pa.field("element", pa.struct([*fields, (EXTRA, TEXT)])))


def _has_item_type(data_type: pa.DataType) -> bool:
    return pa.types.is_list(data_type) and pa.types.is_struct(data_type.value_type)


class _Columns(NamedTuple):
    """Columns of one type, as one line of the table in a docstring, where that is made of them."""

    names: str
    type: ColumnType
    meaning: str = ""

    @property
    def fields(self) -> list[pa.Field[Any]]:
        if isinstance(self.type, bytes):
            storage: pa.DataType = TEXT if self.type == JSON else pa.binary()
            metadata = {_KIND: self.type}
        else:
            storage, metadata = self.type, None
        return [pa.field(name, storage, metadata=metadata) for name in self.names.split(", ")]


# Printed frames are cut in the middle, so the columns are ordered from short values to long texts.
_FORMATS: Final = [
    _Columns(name, _format_type(value), value.meaning)
    for name, value in reversed(list(FORMAT_VALUES.items()))
]
# The columns that hold lists of items with fixed fields.
ITEM_TYPES: Final[dict[str, pa.DataType]] = {
    each.names: each.type
    for each in _FORMATS
    if isinstance(each.type, pa.DataType) and _has_item_type(each.type)
}
_SCRAPED: Final = [
    _Columns("extract", JSON, "if asked for"),
    *(each for each in _FORMATS if each.type not in {TEXT, PNG}),
    *(each for each in _FORMATS if each.type == PNG),
]
_PAGE_TEXTS: Final = [each for each in _FORMATS if each.type == TEXT]
# The columns of a crawl with `audit=True`.
_AUDITED: Final = [
    _Columns("inlinks, outlinks", pa.int32(), "pages linking to it, and linked to"),
    _Columns("pagerank", pa.float64(), "share of a random surfer's visits"),
    _Columns("indexable", pa.bool_(), "whether search engines may list it"),
    _Columns("indexable_reason", TEXT, "why not"),
    _Columns("cluster", pa.int32(), "equal for nearly equal pages"),
    _Columns("redirect_chain", JSON, "list of dicts"),
    _Columns("found_on", TEXTS, "list of 20 pages linking to it"),
    _Columns("page_facts", JSON, "dict, for `audit_df`"),
]
AUDIT_COLUMNS: Final = tuple(field.name for each in _AUDITED for field in each.fields)
# The columns of searches and crawls before and after those of formats. A column that depends on the
# request is in `frame_columns` too.
_SEARCH: Final = [
    _Columns("rank", pa.int32(), "position among the organic results, from 1"),
    _Columns("url", TEXT, "the result"),
    _Columns("success, scraped", pa.bool_(), "whether the row is whole; whether a page was read"),
    _Columns("provider", TEXT, "the provider of the web, or `local`, that found it"),
    _Columns("error", TEXT, "why the page could not be scraped"),
    _Columns("id", TEXT, "the service's id of this result"),
    _Columns(EXTRA, JSON, "dict of fields that this version does not know"),
]
_SEARCH_TEXTS: Final = [
    _Columns("title", TEXT, "of the result"),
    _Columns("snippet", TEXT, "the engine's extract"),
]
_CRAWL: Final = [
    _Columns("url", TEXT, "the page"),
    _Columns("status", TEXT, "completed or failed"),
    _Columns("error", TEXT, "why it failed"),
    _Columns("status_code", pa.int16(), "of the HTTP answer"),
    _Columns("depth", pa.int16(), "links away from the start"),
    _Columns("time_taken", pa.float64(), "seconds"),
    _Columns("success", pa.bool_(), "whether the page was read"),
    _Columns("content_hash", TEXT, "equal for equal content"),
    _Columns("fetched_at", WHEN, "when"),
    _Columns("quality", JSON, "dict, how good the text is"),
    _Columns(EXTRA, JSON, "dict of fields unknown to this version"),
]
_CRAWL_TEXTS: Final = [_Columns("title", TEXT, "of the page")]
# The columns of a crawl that depend on the request.
_REQUESTED: Final = [
    _Columns("capture_distance_s", pa.float64(), "seconds from `as_of` to the capture"),
    _Columns("rights", JSON, "dict, with `rights` or `purpose`"),
]


def _fields_of(columns: Iterable[_Columns]) -> list[pa.Field[Any]]:
    return [field for each in columns for field in each.fields]


# The columns that a frame has whatever the request, and those that depend on it.
_BASE_COLUMNS: Final[dict[TableName, list[_Columns]]] = {
    "search": [*_SEARCH, *_SEARCH_TEXTS],
    "crawl": [*_CRAWL, *_CRAWL_TEXTS],
    "creatives": [
        _Columns("position", pa.int32()),
        _Columns("advertiser_id, creative_id, format", TEXT),
        _Columns("first_shown, last_shown", WHEN),
        _Columns("days_shown", pa.int32()),
        _Columns("political", pa.bool_()),
        _Columns("error", TEXT),
        _Columns(EXTRA, JSON),
        _Columns("preview_url, advertiser_name", TEXT),
    ],
    "advertisers": [
        _Columns("rank", pa.int32()),
        _Columns("advertiser_id, region", TEXT),
        _Columns("ads_min, ads_max", pa.int64()),
        _Columns(EXTRA, JSON),
        _Columns("domain, name", TEXT),
    ],
    "captures": [
        _Columns("url", TEXT),
        _Columns("captured_at", WHEN),
        _Columns("status_code", pa.int16()),
        _Columns("mime_type, digest", TEXT),
        _Columns("length", pa.int64()),
        _Columns("index", TEXT),
        _Columns("offset", pa.int64()),
        _Columns(EXTRA, JSON),
        _Columns("archive_url", TEXT),
    ],
    "engines": [
        _Columns("engine", TEXT),
        _Columns("position", pa.int32()),
        _Columns("provider", TEXT),
        _Columns("usable", pa.bool_()),
        _Columns("resting_s", pa.float64()),
        _Columns(EXTRA, JSON),
        _Columns("why", TEXT),
    ],
    "jobs": [
        _Columns("job_id, type, status", TEXT),
        _Columns("created_at, started_at, finished_at", WHEN),
        _Columns("total, completed", pa.int32()),
        _Columns("error", TEXT),
        _Columns(EXTRA, JSON),
        _Columns("subject", TEXT),
    ],
    "weights": [
        _Columns("platform", TEXT),
        _Columns(EXTRA, JSON),
        _Columns("operation", TEXT),
        _Columns("weight", pa.float64()),
    ],
    "usage": [
        _Columns("plan", TEXT),
        _Columns("operations", JSON),
        _Columns("scopes", TEXTS),
        _Columns(EXTRA, JSON),
        _Columns("period_start, period_end, key_ends_at", WHEN),
        _Columns("active, limit", pa.int32()),
        _Columns("monthly, monthly_left, topup, reserved, used", pa.float64()),
    ],
}
_BASE: Final = {table: _fields_of(columns) for table, columns in _BASE_COLUMNS.items()}
_SCRAPING: Final = frozenset({"search", "crawl"})
# The columns that each kind of enrichment adds to creatives, in their order.
_ENRICHED: Final[list[tuple[frozenset[str], pa.Field[Any]]]] = [
    (frozenset(kinds.split()), field)
    for kinds, columns in (
        ("details", _Columns("regions", TEXTS)),
        ("details", _Columns("impressions_min, impressions_max", pa.int64())),
        ("details", _Columns("asset_urls", TEXTS)),
        ("assets", _Columns("assets", JSON)),
        ("previews", _Columns("preview", JSON)),
        ("ocr", _Columns("text_confidence", pa.float64())),
        ("details", _Columns("landing_domain", TEXT)),
        ("details ocr", _Columns("headline, description", TEXT)),
        ("ocr", _Columns("text", TEXT)),
    )
    for field in columns.fields
]

_ALL_SEARCH: Final = [
    *_SEARCH,
    _Columns("metadata", JSON, "dict about the page, unless `formats` is `[]`"),
    *_SCRAPED,
    *_SEARCH_TEXTS,
    *_PAGE_TEXTS,
]
_ALL_CRAWL: Final = [
    *_CRAWL,
    *_REQUESTED,
    *_AUDITED,
    _Columns("metadata", JSON, "dict about the page"),
    *_SCRAPED,
    *_CRAWL_TEXTS,
    *_PAGE_TEXTS,
]
_WIDEST: Final = 18
_DTYPES: Final[Mapping[ColumnType, str]] = {
    TEXT: "str",
    WHEN: "datetime64[us, UTC]",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.bool_(): "boolean",
    pa.float64(): "float64",
}


def _table_of(columns: Sequence[_Columns]) -> str:
    """Return the table of columns in the docstring of a function that returns frames."""
    rows = [("column", "dtype", "meaning")]
    for names, data_type, meaning in columns:
        row = (names, _DTYPES.get(data_type, "object"), meaning)
        joined = f"{rows[-1][0]}, {names}"
        if rows[-1][1:] == row[1:] and len(joined) <= _WIDEST:
            rows[-1] = (joined, *row[1:])
        else:
            rows.append(row)
    widths = [max(map(len, values)) for values in zip(*rows, strict=True)]
    rule = " ".join("=" * width for width in widths)
    lines = [
        " ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule, ""])


# The tables of columns in the docstrings of functions that return frames.
SEARCH_COLUMNS: Final = _table_of(_ALL_SEARCH)
CRAWL_COLUMNS: Final = _table_of(_ALL_CRAWL)


def _fields(table: TableName) -> list[pa.Field[Any]]:
    if table == "search":
        return _fields_of(_ALL_SEARCH)
    if table == "crawl":
        return _fields_of(_ALL_CRAWL)
    enriched = [field for _, field in _ENRICHED] if table == "creatives" else []
    return [*_BASE[table], *enriched]


SCHEMAS: Final[dict[TableName, pa.Schema]] = {name: pa.schema(_fields(name)) for name in _BASE}


def in_order(table: TableName, names: Collection[str]) -> tuple[str, ...]:
    """Return the columns among `names` in the order of the table."""
    return tuple(name for name in SCHEMAS[table].names if name in names)


def are_columns_of(table: TableName, schema: pa.Schema) -> bool:
    """Return whether the columns of a file are some of the table's, in its order."""
    current = pa.schema(map(SCHEMAS[table].field, in_order(table, schema.names)))
    return current.equals(schema, check_metadata=True)


def schema_id(table: TableName) -> str:
    """Return the schema name that files contain, such as `crawl/1`."""
    return f"{table}/{VERSION}"


def kind(field: pa.Field[Any]) -> bytes | None:
    """Return `json` or `png` for a column that needs decoding, else None."""
    return (field.metadata or {}).get(_KIND)


def has_items(field: pa.Field[Any]) -> bool:
    """Return whether a column holds lists of structs."""
    return _has_item_type(field.type)


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
