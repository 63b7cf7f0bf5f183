"""Converts lists of images and headings between Python objects and Arrow structs.

A struct has the fields of the format and `extra`, the JSON text of what fits none of them. A frame
has one dict for each struct: with every field of the format, and with the entries of `extra`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from types import NoneType
from typing import Any, Final, cast

import orjson
import pyarrow as pa

from webdata_nb.foreign_json import well_formed
from webdata_nb.toolkit.frames import schemas
from webdata_nb.toolkit.frames.json_text import dumps

Items = list[Any]
_PYTHON_TYPES: Final[Mapping[pa.DataType, type]] = {
    pa.string(): str,
    pa.int16(): int,
    pa.int32(): int,
}


def _fields(data_type: pa.DataType) -> dict[str, pa.DataType]:
    """Return the types of the format's fields, without `extra`."""
    struct: Any = cast("pa.ListType[Any]", data_type).value_type
    return {field.name: field.type for field in struct if field.name != schemas.EXTRA}


def are_complete(values: Sequence[Any], data_type: pa.DataType) -> bool:
    """Return whether all items have the fields of the format, with values of their types.

    Arrow would drop other fields and truncate numbers.
    """
    fields = _fields(data_type)
    if not {NoneType, list}.issuperset(map(type, values)):
        return False
    items = [item for value in values if value for item in value]
    if not all(type(item) is dict and item.keys() == fields.keys() for item in items):
        return False
    return all(
        {NoneType, _PYTHON_TYPES[field_type]}.issuperset(map(type, map(itemgetter(name), items)))
        for name, field_type in fields.items()
    )


def encode(items: Sequence[Any], data_type: pa.DataType) -> Items:
    """Return the structs of a list of JSON values; nothing is lost."""
    fields = _fields(data_type)
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


def decode(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> list[Items | None]:
    """Return the lists of dicts of a column of structs."""
    lists: list[Items | None] = column.to_pylist()
    return [None if items is None else [_decode_item(item) for item in items] for items in lists]


def _decode_item(item: dict[str, Any]) -> Any:
    text = item.pop(schemas.EXTRA)
    if text is None:
        return item
    extra = orjson.loads(text)
    return {**item, **extra} if isinstance(extra, dict) else extra
