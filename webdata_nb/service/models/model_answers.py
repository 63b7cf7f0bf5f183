"""Parses a model's answer as JSON, and fits it to the schema of the request. Pure.

Models write an object into a list or under a name of their own, a number with its currency, a list
of one item as the item. So an answer is unwrapped, then its values are converted as those that a
page declares, and then it is checked. Nothing is guessed: what is not clearly one value of its
type stays as it is and is a violation, for which the model is asked again.

An answer is as untrusted as the page: only fields of the schema and valid values are kept, and
depth and size are bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.extract.coerce import ValueCoercion
from webdata_nb.page.extract.field_names import normalize_short_name
from webdata_nb.page.extract.node_graph import DataNode
from webdata_nb.page.extract.schema import (
    MAX_NAME_LENGTH,
    FieldSchema,
    find_violations,
    pointer_step,
)

MAX_DEPTH: Final = 32
MAX_VALUES: Final = 20_000
MAX_TEXT_LENGTH: Final = 100_000
_REASONING_END: Final = "</think>"
_CODE_FENCE: Final = re.compile(r"```[A-Za-z]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_MAX_PARSE_ATTEMPTS: Final = 20
_OPENING: Final = re.compile(r"[{\[]")
# Words for "no value"; a text may have the longer ones as its value.
_NO_TEXT: Final = frozenset({"", "null", "n/a"})
# fmt: off
_NO_VALUE: Final = _NO_TEXT | {
    "-", "\u2013", "\u2014", "?", "none", "nil", "na", "nan", "undefined", "unknown",
    "not available", "not specified", "not stated", "not given", "not found", "not applicable",
}
# fmt: on
# Names under which an answer has no data, whatever stands there.
_NO_WRAPPERS: Final = frozenset({"error", "errors"})
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
    text: str,
    schema: FieldSchema | None,
    *,
    base_url: str | None = None,
    language: str | None = None,
) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return the values of an answer, or its violations.

    Parameters
    ----------
    text
        The model's answer.
    schema
        The requested fields; None accepts any object.
    base_url, language
        The URL of the page and its language, a BCP 47 tag, as for the values that it declares.

    Examples
    --------
    >>> price = FieldSchema("object", properties={"price": FieldSchema("number")})
    >>> parse_answer('[{"price": "$1,299.00"}]', price)
    ({'price': 1299.0}, ())
    >>> parse_answer('{"price": "on request"}', price)
    (None, ('/price: must be of type number',))
    """
    try:
        value = _unwrap(_sanitize(_parse_json(text), 0, iter(range(MAX_VALUES))), schema)
        if not isinstance(value, dict):
            return None, ("/: must be one JSON object",)
        if schema is None:
            return value, ()
        lenient = _lenient(schema, check_counts=False)
        coercion = ValueCoercion(base_url=base_url, language=language)
        value = _Converter(coercion).fit(value, lenient)
    except _InvalidModelAnswer as error:
        return None, (str(error),)
    violations = find_violations(_without_nulls(value), lenient)
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
    if not answer:
        raise _InvalidModelAnswer("/: must be one JSON object, and the answer is empty")
    for candidate in (answer, *reversed(_CODE_FENCE.findall(answer))):
        try:
            return decode_json(candidate)
        except MalformedJson:
            continue
    return _parse_within_prose(answer)


def _parse_within_prose(text: str) -> Any:
    """Return the first object in a text, or the first list of objects."""
    decoder, start = json.JSONDecoder(strict=False), -1  # noqa: TID251 - finds the end of a value
    for _ in range(_MAX_PARSE_ATTEMPTS):
        opening = _OPENING.search(text, start + 1)
        if opening is None:
            break
        start = opening.start()
        try:
            _, end = decoder.raw_decode(text, start)
            value = decode_json(text[start:end])
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) or (value and isinstance(value[0], dict)):
            return value
    raise _InvalidModelAnswer("/: must be valid JSON")


def _unwrap(value: Any, schema: FieldSchema | None) -> Any:
    """Return the object of an answer that has it in a list, in a text or under another name."""
    if isinstance(value, str):
        value = _decoded(value)
    if isinstance(value, list):
        return _unwrap_list(value, schema, named=False)
    return value if schema is None else _unwrap_object(value, schema)


def _unwrap_list(value: list[Any], schema: FieldSchema | None, *, named: bool) -> Any:
    """Return the only object of a list, or the object with the list as its only field.

    A list under another name, `named`, is taken for the field only if it holds such objects.
    """
    only = value[0] if len(value) == 1 and isinstance(value[0], dict) else None
    if schema is None:
        return value if only is None else only
    if only is not None and _has_fields(only, schema):
        return only
    if len(schema.properties) == 1:
        ((name, inner),) = schema.properties.items()
        if inner.kind == "array" and (not named or _holds_objects(value, inner.items)):
            return {name: value}
    return value if only is None else _unwrap_object(only, schema)


def _unwrap_object(value: Any, schema: FieldSchema) -> Any:
    """Return the object within one without any field of the schema; else the value itself.

    The item of an object whose only field is a list of such items becomes that list.
    """
    if not isinstance(value, dict) or _has_fields(value, schema):
        return value
    if len(schema.properties) == 1:
        ((name, list_schema),) = schema.properties.items()
        if list_schema.kind == "array" and _holds_objects([value], list_schema.items):
            return {name: [value]}
    inner = [(name, item) for name, item in value.items() if isinstance(item, dict | list)]
    if len(inner) != 1 or inner[0][0].casefold() in _NO_WRAPPERS:
        return value
    wrapped = inner[0][1]
    if isinstance(wrapped, list):
        found = _unwrap_list(wrapped, schema, named=True)
    else:
        found = _unwrap_object(wrapped, schema)
    return found if isinstance(found, dict) and _has_fields(found, schema) else value


def _has_fields(value: dict[str, Any], schema: FieldSchema) -> bool:
    names = {normalize_short_name(name) for name in value} - {""}
    return any(name in value or normalize_short_name(name) in names for name in schema.properties)


def _holds_objects(items: list[Any], schema: FieldSchema | None) -> bool:
    return schema is not None and all(
        isinstance(item, dict) and _has_fields(item, schema) for item in items
    )


def _decoded(text: str) -> Any:
    """Return the object or the list that a text is; the text itself if it is none."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return _sanitize(decode_json(text), 0, iter(range(MAX_VALUES)))
    except MalformedJson:
        return text


class _Converter:
    """Converts the values of an answer to the types of a schema; keeps those that do not fit."""

    def __init__(self, coercion: ValueCoercion) -> None:
        self._coercion = coercion

    def fit(self, value: Any, schema: FieldSchema, name: str = "") -> Any:
        """Return a value of the schema's type, None for words that say that there is none."""
        if value is None or (schema.kind == "any" and schema.choices is None):
            return value
        if schema.kind in {"object", "array"}:
            if isinstance(value, str):
                value = None if _is_nothing(value, schema) else _decoded(value)
            return (
                self._object(value, schema)
                if schema.kind == "object"
                else self._array(value, schema, name)
            )
        if isinstance(value, list) and len(value) < 2:  # noqa: PLR2004 - nothing, or one value
            value = value[0] if value else None
        if value is None or isinstance(value, list):
            return value
        return self._scalar(value, schema, name)

    def _object(self, value: Any, schema: FieldSchema) -> Any:
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if not isinstance(value, dict):
            return value
        if schema.values is not None:
            return {name: self.fit(item, schema.values, name) for name, item in value.items()}
        # A field without a value takes it from another spelling of its name, if only it has it.
        others = [name for name in value if name not in schema.properties]
        by_name = {normalize_short_name(name): value[name] for name in reversed(others)}
        by_name.pop("", None)
        return {
            name: self.fit(
                value[name] if name in value else by_name.get(normalize_short_name(name)),
                inner,
                name,
            )
            for name, inner in schema.properties.items()
        }

    def _array(self, value: Any, schema: FieldSchema, name: str) -> Any:
        if value is None or schema.items is None:
            return value
        items = value if isinstance(value, list) else [value]
        return [self.fit(item, schema.items, name) for item in items]

    def _scalar(self, value: Any, schema: FieldSchema, name: str) -> Any:
        if isinstance(value, str) and _is_nothing(value, schema):
            return None
        if schema.format is None and not find_violations(value, schema):
            return value
        source = value
        if isinstance(value, dict):
            scalars = {n: item for n, item in value.items() if not isinstance(item, dict | list)}
            properties = {normalize_short_name(n): (n, [item]) for n, item in scalars.items()}
            source = DataNode("", properties=properties)
        # Limits are left to the check, which says which of them a value breaks.
        wanted = replace(schema, limits={})
        converted = self._coercion.scalar(
            source, wanted, name=normalize_short_name(name), prose=True
        )
        return value if converted is None else converted


def _is_nothing(text: str, schema: FieldSchema) -> bool:
    if schema.choices is not None and text in schema.choices:
        return False
    return text.strip().casefold() in (_NO_TEXT if schema.kind == "string" else _NO_VALUE)


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
