"""Declared values: names, nested values, dates, broken blocks, and what is no value."""

from __future__ import annotations

import pytest

from tests.cpu_deadline import cpu_deadline
from tests.service.extract.product_pages import extract_page, json_ld, product_page
from webdata_nb.page.content.structured_data import repair_json
from webdata_nb.page.extract.structured import extract_structured

TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def test_an_exact_label_wins_over_the_title_of_the_page() -> None:
    table = "<table><tr><th>Name</th><td>Kettle CK 2000</td></tr></table>"
    page = product_page(table, head='<meta property="og:title" content="Buy kettles">')
    found = extract_page(page, {"name": str, "title": str})
    assert found.data == {"name": "Kettle CK 2000", "title": "Buy kettles"}
    assert found.provenance["/name"] == "table:1/Name"
    declared = product_page(table, head=json_ld(name="Copper kettle"))
    assert extract_page(declared, {"name": str}).data == {"name": "Copper kettle"}


def test_the_title_of_a_page_without_text_is_no_name() -> None:
    schema = {"type": "object", "properties": {"name": TEXT, "headline": TEXT, "title": TEXT}}
    found = extract_structured({}, schema=schema, metadata={"title": "Loading"}, has_text=False)
    assert found.data == {"name": None, "headline": None, "title": "Loading"}
    for name in ("name", "headline", "title"):
        one = {"type": "object", "properties": {name: TEXT}}
        found = extract_structured({}, schema=one, metadata={"title": "Kettle"})
        assert found.data == {name: "Kettle"}
    found = extract_structured({}, schema=schema, metadata={"title": "Kettle"})
    assert found.data == {"name": None, "headline": None, "title": "Kettle"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"min_salary": NUMBER, "max_salary": NUMBER}, {"min_salary": 50000, "max_salary": 70000}),
        ({"salary_min": NUMBER, "salary_unit": TEXT}, {"salary_min": 50000, "salary_unit": "YEAR"}),
        ({"baseSalary.value.minValue": NUMBER}, {"baseSalary.value.minValue": 50000}),
        (
            {"salary_range": {"type": "object", "properties": {"min": NUMBER, "max": NUMBER}}},
            {"salary_range": {"min": 50000, "max": 70000}},
        ),
        ({"salary": NUMBER}, {"salary": None}),
    ],
)
def test_values_of_nested_nodes(fields: dict[str, object], expected: dict[str, object]) -> None:
    quantity = {"@type": "QuantitativeValue", "minValue": 50000, "maxValue": 70000}
    job = {
        "@type": "JobPosting",
        "title": "Smith",
        "baseSalary": {
            "@type": "MonetaryAmount",
            "currency": "EUR",
            "value": {**quantity, "unitText": "YEAR"},
        },
    }
    schema = {"type": "object", "properties": fields}
    assert extract_structured({"json_ld": [job]}, schema=schema).data == expected


def test_a_salary_that_is_one_number() -> None:
    amount = {"@type": "MonetaryAmount", "value": {"@type": "QuantitativeValue", "value": 60000}}
    job = {"@type": "JobPosting", "title": "Smith", "baseSalary": amount}
    schema = {"type": "object", "properties": {"salary": NUMBER}}
    assert extract_structured({"json_ld": [job]}, schema=schema).data == {"salary": 60000}


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "3. März 2026"),
        ("fr", "3 mars 2026"),
        ("es", "3 de marzo de 2026"),
        ("pl", "3 marca 2026"),
        ("ru", "3 марта 2026"),
        ("ja", "2026年3月3日"),
    ],
)
def test_dates_with_names_of_months(language: str, text: str) -> None:
    schema = {"type": "object", "properties": {"date": {"type": "string", "format": "date"}}}
    table = {"header": [], "rows": [["Date", text]]}
    found = extract_structured({}, schema=schema, tables=[table], metadata={"language": language})
    assert found.data == {"date": "2026-03-03"}


@pytest.mark.parametrize("text", ["-5 %", "5%", "- 20 %"])
def test_a_discount_is_no_price(text: str) -> None:
    schema = {
        "type": "object",
        "properties": {"price": NUMBER, "preis": NUMBER, "discount": NUMBER},
    }
    rows = [["Price", text], ["Preis", text], ["Discount", text]]
    found = extract_structured({}, schema=schema, tables=[{"header": [], "rows": rows}])
    assert found.data["price"] is None
    assert found.data["preis"] is None
    assert abs(found.data["discount"]) in {5, 20}


@pytest.mark.parametrize(
    "block",
    [
        '{"@type": "Product", "name": "Kettle", "sku": "A-1",}',
        '{"@type": "Product", "name": "Kettle", "image": ["a", "b",], "sku": "A-1"}',
        '{"@type": "Product", // the kettle\n "name": "Kettle", /* our code */ "sku": "A-1"}',
        '{"@type": "Product",\x0b "name": "Ket\x02tle", "sku": "A-1"}',
        '{"@type": "Product", "name": "Kettle\\\'s", "sku": "A-1"}',
        "{&quot;@type&quot;: &quot;Product&quot;, &quot;sku&quot;: &quot;A-1&quot;}",
        '{"@type": "Product",, "name": "Kettle", "sku": "A-1"}',
        '{"@type": "Product", "name": "http://x/*y", "url": "https://a//b", "sku": "A-1",}',
        '\ufeff{"@type": "Product", "sku": "A-1"},',
    ],
)
def test_slightly_broken_json_ld_is_read_with_a_note(block: str) -> None:
    script = f'<script type="application/ld+json">{block}</script>'
    found = extract_page(product_page("", head=script), {"sku": str})
    assert found.data == {"sku": "A-1"}
    assert found.provenance == {"/sku": "json_ld:Product/sku"}
    [note] = found.notes
    assert "1 block of JSON-LD" in note


def test_valid_json_ld_has_no_note_and_broken_json_ld_no_value() -> None:
    valid = product_page("", head=json_ld(sku="A-1", name="a, /* b */ // c &quot; ,}"))
    found = extract_page(valid, {"name": str, "sku": str})
    assert found.data["name"] == 'a, /* b */ // c " ,}'
    assert found.notes == ()
    broken = '<script type="application/ld+json">{"@type": "Product", "sku": A-1 </script>'
    found = extract_page(product_page("", head=broken), {"sku": str})
    assert found.data == {"sku": None}
    assert found.notes == ()


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "' + "/*" * 200_000,
        "/*" * 200_000,
        '"' * 300_001,
        '{"a": "\\' * 60_000,
        "," * 400_000,
        "//" * 200_000,
        "[" * 300_000 + ",",
        " ," * 200_000 + "x",
    ],
)
def test_a_repair_costs_little(text: str) -> None:
    with cpu_deadline():
        repair_json(text)
