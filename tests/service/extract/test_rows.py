"""Lists of many different rows: each row is the one that stands on the page, from every source."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evidence_pages import find_evidence_in_process
from tests.service.extract.provenance_values import values_at
from tests.service.extract.stub_model import KEY, StubModel
from tests.site.server import Site
from webdata_nb.contract.local import ModelAccess
from webdata_nb.contract.requests import Extract
from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.extract.results import EXTRACTION, Extraction
from webdata_nb.page.extract.structured import extract_from_formats, extract_structured
from webdata_nb.page.scrape.page import scrape
from webdata_nb.service.models.chat import ModelQueues
from webdata_nb.service.models.extraction import open_extractor
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.fetch import Fetcher

TEXT = {"type": "string"}
NUMBER = {"type": "number"}
Schema = dict[str, Any]
COUNTS = [3, 100]


def list_of(**fields: Schema) -> Schema:
    return {"type": "array", "items": {"type": "object", "properties": fields}}


def object_schema(**fields: Schema) -> Schema:
    return {"type": "object", "properties": fields}


def read(html: str, schema: Schema) -> Extraction:
    """Scrape a page and extract from it."""
    formats = formats_of(html)
    structured, tables = formats["structured_data"], formats["tables"]
    return extract_structured(structured, schema=schema, tables=tables)


def formats_of(html: str) -> dict[str, Any]:
    url = "https://rows.example/"
    source = FetchedResponse(url, url, 200, "text/html", html.encode(), (), datetime.now(UTC))
    options = ConversionOptions(formats=("structured_data", "tables", "markdown"))
    return scrape(source, options, outlinks=False).formats


def table(count: int) -> str:
    rows = "".join(f"<tr><td>N{n}</td><td>{n}.5</td></tr>" for n in range(count))
    return f"<table><tr><th>Name</th><th>Price</th></tr>{rows}</table>"


def json_ld(count: int) -> str:
    items = ",".join(
        f'{{"@type":"Product","name":"N{n}","offers":{{"price":"{n}.5"}}}}' for n in range(count)
    )
    return f'<script type="application/ld+json">[{items}]</script>'


def microdata(count: int) -> str:
    return "".join(
        f'<div itemscope itemtype="https://schema.org/Product"><b itemprop="name">N{n}</b>'
        f'<i itemprop="offers" itemscope itemtype="https://schema.org/Offer">'
        f'<i itemprop="price">{n}.5</i></i></div>'
        for n in range(count)
    )


def rdfa(count: int) -> str:
    return '<div vocab="https://schema.org/">' + "".join(
        f'<div typeof="Product"><b property="name">N{n}</b><i property="offers" typeof="Offer">'
        f'<i property="price">{n}.5</i></i></div>'
        for n in range(count)
    )


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("write", [table, json_ld, microdata, rdfa])
def test_every_row_of_a_list_is_its_own(write: Callable[[int], str], count: int) -> None:
    found = read(write(count), object_schema(items=list_of(name=TEXT, price=NUMBER)))
    assert found.data["items"] == [{"name": f"N{n}", "price": n + 0.5} for n in range(count)]
    assert len({each for at, each in found.provenance.items() if at.endswith("/name")}) == count


@pytest.mark.parametrize("count", COUNTS)
def test_labels_with_values_are_rows_of_names_and_values(count: int) -> None:
    html = "".join(f"<dt>L{n}</dt><dd>V{n}</dd>" for n in range(count))
    found = read(f"<dl>{html}</dl>", object_schema(specs=list_of(name=TEXT, value=TEXT)))
    assert found.data["specs"] == [{"name": f"L{n}", "value": f"V{n}"} for n in range(count)]
    assert found.provenance["/specs/2/value"] == "table:1/3/value"


def test_every_definition_of_a_term_is_read() -> None:
    html = "<dl><dt>Colors</dt><dd>red</dd><dd>green</dd><dd>blue</dd><dt>Size</dt><dd>9</dd></dl>"
    found = read(html, object_schema(colors={"type": "array", "items": TEXT}, size=NUMBER))
    assert found.data == {"colors": ["red", "green", "blue"], "size": 9}


@pytest.mark.parametrize("count", COUNTS)
def test_texts_in_the_place_of_things_are_told_apart(count: int) -> None:
    names = [f"A{n}" for n in range(count)]
    page = {"json_ld": [{"@type": "Movie", "name": "M", "actor": names}]}
    found = extract_structured(page, schema=object_schema(actors=list_of(name=TEXT)))
    assert found.data["actors"] == [{"name": each} for each in names]
    assert found.provenance["/actors/1/name"] == "json_ld:Movie/actor"


async def test_rows_are_their_own_beside_a_model(site: Site) -> None:
    stub = StubModel(site)
    access = {"custom": ModelAccess.model_validate({"url": stub.url, "key": KEY, "model": "m"})}
    schema = object_schema(items=list_of(name=TEXT, price=NUMBER), color=TEXT)
    async with Fetcher(EgressPolicy("local"), user_agent="tests/1.0") as fetcher:
        extractor = open_extractor(
            Extract.model_validate({"schema": schema}),
            access,
            lambda _url: fetcher,
            find_evidence_in_process,
            ModelQueues(),
        )
        formats = formats_of(f"<p>color: red</p>{table(100)}")
        formats[EXTRACTION] = extract_from_formats(formats, {}, json.dumps(schema))
        item = await extractor.apply(formats, {}, ())
    assert item["extract"]["items"] == [{"name": f"N{n}", "price": n + 0.5} for n in range(100)]
    assert item["extract"]["color"] == "red"
    assert item["metadata"]["extract"]["provenance"]["/items/2/name"] == "table:1/3/name"


# ------------------------------------------------------------- what is not what was asked for

KETTLE = {"@type": "Product", "name": "Kettle", "url": "https://k.example/", "image": "k.png"}


@pytest.mark.parametrize(
    "fields",
    [
        {"name": TEXT, "value": TEXT},
        {"name": TEXT, "url": TEXT, "population": NUMBER},
        {"question": TEXT, "value": TEXT},
        {"title": TEXT, "chapter": NUMBER},
    ],
)
@pytest.mark.parametrize("name", ["specs", "items", "details"])
def test_things_that_share_only_their_name_fill_no_list(name: str, fields: Schema) -> None:
    found = extract_structured(
        {"json_ld": [KETTLE]}, schema=object_schema(**{name: list_of(**fields)})
    )
    assert found.data == {name: None}
    assert found.missing == (f"/{name}",)


@pytest.mark.parametrize(
    ("fields", "row"),
    [
        ({"name": TEXT}, {"name": "Kettle"}),
        ({"name": TEXT, "image": TEXT}, {"name": "Kettle", "image": "k.png"}),
        ({"product_name": TEXT, "weight": TEXT}, {"product_name": "Kettle", "weight": None}),
    ],
)
def test_a_list_of_what_everything_has_is_filled(fields: Schema, row: dict[str, Any]) -> None:
    found = extract_structured({"json_ld": [KETTLE]}, schema=object_schema(items=list_of(**fields)))
    assert found.data == {"items": [row]}


def test_a_table_that_shares_only_a_column_of_names_fills_no_list() -> None:
    html = "<table><tr><th>Name<th>Role</tr><tr><td>Ann<td>Pilot</tr></table>"
    assert read(html, object_schema(items=list_of(name=TEXT, price=NUMBER))).data == {"items": None}
    assert (
        read(html, object_schema(people=list_of(name=TEXT, role=TEXT))).data["people"] is not None
    )


def test_labels_fill_no_list_of_things() -> None:
    html = "<dl><dt>Weight</dt><dd>3 kg</dd></dl>"
    assert read(html, object_schema(reviews=list_of(name=TEXT, value=TEXT))).data == {
        "reviews": None
    }
    assert read(html, object_schema(items=list_of(title=TEXT, text=TEXT))).data == {"items": None}


def test_entries_of_another_list_do_not_join_a_list() -> None:
    crumbs = {
        "@type": "BreadcrumbList",
        "itemListElement": [{"@type": "ListItem", "name": "Home", "item": "https://k.example/"}],
    }
    products = [{"@type": "Product", "name": f"P{n}", "sku": str(n)} for n in range(3)]
    listed = {
        "@type": "ItemList",
        "itemListElement": [{"@type": "ListItem", "item": each} for each in products],
    }
    schema = object_schema(items=list_of(name=TEXT, sku=TEXT))
    found = extract_structured({"json_ld": [crumbs, listed]}, schema=schema)
    assert found.data["items"] == [{"name": f"P{n}", "sku": str(n)} for n in range(3)]


def test_the_table_that_tells_most_fields_fills_a_list() -> None:
    other = "<table><tr><th>Price<th>Phase</tr><tr><td>7<td>x</tr></table>"
    found = read(other + table(3), object_schema(products=list_of(name=TEXT, price=NUMBER)))
    assert [each["name"] for each in found.data["products"]] == ["N0", "N1", "N2"]


# ---------------------------------------------------------------- values and their provenance

NAMES = ["name", "price", "sku", "color", "brand", "review", "tags", "weight", "author", "value"]
texts = st.text("abc xyz&/~<>é19", min_size=1, max_size=8).filter(lambda text: bool(text.strip()))
scalars = texts | st.integers(0, 9999)
schemas = st.sampled_from([TEXT, NUMBER, {"type": "array", "items": TEXT}])
objects = st.dictionaries(st.sampled_from(NAMES), schemas, min_size=1, max_size=4).map(
    lambda fields: {"type": "object", "properties": fields}
)
fields = st.dictionaries(
    st.sampled_from([*NAMES, "items", "specs", "products", "reviews"]),
    schemas | objects | objects.map(lambda inner: {"type": "array", "items": inner}),
    min_size=1,
    max_size=5,
)
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4).map(
            lambda node: {"@type": "Product", **node}
        )
    ),
    max_leaves=20,
)
nodes = st.builds(
    lambda kind, given: {"@type": kind, **given},
    st.sampled_from(["Product", "Review", "Person", "Article"]),
    st.dictionaries(st.sampled_from(NAMES), json_values, max_size=6),
)


def _as_table(header: list[str], rows: list[list[str]]) -> dict[str, Any]:
    width = len(header) or 2
    return {"header": header, "rows": [(row * width)[:width] for row in rows]}


table_texts = texts.map(lambda text: " ".join(text.split()))
tables = st.builds(
    _as_table,
    st.lists(st.sampled_from(NAMES), max_size=4, unique=True),
    st.lists(st.lists(table_texts | st.sampled_from(NAMES), min_size=1, max_size=4), max_size=6),
)


def _leaves(value: Any, at: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for name, each in value.items() for leaf in _leaves(each, f"{at}/{name}")]
    if isinstance(value, list):
        return [leaf for n, each in enumerate(value) for leaf in _leaves(each, f"{at}/{n}")]
    return [] if value is None else [(at, value)]


def _origin(provenance: dict[str, str], at: str) -> str:
    """A list of texts has one place for all of them."""
    return provenance[at] if at in provenance else provenance[at.rpartition("/")[0]]


def _occurs(value: Any, there: list[Any]) -> bool:
    if isinstance(value, int | float):
        return any(str(value).removesuffix(".0") in str(each).replace(" ", "") for each in there)
    texts = {str(each) for each in there} | {
        part.strip() for each in there for part in str(each).split(",")
    }
    return value in texts


# A time limit that ends a draw is reported as a flaky strategy.
@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=100, deadline=None)
@given(fields, st.lists(nodes, max_size=4), st.lists(tables, max_size=3))
def test_a_value_stands_where_its_provenance_says(
    fields: Schema, blocks: list[Any], given_tables: list[dict[str, Any]]
) -> None:
    structured = {"json_ld": blocks}
    found = extract_structured(structured, schema=object_schema(**fields), tables=given_tables)
    for at, value in _leaves(found.data, ""):
        origin = _origin(found.provenance, at)
        there = values_at(origin, structured, given_tables)
        assert _occurs(value, there), (at, value, origin, there)
