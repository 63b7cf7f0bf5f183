"""Validates values against a parsed JSON Schema."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.extract.schema import FieldSchema

MAX_VIOLATIONS: Final = 20

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def find_violations(value: Any, schema: FieldSchema) -> tuple[str, ...]:
    """Return the first 20 violations of a schema, each with a JSON pointer to the value.

    Properties that the schema does not name are ignored.
    """
    return tuple(islice(_violations(value, schema, ""), MAX_VIOLATIONS))


def satisfies_constraints(value: Any, schema: FieldSchema) -> bool:
    """Return whether a value of the right type is among the choices and within the limits."""
    return next(_constraint_violations(value, schema), None) is None


def pointer_step(name: str) -> str:
    """Escape a property name as a step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _violations(value: Any, schema: FieldSchema, pointer: str) -> Iterator[str]:
    if value is None and schema.nullable:
        return
    if not _has_type(value, schema):
        yield f"{pointer or '/'}: must be of type {schema.kind}"
        return
    for violation in _constraint_violations(value, schema):
        yield f"{pointer or '/'}: {violation}"
    if isinstance(value, dict):
        yield from _violations_in_object(value, schema, pointer)
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            yield from _violations(item, schema.items, f"{pointer}/{index}")


def _violations_in_object(
    value: dict[str, Any], schema: FieldSchema, pointer: str
) -> Iterator[str]:
    if schema.values is not None:
        for name, item in value.items():
            yield from _violations(item, schema.values, f"{pointer}/{pointer_step(name)}")
    for name, inner in schema.properties.items():
        inner_pointer = f"{pointer}/{pointer_step(name)}"
        if name in value:
            yield from _violations(value[name], inner, inner_pointer)
        elif name in schema.required:
            yield f"{inner_pointer}: is required"


def _has_type(value: Any, schema: FieldSchema) -> bool:
    if schema.kind == "any":
        return True
    if isinstance(value, bool):
        return schema.kind == "boolean"
    if schema.kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[schema.kind])


def _constraint_violations(value: Any, schema: FieldSchema) -> Iterator[str]:
    if schema.choices is not None and not any(_equals(value, choice) for choice in schema.choices):
        yield "must be one of the values listed"
    limits = schema.limits
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from _out_of_range(value, limits.get("minimum"), limits.get("maximum"), "be")
        if value <= limits.get("exclusiveMinimum", float("-inf")):
            yield f"must be above {limits['exclusiveMinimum']}"
        if value >= limits.get("exclusiveMaximum", float("inf")):
            yield f"must be below {limits['exclusiveMaximum']}"
    elif isinstance(value, str):
        bounds = limits.get("minLength"), limits.get("maxLength")
        yield from _out_of_range(len(value), *bounds, "have length")
    elif isinstance(value, list):
        bounds = limits.get("minItems"), limits.get("maxItems")
        yield from _out_of_range(len(value), *bounds, "have items")
        if schema.unique and len(set(map(repr, value))) < len(value):
            yield "must hold no item twice"


def _out_of_range(
    value: float, minimum: float | None, maximum: float | None, verb: str
) -> Iterator[str]:
    if minimum is not None and value < minimum:
        yield f"must {verb} at least {minimum}"
    if maximum is not None and value > maximum:
        yield f"must {verb} at most {maximum}"


def _equals(value: Any, choice: Any) -> bool:
    """Compare as JSON does: true does not equal 1."""
    return isinstance(value, bool) == isinstance(choice, bool) and bool(value == choice)
