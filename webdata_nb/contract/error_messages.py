"""Rewrites pydantic's validation errors as messages for API clients, without the values.

pydantic's messages name Python types ("valid tuple"). Messages of our own `ValueError`s are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

# Names what clients act on: types of invalid fields in a 422, and the codes of a 403 and a 502.


# Of `since`: its crawl is deleted, or was made differently. The same request without it is allowed.
EARLIER_CRAWL_UNUSABLE: Final = "earlier_crawl_unusable"
# Of a 502: the source of ads refuses the key or the request, and would refuse it again.
REFUSED: Final = "refused"
# Of a 403: the key lacks the scope of the operation.
SCOPE: Final = "scope"


_TYPE_MESSAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "string": "must be text",
        "bytes": "must be text",
        "bool": "must be true or false",
        "int": "must be a whole number",
        "float": "must be a number",
        "decimal": "must be a number",
        "fraction": "must be a number",
        "complex": "must be a number",
        "finite": "must be a finite number",
        "list": "must be a list",
        "tuple": "must be a list",
        "set": "must be a list",
        "frozen_set": "must be a list",
        "deque": "must be a list",
        "iterable": "must be a list",
        "dict": "must be an object",
        "mapping": "must be an object",
        "model": "must be an object",
        "dataclass": "must be an object",
        "date": "must be a date such as 2026-01-31",
        "datetime": "must be a date with a time such as 2026-01-31T12:00:00Z",
        "time": "must be a time of day such as 12:00:00",
        "url": "must be a URL",
        "uuid": "must be an id such as 123e4567-e89b-12d3-a456-426614174000",
    }
)
# `{...}` is filled from the error's `ctx`.
_MESSAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "missing": "is required",
        "conflict": "{reason}",
        "extra_forbidden": "is not a known field",
        "json_invalid": "must be valid JSON",
        "none_required": "must be null",
        "literal_error": "must be {expected}",
        "enum": "must be {expected}",
        "greater_than": "must be more than {gt}",
        "greater_than_equal": "must be at least {ge}",
        "less_than": "must be less than {lt}",
        "less_than_equal": "must be at most {le}",
        "multiple_of": "must be a multiple of {multiple_of}",
        "too_short": "must have at least {min_length} entries",
        "too_long": "must have at most {max_length} entries",
        "string_too_short": "must have at least {min_length} characters",
        "string_too_long": "must have at most {max_length} characters",
        "bytes_too_short": "must have at least {min_length} bytes",
        "bytes_too_long": "must have at most {max_length} bytes",
        "string_unicode": "must be text in Unicode, without lone surrogates",
        "string_pattern_mismatch": "must match {pattern}",
        "finite_number": "must be a finite number",
        "invalid_key": "must have text for each name",
        "int_from_float": "must be a whole number",
        "timezone_naive": "must have no time zone",
        "timezone_aware": "must have a time zone",
    }
)
_ONE_PLURAL: Final = re.compile(r"\b(at (?:least|most) 1) (entrie|character|byte)s\b")


def plain_message(error: Mapping[str, Any]) -> str:
    """Return the message of one pydantic error.

    Parameters
    ----------
    error
        An entry of `ValidationError.errors()`; its ``ctx`` contains limits.

    Examples
    --------
    >>> plain_message({"type": "tuple_type", "msg": "Input should be a valid tuple"})
    'must be a list'
    >>> plain_message({"type": "too_short", "msg": "", "ctx": {"min_length": 1}})
    'must have at least 1 entry'
    """
    kind, message = str(error["type"]), str(error["msg"])
    if kind in {"value_error", "assertion_error"}:
        return message.partition(", ")[2] if message.startswith(("Value", "Assertion")) else message
    context = error.get("ctx") or {}
    if (template := _MESSAGES.get(kind)) is not None:
        try:
            return _ONE_PLURAL.sub(
                lambda plural: f"{plural[1]} {'entry' if plural[2] == 'entrie' else plural[2]}",
                template.format_map(context),
            )
        except KeyError:
            return _without_python_types(message)
    stem = re.split(r"_(?:type|parsing|from|object|exact|str|past|future|syntax|scheme)", kind)[0]
    return _TYPE_MESSAGES.get(stem) or _without_python_types(message)


def _without_python_types(message: str) -> str:
    """Remove the subject and the names of Python types from pydantic's message."""
    words = re.sub(r"^(Input|Value|String|Tuple|List|Dictionary|Data) should", "must", message)
    for pydantic_word, word in (("dictionary", "object"), ("tuple", "list"), ("string", "text")):
        words = re.sub(rf"\b(valid )?{pydantic_word}\b", word, words, flags=re.IGNORECASE)
    return words[:1].lower() + words[1:] if words else "is not allowed"
