"""JSON bodies, read strictly: one meaning or none."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

from webdata_nb.contract import limits

DEPTH: Final = limits.BODY_DEPTH
VALUES: Final = limits.BODY_VALUES
_TOKENS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},]', re.DOTALL)


class InvalidJson(ValueError):
    """The bytes are not JSON that has one meaning; the text says why, and echoes nothing."""


def parse_strict_json(raw: bytes) -> Any:
    """Return what `raw` says.

    Raises
    ------
    InvalidJson
        Not JSON, NaN or Infinity, nested deeper than `DEPTH`, more than `VALUES` entries and
        fields in all, or an object with a name twice: which of the two counts depends on the
        reader.
    """
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidJson(f"not valid JSON: {error.msg}") from None
    # Only now: on text that is no JSON the search for strings could take quadratic time.
    _check_shape(raw)
    json.loads(raw, object_pairs_hook=_check_names, parse_int=_any, parse_float=_any)
    return value


def _any(_digits: str) -> int:
    """Stand for a number: orjson has read it, and a very long one would take its time."""
    return 0


def _check_shape(raw: bytes) -> None:
    """Bound nesting and the number of values, each of which costs every later reader time."""
    depth = values = 0
    for token in _TOKENS.finditer(raw):
        mark = token[0]
        if mark in b"[{,":
            values += 1
            if values > VALUES:
                raise InvalidJson(f"more than {VALUES} list entries and fields in all")
        if mark == b",":
            continue
        if mark in b"[{":
            depth += 1
            if depth > DEPTH:
                raise InvalidJson(f"nested deeper than {DEPTH} levels")
        elif mark in b"]}":
            depth -= 1


def _check_names(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise InvalidJson("an object has the same name twice")
