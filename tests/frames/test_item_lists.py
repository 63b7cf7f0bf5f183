"""Images and headings: fixed types in files, dicts in frames, whatever a service sends."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.toolkit.api import headings_df, images_df, to_parquet
from webdata_nb.toolkit.cache import result_cache
from webdata_nb.toolkit.cache.result_cache import CacheKey
from webdata_nb.toolkit.frames import exports, frame, rows, schemas

IMAGE = {"url": "/a.png", "alt": None, "width": 5, "height": None, "caption": "A"}
HEADING = {"level": 1, "text": "One", "anchor": None}
PAGE: dict[str, Any] = {
    "url": "https://a.test/",
    "success": True,
    "images": [IMAGE],
    "headings": [HEADING],
}
KEY = CacheKey.of("crawl", base_url="https://s.test", identity="me", params={"url": "u"})
NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)

# Replies have integers of 64 bits: orjson decodes longer ones as floats.
_INTEGERS = st.integers(-(2**63), 2**64 - 1)
_JSON = st.recursive(
    st.none() | st.booleans() | _INTEGERS | st.text(max_size=5),
    lambda each: (
        st.lists(each, max_size=3)
        | st.dictionaries(st.sampled_from([*IMAGE, "src", "extra"]), each, max_size=4)
    ),
    max_leaves=8,
)


def rows_of(query: str) -> list[Any]:
    relation = duckdb.sql(query)
    assert relation is not None
    return relation.fetchall()


def test_items_of_our_service_are_not_copied() -> None:
    batch = rows.batch("crawl", [PAGE])
    assert batch.objects["images"][0] is PAGE["images"]
    assert frame.build(batch.table)["images"][0] == [IMAGE]
    assert frame.build(batch.table)["headings"][0] == [HEADING]


@pytest.mark.parametrize(
    ("item", "decoded"),
    [
        ({"url": "/a.png"}, {**dict.fromkeys(IMAGE), "url": "/a.png"}),
        ({**IMAGE, "src": "/b.png"}, {**IMAGE, "src": "/b.png"}),
        ({**IMAGE, "width": "100%"}, {**IMAGE, "width": "100%"}),
        ({**IMAGE, "width": 1.5}, {**IMAGE, "width": 1.5}),
        ({**IMAGE, "width": True}, {**IMAGE, "width": True}),
        ({**IMAGE, "width": 2**40}, {**IMAGE, "width": 2**40}),
        ({**IMAGE, "extra": [1]}, {**IMAGE, "extra": [1]}),
        ("/a.png", "/a.png"),
        (None, None),
    ],
)
def test_every_item_has_the_same_fields_and_nothing_is_lost(item: Any, decoded: Any) -> None:
    batch = rows.batch("crawl", [PAGE, {"images": [item]}])
    df = frame.build(batch.table, objects=batch.objects)
    assert df["images"][0] == [IMAGE]
    assert df["images"][1] == [decoded]
    assert df["extra"][1] is None


@given(st.lists(_JSON, max_size=3))
def test_any_items_make_equal_frames_from_rows_and_from_the_table(items: list[Any]) -> None:
    batch = rows.batch("crawl", [{"images": items}])
    fresh = frame.build(batch.table, objects=batch.objects)
    assert fresh["images"][0] == frame.build(batch.table)["images"][0]
    for item, decoded in zip(items, fresh["images"][0], strict=True):
        if isinstance(item, dict):
            assert {name: decoded[name] for name in item} == item
            assert decoded.keys() == {*IMAGE, *item}
        else:
            assert decoded == item


def test_duckdb_and_polars_query_a_cached_file(tmp_path: Path) -> None:
    table = rows.to_table("crawl", [PAGE])
    path = result_cache.put(tmp_path, KEY, table, {}, now=NOW).path
    assert pq.read_schema(path).field("headings").type == schemas.ITEM_TYPES["headings"]
    query = f"SELECT h.text, h.level FROM (SELECT unnest(headings) AS h FROM '{path}')"
    assert rows_of(query) == [("One", 1)]
    widths = pl.read_parquet(path).explode("images")["images"].struct.field("width")
    assert widths.to_list() == [5]
    assert rows_of(f"SELECT images[1].url FROM '{path}'") == [("/a.png",)]


def test_a_file_has_the_columns_of_its_frame(tmp_path: Path) -> None:
    names = schemas.frame_columns("crawl", formats=["headings"], metadata=True)
    table = rows.to_table("crawl", [PAGE]).select(list(names))
    path = result_cache.put(tmp_path, KEY, table, {}, now=NOW).path
    assert tuple(pq.read_schema(path).names) == names
    found = result_cache.newest(tmp_path, KEY, now=NOW, columns=names)
    assert found is not None
    assert found.table.equals(table)
    wider = result_cache.newest(tmp_path, KEY, now=NOW, columns=(*names, "images"))
    assert wider is not None
    assert wider.table["images"].to_pylist() == [None]


def test_files_with_unknown_columns_are_a_miss(tmp_path: Path) -> None:
    table = rows.to_table("crawl", [PAGE]).append_column("later", pa.array(["x"]))
    result_cache.put(tmp_path, KEY, table, {}, now=NOW)
    assert result_cache.newest(tmp_path, KEY, now=NOW) is None


def test_derived_frames_and_exports_of_arrow_frames(tmp_path: Path) -> None:
    page = {**PAGE, "images": [{"src": "/b.png", "width": 3}]}
    table = rows.to_table("crawl", [page])
    for backend in get_args(frame.DtypeBackend):
        df = frame.build(table, dtype_backend=backend)
        assert images_df(df)["src"].tolist() == ["/b.png"]
        assert headings_df(df)["text"].tolist() == ["One"]
        to_parquet(df, tmp_path / f"{backend}.parquet")
        written = pq.read_schema(tmp_path / f"{backend}.parquet").field("images").type
        assert written == schemas.ITEM_TYPES["images"]
    exports.write(tmp_path / "rows.jsonl", table, {})
    line = json.loads((tmp_path / "rows.jsonl").read_text("utf-8"))
    assert line["images"] == [{**dict.fromkeys(IMAGE), "src": "/b.png", "width": 3}]
    assert line["headings"] == [HEADING]


def test_column_of_items_is_written_with_its_type_whatever_it_holds(tmp_path: Path) -> None:
    df = pd.DataFrame({"url": ["u", "v"], "headings": [[], None]})
    to_parquet(df, tmp_path / "x.parquet")
    written = pq.read_schema(tmp_path / "x.parquet").field("headings").type
    assert written == schemas.ITEM_TYPES["headings"]
