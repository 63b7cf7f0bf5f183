"""Converts Arrow columns to values of JSON."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pyarrow as pa

from webdata_nb.toolkit.frames import item_lists, schemas


def json_values(field: pa.Field[Any], column: pa.ChunkedArray[Any]) -> list[Any]:
    """Return the values of a column: images as base64, times as ISO 8601 in UTC.

    JSON text is a fragment, which orjson writes as it is.
    """
    if pa.types.is_timestamp(field.type):
        return [text and f"{text.replace(' ', 'T')}Z" for text in _without_zone(column).to_pylist()]
    if schemas.has_items(field):
        return item_lists.decode(column)
    values: list[Any] = column.to_pylist()
    match schemas.kind(field):
        case schemas.JSON:
            return [None if text is None else orjson.Fragment(text) for text in values]
        case schemas.PNG:
            return [None if data is None else base64.b64encode(data).decode() for data in values]
    return values


def _without_zone(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Write UTC times as text; Arrow has years that datetime lacks."""
    return column.cast(pa.timestamp("us")).cast(pa.string())
