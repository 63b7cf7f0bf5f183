"""Converts the forms of `extract` to the request of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, Final

import orjson
from pydantic import BaseModel, PydanticUserError, TypeAdapter

from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import did_you_mean, format_value

_WORDS: Final = frozenset({"prompt", "provider", "model"})
_ENTRIES: Final = _WORDS | {"schema"}
# What other languages and schemas call types, and other values of them.
_TYPE_NAMES: Final = {
    "str": "str string text char varchar",
    "int": "int integer long bigint",
    "float": "float number double decimal numeric real",
    "bool": "bool boolean flag",
    "datetime.date": "date day",
    "datetime.datetime": "datetime timestamp time",
    "list[str]": "list array list[str] list[string] string[] str[] [str]",
}
# Similarity of a word that was meant to be another one.
_SPELLING: Final = 0.8
_FORMS: Final = "must be a pydantic class, a JSON Schema or a dict of names and types"
_FIELD_KEYWORDS: Final = frozenset({"type", "anyOf", "oneOf", "allOf", "enum", "const", "$ref"})


def extract_request(value: Any) -> Any:
    """Return the `extract` of a request; the contract's model checks it.

    Raises
    ------
    InvalidArgument
        A type has no JSON Schema.

    Examples
    --------
    >>> extract_request({"name": str, "tags": [str]})["schema"]["properties"]["tags"]
    {'type': 'array', 'items': {'type': 'string'}}
    """
    if not isinstance(value, Mapping | type | None):
        raise InvalidArgument(f"extract {_FORMS}; it is {_described(value)}")
    if isinstance(value, Mapping) and _is_request(value):
        _refuse_fields(value)
        schema = value.get("schema")
        # Services may take other shapes than JSON Schema, so JSON is sent as it is.
        return value if _is_json(schema) else {**value, "schema": _json_schema(schema)}
    return value if value is None else {"schema": _json_schema(value)}


def _refuse_fields(request: Mapping[str, Any]) -> None:
    """Refuse the names of fields among the entries of a request."""
    for name, value in request.items():
        if name not in _ENTRIES and _type_called(value) is not None:
            example = f"{{{name!r}: {_type_called(value)}}}"
            raise InvalidArgument(
                f"extract has the entries prompt, schema, provider and model, and {name!r} is none "
                f"of them: put fields into schema, such as {example}"
            )


def _described(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else format_value(value)


def _is_request(value: Mapping[str, Any]) -> bool:
    """Return whether a mapping has the entries of a request, and not fields or a schema."""
    if all(isinstance(each, str | None) for each in value.values()):
        return not _is_schema(value) and not (value and _has_fields(value))
    has_words = any(isinstance(value.get(name), str) for name in _WORDS)
    others = [each for name, each in value.items() if name != "schema"]
    return has_words or ("schema" in value and all(each is None for each in others))


def _has_fields(value: Mapping[str, Any]) -> bool:
    """Return whether texts are meant as the types of fields, which is refused for each of them."""
    return not any(get_close_matches(str(name), _ENTRIES, cutoff=_SPELLING) for name in value)


def _is_json(value: Any) -> bool:
    with suppress(TypeError):
        return bool(orjson.dumps(value))
    return False


def _is_schema(value: Mapping[str, Any]) -> bool:
    has_keyword = any(str(name).startswith("$") for name in value)
    return has_keyword or value.get("type") == "object" or _is_plain(value.get("properties"))


def _is_plain(properties: Any) -> bool:
    return isinstance(properties, Mapping) and all(
        isinstance(each, Mapping) for each in properties.values()
    )


def _json_schema(value: Any) -> Any:
    """Return a class, a dict of names and types or a JSON Schema as a JSON Schema."""
    if isinstance(value, type):
        return _class_schema(value)
    if not isinstance(value, Mapping) or _is_schema(value):
        return value
    try:
        return _fields_schema(value)
    except RecursionError:
        raise InvalidArgument(
            "extract cannot be written as JSON: a dict or list holds itself"
        ) from None


def _class_schema(model: type[Any]) -> dict[str, Any]:
    if not issubclass(model, BaseModel):
        raise InvalidArgument(f"extract {_FORMS}; it is {_described(model)}")
    return model.model_json_schema()


def _fields_schema(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with these fields; none of them is required."""
    definitions: dict[str, Any] = {}
    schema = _object_schema("extract", fields, definitions)
    return {**schema, "$defs": definitions} if definitions else schema


def _object_schema(
    path: str, fields: Mapping[str, Any], definitions: dict[str, Any]
) -> dict[str, Any]:
    properties = {
        str(name): _field_schema(f"{path}[{str(name)!r}]", value, definitions)
        for name, value in fields.items()
    }
    return {"type": "object", "properties": properties}


def _field_schema(path: str, value: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one field, and add the classes that it refers to."""
    if isinstance(value, Mapping):
        return dict(value) if _is_field_schema(value) else _object_schema(path, value, definitions)
    if isinstance(value, list):
        return _list_schema(path, value, definitions)
    schema = _type_schema(path, value)
    for name, definition in schema.pop("$defs", {}).items():
        if definitions.setdefault(name, definition) != definition:
            raise InvalidArgument(f"{path}: two classes have the name {name}")
    return schema


def _is_field_schema(value: Mapping[str, Any]) -> bool:
    """Return whether a mapping is the JSON Schema of a field, such as `{"type": "number"}`."""
    keywords = _FIELD_KEYWORDS & value.keys()
    return any(isinstance(value[name], str | list) for name in keywords)


def _list_schema(path: str, value: list[Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if len(value) != 1:
        raise InvalidArgument(f"{path} must be a list of one type, such as [str]")
    return {"type": "array", "items": _field_schema(path, value[0], definitions)}


def _type_schema(path: str, value: Any) -> dict[str, Any]:
    # pydantic would evaluate a string as the name of a type.
    if not isinstance(value, str | None):
        with suppress(PydanticUserError, TypeError, NameError):
            return dict(TypeAdapter(value).json_schema())
    raise InvalidArgument(
        f"{path} must be a type such as str, int, float, bool, datetime.date, list[str] or a "
        f"pydantic class; it is {_described(value)}{did_you_mean(_type_called(value))}"
    )


def _type_called(value: object) -> str | None:
    """Return the type that a text names, without the quotes that it should not have."""
    if not isinstance(value, str):
        return None
    words = value.strip().lower()
    return next((name for name, words_of in _TYPE_NAMES.items() if words in words_of.split()), None)
