"""Frames: the same columns and dtypes for many rows and none, fresh and cached."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from tests.frames.test_rows import CRAWLED, PNG
from webdata_nb.contract.choices import FORMATS
from webdata_nb.toolkit.frames import frame, rows, schemas
from webdata_nb.toolkit.frames.rows import dumps
from webdata_nb.toolkit.frames.schemas import TableName

EXPECTED: dict[TableName, dict[str, str]] = {
    "search": {
        "rank": "Int32",
        "url": "str",
        "title": "str",
        "snippet": "str",
        "id": "str",
        "error": "str",
        "success": "boolean",
        "scraped": "boolean",
        "provider": "str",
    },
    "crawl": {
        "url": "str",
        "title": "str",
        "status": "str",
        "error": "str",
        "status_code": "Int16",
        "depth": "Int16",
        "time_taken": "float64",
        "success": "boolean",
        "content_hash": "str",
        "fetched_at": "datetime64[us, UTC]",
        "quality": "object",
    },
    "creatives": {
        "position": "Int32",
        "advertiser_id": "str",
        "creative_id": "str",
        "preview_url": "str",
        "advertiser_name": "str",
        "format": "str",
        "first_shown": "datetime64[us, UTC]",
        "last_shown": "datetime64[us, UTC]",
        "days_shown": "Int32",
        "political": "boolean",
        "error": "str",
    },
}
SCRAPED = {
    "markdown": "str",
    "html": "str",
    "raw_html": "str",
    "links": "object",
    "images": "object",
    "headings": "object",
    "structured_data": "object",
    "records": "object",
    "screenshot": "object",
    "extract": "object",
    "metadata": "object",
}


def dtypes(df: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(dtype) for name, dtype in df.dtypes.items()}


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("table", list(EXPECTED))
def test_dtypes_are_those_of_the_design_whatever_the_rows(table: TableName, count: int) -> None:
    columns = schemas.frame_columns(table, formats=FORMATS, extract=True, metadata=True)
    df = frame.build(rows.to_table(table, [{} for _ in range(count)]), columns=columns)
    scraped = {} if table == "creatives" else SCRAPED
    assert dtypes(df) == {**EXPECTED[table], **scraped, "extra": "object"}
    assert len(df) == count
    assert df.index.equals(pd.RangeIndex(count))


@pytest.mark.parametrize(
    ("wanted", "scraped"),
    [
        ({}, []),
        ({"formats": ["markdown"], "metadata": True}, ["metadata", "markdown"]),
        ({"formats": ["links", "html"], "extract": True}, ["extract", "links", "html"]),
    ],
)
def test_the_request_decides_the_columns(wanted: dict[str, Any], scraped: list[str]) -> None:
    columns = schemas.frame_columns("search", **wanted)
    assert set(columns) == {*EXPECTED["search"], "extra", *scraped}
    assert [name for name in columns if name in scraped] == scraped


def test_printed_frames_begin_and_end_with_useful_columns() -> None:
    for table, wanted, ends in (
        ("search", {}, ("rank", "snippet")),
        ("search", {"formats": ["markdown"], "metadata": True}, ("rank", "markdown")),
        ("crawl", {"formats": ["links"], "metadata": True}, ("url", "title")),
        ("crawl", {"formats": ["raw_html", "markdown"], "metadata": True}, ("url", "markdown")),
    ):
        columns = schemas.frame_columns(table, **wanted)  # type: ignore[arg-type]
        assert (columns[0], columns[-1]) == ends
        assert columns.index("extra") < columns.index("title")


def test_lists_and_json_are_python_objects_and_images_are_bytes() -> None:
    df = frame.build(rows.to_table("crawl", [CRAWLED, {"url": "x"}]))
    assert df["links"].tolist() == [CRAWLED["links"], None]
    assert df["metadata"].tolist() == [CRAWLED["metadata"], None]
    assert df["quality"].tolist() == [CRAWLED["quality"], None]
    assert df["screenshot"].tolist() == [PNG, None]


def test_values_at_hand_and_decoded_ones_make_equal_frames() -> None:
    batch = rows.batch("crawl", [CRAWLED, {"links": None, "metadata": {"a": [1.5, None]}}, {}])
    assert set(batch.objects) == {"links", "images", "metadata", "quality"}
    fresh = frame.build(batch.table, objects=batch.objects)
    pd.testing.assert_frame_equal(fresh, frame.build(batch.table))
    assert fresh["links"][0] is CRAWLED["links"]


@pytest.mark.parametrize(
    "row", [{"links": ["a", 5]}, {"links": ["\ud800"]}, {"metadata": {"n": 2**70}}]
)
def test_a_column_in_which_a_value_was_changed_is_decoded(row: dict[str, Any]) -> None:
    batch = rows.batch("crawl", [CRAWLED, row])
    assert not set(row) & set(batch.objects)
    fresh = frame.build(batch.table, objects=batch.objects)
    pd.testing.assert_frame_equal(fresh, frame.build(batch.table))


def test_a_cut_and_a_chunked_table_give_the_same_lists() -> None:
    table = rows.to_table("crawl", [{"links": [str(n)] * n} for n in range(5)])
    cut = frame.build(table.slice(2, 2))
    chunked = frame.build(pa.concat_tables([table.slice(0, 2), table.slice(2)]))
    assert cut["links"].tolist() == [["2", "2"], ["3", "3", "3"]]
    assert chunked["links"].tolist() == [[str(n)] * n for n in range(5)]


def test_the_arrow_backend_has_arrow_types_except_for_lists() -> None:
    df = frame.build(rows.to_table("crawl", [CRAWLED]), dtype_backend="pyarrow")
    others = {name for name, dtype in df.dtypes.items() if not isinstance(dtype, pd.ArrowDtype)}
    assert others == {"links", "images", "headings", "found_on"}
    assert df["metadata"][0] == dumps(CRAWLED["metadata"])
    assert list(df["links"][0]) == CRAWLED["links"]
    assert df["screenshot"][0] == PNG


@pytest.mark.parametrize("backend", ["pandas", "pyarrow"])
def test_the_receipt_is_under_one_key_and_follows_the_frame(backend: frame.DtypeBackend) -> None:
    receipt = {"job_id": "j", "counts": {"rows": 1}}
    table = rows.to_table("crawl", [CRAWLED])
    df = frame.build(table, attrs=receipt, dtype_backend=backend)
    assert df.attrs == {"webdata": receipt}
    assert df[["url"]].query("url != ''").attrs == {"webdata": receipt}
    assert frame.build(table, dtype_backend=backend).attrs == {}


def test_two_builds_of_one_table_are_equal_and_share_nothing_mutable() -> None:
    table = rows.to_table("crawl", [CRAWLED])
    first, second = frame.build(table, attrs={"a": 1}), frame.build(table, attrs={"a": 1})
    pd.testing.assert_frame_equal(first, second)
    first["metadata"][0]["language"] = "xx"
    first["links"][0].append("x")
    first.attrs["webdata"]["a"] = 2
    assert second["metadata"][0]["language"] == "en"
    assert second["links"][0] == CRAWLED["links"]
    assert second.attrs["webdata"]["a"] == 1
