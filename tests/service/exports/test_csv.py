"""Tests the columns, the format and the escaped cells of the CSV export."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import require
from tests.service.exports.jobs import RowsInMemory, crawl_row, job_of, read_all, search_row
from webdata_nb.contract.cells import unescape_formula
from webdata_nb.service.exports import stream_csv

# Any text that JSON can contain; the store refuses NUL and lone surrogates in requests only.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def read_csv(body: bytes) -> list[dict[str, str]]:
    lines = csv.DictReader(io.StringIO(body.decode("utf-8"), newline=""))
    return [{name: unescape_formula(cell) for name, cell in row.items()} for row in lines]


async def export_csv(kind: Any, *rows: dict[str, Any], **request: Any) -> bytes:
    return await read_all(stream_csv(job_of(kind, **request), RowsInMemory(*rows)))


async def test_columns_depend_on_request_only() -> None:
    plain = await export_csv("search", search_row(1, surprise=1), formats=[])
    assert plain.splitlines()[0] == b"id,rank,url,title,snippet,success,scraped,error"
    scraped = await export_csv("search", search_row(1), formats=["links", "markdown"])
    assert scraped.splitlines()[0].endswith(b",scraped,error,markdown,links,metadata")
    options = {"formats": ["html"], "extract": {"prompt": "p"}}
    crawled = await export_csv("crawl", crawl_row(1), scrape_options=options)
    assert crawled.splitlines()[0].endswith(b",fetched_at,html,extract,metadata")
    assert (await export_csv("crawl", crawl_row(1))).splitlines()[0].endswith(b",markdown,metadata")


async def test_values_round_trip() -> None:
    row = search_row(1, links=["https://a.test/,", "b"], error=None, title='a "b", c\r\nd')
    [row_read] = read_csv(await export_csv("search", row, formats=["links"]))
    assert row_read["title"] == row["title"]
    assert json.loads(row_read["links"]) == row["links"]
    assert json.loads(row_read["metadata"]) == row["metadata"]
    assert (row_read["rank"], row_read["success"], row_read["error"]) == ("1", "true", "")


async def test_lines_end_with_crlf() -> None:
    body = await export_csv("search", search_row(1), search_row(2), search_row(3), formats=[])
    assert body.count(b"\r\n") == 4
    assert body.replace(b"\r\n", b"").count(b"\n") == 0


@given(st.lists(TEXT, min_size=1, max_size=5))
async def test_any_text_round_trips(texts: list[str]) -> None:
    rows = [search_row(1, title=text, snippet=text, markdown=text, url=text) for text in texts]
    rows_read = read_csv(await export_csv("search", *rows))
    for name in ("title", "snippet", "markdown", "url"):
        assert [row[name] for row in rows_read] == texts


async def test_hostile_cells_round_trip_through_pandas() -> None:
    own = require("corpora") / "own" / "csv_formula_cells.json"
    blns = require("corpora") / "strings" / "blns.json"
    cells = [each["cell"] for each in json.loads(own.read_text("utf-8"))]
    cells += json.loads(blns.read_text("utf-8"))
    names = ("id", "url", "title", "snippet", "error", "markdown", "extract")
    rows = [search_row(1, **dict.fromkeys(names, cell)) for cell in cells]
    body = await export_csv("search", *rows, extract={"prompt": "p"})
    frame = pd.read_csv(io.BytesIO(body), dtype=str, keep_default_na=False)
    for name in names:
        assert [unescape_formula(cell) for cell in frame[name]] == cells, name
        raw = [cell[:1] for cell in frame[name]]
        assert not set(raw) & set("=+-@\uff1d\uff0b\uff0d\uff20\t\r\n")
