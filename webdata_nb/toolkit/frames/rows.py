"""The rows of a call and how it ended. Converts the rows of a reply to an Arrow table, by column.

A value that does not fit its column is stored in `extra` under its name, and so is a field that
this version does not know. Tables are allocated in memory that can be returned to the system.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, get_args

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from webdata_nb import malloc
from webdata_nb.contract.choices import Format
from webdata_nb.contract.outcomes import JobStatus
from webdata_nb.errors import InvalidArgument, JobCancelled, JobFailed
from webdata_nb.foreign_json import well_formed
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.frames import schemas

if TYPE_CHECKING:
    from webdata_nb.contract.replies import ReceiptEntry
    from webdata_nb.errors import IncompleteResult, JobTimeout, WebdataError
    from webdata_nb.toolkit.frames.schemas import TableName

# Converts between values of JSON and Arrow columns: JSON text, lists of items, images and times.
#
# Lists of images and headings are lists of structs. A struct has the fields of the format and
# `extra`, the JSON text of what fits none of them. A frame has one dict for each struct: with every
# field of the format, and with the entries of `extra`.


def dumps(value: Any) -> str:
    """Encode `value` as compact JSON; NaN and infinities become null."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # limits of orjson: 64-bit integers, no lone surrogates, 254 levels
        return well_formed(_slow_dumps(value))


def canonical(value: Any) -> str:
    """Return text that is equal for equal values, whatever the order of their fields."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:
        pass
    try:
        return well_formed(_slow_dumps(value, sort_keys=True))
    except (TypeError, ValueError):  # not of JSON, such as a set that the user stored
        return repr(value)


def _slow_dumps(value: Any, *, sort_keys: bool = False) -> str:
    try:
        return json.dumps(
            _finite(value), ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys
        )
    except RecursionError:
        return '"(nested too deeply to be kept)"'


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def decoded(value: Any, column: str) -> Any:
    """Return the value of JSON text, which frames with Arrow types hold, and others as they are.

    Raises
    ------
    InvalidArgument
        The text is not JSON.
    """
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        raise InvalidArgument(
            f"column {column} must have objects or JSON text; it has {format_value(value)}: store "
            "frames as Parquet, or read a CSV export with read_csv_export"
        ) from None


Items = list[Any]
_PYTHON_TYPES: Final[Mapping[pa.DataType, type]] = {
    pa.string(): str,
    pa.int16(): int,
    pa.int32(): int,
}


def _item_fields(data_type: pa.DataType) -> dict[str, pa.DataType]:
    """Return the types of the format's fields, without `extra`."""
    struct: Any = cast("pa.ListType[Any]", data_type).value_type
    return {field.name: field.type for field in struct if field.name != schemas.EXTRA}


def _flat(values: Iterable[Any]) -> list[Any]:
    return list(chain.from_iterable(filter(None, values)))


def encode_items(items: Sequence[Any], data_type: pa.DataType) -> Items:
    """Return the structs of a list of JSON values; nothing is lost."""
    fields = _item_fields(data_type)
    return [_encode_item(item, fields) for item in items]


def _encode_item(item: Any, fields: Mapping[str, pa.DataType]) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        return {schemas.EXTRA: dumps(item)}
    known = {
        name: well_formed(item[name]) if isinstance(item[name], str) else item[name]
        for name, data_type in fields.items()
        if name in item and _fits(item[name], data_type)
    }
    extra = {name: value for name, value in item.items() if name not in known}
    return {**known, schemas.EXTRA: dumps(extra) if extra else None}


def _fits(value: Any, data_type: pa.DataType) -> bool:
    if value is None:
        return True
    if type(value) is not _PYTHON_TYPES[data_type]:
        return False
    return not isinstance(value, int) or abs(value) < 2 ** (data_type.bit_width - 1)


def decode_items(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> list[Items | None]:
    """Return the lists of dicts of a column of structs."""
    lists: list[Items | None] = column.to_pylist()
    return [None if items is None else [_decode_item(item) for item in items] for items in lists]


def _decode_item(item: dict[str, Any]) -> Any:
    text = item.pop(schemas.EXTRA)
    if text is None:
        return item
    extra = orjson.loads(text)
    return {**item, **extra} if isinstance(extra, dict) else extra


def json_values(field: pa.Field[Any], column: pa.ChunkedArray[Any]) -> list[Any]:
    """Return the values of a column: images as base64, times as ISO 8601 in UTC.

    JSON text is a fragment, which orjson writes as it is.
    """
    if pa.types.is_timestamp(field.type):
        # As text without the zone: Arrow has years that datetime lacks.
        return [
            text and f"{text.replace(' ', 'T')}Z"
            for text in column.cast(pa.timestamp("us")).cast(pa.string()).to_pylist()
        ]
    if schemas.has_items(field):
        return decode_items(column)
    values: list[Any] = column.to_pylist()
    match schemas.kind(field):
        case schemas.JSON:
            return [None if text is None else orjson.Fragment(text) for text in values]
        case schemas.PNG:
            return [None if data is None else base64.b64encode(data).decode() for data in values]
    return values


# The C library's allocator, which `malloc.trim` trims. Arrow's own pools keep a part of the memory
# for each thread that ever worked on a page of rows.
TRIMMABLE_POOL: Final = pa.system_memory_pool()
# Trimming takes about a millisecond.
_MIN_TRIMMED_BYTES: Final = 1_000_000


def trim_memory(table: pa.Table | None = None) -> None:
    """Return free memory to the system; with a table, only if it is large.

    Arrays grow by doubling, and a reply's bytes and texts come before them. The C library keeps
    all of this memory: after a thousand pages as much again as the rows.
    """
    if table is None or table.nbytes >= _MIN_TRIMMED_BYTES:
        # Not `TRIMMABLE_POOL.release_unused`, which trims the default pool instead.
        malloc.trim()


Row = Mapping[str, Any]
Values = list[Any]
Encode = Callable[[Any], Any]
Extra = dict[int, dict[str, Any]]
Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"
Pool: TypeAlias = pa.MemoryPool | None

_MISFIT: Final = object()
_CHUNK: Final = 128
_REFUSED: Final = (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeError, OverflowError)


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """How a job or a listing ended. Times are in seconds.

    `failure_reason` is the service's explanation; `shortfall` says how many rows are missing. The
    job had not ended by itself where the call was `interrupted` or ran into its `timeout`. `since`
    is the job that an incremental crawl took unchanged pages from, "" if it found none;
    `since_refusal` is why the service could not use the one that it found.
    `signature_agent` is the identity with which requests for pages were signed.
    `capture_distances` are the least and the greatest distance of captures from the date of a
    dated crawl, negative before it. `joined` says that an earlier call had started the job, and
    ended without its rows. `low_confidence` counts the rows of a crawl whose content may be wrong
    or missing, by reason. `folder` is the site and path that a crawl of a folder kept to.
    """

    kind: str
    subject: str
    status: str
    job_id: str | None
    rows: int
    failed: int
    total: int | None
    job_s: float | None = None
    credits: float | None = None
    reserved: float | None = None
    unlimited: bool = False
    engines: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, Sequence[str]] = field(default_factory=dict)
    listing_scope: str = ""
    extraction: Mapping[str, Any] = field(default_factory=dict)
    failure_reason: str = ""
    shortfall: IncompleteResult | None = None
    interrupted: bool = False
    timeout: JobTimeout | None = None
    since: str | None = None
    since_refusal: str = ""
    signature_agent: str | None = None
    capture_distances: tuple[float, float] | None = None
    joined: bool = False
    low_confidence: Mapping[str, int] = field(default_factory=dict)
    folder: str = ""

    @property
    def ok(self) -> int:
        """The number of rows that did not fail."""
        return self.rows - self.failed

    @property
    def complete(self) -> bool:
        """Whether every row arrived."""
        return not self.interrupted and self.error() is None

    @property
    def cacheable(self) -> bool:
        """Whether later calls may get these rows: all of them, and not a transient failure.

        A search without rows or a crawl without a good page may be a blocked engine or a site
        that is down for a minute, which must not be repeated for a week.
        """
        completed = self.status == JobStatus.COMPLETED and self.shortfall is None
        return completed and not self.interrupted and self.ok > 0

    def error(self) -> WebdataError | None:
        """Return the error that describes how the job ended; None where it succeeded."""
        if self.interrupted:
            return None
        if self.timeout is not None:
            return self.timeout
        job_id = self.job_id or ""
        if self.status == JobStatus.FAILED:
            return JobFailed(job_id, self.failure_reason or "the service gave no reason")
        return JobCancelled(job_id) if self.status == JobStatus.CANCELLED else self.shortfall


@dataclass(frozen=True, slots=True)
class CallResult:
    """Rows of a call as a table: a batch of them, or all, fetched, cached, recorded or combined.

    Attributes
    ----------
    table
        The rows.
    attrs
        Their receipt. A fetched result gets it when the cache stores it; a batch has none.
    objects
        The Python values of list and JSON columns, where they are at hand: a frame can use them
        instead of decoding the table. A column in which a value had to be changed is left out.
    outcome
        How the job ended.
    receipt_entries
        The full receipt of a crawl.
    """

    table: pa.Table
    attrs: dict[str, Any] = field(default_factory=dict)
    objects: dict[str, Values] = field(default_factory=dict)
    outcome: JobOutcome | None = None
    receipt_entries: Sequence[ReceiptEntry] | None = None

    @property
    def complete(self) -> bool:
        """Whether every row is there."""
        return self.outcome is None or self.outcome.complete

    @property
    def cache_file(self) -> Path | None:
        """The cached file of these rows, where there is one."""
        file = self.attrs.get("file")
        return None if file is None else Path(file)

    def error(self) -> WebdataError | None:
        """Return the error that describes how the job ended; None where it succeeded."""
        return None if self.outcome is None else self.outcome.error()

    def without_creatives(self, known_ids: set[object]) -> CallResult:
        """Return the rows of other creatives than these."""
        if not known_ids:
            return self
        is_new = [each not in known_ids for each in self.table["creative_id"].to_pylist()]
        return replace(self, table=self.table.filter(is_new), objects={})


def batch(table: TableName, rows: Sequence[Row], *, memory: Pool = None) -> CallResult:
    """Convert `rows`, as decoded from JSON, to the full schema of `table`.

    `memory` is the memory pool of the columns, by default that of Arrow.
    """
    schema = schemas.SCHEMAS[table]
    if (complete := _COMPLETED.get(table)) is not None:
        rows = [complete(row) for row in rows]
    present: set[str] = set().union(*rows)
    known = [each for each in schema if each.name != schemas.EXTRA]
    known_names = frozenset(each.name for each in known)
    extra: Extra = {}
    if not present <= known_names:
        for number, row in enumerate(rows):
            unknown = {name: value for name, value in row.items() if name not in known_names}
            if unknown:
                extra[number] = unknown
    names = [each.name for each in known if each.name in present]
    # Row by row, which uses the CPU cache best.
    tuples = (tuple(map(row.get, names)) for row in rows)
    values_by_name = dict(zip(names, map(list, zip(*tuples, strict=True)), strict=False))
    columns: list[Column] = []
    objects: dict[str, Values] = {}
    for each in known:
        if each.name not in present:
            columns.append(pa.nulls(len(rows), each.type, memory))
            continue
        values = values_by_name[each.name]
        column = _convert_at_once(each, values, memory)
        if column is None:  # what does not fit moves to `extra`
            encode, _ = _ENCODERS[schemas.kind(each) or each.type]
            encoded = [None if value is None else encode(value) for value in values]
            for number, value in enumerate(encoded):
                if value is _MISFIT:
                    extra.setdefault(number, {})[each.name] = values[number]
                    encoded[number] = None
            column = _cast(encoded, each.type, memory)
        elif schemas.holds_objects(each) and (
            # Each item has every field, as those of frames have.
            not schemas.has_items(each)
            or {len(_item_fields(each.type))}.issuperset(map(len, _flat(values)))
        ):
            objects[each.name] = values
        columns.append(column)
    extra_texts = [dumps(extra[row]) if row in extra else None for row in range(len(rows))]
    place = schema.names.index(schemas.EXTRA)
    columns.insert(place, pa.array(extra_texts, schemas.TEXT, memory_pool=memory))
    return CallResult(pa.table(columns, schema=schema), objects=objects)


def trimmed_batch(
    table: TableName, rows: Sequence[Row], *, texts: dict[str, str] | None = None
) -> CallResult:
    """Return `batch` for many rows, and return the memory that it needed to the system.

    Equal texts in lists share one object, across all batches with the same `texts`: most pages of
    a site have the same links.
    """
    result = batch(table, rows, memory=TRIMMABLE_POOL)
    shared_text = ({} if texts is None else texts).setdefault
    for name, values in result.objects.items():
        if schemas.SCHEMAS[table].field(name).type == schemas.TEXTS:
            for each in filter(None, values):
                each[:] = [shared_text(text, text) for text in each]
    trim_memory(result.table)
    return result


def concat(table: TableName, batches: Sequence[CallResult]) -> CallResult:
    """Concatenate batches of one table without copying."""
    if len(batches) == 1:
        return batches[0]
    names = set.intersection(*(set(each.objects) for each in batches)) if batches else set()
    return CallResult(
        pa.concat_tables([schemas.SCHEMAS[table].empty_table(), *(each.table for each in batches)]),
        objects={
            name: [value for each in batches for value in each.objects[name]] for name in names
        },
    )


def to_table(table: TableName, rows: Sequence[Row]) -> pa.Table:
    """Convert `rows` to an Arrow table with the full schema of `table`."""
    return batch(table, rows).table


def _with_metadata_fields(row: Row) -> Row:
    """Fill missing `url`, `title` and `status_code` from the page's metadata, and `success`."""
    if "url" in row and "title" in row and "status_code" in row:
        return _with_success("crawl", row)
    metadata = row.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    complete = {
        **row,
        "url": _first_of_type(
            str, row.get("url"), *map(fields.get, ("url", "source_url", "sourceURL"))
        ),
        "title": _first_of_type(str, row.get("title"), fields.get("title")),
        "status_code": _first_of_type(
            int,
            row.get("status_code"),
            row.get("status"),
            *map(fields.get, ("status_code", "statusCode")),
        ),
    }
    return _with_success("crawl", complete)


def _with_outcome(row: Row) -> Row:
    """Fill missing `success` and `scraped` of a search result."""
    completed = _with_success("search", row)
    if completed.get("scraped") is not None:
        return completed
    has_content = any(row.get(name) is not None for name in _CONTENT)
    return {**completed, "scraped": completed["success"] is not False and has_content}


def _with_success(table: TableName, row: Row) -> Row:
    """Fill a missing `success`; a value of another type is kept in `extra`."""
    if row.get("success") is not None:
        return row
    return {**row, "success": row_success(table, row)}


def row_success(table: TableName, row: Row) -> bool | None:
    """Return whether a row succeeded, which a service may state in several ways.

    `success` decides, then an `error`, the word or code in `status`, and `status_code`. A search
    result without these has succeeded, and so has a page with content; another page may have or not
    (None).
    """
    stated = row.get("success")
    if stated is not None:
        return stated if isinstance(stated, bool) else None
    if row.get("error"):
        return False
    status = row.get("status")
    if isinstance(status, str) and (success := _STATUS_WORDS.get(status.lower())) is not None:
        return success
    codes = [each for each in (status, row.get("status_code")) if type(each) is int]
    if codes:
        return all(HTTPStatus.OK <= code < HTTPStatus.MULTIPLE_CHOICES for code in codes)
    has_content = any(row.get(name) for name in _CONTENT)
    return True if has_content or table == "search" else None


_CONTENT: Final = (*get_args(Format), "extract")
_STATUS_WORDS: Final = {
    **dict.fromkeys(("completed", "success", "succeeded", "ok", "done", "scraped"), True),
    **dict.fromkeys(("failed", "failure", "error", "timeout", "blocked", "cancelled"), False),
}
_COMPLETED: Final[dict[TableName, Callable[[Row], Row]]] = {
    "crawl": _with_metadata_fields,
    "search": _with_outcome,
}


def _first_of_type(wanted: type, *candidates: object) -> Any:
    return next((value for value in candidates if type(value) is wanted), candidates[0])


def _convert_at_once(field: pa.Field[Any], values: Values, memory: Pool) -> Column | None:
    """Convert a whole column, or return None if a value does not fit."""
    _, prepare = _ENCODERS[schemas.kind(field) or field.type]
    try:
        prepared = prepare(values)
        return None if prepared is None else _cast(prepared, field.type, memory)
    except _REFUSED:
        return None


def _cast(values: Values, data_type: pa.DataType, memory: Pool) -> Column:
    make_array = partial(pa.array, memory_pool=memory)
    if pa.types.is_timestamp(data_type) and any(isinstance(value, str) for value in values):
        return pc.cast(make_array(values, schemas.TEXT), data_type, memory_pool=memory)
    is_long = pa.types.is_string(data_type) or pa.types.is_binary(data_type)
    if len(values) <= _CHUNK or not is_long:
        return make_array(values, data_type)
    # A single array of page texts would be copied each time its buffer grows.
    starts = range(0, len(values), _CHUNK)
    return pa.chunked_array([make_array(values[at : at + _CHUNK], data_type) for at in starts])


def _has_only_types(values: Iterable[Any], *types: type) -> bool:
    return {NoneType, *types}.issuperset(map(type, values))


def _if_only(values: Values, types: tuple[type, ...]) -> Values | None:
    """Return `values` if Arrow can convert them unchanged."""
    return values if _has_only_types(values, *types) else None


def _if_json(values: Values) -> Values | None:
    try:
        return [None if value is None else orjson.dumps(value).decode() for value in values]
    except TypeError:
        return None


def _encode_texts(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [well_formed(item) for item in value]
    return _MISFIT


def _encode_integer(value: Any, data_type: pa.DataType) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    fits = isinstance(value, int) and not isinstance(value, bool)
    beyond = 2 ** (data_type.bit_width - 1)
    return value if fits and -beyond <= value < beyond else _MISFIT


def _encode_float(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _MISFIT
    try:
        return float(value)
    except OverflowError:
        return _MISFIT


def _encode_timestamp(value: Any) -> Any:
    try:
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return _MISFIT


def _encode_image(value: Any) -> Any:
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except (TypeError, ValueError):
        return _MISFIT


def _encode_items(value: Any, data_type: pa.DataType) -> Any:
    return encode_items(value, data_type) if isinstance(value, list) else _MISFIT


def _if_items(values: Values, data_type: pa.DataType) -> Values | None:
    """Return `values` if all items are objects of fields of the format, with values of their types.

    Arrow would drop other fields and truncate numbers.
    """
    if not _has_only_types(values, list):
        return None
    items = _flat(values)
    if not {dict}.issuperset(map(type, items)):
        return None
    fields = _item_fields(data_type)
    names = set(chain.from_iterable(set(map(tuple, items))))
    fit = names <= fields.keys() and all(
        _has_only_types([item.get(name) for item in items], _PYTHON_TYPES[fields[name]])
        for name in names
    )
    return values if fit else None


# By column type: the encoder of one value, and the check for converting a whole column.
_ENCODERS: Final[dict[object, tuple[Encode, Callable[[Values], Values | None]]]] = {
    schemas.JSON: (dumps, _if_json),
    schemas.PNG: (_encode_image, lambda _values: None),
    schemas.TEXT: (
        lambda value: well_formed(value) if isinstance(value, str) else _MISFIT,
        partial(_if_only, types=(str,)),
    ),
    # Arrow rejects wrong items, but reads a string as a list of letters.
    schemas.TEXTS: (_encode_texts, partial(_if_only, types=(list,))),
    schemas.WHEN: (_encode_timestamp, partial(_if_only, types=(str,))),
    **{
        each: (partial(_encode_items, data_type=each), partial(_if_items, data_type=each))
        for each in schemas.ITEM_TYPES.values()
    },
    **{
        each: (partial(_encode_integer, data_type=each), partial(_if_only, types=(int,)))
        for each in (pa.int16(), pa.int32(), pa.int64())
    },
    pa.float64(): (_encode_float, partial(_if_only, types=(int, float))),
    pa.bool_(): (
        lambda value: value if isinstance(value, bool) else _MISFIT,
        partial(_if_only, types=(bool,)),
    ),
}
