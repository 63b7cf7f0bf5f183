"""Encodes any JSON value as text."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson

from webdata_nb.errors import InvalidArgument
from webdata_nb.foreign_json import well_formed
from webdata_nb.suggestions import format_value


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
