"""Whether a value is what a schema asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.service.extract.schema import FieldSchema

MAX_PROBLEMS: Final = 20

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def problems(value: Any, schema: FieldSchema) -> tuple[str, ...]:
    """Return what is wrong with `value`, each with a JSON pointer to it; at most 20.

    A property that the schema does not name is not looked at.
    """
    found = _problems(value, schema, "")
    return tuple(each for _, each in zip(range(MAX_PROBLEMS), found, strict=False))


def allowed(value: Any, schema: FieldSchema) -> bool:
    """Tell whether a value that has the right type keeps to the choices and limits."""
    return next(_within(value, schema), None) is None


def _problems(value: Any, schema: FieldSchema, at: str) -> Iterator[str]:
    if value is None and schema.nullable:
        return
    if not _has_type(value, schema):
        yield f"{at or '/'}: must be of type {schema.kind}"
        return
    yield from (f"{at or '/'}: {each}" for each in _within(value, schema))
    if isinstance(value, dict):
        for name, field in schema.properties.items():
            pointer = f"{at}/{escaped(name)}"
            if name in value:
                yield from _problems(value[name], field, pointer)
            elif name in schema.required:
                yield f"{pointer}: is required"
    elif isinstance(value, list) and schema.items is not None:
        for index, each in enumerate(value):
            yield from _problems(each, schema.items, f"{at}/{index}")


def _has_type(value: Any, schema: FieldSchema) -> bool:
    if schema.kind == "any":
        return True
    if isinstance(value, bool):
        return schema.kind == "boolean"
    if schema.kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[schema.kind])


def _within(value: Any, schema: FieldSchema) -> Iterator[str]:
    if schema.choices is not None and not any(_same(value, each) for each in schema.choices):
        yield "must be one of the values listed"
    limits = schema.limits
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from _bounded(value, limits.get("minimum"), limits.get("maximum"), "be")
        if value <= limits.get("exclusiveMinimum", float("-inf")):
            yield f"must be above {limits['exclusiveMinimum']}"
        if value >= limits.get("exclusiveMaximum", float("inf")):
            yield f"must be below {limits['exclusiveMaximum']}"
    elif isinstance(value, str):
        length = len(value)
        yield from _bounded(length, limits.get("minLength"), limits.get("maxLength"), "have length")
    elif isinstance(value, list):
        count = len(value)
        yield from _bounded(count, limits.get("minItems"), limits.get("maxItems"), "have items")
        if schema.unique and len(set(map(repr, value))) < count:
            yield "must hold no item twice"


def _bounded(value: float, least: float | None, most: float | None, what: str) -> Iterator[str]:
    if least is not None and value < least:
        yield f"must {what} at least {least}"
    if most is not None and value > most:
        yield f"must {what} at most {most}"


def _same(value: Any, choice: Any) -> bool:
    """Compare as JSON does: true is not 1."""
    return isinstance(value, bool) == isinstance(choice, bool) and bool(value == choice)


def escaped(name: str) -> str:
    """Write a property name as a step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
