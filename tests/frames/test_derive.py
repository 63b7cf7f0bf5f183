"""Links, images, headings and tables of pages, each as a frame of its own."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import webdata_nb
from webdata_nb import headings_df, images_df, links_df
from webdata_nb.errors import InvalidArgument
from webdata_nb.page.scrape.page import html_tables, markdown_tables
from webdata_nb.toolkit.frames import frame, rows, schemas
from webdata_nb.toolkit.frames.derive import tables

PAGES: list[dict[str, Any]] = [
    {
        "url": "http://a.test/one",
        "links": ["http://a.test/two", "http://b.test/"],
        "images": [{"url": "http://a.test/x.png", "alt": "X", "width": 5, "height": None, "t": 1}],
        "headings": [{"level": 1, "text": "One", "anchor": None}, {"level": 2, "text": "Two"}],
    },
    {"url": "http://a.test/two", "links": [], "images": None, "headings": [{"level": "1"}]},
]


def pages(backend: frame.DtypeBackend = "pandas") -> pd.DataFrame:
    table = rows.to_table("crawl", PAGES)
    columns = schemas.frame_columns("crawl", formats=["links", "images", "headings"], metadata=True)
    return frame.build(table, columns=columns, dtype_backend=backend)


@pytest.mark.parametrize("backend", ["pandas", "pyarrow"])
def test_each_item_is_a_row_with_its_place(backend: frame.DtypeBackend) -> None:
    links = links_df(pages(backend))
    assert links[["url", "position", "link", "internal"]].to_numpy().tolist() == [
        ["http://a.test/one", 1, "http://a.test/two", True],
        ["http://a.test/one", 2, "http://b.test/", False],
    ]
    images = images_df(pages(backend))
    assert images["src"].tolist() == ["http://a.test/x.png"]
    assert images["width"].tolist() == [5]
    headings = headings_df(pages(backend))
    assert headings["text"].tolist()[:2] == ["One", "Two"]
    assert headings["level"].tolist()[:2] == [1, 2]
    assert pd.isna(headings["level"].tolist()[2])  # a level that is no number


@pytest.mark.parametrize("derived", [links_df, images_df, headings_df])
def test_no_rows_have_the_same_types(derived: Any) -> None:
    full, empty = derived(pages()), derived(pages().iloc[:0])
    assert len(empty) == 0
    assert full.dtypes.equals(empty.dtypes)
    with pytest.raises(InvalidArgument, match="formats="):
        derived(pd.DataFrame({"url": []}))


TABLE = """
<table><caption>Cities <b>by</b> size</caption>
<tr><th>City</th><th>People</th><th>Capital</th><th>Code</th></tr>
<tr><td>Oslo</td><td>717,710</td><td>true</td><td>0150</td></tr>
<tr><td rowspan=2>Bergen</td><td>&nbsp;</td><td>false</td><td>5003</td></tr>
<tr><td colspan=2>x<script>bad()</script></td><td>1<table><tr><td>in</td></tr></table></td></tr>
</table>
<table></table><table><tr><td>1.5<td>a<tr><td>-2e3
"""


def test_tables_of_html_are_typed_and_their_spans_filled() -> None:
    made = tables(pd.DataFrame({"url": ["http://a.test/"], "html": [TABLE]}))
    cities, unclosed = made
    assert cities.attrs["webdata"] == {
        "kind": "table",
        "url": "http://a.test/",
        "position": 1,
        "caption": "Cities by size",
        "total_rows": [],
    }
    assert list(cities.columns) == ["url", "position", "City", "People", "Capital", "Code"]
    assert cities["City"].tolist() == ["Oslo", "Bergen", "Bergen"]
    assert cities["People"].tolist() == ["717,710", "", "x"]  # not all of them numbers
    assert cities["Code"].tolist() == ["0150", "5003", "1 in"]
    assert unclosed["column 1"].tolist() == [1.5, -2000.0]
    assert unclosed["column 2"].tolist() == ["a", ""]


def test_tables_of_markdown() -> None:
    text = """
| a | b \\| c | a |
|:--|---:|---|
| 1 | x | |
| 2,000 | y |

```
| no | table |
|---|---|
```
not | a table
"""
    (made,) = tables(pd.DataFrame({"url": ["u"], "markdown": [text]}))
    assert list(made.columns) == ["url", "position", "a", "b | c", "a (2)"]
    assert made["a"].tolist() == [1, 2000]
    assert str(made["a"].dtype) == "Int64"
    assert made["a (2)"].tolist() == ["", ""]


@pytest.mark.parametrize("rule", ["|---|", "|:-:|", ":-:", "  |---"])
def test_a_table_of_one_column_has_any_delimiter_row_of_github(rule: str) -> None:
    (made,) = markdown_tables(f"| a |\n{rule}\n| b |")
    assert (made.header, made.rows) == (["a"], [["b"]])


def test_the_package_is_the_function_too() -> None:
    text = "| a |\n|---|\n| 1 |"
    df = pd.DataFrame({"url": ["u"], "markdown": [text], "html": [None]})
    assert webdata_nb.tables(df) == []
    assert len(webdata_nb.tables(df, source="markdown")) == 1
    assert webdata_nb.tables(df, source="markdown", min_rows=2) == []
    with pytest.raises(InvalidArgument, match="source"):
        tables(df, source="pdf")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="formats"):
        tables(pd.DataFrame({"url": ["u"]}))


@given(st.text(alphabet='<>/"=|-:\\ \ntablerdhcospn123', max_size=300))
def test_any_text_gives_rectangles(text: str) -> None:
    for made in (*html_tables(text, "http://a.test/"), *markdown_tables(text)):
        assert len({len(row) for row in made.rows} | {len(made.header) or len(made.rows[0])}) == 1


def test_spans_without_end_have_one() -> None:
    text = '<table><tr><td colspan="999999999" rowspan="99999999">x<td>y</table>'
    (made,) = html_tables(text, "http://a.test/")
    assert made.rows == [["x", "y"]]
