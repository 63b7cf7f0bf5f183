"""Serializes the data of a page to JSON, including values that JSON cannot represent."""

from __future__ import annotations

from typing import Any

import orjson

from webdata_nb.foreign_json import well_formed


def dumps(value: Any) -> bytes:
    """Return a value from a page as JSON.

    orjson refuses two kinds of values that pages contain: lone surrogates, which become U+FFFD,
    and integers beyond 64 bits, which become floats.

    Raises
    ------
    TypeError
        The value is nested too deeply, or is no JSON at all.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return _as_float(value)
    if isinstance(value, dict):
        return {_plain(str(name)): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _as_float(number: int) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None
