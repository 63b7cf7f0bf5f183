"""Rows of tables that fill lists of objects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.pages import page_source
from webdata_nb.page.extract.structured import extract_structured
from webdata_nb.page.scrape.page import ConversionOptions, scrape

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
RAIN = (
    "<table><tr><th>City<th>Rain (mm)<th>Area [km<sup>2</sup>]<tr><td>Oslo<td>12.5<td>454"
    "<tr><td>Bergen<td>30<td>465<tr><td>Total<td>42.5<td>919</table>"
)
YEARS = (
    "<table><tr><th rowspan=2>City<th colspan=2>Rain<tr><th>2023<th>2024"
    "<tr><td>Oslo<td>1<td>2<tr><td>Bergen<td>3<td>4</table>"
)
MARKED = (
    "<table><tr><th>City<th>Rain<tr><td><h4>Oslo</h4><td>12.5<sup><a href='#n1'>1</a></sup>"
    "<tr><td>Bergen<td><span style='display:none'>0030</span>30</table>"
)
OSLO, BERGEN = {"city": "Oslo", "rain": 12.5}, {"city": "Bergen", "rain": 30}


def rows(page: str, **fields: Any) -> Any:
    item = {"type": "object", "properties": fields}
    schema = {"type": "object", "properties": {"places": {"type": "array", "items": item}}}
    formats = scrape(page_source(page), ConversionOptions(("structured_data", "tables"))).formats
    found = extract_structured(
        formats["structured_data"], schema=schema, tables=formats["tables"], metadata={}
    )
    return found.data["places"]


@pytest.mark.parametrize(
    ("page", "fields", "expected"),
    [
        (RAIN, {"city": TEXT, "rain": NUMBER}, [OSLO, BERGEN]),
        (
            RAIN,
            {"city": TEXT, "rain_mm": NUMBER, "area": NUMBER},
            [
                {"city": "Oslo", "rain_mm": 12.5, "area": 454},
                {"city": "Bergen", "rain_mm": 30, "area": 465},
            ],
        ),
        (
            RAIN,
            {"city": TEXT, "rain": NUMBER, "rain_unit": TEXT},
            [OSLO | {"rain_unit": "mm"}, BERGEN | {"rain_unit": "mm"}],
        ),
        (
            "<table><tr><th>Name<th>Price (EUR)<tr><td>Hat<td>12<tr><td>Cap<td>8</table>",
            {"name": TEXT, "price": NUMBER, "currency": TEXT},
            [
                {"name": "Hat", "price": 12, "currency": "EUR"},
                {"name": "Cap", "price": 8, "currency": "EUR"},
            ],
        ),
        (
            f"<h2>West</h2>{RAIN}<h2>North</h2>{RAIN.replace('Oslo', 'Narvik')}",
            {"city": TEXT, "rain": NUMBER},
            [OSLO, BERGEN, OSLO | {"city": "Narvik"}, BERGEN],
        ),
        (
            YEARS,
            {"city": TEXT, "rain_2023": NUMBER, "rain_2024": NUMBER},
            [
                {"city": "Oslo", "rain_2023": 1, "rain_2024": 2},
                {"city": "Bergen", "rain_2023": 3, "rain_2024": 4},
            ],
        ),
        (
            MARKED,
            {"city": TEXT, "rain": NUMBER},
            [OSLO, BERGEN],
        ),
    ],
)
def test_rows_are_records(page: str, fields: dict[str, Any], expected: list[Any]) -> None:
    assert rows(page, **fields) == expected
