"""Reads the JSON Schemas that extraction supports, checks values against them and merges them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import orjson

from webdata_nb.contract import limits as bounds
from webdata_nb.page.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator


Kind = Literal["string", "number", "integer", "boolean", "array", "object", "any"]
Loc = tuple[str | int, ...]

MAX_FIELDS: Final = bounds.SCHEMA_FIELDS
MAX_DEPTH: Final = bounds.SCHEMA_DEPTH
MAX_NAME_LENGTH: Final = bounds.SCHEMA_NAME_LENGTH
MAX_CHOICES: Final = bounds.SCHEMA_CHOICES
MAX_CHOICES_TOTAL: Final = bounds.SCHEMA_CHOICES_TOTAL

_KINDS: Final = frozenset(get_args(Kind)) - {"any"}
_LIMITS: Final = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
)
_TYPE_KEYWORDS: Final = (
    "type",
    "properties",
    "required",
    "items",
    "enum",
    "const",
    "format",
    "title",
)
_ANNOTATIONS: Final = (
    "description",
    "default",
    "example",
    "examples",
    "additionalProperties",
    "deprecated",
    "readOnly",
    "writeOnly",
    "discriminator",
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
)
_UNIONS: Final = ("anyOf", "oneOf", "allOf")
_KEYWORDS: Final = frozenset((*_LIMITS, *_TYPE_KEYWORDS, *_ANNOTATIONS, "uniqueItems"))


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """A parsed schema: the type and constraints of a value.

    Attributes
    ----------
    kind
        The type; ``"any"`` if the schema names none.
    title
        An alternative name of the field, or empty.
    description
        The user's description of the field for a language model, or empty.
    format
        The format; None if there is none.
    nullable
        Whether null is a valid value.
    choices
        The valid values; None if there is no enumeration.
    limits
        The bounds by their JSON Schema keywords.
    unique
        Whether the items of an array must differ.
    properties
        The fields of an object, in their order.
    required
        The names of the required fields.
    items
        The schema of an array's items.
    values
        The schema of the values of a map; None for other objects.
    """

    kind: Kind
    title: str = ""
    description: str = ""
    format: str | None = None
    nullable: bool = False
    choices: tuple[Any, ...] | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    unique: bool = False
    properties: Mapping[str, FieldSchema] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    items: FieldSchema | None = None
    values: FieldSchema | None = None


def read_schema(schema: Mapping[str, Any] | None, *, loc: Loc = ("body", "schema")) -> FieldSchema:
    """Parse the schema of a request.

    Parameters
    ----------
    schema
        A JSON Schema of an object; see this module for the supported subset.
    loc
        The path to the schema in the request, for the error.

    Raises
    ------
    BadInput
        The schema is invalid or not supported; `loc` is the path to the part at fault.
    """
    if schema is None:
        raise BadInput(
            "is required: without a language model, declared data fills its fields", loc=loc
        )
    field_schema = _SchemaParser(schema).parse(schema, loc, 0)
    if field_schema.kind != "object":
        raise BadInput(
            'must describe an object: {"type": "object", "properties": {...}};'
            " put a list under a property of it",
            loc=loc,
        )
    return field_schema


class _SchemaParser:
    """Parses one schema; counts its fields and choices, which references can multiply."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._field_count = 0
        self._choice_count = 0

    def parse(self, schema: Any, loc: Loc, depth: int) -> FieldSchema:
        if not isinstance(schema, Mapping):
            raise BadInput('must be a schema, such as {"type": "string"}', loc=loc)
        self._field_count += 1
        if self._field_count > MAX_FIELDS:
            raise BadInput(f"must have at most {MAX_FIELDS} fields", loc=loc)
        if depth > MAX_DEPTH:
            raise BadInput(f"must nest at most {MAX_DEPTH} deep, and not hold itself", loc=loc)
        resolved, optional = self._resolve(schema, loc)
        for name in resolved:
            if name not in _KEYWORDS:
                raise BadInput(f'"{str(name)[:50]}" is not understood here', loc=loc)
        kind, nullable = _parse_type(resolved, loc)
        unique, required = resolved.get("uniqueItems", False), resolved.get("required", [])
        if not isinstance(unique, bool):
            raise BadInput("must be true or false", loc=(*loc, "uniqueItems"))
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            raise BadInput("must be a list of names", loc=(*loc, "required"))
        limits = {name: resolved[name] for name in _LIMITS if name in resolved}
        for name, limit in limits.items():
            if isinstance(limit, bool) or not isinstance(limit, int | float):
                raise BadInput("must be a number", loc=(*loc, name))
        items = FieldSchema("any") if kind == "array" else None
        if kind == "array" and "items" in resolved:
            items = self.parse(resolved["items"], (*loc, "items"), depth + 1)
        description = resolved.get("description")
        values = None
        of_values = resolved.get("additionalProperties") if kind == "object" and depth else None
        if isinstance(of_values, Mapping) and not resolved.get("properties"):
            values = self.parse(of_values, (*loc, "additionalProperties"), depth + 1)
            if values.kind in {"object", "array"}:
                raise BadInput(
                    "must be the type of a single value, such as a string",
                    loc=(*loc, "additionalProperties"),
                )
        has_properties = kind == "object" and values is None
        return FieldSchema(
            kind=kind,
            title=_parse_string(resolved, "title", loc) or "",
            description=description if isinstance(description, str) else "",
            format=_parse_string(resolved, "format", loc),
            nullable=nullable or optional,
            choices=self._parse_choices(resolved, loc),
            limits=limits,
            unique=unique,
            properties=self._parse_properties(resolved, loc, depth) if has_properties else {},
            required=frozenset(required),
            items=items,
            values=values,
        )

    def _resolve(self, schema: Mapping[str, Any], loc: Loc) -> tuple[Mapping[str, Any], bool]:
        """Resolve `$ref` and unions with null; return whether a union contains null."""
        resolved, optional = schema, False
        for _ in range(MAX_DEPTH):
            if "$ref" in resolved:
                ref = resolved["$ref"]
                parts = ref.split("/") if isinstance(ref, str) else []
                definition = None
                if len(parts) == 3 and parts[0] == "#" and parts[1] in {"$defs", "definitions"}:  # noqa: PLR2004 - "#", section, name
                    section = self._root.get(parts[1])
                    definition = section.get(parts[2]) if isinstance(section, Mapping) else None
                if not isinstance(definition, Mapping):
                    raise BadInput(
                        '$ref must be "#/$defs/NAME" and NAME be defined there', loc=(*loc, "$ref")
                    )
                resolved = _without(resolved, "$ref") | dict(definition)
            elif union := next((name for name in _UNIONS if name in resolved), ""):
                options = resolved[union]
                members = options if isinstance(options, list) else []
                schemas = [
                    member
                    for member in members
                    if not (isinstance(member, Mapping) and member.get("type") == "null")
                ]
                if len(schemas) != 1 or not isinstance(schemas[0], Mapping):
                    raise BadInput(
                        "must be a list of one schema, or of one schema and null",
                        loc=(*loc, union),
                    )
                resolved = _without(resolved, union) | dict(schemas[0])
                optional = optional or len(members) > 1
            else:
                return resolved, optional
        raise BadInput("refers to itself without end", loc=loc)

    def _parse_choices(self, schema: Mapping[str, Any], loc: Loc) -> tuple[Any, ...] | None:
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if choices is None:
            return None
        if not isinstance(choices, list) or not 0 < len(choices) <= MAX_CHOICES:
            raise BadInput(f"must list 1 to {MAX_CHOICES} values", loc=(*loc, "enum"))
        self._choice_count += len(choices)
        if self._choice_count > MAX_CHOICES_TOTAL:
            raise BadInput(
                f"all fields together must list at most {MAX_CHOICES_TOTAL} enum values",
                loc=(*loc, "enum"),
            )
        return tuple(choices)

    def _parse_properties(
        self, schema: Mapping[str, Any], loc: Loc, depth: int
    ) -> dict[str, FieldSchema]:
        properties = schema.get("properties")
        loc = (*loc, "properties")
        if not isinstance(properties, Mapping) or not properties:
            raise BadInput("must name the properties to fill", loc=loc)
        for name in properties:
            if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH:
                raise BadInput(f"a name must have 1 to {MAX_NAME_LENGTH} characters", loc=loc)
        return {
            name: self.parse(inner, (*loc, name), depth + 1) for name, inner in properties.items()
        }


def _without(schema: Mapping[str, Any], keyword: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != keyword}


def _parse_type(schema: Mapping[str, Any], loc: Loc) -> tuple[Kind, bool]:
    """Return the type, and whether null is a valid value."""
    value = schema.get("type")
    if value is None:
        if "properties" in schema:
            return "object", False
        return ("array" if "items" in schema else "any"), False
    names = value if isinstance(value, list) else [value]
    kinds = [name for name in names if name != "null"]
    if len(kinds) == 1 and isinstance(kinds[0], str) and kinds[0] in _KINDS:
        kind: Kind = kinds[0]  # type: ignore[assignment] # the line above checks it
        return kind, len(names) > 1
    valid = ", ".join(sorted(_KINDS))
    raise BadInput(f'must be one of {valid}, or a list of one and "null"', loc=(*loc, "type"))


def _parse_string(schema: Mapping[str, Any], name: str, loc: Loc) -> str | None:
    value = schema.get(name)
    if value is None or isinstance(value, str):
        return value
    raise BadInput("must be a string", loc=(*loc, name))


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
        if schema.values is not None:
            for name, item in value.items():
                yield from _violations(item, schema.values, f"{pointer}/{pointer_step(name)}")
        for name, inner in schema.properties.items():
            inner_pointer = f"{pointer}/{pointer_step(name)}"
            if name in value:
                yield from _violations(value[name], inner, inner_pointer)
            elif name in schema.required:
                yield f"{inner_pointer}: is required"
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            yield from _violations(item, schema.items, f"{pointer}/{index}")


def _has_type(value: Any, schema: FieldSchema) -> bool:
    if schema.kind == "any":
        return True
    if isinstance(value, bool):
        return schema.kind == "boolean"
    if schema.kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[schema.kind])


def _constraint_violations(value: Any, schema: FieldSchema) -> Iterator[str]:
    # As in JSON, true does not equal 1.
    if schema.choices is not None and not any(
        isinstance(value, bool) == isinstance(choice, bool) and value == choice
        for choice in schema.choices
    ):
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


MAX_CONFLICTS: Final = 20
_MAX_ALTERNATIVES: Final = 5
_MAX_ALTERNATIVE_BYTES: Final = 1000


@dataclass(slots=True)
class MergedAnswers:
    """Merged values, and by JSON pointer the differing values of other chunks."""

    value: dict[str, Any]
    conflicts: dict[str, list[Any]] = field(default_factory=dict)


def merge_answers(answers: Sequence[dict[str, Any]], schema: FieldSchema | None) -> MergedAnswers:
    """Merge the answers about the chunks of a page in their order.

    Lists are joined without duplicates. Of other values the first one wins, and those that differ
    from it become conflicts.

    Examples
    --------
    >>> merge_answers([{"a": None, "b": [1, 2]}, {"a": 3, "b": [2]}, {"a": 4, "b": []}], None)
    MergedAnswers(value={'a': 3, 'b': [1, 2]}, conflicts={'/a': [4]})
    """
    conflicts: dict[str, list[Any]] = {}
    return MergedAnswers(_merge_objects(answers, schema, "", conflicts), conflicts)


def overlay(first: Any, second: Any) -> Any:
    """Return `first` with its missing values from `second`; existing lists are not changed."""
    if isinstance(first, dict) and isinstance(second, dict):
        return {name: overlay(first.get(name), second.get(name)) for name in {**first, **second}}
    return second if first is None else first


def _merge_objects(
    objects: Sequence[dict[str, Any]],
    schema: FieldSchema | None,
    pointer: str,
    conflicts: dict[str, list[Any]],
) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for item in objects for name in item):
        values = [item[name] for item in objects if item.get(name) is not None]
        inner = None if schema is None else schema.properties.get(name)
        merged[name] = _merge_values(values, inner, f"{pointer}/{pointer_step(name)}", conflicts)
    return merged


def _merge_values(
    values: list[Any], schema: FieldSchema | None, pointer: str, conflicts: dict[str, list[Any]]
) -> Any:
    if not values:
        return None
    if all(isinstance(value, dict) for value in values):
        return _merge_objects(values, schema, pointer, conflicts)
    if all(isinstance(value, list) for value in values):
        # Equal items of one chunk may be two items; equal items of two chunks are the same item.
        unique = schema is not None and schema.unique
        merged, keys = list[Any](), set[bytes]()
        for items in values:
            earlier_keys = frozenset(keys)
            for item in items:
                key = _comparison_key(item)
                if key not in (keys if unique else earlier_keys):
                    merged.append(item)
                    keys.add(key)
        max_items = None if schema is None else schema.limits.get("maxItems")
        return merged if max_items is None else merged[: int(max_items)]
    by_key = {_comparison_key(value): value for value in values}
    del by_key[_comparison_key(values[0])]
    if by_key and len(conflicts) < MAX_CONFLICTS:
        alternatives = [
            value for key, value in by_key.items() if len(key) <= _MAX_ALTERNATIVE_BYTES
        ]
        conflicts[pointer] = alternatives[:_MAX_ALTERNATIVES]
    return values[0]


def _comparison_key(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
