"""Converts between values of JSON and Arrow columns: JSON text, lists of items, images and times.

Lists of images and headings are lists of structs. A struct has the fields of the format and
`extra`, the JSON text of what fits none of them. A frame has one dict for each struct: with every
field of the format, and with the entries of `extra`.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from types import NoneType
from typing import Any, Final, cast

import orjson
import pyarrow as pa

from webdata_nb.errors import InvalidArgument
from webdata_nb.foreign_json import well_formed
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.frames import schemas


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


def are_complete_items(values: Sequence[Any], data_type: pa.DataType) -> bool:
    """Return whether all items have the fields of the format, with values of their types.

    Arrow would drop other fields and truncate numbers.
    """
    fields = _item_fields(data_type)
    if not {NoneType, list}.issuperset(map(type, values)):
        return False
    items = [item for value in values if value for item in value]
    if not all(type(item) is dict and item.keys() == fields.keys() for item in items):
        return False
    return all(
        {NoneType, _PYTHON_TYPES[field_type]}.issuperset(map(type, map(itemgetter(name), items)))
        for name, field_type in fields.items()
    )


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
