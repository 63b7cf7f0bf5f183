"""JSON of whatever a page says, also where it says what JSON has no form for."""

from __future__ import annotations

from typing import Any

import orjson


def dumps(value: Any) -> bytes:
    """Return the JSON of a value made of a page.

    Pages spell out halves of surrogate pairs and integers beyond 64 bits, which orjson refuses:
    the first become U+FFFD, the second floats.

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
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return _as_float(value)
    if isinstance(value, dict):
        return {_plain(str(name)): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _as_float(number: int) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None
