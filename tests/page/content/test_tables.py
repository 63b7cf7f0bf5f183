"""Tables and definition lists read for extraction."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.pages import page_source
from webdata_nb.page.scrape.page import (
    MAX_CELL_CHARACTERS,
    MAX_CELLS,
    MAX_TABLES,
    ConversionOptions,
    scrape,
)


def read_tables(page: str, *formats: str) -> list[dict[str, Any]]:
    """Return the tables of a page."""
    made = scrape(page_source(page), ConversionOptions(("tables", *formats))).formats["tables"]
    assert isinstance(made, list)
    return made


def table(header: list[str], *rows: list[str]) -> dict[str, Any]:
    """Return what a table is read as."""
    return {"header": header, "rows": list(rows), "totals": []}


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            "<table><thead><tr><th>Size<th>Price<tbody><tr><td> S\n<td>9 <b>EUR</b><tr><td>M<td>",
            [table(["Size", "Price"], ["S", "9 EUR"], ["M", ""])],
        ),
        (
            "<table><tr><th>A<th>B<tr><td>1<td>2</table>",
            [table(["A", "B"], ["1", "2"])],
        ),
        (
            "<table><tr><th>Weight<td>3 kg<tr><th>Colour<td>red</table>",
            [table([], ["Weight", "3 kg"], ["Colour", "red"])],
        ),
        ("<table><tr><th>A<th>B</table>", []),
        (
            "<table><tr><th colspan=2>Both<tr><th>A<th>B<tr><td rowspan=2>1<td>2<tr><td>3</table>",
            [table(["A", "B"], ["1", "2"], ["1", "3"])],
        ),
        (
            "<table><tr><th>A<th>B<th>C<tr><td colspan=2>x<td>y</table>",
            [table(["A", "B", "C"], ["x", "x", "y"])],
        ),
        (
            "<table><tr><td>Logo<td><img src=a.png alt='  Acme '></table>",
            [table([], ["Logo", "Acme"])],
        ),
        (
            "<dl><dt>No<dd>1<script>var x = 1</script><style>b{}</style> l</dl>",
            [table([], ["No", "1 l"])],
        ),
        (
            "<dl><dt>Weight<dd>3 kg<div><dt>Colour<dt>Color<dd>red<dd>blue</div><dd>none</dl>",
            [
                table(
                    [],
                    ["Weight", "3 kg"],
                    ["Colour", "red"],
                    ["Color", "red"],
                    ["Colour", "blue"],
                    ["Color", "blue"],
                    ["Colour", "none"],
                    ["Color", "none"],
                )
            ],
        ),
        ("<table role=presentation><tr><td>a<td>b</table>", []),
        (
            "<table><tr><td>menu<td><table><tr><td>Price<td>9</table></table>",
            [table([], ["Price", "9"])],
        ),
        ("<table></table><dl></dl><table><tr></table>", []),
    ],
)
def test_table_cells_like_in_a_browser(page: str, expected: list[dict[str, Any]]) -> None:
    assert read_tables(page) == expected


def test_tables_are_read_from_whole_page() -> None:
    page = (
        "<nav><dl><dt>Price<dd>9 EUR</dl></nav><main><p>"
        + "A long text about a hat that somebody wrote. " * 30
        + "</p></main>"
    )
    assert read_tables(page, "markdown") == [table([], ["Price", "9 EUR"])]


@pytest.mark.slow
def test_table_size_is_bounded() -> None:
    row = "<tr>" + "<td>1" * 100
    [wide] = read_tables(f"<table>{row * 1000}</table>")
    assert len(wide["rows"]) == MAX_CELLS // 100
    assert read_tables(f"<table>{row * 150}</table>" * 3)[1]["rows"]
    assert len(read_tables(f"<table>{row * 150}</table>" * 3)) == 2
    assert len(read_tables("<table><tr><td>a<td>b</table>" * 500)) == MAX_TABLES
    [[_, long]] = read_tables(f"<dl><dt>a<dd>{'word ' * 500}</dl>")[0]["rows"]
    assert len(long) <= MAX_CELL_CHARACTERS
    assert (
        read_tables("<table><tr><td rowspan=1000 colspan=1000>a<td>b" + "<tr><td>c" * 2000)
        is not None
    )
    assert read_tables("<table><tr><td>" * 3000 + "a") == []
    assert read_tables("<dl><dt>a" * 3000 + "<dd>b") is not None
