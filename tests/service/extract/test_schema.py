"""Schemas are checked when a request arrives, and values against them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from webdata_nb.page.errors import BadInput
from webdata_nb.page.extract.schema import MAX_DEPTH, MAX_FIELDS, find_violations, read_schema

TEXT = {"type": "string"}


def one(field: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": field}}


class Offer(BaseModel):
    price: float
    currency: str | None = None


class Product(BaseModel):
    name: str
    offers: list[Offer] = []
    best: Offer | None = None


def test_a_schema_that_pydantic_writes_is_read() -> None:
    shape = read_schema(Product.model_json_schema())
    assert shape.title == "Product"
    assert shape.required == {"name"}
    offers = shape.properties["offers"]
    assert offers.items is not None
    assert offers.items.properties["price"].kind == "number"
    assert offers.items.properties["currency"].nullable
    assert shape.properties["best"].kind == "object"
    assert shape.properties["best"].nullable


@pytest.mark.parametrize(
    ("schema", "loc", "message"),
    [
        (None, (), "is required: without a language model"),
        ({"type": "array", "items": TEXT}, (), "must describe an object"),
        ({"title": "string"}, (), "must describe an object"),
        ({"type": "object"}, ("properties",), "must name the properties"),
        ({"type": "object", "properties": {}}, ("properties",), "must name the properties"),
        ({"type": "object", "properties": {"": TEXT}}, ("properties",), "1 to 200 characters"),
        (one("string"), ("properties", "a"), "must be a schema"),
        (one({"type": "money"}), ("properties", "a", "type"), "must be one of"),
        (one({"type": ["string", "number"]}), ("properties", "a", "type"), "must be one of"),
        (one({"type": {}}), ("properties", "a", "type"), "must be one of"),
        (one({"pattern": "(a+)+$"}), ("properties", "a"), '"pattern" is not understood'),
        (one({"enum": []}), ("properties", "a", "enum"), "1 to 1000 values"),
        (one({"minimum": "1"}), ("properties", "a", "minimum"), "must be a number"),
        (one({"maxItems": True}), ("properties", "a", "maxItems"), "must be a number"),
        (one({"uniqueItems": 1}), ("properties", "a", "uniqueItems"), "true or false"),
        (one({"format": 1}), ("properties", "a", "format"), "must be a string"),
        (one({"required": "a"}), ("properties", "a", "required"), "list of names"),
        (one({"$ref": "#/$defs/Gone"}), ("properties", "a", "$ref"), "be defined there"),
        (one({"$ref": "file:///etc/passwd"}), ("properties", "a", "$ref"), "$ref must be"),
        (one({"anyOf": [TEXT, one(TEXT)]}), ("properties", "a", "anyOf"), "one schema"),
    ],
)
def test_a_schema_that_is_not_understood_is_refused(
    schema: Any, loc: tuple[str, ...], message: str
) -> None:
    with pytest.raises(BadInput) as caught:
        read_schema(schema)
    assert message in str(caught.value)
    assert caught.value.loc == ("body", "schema", *loc)


def test_the_place_of_a_mistake_starts_where_the_request_has_the_schema() -> None:
    with pytest.raises(BadInput) as caught:
        read_schema(one({"type": "x"}), loc=("body", "scrape_options", "extract", "schema"))
    assert caught.value.loc[:4] == ("body", "scrape_options", "extract", "schema")


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}},
        {"$ref": "#/$defs/Node"},
        {"anyOf": [{"$ref": "#/$defs/Node"}]},
    ],
)
def test_a_schema_may_not_hold_itself(definition: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"itself"):
        read_schema(one({"$ref": "#/$defs/Node"}) | {"$defs": {"Node": definition}})


def test_depth_is_bounded() -> None:
    deep: dict[str, Any] = dict(TEXT)
    for _ in range(MAX_DEPTH):
        deep = one(deep)
    assert read_schema(deep).kind == "object"
    with pytest.raises(BadInput, match="nest at most"):
        read_schema(one(deep))


def test_the_number_of_fields_is_bounded_also_where_references_multiply_them() -> None:
    fields = {f"f{n}": TEXT for n in range(MAX_FIELDS)}
    with pytest.raises(BadInput, match="at most 500 fields"):
        read_schema({"type": "object", "properties": fields})
    names = "abcdefghij"
    defs: dict[str, Any] = {f"D{n}": fan(f"#/$defs/D{n + 1}", names) for n in range(8)}
    with pytest.raises(BadInput, match="at most 500 fields"):
        read_schema(fan("#/$defs/D0", names) | {"$defs": defs | {"D8": TEXT}})


def fan(reference: str, names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"$ref": reference} for name in names}}


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        (TEXT, "x", None),
        (TEXT, 1, "/a: must be of type string"),
        (TEXT, None, "/a: must be of type string"),
        ({"type": ["string", "null"]}, None, None),
        ({"type": "integer"}, 2.0, None),
        ({"type": "integer"}, 2.5, "/a: must be of type integer"),
        ({"type": "number"}, True, "/a: must be of type number"),
        ({"type": "boolean"}, False, None),
        ({"enum": [1]}, True, "/a: must be one of the values listed"),
        ({"const": "x"}, "x", None),
        ({"type": "number", "minimum": 1, "maximum": 2}, 3, "/a: must be at most 2"),
        ({"type": "number", "exclusiveMinimum": 1}, 1, "/a: must be above 1"),
        ({"type": "number", "exclusiveMaximum": 1}, 1, "/a: must be below 1"),
        ({"type": "string", "minLength": 2}, "x", "/a: must have length at least 2"),
        ({"type": "array", "maxItems": 1}, [1, 2], "/a: must have items at most 1"),
        ({"type": "array", "uniqueItems": True}, [1, 1], "/a: must hold no item twice"),
        ({"type": "array", "items": TEXT}, ["x", 1], "/a/1: must be of type string"),
    ],
)
def test_values_are_checked(field: dict[str, Any], value: Any, problem: str | None) -> None:
    assert find_violations({"a": value}, read_schema(one(field))) == ((problem,) if problem else ())


def test_a_required_field_is_asked_for_and_names_are_escaped() -> None:
    schema = {"type": "object", "properties": {"a/b~": TEXT}, "required": ["a/b~"]}
    assert find_violations({}, read_schema(schema)) == ("/a~1b~0: is required",)


def test_problems_are_few() -> None:
    shape = read_schema(one({"type": "array", "items": TEXT}))
    assert len(find_violations({"a": list(range(1000))}, shape)) == 20
