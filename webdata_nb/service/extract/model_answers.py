"""Parses a model's answer as JSON, and checks it against the schema of the request. Pure.

An answer is as untrusted as the page: only fields of the schema and valid values are kept, and
depth and size are bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import orjson

from webdata_nb.service.extract.schema import MAX_NAME_LENGTH, FieldSchema
from webdata_nb.service.extract.validation import find_violations, pointer_step

MAX_DEPTH: Final = 32
MAX_VALUES: Final = 20_000
MAX_TEXT_LENGTH: Final = 100_000
_REASONING_END: Final = "</think>"
_CODE_FENCE: Final = re.compile(r"```[A-Za-z]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_MAX_PARSE_ATTEMPTS: Final = 20
_MAX_REFUSAL_LENGTH: Final = 2000
_REFUSAL_START: Final = 200
"""The characters at the start of an answer in which a refusal stands."""
# fmt: off
_REFUSALS: Final = (
    "i'm sorry", "i am sorry", "sorry, ", "i can't", "i cannot", "i can not", "i won't",
    "i will not", "i must decline", "i'm unable", "i am unable", "i'm not able", "i am not able",
    "i'm not comfortable", "as an ai", "unable to assist", "unable to help", "can't assist",
    "cannot assist", "can't help", "cannot help", "cannot comply", "can't comply",
    "against my guidelines", "tut mir leid", "ich kann ihnen", "ich kann dir",
    "ich kann das nicht", "ich kann dabei nicht", "ich kann diese", "je suis désolé",
    "je ne peux pas", "désolé", "lo siento", "no puedo", "desculpe", "não posso", "mi dispiace",
    "non posso", "het spijt me", "ik kan niet", "ik kan je", "przepraszam", "nie mogę",
    "к сожалению", "я не могу", "извините", "抱歉", "我无法", "我無法", "申し訳", "できません",
    "죄송", "할 수 없",
)
# fmt: on


def parse_answer(
    text: str, schema: FieldSchema | None
) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return the values of an answer, or its violations.

    Parameters
    ----------
    text
        The model's answer.
    schema
        The requested fields; None accepts any object.
    """
    try:
        value = _sanitize(_parse_json(text), 0, iter(range(MAX_VALUES)))
    except _InvalidModelAnswer as error:
        return None, (str(error),)
    if not isinstance(value, dict):
        return None, ("/: must be one JSON object",)
    if schema is None:
        return value, ()
    violations = find_violations(_without_nulls(value), _lenient(schema, check_counts=False))
    return (None, violations) if violations else (_fit(value, schema), ())


def is_refusal(text: str) -> bool:
    """Return whether an answer without JSON declines in words, as models do in any language."""
    answer = text.rpartition(_REASONING_END)[2].strip()
    if "{" in answer or not 0 < len(answer) <= _MAX_REFUSAL_LENGTH:
        return False
    start = " ".join(answer[:_REFUSAL_START].casefold().replace("\u2019", "'").split())
    return any(phrase in start for phrase in _REFUSALS)


def schema_violations(value: dict[str, Any], schema: FieldSchema) -> tuple[str, ...]:
    """Return the violations of a page's merged values; every field may be null."""
    return find_violations(_without_nulls(value), _lenient(schema, check_counts=True))


def missing_pointers(value: Any, schema: FieldSchema, pointer: str = "") -> Iterator[str]:
    """Yield the JSON pointers of the fields without a value."""
    for name, inner_schema in schema.properties.items():
        inner_pointer, inner_value = f"{pointer}/{pointer_step(name)}", (value or {}).get(name)
        if inner_schema.kind == "object" and inner_schema.values is None:
            yield from missing_pointers(inner_value, inner_schema, inner_pointer)
        elif inner_value is None:
            yield inner_pointer


def value_pointers(value: Any, pointer: str = "") -> Iterator[str]:
    """Yield the JSON pointers of the fields with a value; a list counts as one field."""
    for name, inner_value in value.items():
        inner_pointer = f"{pointer}/{pointer_step(name)}"
        if isinstance(inner_value, dict):
            yield from value_pointers(inner_value, inner_pointer)
        elif inner_value is not None:
            yield inner_pointer


class _InvalidModelAnswer(ValueError):
    """An answer without usable JSON; the correction prompt quotes the message."""


def _parse_json(text: str) -> Any:
    """Return the JSON of an answer, which may be in a code fence or within prose."""
    answer = text.rpartition(_REASONING_END)[2].strip()
    for candidate in (answer, *reversed(_CODE_FENCE.findall(answer))):
        try:
            return orjson.loads(candidate)
        except orjson.JSONDecodeError:
            continue
    return _parse_first_object(answer)


def _parse_first_object(text: str) -> Any:
    decoder, start = json.JSONDecoder(), -1
    for _ in range(_MAX_PARSE_ATTEMPTS):
        start = text.find("{", start + 1)
        if start < 0:
            break
        try:
            _, end = decoder.raw_decode(text, start)
            return orjson.loads(text[start:end])
        except (ValueError, RecursionError):
            continue
    raise _InvalidModelAnswer("/: must be valid JSON")


def _sanitize(value: Any, depth: int, remaining: Iterator[int]) -> Any:
    """Remove NUL characters, which cannot be stored, and enforce the bounds."""
    if depth > MAX_DEPTH:
        raise _InvalidModelAnswer(f"/: must nest at most {MAX_DEPTH} deep")
    if next(remaining, None) is None:
        raise _InvalidModelAnswer(f"/: must hold at most {MAX_VALUES} values")
    if isinstance(value, str):
        if len(value) > MAX_TEXT_LENGTH:
            raise _InvalidModelAnswer(f"/: a text must have at most {MAX_TEXT_LENGTH} characters")
        return value.replace("\0", "")
    if isinstance(value, dict):
        return {
            _sanitize_name(name): _sanitize(inner, depth + 1, remaining)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_sanitize(item, depth + 1, remaining) for item in value]
    return value


def _sanitize_name(name: str) -> str:
    if len(name) > MAX_NAME_LENGTH:
        raise _InvalidModelAnswer(f"/: a name must have at most {MAX_NAME_LENGTH} characters")
    return name.replace("\0", "")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value


def _lenient(schema: FieldSchema, *, check_counts: bool) -> FieldSchema:
    """Return the schema without required fields, since null is right where a page is silent.

    `check_counts` keeps the limits on the number of items, which apply to a page but not to each
    of its chunks.
    """
    omitted = () if check_counts else ("minItems", "maxItems")
    properties = {
        name: _lenient(inner, check_counts=check_counts)
        for name, inner in schema.properties.items()
    }
    return replace(
        schema,
        required=frozenset(),
        limits={name: bound for name, bound in schema.limits.items() if name not in omitted},
        unique=schema.unique and check_counts,
        properties=properties,
        items=None if schema.items is None else _lenient(schema.items, check_counts=check_counts),
        values=None
        if schema.values is None
        else _lenient(schema.values, check_counts=check_counts),
    )


def _fit(value: Any, schema: FieldSchema) -> Any:
    """Return a valid value with exactly the fields of the schema, null if absent."""
    if schema.values is not None and isinstance(value, dict):
        pairs = {name: _fit_or_null(item, schema.values) for name, item in value.items()}
        return {name: item for name, item in pairs.items() if item is not None} or None
    if schema.kind == "object" and isinstance(value, dict):
        return {
            name: _fit_or_null(value.get(name), inner) for name, inner in schema.properties.items()
        }
    if schema.kind == "array" and isinstance(value, list):
        item_schema = schema.items or FieldSchema("any")
        items = (_fit_or_null(item, item_schema) for item in value)
        return [item for item in items if item is not None]
    if schema.kind == "integer" and isinstance(value, float):
        return int(value)
    return value


def _fit_or_null(value: Any, schema: FieldSchema) -> Any:
    fitted = _fit(value, schema)
    if isinstance(fitted, dict) and schema.properties:
        return fitted if any(inner is not None for inner in fitted.values()) else None
    # Models return an empty list for "nothing", even if the schema requires items.
    return None if fitted == [] and schema.limits.get("minItems", 0) > 0 else fitted
