"""The schema of an extraction: which part of JSON Schema is understood, checked at request time.

Understood: `type` (one, or one and ``"null"``), `properties`, `required`, `items`, `enum`, `const`,
`format`, `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `minLength`, `maxLength`,
`minItems`, `maxItems`, `uniqueItems`, `$ref` into ``$defs`` or ``definitions`` of the same schema,
and `anyOf` or `oneOf` of one schema and ``null``: what pydantic's ``model_json_schema`` writes.
`title` gives a field another name to be found by. `format` acts for date, date-time, uri and
email; other formats are annotations, as JSON Schema has it. A language model is told the
`description`, and nobody else reads it. `default`, `examples` and `additionalProperties` are
accepted and change nothing: a default is not on the page, and only named properties are filled.
Everything else is refused rather than ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from webdata_nb.contract import limits as bounds
from webdata_nb.service.errors import BadInput

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
_STRUCTURE: Final = ("type", "properties", "required", "items", "enum", "const", "format", "title")
_NO_EFFECT: Final = (
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
_KNOWN: Final = frozenset((*_LIMITS, *_STRUCTURE, *_NO_EFFECT, "uniqueItems"))


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """One schema, read: what a value must be.

    Attributes
    ----------
    kind
        The type; ``"any"`` where the schema names none.
    title
        Another name of the field, empty when there is none.
    description
        What the user says of the field, for a language model; empty when there is nothing.
    format
        The format asked for, None when there is none.
    nullable
        Whether null is a value.
    choices
        The values allowed, None when all are.
    limits
        Bounds by their JSON Schema names.
    unique
        Whether the items of an array must differ.
    properties
        The fields of an object, in the order given.
    required
        Those that an object must have.
    items
        What an array holds.
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


def read_schema(schema: Mapping[str, Any] | None, *, loc: Loc = ("body", "schema")) -> FieldSchema:
    """Check and read the schema of a request.

    Parameters
    ----------
    schema
        A JSON Schema of an object; see this module for the part that is understood.
    loc
        The path to the schema in the request, for the error.

    Raises
    ------
    BadInput
        Says what is wrong with the schema and, by its `loc`, where.
    """
    if schema is None:
        raise BadInput("this provider needs a schema: it fills fields, it reads no prompt", loc=loc)
    shape = _SchemaReader(schema).read(schema, loc, 0)
    if shape.kind != "object":
        raise BadInput(
            'must describe an object: {"type": "object", "properties": {...}};'
            " put a list under a property of it",
            loc=loc,
        )
    return shape


class _SchemaReader:
    """Reads one schema; counts its fields and choices, as references can multiply them."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._whole = whole
        self._fields = 0
        self._values = 0

    def read(self, given: Any, loc: Loc, depth: int) -> FieldSchema:
        if not isinstance(given, Mapping):
            raise BadInput('must be a schema, such as {"type": "string"}', loc=loc)
        self._fields += 1
        if self._fields > MAX_FIELDS:
            raise BadInput(f"must have at most {MAX_FIELDS} fields", loc=loc)
        if depth > MAX_DEPTH:
            raise BadInput(f"must nest at most {MAX_DEPTH} deep, and not hold itself", loc=loc)
        schema, optional = self._plain(given, loc)
        _refuse_unknown(schema, loc)
        kind, nullable = _kind_of(schema, loc)
        described = schema.get("description")
        return FieldSchema(
            kind=kind,
            title=_text(schema, "title", loc) or "",
            description=described if isinstance(described, str) else "",
            format=_text(schema, "format", loc),
            nullable=nullable or optional,
            choices=self._choices(schema, loc),
            limits=_limits(schema, loc),
            unique=_flag(schema, "uniqueItems", loc),
            properties=self._properties(schema, loc, depth) if kind == "object" else {},
            required=_required(schema, loc),
            items=self._items(schema, loc, depth) if kind == "array" else None,
        )

    def _choices(self, schema: Mapping[str, Any], loc: Loc) -> tuple[Any, ...] | None:
        choices = _choices(schema, loc)
        self._values += len(choices or ())
        if self._values > MAX_CHOICES_TOTAL:
            raise BadInput(
                f"all fields together must list at most {MAX_CHOICES_TOTAL} enum values",
                loc=(*loc, "enum"),
            )
        return choices

    def _plain(self, given: Mapping[str, Any], loc: Loc) -> tuple[Mapping[str, Any], bool]:
        """Follow references and undo ``anyOf`` with null; tell whether null was among them."""
        schema, optional = given, False
        for _ in range(MAX_DEPTH):
            if "$ref" in schema:
                schema = _without(schema, "$ref") | dict(self._referred(schema["$ref"], loc))
            elif found := next(
                (name for name in ("anyOf", "oneOf", "allOf") if name in schema), ""
            ):
                inner, null = _only_one(schema[found], found, loc)
                schema, optional = _without(schema, found) | dict(inner), optional or null
            else:
                return schema, optional
        raise BadInput("refers to itself without end", loc=loc)

    def _referred(self, name: Any, loc: Loc) -> Mapping[str, Any]:
        parts = name.split("/") if isinstance(name, str) else []
        if len(parts) == 3 and parts[0] == "#" and parts[1] in {"$defs", "definitions"}:  # noqa: PLR2004 - "#", section, name
            section = self._whole.get(parts[1])
            found = section.get(parts[2]) if isinstance(section, Mapping) else None
            if isinstance(found, Mapping):
                return found
        raise BadInput('$ref must be "#/$defs/NAME" and NAME be defined there', loc=(*loc, "$ref"))

    def _properties(
        self, schema: Mapping[str, Any], loc: Loc, depth: int
    ) -> dict[str, FieldSchema]:
        given = schema.get("properties")
        at = (*loc, "properties")
        if not isinstance(given, Mapping) or not given:
            raise BadInput("must name the properties to fill", loc=at)
        for name in given:
            if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH:
                raise BadInput(f"a name must have 1 to {MAX_NAME_LENGTH} characters", loc=at)
        return {name: self.read(each, (*at, name), depth + 1) for name, each in given.items()}

    def _items(self, schema: Mapping[str, Any], loc: Loc, depth: int) -> FieldSchema:
        if "items" not in schema:
            return FieldSchema("any")
        return self.read(schema["items"], (*loc, "items"), depth + 1)


def _without(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != name}


def _only_one(options: Any, name: str, loc: Loc) -> tuple[Mapping[str, Any], bool]:
    given = options if isinstance(options, list) else []
    schemas = [each for each in given if not _is_null(each)]
    if len(schemas) == 1 and isinstance(schemas[0], Mapping):
        return schemas[0], len(given) > 1
    raise BadInput("must be a list of one schema, or of one schema and null", loc=(*loc, name))


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"


def _refuse_unknown(schema: Mapping[str, Any], loc: Loc) -> None:
    for name in schema:
        if name not in _KNOWN:
            raise BadInput(f'"{str(name)[:50]}" is not understood here', loc=loc)


def _kind_of(schema: Mapping[str, Any], loc: Loc) -> tuple[Kind, bool]:
    given = schema.get("type")
    if given is None:
        if "properties" in schema:
            return "object", False
        return ("array" if "items" in schema else "any"), False
    named = given if isinstance(given, list) else [given]
    kinds = [each for each in named if each != "null"]
    if len(kinds) == 1 and isinstance(kinds[0], str) and kinds[0] in _KINDS:
        kind: Kind = kinds[0]  # type: ignore[assignment] # it is one of them, as just seen
        return kind, len(named) > 1
    allowed = ", ".join(sorted(_KINDS))
    raise BadInput(f'must be one of {allowed}, or a list of one and "null"', loc=(*loc, "type"))


def _text(schema: Mapping[str, Any], name: str, loc: Loc) -> str | None:
    value = schema.get(name)
    if value is None or isinstance(value, str):
        return value
    raise BadInput("must be a string", loc=(*loc, name))


def _flag(schema: Mapping[str, Any], name: str, loc: Loc) -> bool:
    value = schema.get(name, False)
    if isinstance(value, bool):
        return value
    raise BadInput("must be true or false", loc=(*loc, name))


def _choices(schema: Mapping[str, Any], loc: Loc) -> tuple[Any, ...] | None:
    if "const" in schema:
        return (schema["const"],)
    given = schema.get("enum")
    if given is None:
        return None
    if not isinstance(given, list) or not 0 < len(given) <= MAX_CHOICES:
        raise BadInput(f"must list 1 to {MAX_CHOICES} values", loc=(*loc, "enum"))
    return tuple(given)


def _limits(schema: Mapping[str, Any], loc: Loc) -> dict[str, float]:
    limits = {name: schema[name] for name in _LIMITS if name in schema}
    for name, value in limits.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadInput("must be a number", loc=(*loc, name))
    return limits


def _required(schema: Mapping[str, Any], loc: Loc) -> frozenset[str]:
    given = schema.get("required", [])
    if isinstance(given, list) and all(isinstance(each, str) for each in given):
        return frozenset(given)
    raise BadInput("must be a list of names", loc=(*loc, "required"))
