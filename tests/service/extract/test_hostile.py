"""Data made to be slow, deep, endless or odd: bounded work, no exception, nothing made up."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.cpu_deadline import cpu_deadline
from webdata_nb.page.extract.declared import MAX_ITEMS
from webdata_nb.page.extract.node_graph import MAX_NODES, MAX_VALUES, DataNode, NodeGraph
from webdata_nb.page.extract.results import Extraction
from webdata_nb.page.extract.structured import (
    MAX_FIELDS_PER_PAGE,
    extract_from_formats,
    extract_structured,
)

TEXT = {"type": "string"}
ITEM = {"type": "object", "properties": {"name": TEXT, "price": {"type": "number"}}}
SCHEMA: dict[str, Any] = {
    "title": "Product",
    "type": "object",
    "properties": {
        "product_name": TEXT,
        "price": {"type": "number"},
        "author_name": TEXT,
        "products": {"type": "array", "items": ITEM},
        "items": {"type": "array", "items": ITEM},
    },
}
WIDE = {
    "type": "object",
    "properties": {f"field_{n}_of_some_author_name": TEXT for n in range(499)},
}


def nested(levels: int, key: str) -> dict[str, Any]:
    node: dict[str, Any] = {"@type": "Product", "name": "innermost"}
    for _ in range(levels):
        node = {"@type": "Product", key: node}
    return node


def product(number: int, count: int) -> dict[str, Any]:
    return {
        "@type": "Product",
        "@id": f"#{number}",
        "name": f"p{number}",
        "offers": {"@id": f"#{number * 7 % count}"},
        "author": [{"@id": f"#{(number + step) % count}"} for step in range(5)],
    }


def hub() -> list[dict[str, Any]]:
    wide = {f"p{n}": n for n in range(1000)}
    spokes = [{"@type": "Product", "offers": {"@id": "#h"}} for _ in range(20_000)]
    return [{"@type": "Product", "@id": "#h", "name": "h", **wide}, *spokes]


SELF = {"@id": "#a", "@type": "Product", "name": "x"} | {
    key: {"@id": "#a"} for key in ("offers", "author", "item", "itemListElement", "mainEntity")
}
# Functions, so that collecting the tests does not build all of it.
HOSTILE: dict[str, Callable[[], dict[str, Any]]] = {
    "100k nodes": lambda: {"json_ld": [{"@graph": [product(n, 100_000) for n in range(100_000)]}]},
    "deep": lambda: {"json_ld": [nested(900, "offers"), nested(900, "mainEntity")]},
    "cycle": lambda: {"json_ld": [SELF]},
    "hub": lambda: {"json_ld": [hub()]},
    "100k properties": lambda: {
        "json_ld": [{"@type": "Product", **{f"p{n}": n for n in range(100_000)}}]
    },
    "one identifier": lambda: {
        "json_ld": [[{"@id": "#a", "@type": "Product", f"p{n}": 1} for n in range(50_000)]]
    },
    "100k pairs": lambda: {
        "json_ld": [
            {
                "@type": "Product",
                "additionalProperty": [{"name": f"n{n}", "value": n} for n in range(100_000)],
            }
        ]
    },
    "300k metas": lambda: {"meta": {f"m{n}": "x" for n in range(300_000)}},
    "long text": lambda: {
        "json_ld": [{"@type": "Product", "name": "9" * 5_000_000, "price": "1," * 10**6}]
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("schema", [SCHEMA, WIDE], ids=["plain", "wide"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_data_is_bounded_work(name: str, schema: dict[str, Any]) -> None:
    found = extract_structured(HOSTILE[name](), schema=schema)
    assert len(found.provenance) <= MAX_FIELDS_PER_PAGE
    assert list(found.data) == list(schema["properties"])


def wide_items(fields: dict[str, Any]) -> dict[str, Any]:
    item = {"type": "object", "properties": fields}
    return {"type": "object", "properties": {"items": {"type": "array", "items": item}}}


@pytest.mark.parametrize(
    "fields",
    [
        {f"f{n}": TEXT for n in range(490)},
        {f"field_{n}_of_some_author_name": TEXT for n in range(490)},
    ],
    ids=["short names", "long names"],
)
def test_wide_schema_for_items_stops_at_field_limit(fields: dict[str, Any]) -> None:
    nodes = [{"@type": f"T{n % 50}", "name": f"p{n}", "price": n} for n in range(20_000)]
    with cpu_deadline():  # 100 s and more without the limit
        found = extract_structured({"json_ld": nodes}, schema=wide_items(fields))
    assert found.data == {"items": None}


@pytest.mark.slow
def test_lookups_of_chained_names_are_limited() -> None:
    person = {"@type": "Person", "name": [f"n{n}" for n in range(100)]}
    page = {"json_ld": [{"@type": "Product", "name": "x", "author": [person] * 1000}]}
    names = [f"{'_' * (n % 180)}author{'_' * (n // 180)}_name" for n in range(249)]
    lists = {name: {"type": "array", "items": {"type": "number"}} for name in names}
    with cpu_deadline():
        extract_structured(page, schema={"type": "object", "properties": lists})


def test_failed_extraction_costs_no_page() -> None:
    made = extract_from_formats({"structured_data": {}, "tables": 3}, {}, json.dumps(SCHEMA))
    extraction = msgspec.convert(made, Extraction)
    assert extraction == Extraction({}, {}, (), error=extraction.error)
    assert "could not be read" in extraction.error


def test_nodes_and_values_are_bounded() -> None:
    graph = NodeGraph(HOSTILE["100k nodes"]())
    assert len(graph.nodes) == MAX_NODES
    flat = NodeGraph({"json_ld": [{"@type": "Product", "name": ["x"] * (2 * MAX_VALUES)}]})
    assert len(flat.nodes[0].values("name")) <= MAX_VALUES


def test_lists_in_lists_in_lists_end() -> None:
    inner: dict[str, Any] = {"type": "object", "properties": {"name": TEXT}}
    for _ in range(5):
        fields = {"name": TEXT, "author": {"type": "array", "items": inner}}
        inner = {"type": "object", "properties": fields}
    authors = [{"@id": "#x"}] * 1000
    found = extract_structured(
        {"json_ld": [{"@type": "Product", "@id": "#x", "name": "x", "author": authors}]},
        schema={"type": "object", "properties": {"authors": {"type": "array", "items": inner}}},
    )
    assert 0 < len(found.provenance) <= MAX_FIELDS_PER_PAGE
    assert len(found.data["authors"]) <= MAX_ITEMS


def test_a_reference_to_itself_is_that_node() -> None:
    node = NodeGraph({"json_ld": [SELF]}).nodes[0]
    assert node.values("offers") == [node]


def test_tables_without_end_are_bounded() -> None:
    table = {"header": ["name", "price"], "rows": [["a", "1"]] * 100_000}
    found = extract_structured({}, schema=SCHEMA, tables=[table] * 50)
    assert len(found.data["products"]) == MAX_ITEMS


@pytest.mark.parametrize(
    "structured",
    [
        {},
        {"json_ld": None, "microdata": "x", "rdfa": 3, "opengraph": [], "meta": None},
        {"json_ld": [None, 1, "x", [[]], {"@graph": 3}, {"@type": 5}, {"@type": [None, {}]}]},
        {"json_ld": [{"@type": "Product", "@id": {"a": 1}, "": 1, "name": {"@value": None}}]},
        {"json_ld": [{"@type": "Product", "offers": [[{"price": True}], {"price": float("nan")}]}]},
        {"microdata": [{"type": None, "properties": None}, 3, {"properties": {"": ["x"]}}]},
        {"meta": {"a": None, "b": [1, None], "": "x"}},
    ],
)
def test_odd_data_gives_nothing(structured: dict[str, Any]) -> None:
    found = extract_structured(structured, schema=SCHEMA)
    assert set(found.data.values()) == {None}


def test_odd_tables_give_nothing() -> None:
    tables: list[dict[str, Any]] = [{}, {"rows": 3}, {"rows": [3, [], [None, 1]], "header": "x"}]
    found = extract_structured({}, schema=SCHEMA, tables=tables)
    assert set(found.data.values()) == {None}


def test_a_node_is_itself_and_no_other() -> None:
    assert DataNode("json_ld") != DataNode("json_ld")
