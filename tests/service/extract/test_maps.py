"""A field `dict[str, str]` is filled with all labels and values that a page declares."""

from __future__ import annotations

import pytest

from tests.service.extract.product_pages import extract_page, json_ld, product_page
from webdata_nb.page.errors import BadInput
from webdata_nb.page.extract.schema import read_schema
from webdata_nb.service.models.extraction import can_be_strict, parse_answer, to_json_schema

TABLE = "<table><tr><th>Colour:</th><td>red</td></tr><tr><th>Weight</th><td>2</td></tr></table>"
MAP = {"type": "object", "additionalProperties": {"type": "string"}}


def test_a_map_is_filled_from_a_table() -> None:
    found = extract_page(product_page(TABLE), {"specs": dict[str, str], "sizes": dict[str, float]})
    assert found.data == {"specs": {"Colour": "red", "Weight": "2"}, "sizes": {"Weight": 2}}
    assert found.provenance == {"/specs": "table:1", "/sizes": "table:1"}


def test_a_map_is_filled_from_the_properties_of_the_product() -> None:
    pair = {"@type": "PropertyValue", "name": "Heel drop", "value": "10 mm"}
    head = json_ld(name="Copper kettle", sku="A-1", additionalProperty=[pair])
    found = extract_page(product_page(TABLE, head=head), {"sku": str, "specs": dict[str, str]})
    assert found.data == {"sku": "A-1", "specs": {"Heel drop": "10 mm"}}
    assert found.provenance["/specs"] == "json_ld:Product/additionalProperty"


def test_a_map_without_a_source_is_missing() -> None:
    found = extract_page(product_page("<p>Copper</p>"), {"specs": dict[str, str]})
    assert found.data == {"specs": None}
    assert found.missing == ("/specs",)


def test_a_model_is_asked_for_a_map_and_its_values_are_checked() -> None:
    schema = read_schema({"type": "object", "properties": {"specs": MAP}})
    assert not can_be_strict(schema)
    specs = to_json_schema(schema, strict=False)["properties"]["specs"]
    assert specs["additionalProperties"] == {"type": ["string", "null"]}
    assert "properties" not in specs
    assert parse_answer('{"specs": {"a": "b", "c": null}}', schema)[0] == {"specs": {"a": "b"}}
    assert parse_answer('{"specs": {"a": 1}}', schema)[0] == {"specs": {"a": "1"}}
    assert parse_answer('{"specs": {"a": [1, 2]}}', schema)[1] == (
        "/specs/a: must be of type string",
    )


def test_a_map_of_objects_and_a_map_alone_are_refused() -> None:
    nested = {"type": "object", "additionalProperties": {"type": "array"}}
    with pytest.raises(BadInput, match="single value"):
        read_schema({"type": "object", "properties": {"specs": nested}})
    with pytest.raises(BadInput, match="name the properties"):
        read_schema(MAP)
