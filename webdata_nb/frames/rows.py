"""Rows of a reply become an Arrow table, column by column.

A value that does not fit its column is not forced and not lost: it moves to `extra` under its
own name, where fields that this version does not know are kept as well.
"""

from __future__ import annotations

import binascii
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from types import NoneType
from typing import Any, Final, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from webdata_nb.frames import arrow_memory, schemas
from webdata_nb.frames.schemas import TableName

Row = Mapping[str, Any]
Values = list[Any]
Encode = Callable[[Any], Any]
Extra = dict[int, dict[str, Any]]
Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"
Pool: TypeAlias = pa.MemoryPool | None

_MISFIT: Final = object()
_CHUNK: Final = 128
_INT32: Final = (-(2**31), 2**31 - 1)
_INT64: Final = (-(2**63), 2**63 - 1)
_INT16: Final = (-(2**15), 2**15 - 1)
_REFUSED: Final = (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeError, OverflowError)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows as a table, beside the Python values of its list and JSON columns.

    The values equal what the table would be decoded to, so a frame that is built at once need not
    decode them; a column in which a single value had to be changed is left out.
    """

    table: pa.Table
    objects: dict[str, Values]


def batch(table: TableName, rows: Sequence[Row], *, memory: Pool = None) -> Batch:
    """Return `rows`, as they were decoded from JSON, in the full schema of `table`.

    Their memory is `memory`'s, by default Arrow's own.
    """
    schema = schemas.SCHEMAS[table]
    rows = [_adopted(row) for row in rows] if table == "crawl" else rows
    present: set[str] = set().union(*rows)
    *known, _ = schema  # the last one is `extra`, for what the others cannot hold
    extra = _unknown(rows, present, frozenset(field.name for field in known))
    columns: list[Column] = []
    objects: dict[str, Values] = {}
    given = _turned(rows, [field.name for field in known if field.name in present])
    for field in known:
        if field.name not in present:
            columns.append(pa.nulls(len(rows), field.type, memory))
            continue
        values = given[field.name]
        column = _whole_column(field, values, memory)
        if column is None:
            column = _one_by_one(field, values, extra, memory)
        elif schemas.holds_objects(field):
            objects[field.name] = values
        columns.append(column)
    kept = [dumps(extra[place]) if place in extra else None for place in range(len(rows))]
    columns.append(pa.array(kept, schemas.TEXT, memory_pool=memory))
    return Batch(pa.table(columns, schema=schema), objects)


def returning(
    table: TableName, rows: Sequence[Row], *, texts: dict[str, str] | None = None
) -> Batch:
    """As `batch`, for many rows: what the work on them leaves behind goes back to the system.

    Equal texts of lists become one, also with earlier batches that were given the same `texts`:
    the pages of a site lead to much the same places.
    """
    made = batch(table, rows, memory=arrow_memory.RETURNING)
    once = ({} if texts is None else texts).setdefault
    for name, values in made.objects.items():
        if schemas.SCHEMAS[table].field(name).type == schemas.TEXTS:
            for each in filter(None, values):
                each[:] = [once(text, text) for text in each]
    arrow_memory.give_back(made.table)
    return made


def _turned(rows: Sequence[Row], names: Sequence[str]) -> dict[str, Values]:
    """Turn rows into columns, one row after the other: each is in the cache only once."""
    picked = [tuple(map(row.get, names)) for row in rows]
    return {
        name: list(column) for name, column in zip(names, zip(*picked, strict=True), strict=False)
    }


def joined(table: TableName, batches: Sequence[Batch]) -> Batch:
    """Return batches of the same kind as one, in their order; nothing is copied."""
    if len(batches) == 1:
        return batches[0]
    names = set.intersection(*(set(each.objects) for each in batches)) if batches else set()
    return Batch(
        pa.concat_tables([schemas.SCHEMAS[table].empty_table(), *(each.table for each in batches)]),
        {name: [value for each in batches for value in each.objects[name]] for name in names},
    )


def to_table(table: TableName, rows: Sequence[Row]) -> pa.Table:
    """Return `rows` as an Arrow table in the full schema of `table`."""
    return batch(table, rows).table


def dumps(value: Any) -> str:
    """Return `value` as compact JSON text; what JSON cannot say (NaN) becomes null."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # integers beyond 64 bits, lone surrogates, 254 levels: orjson's limits
        return _well_formed(_slow_dumps(value))


def _slow_dumps(value: Any) -> str:
    try:
        return json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return '"(nested too deeply to be kept)"'


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _unknown(rows: Sequence[Row], present: set[str], known: frozenset[str]) -> Extra:
    """Return the fields that have no column, by the place of their row."""
    if present <= known:
        return {}
    found = (
        (place, {name: value for name, value in row.items() if name not in known})
        for place, row in enumerate(rows)
    )
    return {place: fields for place, fields in found if fields}


def _adopted(row: Row) -> Row:
    """Fill url, title and status_code from a page's metadata, where another service keeps them."""
    if "url" in row and "title" in row and "status_code" in row:
        return row
    metadata = row.get("metadata")
    found = metadata if isinstance(metadata, dict) else {}
    return {
        **row,
        "url": _first(str, row.get("url"), *map(found.get, ("url", "source_url", "sourceURL"))),
        "title": _first(str, row.get("title"), found.get("title")),
        "status_code": _first(
            int,
            row.get("status_code"),
            row.get("status"),
            *map(found.get, ("status_code", "statusCode")),
        ),
    }


def _first(wanted: type, *candidates: object) -> Any:
    return next((value for value in candidates if type(value) is wanted), candidates[0])


def _whole_column(field: pa.Field[Any], values: Values, memory: Pool) -> Column | None:
    """Hand a column over at once; None where a value does not fit."""
    _, ready = _ENCODERS[schemas.kind(field) or field.type]
    try:
        prepared = ready(values)
        return None if prepared is None else _cast(prepared, field.type, memory)
    except _REFUSED:
        return None


def _cast(values: Values, data_type: pa.DataType, memory: Pool) -> Column:
    made = partial(pa.array, memory_pool=memory)
    if pa.types.is_timestamp(data_type) and any(isinstance(value, str) for value in values):
        return pc.cast(made(values, schemas.TEXT), data_type, memory_pool=memory)
    if len(values) <= _CHUNK or not _long(data_type):
        return made(values, data_type)
    # In one piece, a column of page texts would be copied each time its buffer has to grow.
    cuts = range(0, len(values), _CHUNK)
    return pa.chunked_array([made(values[at : at + _CHUNK], data_type) for at in cuts])


def _long(data_type: pa.DataType) -> bool:
    return pa.types.is_string(data_type) or pa.types.is_binary(data_type)


def _one_by_one(field: pa.Field[Any], values: Values, extra: Extra, memory: Pool) -> Column:
    """Encode each value alone and hand the ones that do not fit to `extra`."""
    encode, _ = _ENCODERS[schemas.kind(field) or field.type]
    encoded = [None if value is None else encode(value) for value in values]
    for position, value in enumerate(encoded):
        if value is _MISFIT:
            extra.setdefault(position, {})[field.name] = values[position]
            encoded[position] = None
    return _cast(encoded, field.type, memory)


def _only(values: Iterable[Any], *types: type) -> bool:
    return {NoneType, *types}.issuperset(map(type, values))


def _if_only(values: Values, types: tuple[type, ...]) -> Values | None:
    """Return `values` if a whole column can be handed to Arrow as it is."""
    return values if _only(values, *types) else None


def _if_json(values: Values) -> Values | None:
    try:
        return [None if value is None else orjson.dumps(value).decode() for value in values]
    except TypeError:
        return None


def _if_texts(values: Values) -> Values | None:
    """Arrow refuses wrong items by itself, but would take a string for a list of letters."""
    return values if _only(values, list) else None


def _well_formed(text: str) -> str:
    """Return `text` with lone surrogates, which UTF-8 cannot carry, replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _text(value: Any) -> Any:
    return _well_formed(value) if isinstance(value, str) else _MISFIT


def _texts(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [_well_formed(item) for item in value]
    return _MISFIT


def _whole(value: Any, bounds: tuple[int, int]) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    fits = isinstance(value, int) and not isinstance(value, bool)
    return value if fits and bounds[0] <= value <= bounds[1] else _MISFIT


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _MISFIT
    try:
        return float(value)
    except OverflowError:
        return _MISFIT


def _truth(value: Any) -> Any:
    return value if isinstance(value, bool) else _MISFIT


def _moment(value: Any) -> Any:
    try:
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return _MISFIT


def _image(value: Any) -> Any:
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except (TypeError, ValueError):
        return _MISFIT


def _never(_values: Values) -> None:
    return None


# How one value is encoded, and how a whole column is handed over where all its values agree.
_ENCODERS: Final[dict[object, tuple[Encode, Callable[[Values], Values | None]]]] = {
    schemas.JSON: (dumps, _if_json),
    schemas.PNG: (_image, _never),
    schemas.TEXT: (_text, partial(_if_only, types=(str,))),
    schemas.TEXTS: (_texts, _if_texts),
    schemas.WHEN: (_moment, partial(_if_only, types=(str,))),
    pa.int32(): (partial(_whole, bounds=_INT32), partial(_if_only, types=(int,))),
    pa.int64(): (partial(_whole, bounds=_INT64), partial(_if_only, types=(int,))),
    pa.int16(): (partial(_whole, bounds=_INT16), partial(_if_only, types=(int,))),
    pa.float64(): (_number, partial(_if_only, types=(int, float))),
    pa.bool_(): (_truth, partial(_if_only, types=(bool,))),
}
