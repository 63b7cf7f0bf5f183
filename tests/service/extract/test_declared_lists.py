"""Lists that a page declares are read whole and in order, wherever they stand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.service.extract.declared_pages import declared_page
from webdata_nb.service.content.page_source import ConversionOptions, PageSource
from webdata_nb.service.extract.structured import Extraction, extract_structured
from webdata_nb.service.scrape.page import scrape

PAGES = 240
TEXT = {"type": "string"}
NUMBER = {"type": "number"}
Row = dict[str, Any]


def read(html: str, schema: Row) -> Extraction:
    url = "https://site.example/page"
    source = PageSource(url, url, 200, "text/html", html.encode(), (), datetime.now(UTC))
    options = ConversionOptions(formats=("structured_data", "tables"))
    made = scrape(source, options, outlinks=False)
    return extract_structured(
        made.formats["structured_data"],
        schema=schema,
        tables=made.formats["tables"],
        metadata=made.metadata,
    )


def _repeats(row: Row) -> Iterator[Any]:
    values = [value for value in row.values() if value is not None]
    yield from (value for value in values if values.count(value) > 1)


@pytest.mark.parametrize("number", range(PAGES))
def test_all_rows_of_a_declared_list_in_order(number: int) -> None:
    page = declared_page(number)
    found = read(page.html, page.schema)
    rows = found.data[page.name]
    if page.limit:
        assert rows is None
        assert any(note.startswith(f"{page.name}: ") for note in found.notes), page.about
        return
    assert rows == page.rows, page.about
    assert not [value for row in rows for value in _repeats(row)]
    assert not found.notes
