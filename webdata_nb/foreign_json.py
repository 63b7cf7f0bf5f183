"""Parses JSON that somebody else wrote: providers, models, sites, archives, other services. Pure.

Such JSON is legal or nearly so, and still no parser's default takes it: half of an emoji that was
cut in two, a byte order mark, NaN, a number beyond a double, nesting that exhausts the stack.
Nobody parses it in another way: the linter refuses other parsers.
"""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from typing import Any, Final

import msgspec
import orjson

MAX_DEPTH: Final = 250
"""Levels of objects and lists; more could not be written as JSON again."""

# The escapes of a string one after another, so that an escaped backslash hides what follows it.
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}"
    r"|(?P<lone>u[dD][89a-fA-F][\da-fA-F]{2})|.)",
    re.DOTALL,
)
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_EXACT_PARSER: Final = msgspec.json.Decoder()


class MalformedJson(ValueError):
    """A text that is no JSON, or JSON that nests too deep."""


def decode_json(
    data: bytes | str,
    *,
    content_type: str | None = None,
    max_depth: int = MAX_DEPTH,
    any_integers: bool = False,
) -> Any:
    r"""Parse JSON from outside; every string of the result can be encoded.

    Unpaired surrogates and invalid bytes become U+FFFD. NaN, infinities and numbers that a double
    cannot hold become None, and integers of more than 64 bits a float. Byte order marks, UTF-16 and
    UTF-32, control characters within strings are accepted.

    Parameters
    ----------
    data
        The text, or its bytes.
    content_type
        The header that came with the bytes; its charset counts where they are in no Unicode one.

    max_depth
        Levels that the caller takes; the parser takes 1000 at most.
    any_integers
        Whether integers of more than 64 bits may stay integers. The parser that keeps them takes
        half the time for long texts.

    Raises
    ------
    MalformedJson
        The data is no JSON, or nests too deep.

    Examples
    --------
    >>> decode_json(rb'{"name": "Lamp \ud83d", "price": NaN}')
    {'name': 'Lamp \ufffd', 'price': None}
    """
    if any_integers:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _check_depth(_EXACT_PARSER.decode(data), max_depth)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = _parse_tolerantly(well_formed(_decode(data, content_type or "")))
    return _check_depth(value, max_depth)


def _check_depth(value: Any, max_depth: int) -> Any:
    """Return a value of JSON; raises `MalformedJson` if it nests too deep."""
    if not isinstance(value, dict | list):
        return value
    level = [value]  # level by level: recursion could fail
    for _ in range(max_depth):
        level = [
            item
            for container in level
            for item in (container.values() if container.__class__ is dict else container)
            if item.__class__ is dict or item.__class__ is list
        ]
        if not level:
            return value
    raise MalformedJson(f"nests more than {max_depth} levels deep")


def well_formed(text: str) -> str:
    """Return a text whose unpaired surrogates are U+FFFD, so that it can be encoded."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _parse_tolerantly(text: str) -> Any:
    text = _ESCAPE.sub(lambda escape: r"\ufffd" if escape["lone"] else escape[0], text)
    text = text.removeprefix("\ufeff")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        problem = error.msg
    try:
        return json.loads(
            text,
            strict=False,
            parse_constant=lambda _: None,
            parse_float=_finite,
            parse_int=_integer,
        )
    except RecursionError:
        raise MalformedJson("nests too deep") from None
    except ValueError:
        raise MalformedJson(problem) from None


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _integer(digits: str) -> float | None:
    """Return an integer as the fast parser does."""
    number = _finite(digits)
    if number is None or not -(2**63) <= number < 2**64:
        return number
    exact = int(digits)
    return exact if -(2**63) <= exact < 2**64 else number


def _decode(data: bytes | str, content_type: str) -> str:
    if isinstance(data, str):
        return data
    encoding = json.detect_encoding(data)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        declared = _CHARSET.search(content_type)
    try:
        return data.decode(declared[1] if declared else encoding, "replace")
    except (LookupError, UnicodeError):
        return data.decode(encoding, "replace")


def member(value: Any, *names: str) -> Any:
    """Return a nested member of a JSON object, None where a level is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
