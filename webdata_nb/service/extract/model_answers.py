"""A model's answer made into the values that were asked for, or a list of what is wrong. Pure.

What a model says is as little trusted as the page: only the fields of the schema are taken, only
values that it allows, and no more of them than a page can have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import orjson

from webdata_nb.service.extract.schema import MAX_NAME_LENGTH, FieldSchema
from webdata_nb.service.extract.validation import escaped, problems

MAX_DEPTH: Final = 32
MAX_VALUES: Final = 20_000
MAX_TEXT_LENGTH: Final = 100_000
_THOUGHT: Final = "</think>"
_FENCED: Final = re.compile(r"```[A-Za-z]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_MOST_TRIES: Final = 20


def parse_answer(
    text: str, schema: FieldSchema | None
) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return the values of an answer, or what is wrong with it.

    Parameters
    ----------
    text
        What the model said.
    schema
        What was asked for; None takes any object.
    """
    try:
        value = _clean(_document(text), 0, iter(range(MAX_VALUES)))
    except _UnusableModel as reason:
        return None, (str(reason),)
    if not isinstance(value, dict):
        return None, ("/: must be one JSON object",)
    if schema is None:
        return value, ()
    wrong = problems(_without_nulls(value), _lenient(schema, counted=False))
    return (None, wrong) if wrong else (shaped(value, schema), ())


def schema_violations(value: dict[str, Any], schema: FieldSchema) -> tuple[str, ...]:
    """Return what is wrong with the values of a whole page; a field may be null."""
    return problems(_without_nulls(value), _lenient(schema, counted=True))


def shaped(value: Any, schema: FieldSchema) -> Any:
    """Return a value with exactly the fields of the schema; null for what is not there."""
    if schema.kind == "object" and isinstance(value, dict):
        return {name: _inner(value.get(name), each) for name, each in schema.properties.items()}
    if schema.kind == "array" and isinstance(value, list):
        inner = schema.items or FieldSchema("any")
        return [made for each in value if (made := _inner(each, inner)) is not None]
    if schema.kind == "integer" and isinstance(value, float):
        return int(value)
    return value


def _inner(value: Any, schema: FieldSchema) -> Any:
    made = shaped(value, schema)
    if isinstance(made, dict) and schema.properties and all(v is None for v in made.values()):
        return None
    # A list that must have items and has none is a model's way to say that there is nothing.
    return None if made == [] and schema.limits.get("minItems", 0) > 0 else made


def missing_pointers(value: Any, schema: FieldSchema, at: str = "") -> Iterator[str]:
    """Yield JSON pointers of the fields that have no value."""
    for name, inner in schema.properties.items():
        pointer, each = f"{at}/{escaped(name)}", (value or {}).get(name)
        if inner.kind == "object":
            yield from missing_pointers(each, inner, pointer)
        elif each is None:
            yield pointer


def value_pointers(value: Any, at: str = "") -> Iterator[str]:
    """Yield JSON pointers of the fields that have one; a list counts as one field."""
    for name, each in value.items():
        pointer = f"{at}/{escaped(name)}"
        if isinstance(each, dict):
            yield from value_pointers(each, pointer)
        elif each is not None:
            yield pointer


class _UnusableModel(ValueError):
    """An answer that nothing can be taken from; the text tells the model why."""


def _document(text: str) -> Any:
    """Return the JSON of an answer, also out of a fence or of prose."""
    said = text.rpartition(_THOUGHT)[2].strip()
    for each in (said, *reversed(_FENCED.findall(said))):
        try:
            return orjson.loads(each)
        except orjson.JSONDecodeError:
            continue
    return _in_prose(said)


def _in_prose(text: str) -> Any:
    decoder, at = json.JSONDecoder(), -1
    for _ in range(_MOST_TRIES):
        at = text.find("{", at + 1)
        if at < 0:
            break
        try:
            _, end = decoder.raw_decode(text, at)
            return orjson.loads(text[at:end])
        except (ValueError, RecursionError):
            continue
    raise _UnusableModel("/: must be valid JSON")


def _clean(value: Any, depth: int, left: Iterator[int]) -> Any:
    """Return a value that can be stored, of a size that a page can have."""
    if depth > MAX_DEPTH:
        raise _UnusableModel(f"/: must nest at most {MAX_DEPTH} deep")
    if next(left, None) is None:
        raise _UnusableModel(f"/: must hold at most {MAX_VALUES} values")
    if isinstance(value, str):
        if len(value) > MAX_TEXT_LENGTH:
            raise _UnusableModel(f"/: a text must have at most {MAX_TEXT_LENGTH} characters")
        return value.replace("\0", "")
    if isinstance(value, dict):
        return {_name(key): _clean(each, depth + 1, left) for key, each in value.items()}
    if isinstance(value, list):
        return [_clean(each, depth + 1, left) for each in value]
    return value


def _name(given: str) -> str:
    if len(given) > MAX_NAME_LENGTH:
        raise _UnusableModel(f"/: a name must have at most {MAX_NAME_LENGTH} characters")
    return given.replace("\0", "")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value if each is not None]
    return value


def _lenient(schema: FieldSchema, *, counted: bool) -> FieldSchema:
    """Return the schema with nothing required: null is the honest answer where a page is silent.

    `counted` keeps what it says of the number of items, which holds for a page but not for each
    of its pieces.
    """
    counts = () if counted else ("minItems", "maxItems")
    inner = {name: _lenient(each, counted=counted) for name, each in schema.properties.items()}
    return replace(
        schema,
        required=frozenset(),
        limits={name: bound for name, bound in schema.limits.items() if name not in counts},
        unique=schema.unique and counted,
        properties=inner,
        items=None if schema.items is None else _lenient(schema.items, counted=counted),
    )
