"""Parses JSON bodies strictly: rejects duplicate names, deep nesting and too many values."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

from webdata_nb.contract import limits

MAX_DEPTH: Final = limits.BODY_DEPTH
MAX_VALUES: Final = limits.BODY_VALUES
_TOKENS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},]', re.DOTALL)


class InvalidJson(ValueError):
    """The body is not valid or not unambiguous JSON; the message does not quote it."""


def parse_strict_json(raw: bytes) -> Any:
    """Parse a JSON body.

    Raises
    ------
    InvalidJson
        Invalid JSON, NaN or Infinity, nesting deeper than `MAX_DEPTH`, more than `MAX_VALUES`
        entries and fields in all, or a duplicate name, which parsers resolve differently.
    """
    try:
        value = orjson.loads(raw)  # noqa: TID251 - strict on purpose
    except orjson.JSONDecodeError as error:
        raise InvalidJson(f"not valid JSON: {error.msg}") from None
    # After the parser: on invalid JSON the search for strings could take quadratic time.
    _check_shape(raw)
    json.loads(  # noqa: TID251 - strict on purpose
        raw, object_pairs_hook=_check_names, parse_int=_skip_number, parse_float=_skip_number
    )
    return value


def _skip_number(_digits: str) -> int:
    """Replace a number, because Python parses very long ones slowly."""
    return 0


def _check_shape(raw: bytes) -> None:
    """Limit the nesting and the number of values."""
    depth = values = 0
    for token in _TOKENS.finditer(raw):
        mark = token[0]
        if mark in b"[{,":
            values += 1
            if values > MAX_VALUES:
                raise InvalidJson(f"more than {MAX_VALUES} list entries and fields in all")
        if mark == b",":
            continue
        if mark in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise InvalidJson(f"nested deeper than {MAX_DEPTH} levels")
        elif mark in b"]}":
            depth -= 1


def _check_names(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise InvalidJson("an object has the same name twice")
