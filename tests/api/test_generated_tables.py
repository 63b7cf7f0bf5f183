"""300 generated tables, read from every format that holds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from tests.local_service import stop
from tests.site.generated_tables import GeneratedTable, TableGenerator
from tests.site.server import Site
from webdata_nb import settings, tables
from webdata_nb.toolkit.api import connect

PAGES, TABLES_PER_PAGE = 50, 6
PROSE = (
    "The harbour office keeps a ledger of every boat that enters the bay, and each entry names the "
    "skipper, the cargo and the hour of arrival. In winter the pages stay almost empty, because "
    "few crews dare to sail when the northern wind blows. "
)
FEATURES = {
    *("hidden", "exponent", "reference", "link", "bold", "code", "pre", "blocks", "list", "nested"),
    *("image", "signs", "br", "span", "unit", "total", "no header", "header of two rows"),
}


@pytest.fixture(scope="module")
def crawled(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[pd.DataFrame, dict[str, list[GeneratedTable]]]]:
    """Crawl the pages once, in the three formats; give also what each shows."""
    folder = tmp_path_factory.mktemp("tables")
    with pytest.MonkeyPatch.context() as patch, Site() as site:
        patch.setenv("WEBDATA_HOME", str(folder / "home"))
        patch.setenv("WEBDATA_CACHE", str(folder / "cache"))
        shown = {}
        for number in range(PAGES):
            generator = TableGenerator(number)
            made = [generator.table() for _ in range(TABLES_PER_PAGE)]
            parts = "".join(
                f"<h2>Part {n}</h2><p>{PROSE}</p>{table.markup}" for n, table in enumerate(made)
            )
            page = f"<title>Ledger {number}</title><main><h1>Ledger {number}</h1>{parts}</main>"
            shown[site.page(f"/t{number}", page)] = made
        with connect() as session:
            df = session.crawl_df(
                site.page("/", "".join(f'<a href="{url}">page</a>' for url in shown)),
                max_pages=PAGES + 1,
                max_depth=1,
                formats=["markdown", "html", "raw_html"],
            )
            yield df, shown
        stop(settings.current())


def is_same(value: Any, text: str) -> bool:
    if pd.isna(value):
        return text == ""
    return value == text if isinstance(value, str) else float(text.replace(",", "")) == value


@pytest.mark.parametrize(
    "source",
    ["markdown", *(pytest.param(each, marks=pytest.mark.slow) for each in ("html", "raw_html"))],
)
def test_cells_are_what_the_page_shows(
    crawled: tuple[pd.DataFrame, dict[str, list[GeneratedTable]]], source: Any
) -> None:
    df, shown = crawled
    assert len(df) == PAGES + 1
    found = tables(df, source=source)
    wrong = []
    for url, expected in shown.items():
        read = [each for each in found if each.attrs["webdata"]["url"] == url]
        assert len(read) == len(expected), url
        for table, data in zip(expected, read, strict=True):
            cells = data.iloc[:, 2:]
            names = table.header or [f"column {n + 1}" for n in range(len(table.rows[0]))]
            is_right = (
                list(cells.columns) == names
                and len(cells) == len(table.rows)
                and all(
                    is_same(value, text)
                    for row, texts in zip(cells.itertuples(index=False), table.rows, strict=True)
                    for value, text in zip(row, texts, strict=True)
                )
            )
            if not is_right or data.attrs["webdata"]["total_rows"] != table.totals:
                wrong.append((table, list(cells.columns), cells.to_dict("split")))
    assert wrong == []


def test_the_tables_have_every_feature() -> None:
    features = set()
    for number in range(PAGES):
        generator = TableGenerator(number)
        features |= {each for _ in range(TABLES_PER_PAGE) for each in generator.table().features}
    assert features == FEATURES
