"""The CSV export: columns by the request, RFC 4180, cells that compute nothing."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import require
from tests.service.exports.jobs import Given, crawl_row, job_of, search_row, whole
from webdata_nb.contract.cells import unescape_formula
from webdata_nb.service.exports import as_csv

# What JSON can carry: the store refuses NUL and halves of surrogate pairs in requests, not pages.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def read(body: bytes) -> list[dict[str, str]]:
    lines = csv.DictReader(io.StringIO(body.decode("utf-8"), newline=""))
    return [{name: unescape_formula(cell) for name, cell in row.items()} for row in lines]


async def exported(kind: Any, *rows: dict[str, Any], **request: Any) -> bytes:
    return await whole(as_csv.stream(job_of(kind, **request), Given(*rows)))


async def test_the_columns_follow_the_request_and_not_the_data() -> None:
    plain = await exported("search", search_row(1, surprise=1), formats=[])
    assert plain.splitlines()[0] == b"id,rank,url,title,snippet,success,scraped,error"
    scraped = await exported("search", search_row(1), formats=["links", "markdown"])
    assert scraped.splitlines()[0].endswith(b",scraped,error,markdown,links,metadata")
    options = {"formats": ["html"], "extract": {"prompt": "p"}}
    crawled = await exported("crawl", crawl_row(1), scrape_options=options)
    assert crawled.splitlines()[0].endswith(b",fetched_at,html,extract,metadata")
    assert (await exported("crawl", crawl_row(1))).splitlines()[0].endswith(b",markdown,metadata")


async def test_values_are_written_so_that_they_can_be_read() -> None:
    row = search_row(1, links=["https://a.test/,", "b"], error=None, title='a "b", c\r\nd')
    [back] = read(await exported("search", row, formats=["links"]))
    assert back["title"] == row["title"]
    assert json.loads(back["links"]) == row["links"]
    assert json.loads(back["metadata"]) == row["metadata"]
    assert (back["rank"], back["success"], back["error"]) == ("1", "true", "")


async def test_lines_end_as_rfc_4180_says() -> None:
    body = await exported("search", search_row(1), search_row(2), search_row(3), formats=[])
    assert body.count(b"\r\n") == 4
    assert body.replace(b"\r\n", b"").count(b"\n") == 0


@given(st.lists(TEXT, min_size=1, max_size=5))
async def test_any_text_comes_back_from_any_column(texts: list[str]) -> None:
    rows = [search_row(1, title=text, snippet=text, markdown=text, url=text) for text in texts]
    back = read(await exported("search", *rows))
    for name in ("title", "snippet", "markdown", "url"):
        assert [row[name] for row in back] == texts


async def test_hostile_cells_come_back_through_pandas_from_every_column() -> None:
    own = require("corpora") / "own" / "csv_formula_cells.json"
    blns = require("corpora") / "strings" / "blns.json"
    cells = [each["cell"] for each in json.loads(own.read_text("utf-8"))]
    cells += json.loads(blns.read_text("utf-8"))
    names = ("id", "url", "title", "snippet", "error", "markdown", "extract")
    rows = [search_row(1, **dict.fromkeys(names, cell)) for cell in cells]
    body = await exported("search", *rows, extract={"prompt": "p"})
    frame = pd.read_csv(io.BytesIO(body), dtype=str, keep_default_na=False)
    for name in names:
        assert [unescape_formula(cell) for cell in frame[name]] == cells, name
        raw = [cell[:1] for cell in frame[name]]
        assert not set(raw) & set("=+-@\uff1d\uff0b\uff0d\uff20\t\r\n")
