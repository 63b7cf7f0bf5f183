"""Rows become Arrow columns: typed, lossless, whatever a service sends."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.toolkit.frames import rows, schemas
from webdata_nb.toolkit.frames.rows import dumps
from webdata_nb.toolkit.frames.schemas import SCHEMAS, TableName

PNG = b"\x89PNG\r\n\x1a\nrest"

CRAWLED: dict[str, Any] = {
    "url": "https://site.test/",
    "title": "Start",
    "status": "completed",
    "error": None,
    "status_code": 200,
    "depth": 0,
    "time_taken": 0.25,
    "success": True,
    "content_hash": "ab",
    "fetched_at": "2026-11-20T10:00:00.25Z",
    "quality": {"score": 0.5},
    "markdown": "# Start\n\n\N{SNOWMAN}",
    "links": ["https://site.test/a", "https://site.test/b"],
    "images": [{"url": "a.png", "alt": "", "width": 5, "height": None, "caption": None}],
    "screenshot": base64.b64encode(PNG).decode(),
    "metadata": {"language": "en", "deep": [1, {"a": None}]},
}


def one(row: dict[str, Any], table: TableName = "crawl") -> dict[str, Any]:
    """Return the row as its table holds it, JSON columns decoded."""
    held = rows.to_table(table, [row])
    return {field.name: value_of(field, held[field.name]) for field in held.schema}


def value_of(field: pa.Field[Any], column: pa.ChunkedArray[Any]) -> Any:
    """Return the only value of a column, decoded."""
    if schemas.has_items(field):
        return rows.decode_items(column)[0]
    value: Any = column.to_pylist()[0]
    is_text = schemas.kind(field) == schemas.JSON and value is not None
    return json.loads(value) if is_text else value


def test_every_known_field_lands_in_its_column_with_its_type() -> None:
    held = one(CRAWLED)
    page = CRAWLED | {
        "fetched_at": datetime(2026, 11, 20, 10, 0, 0, 250_000, UTC),
        "screenshot": PNG,
    }
    assert {name: held[name] for name in page} == page
    assert [name for name, value in held.items() if name not in page and value is not None] == []


@pytest.mark.parametrize("table", list(SCHEMAS))
def test_no_rows_still_have_the_whole_schema(table: TableName) -> None:
    held = rows.to_table(table, [])
    assert held.num_rows == 0
    assert held.schema.equals(SCHEMAS[table], check_metadata=True)


def test_unknown_fields_are_kept_and_so_is_one_that_is_called_extra() -> None:
    held = one({"rank": 1, "favicon": "f.ico", "extra": [1]}, "search")
    assert held["extra"] == {"favicon": "f.ico", "extra": [1]}
    assert one({"rank": 1}, "search")["extra"] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("title", 12),
        ("title", ["a"]),
        ("status_code", "200"),
        ("status_code", 70_000),
        ("status_code", 2**70),
        ("status_code", 1.5),
        ("status_code", True),
        ("depth", {}),
        ("time_taken", "1.5"),
        ("time_taken", True),
        ("success", 1),
        ("success", "yes"),
        ("fetched_at", "yesterday"),
        ("fetched_at", 1_700_000_000),
        ("links", "https://site.test/"),
        ("links", [{"href": "a"}]),
        ("links", {"a": 1}),
        ("screenshot", "not base64!"),
        ("screenshot", 5),
        ("screenshot", "\N{SNOWMAN}"),
    ],
)
def test_a_value_that_does_not_fit_moves_to_extra_unchanged(name: str, value: object) -> None:
    table = rows.to_table("crawl", [CRAWLED, CRAWLED | {name: value}])
    first, second = table.to_pylist()
    assert second[name] is None
    extra = orjson.loads(second["extra"])
    assert extra == orjson.loads(dumps({name: value}))
    assert first == rows.to_table("crawl", [CRAWLED]).to_pylist()[0]


@pytest.mark.parametrize(
    ("name", "value", "held"),
    [
        ("depth", 3.0, 3),
        ("time_taken", 2, 2.0),
        ("fetched_at", "2026-11-20T10:00:00", datetime(2026, 11, 20, 10, tzinfo=UTC)),
        ("fetched_at", "2026-11-20T12:00:00+02:00", datetime(2026, 11, 20, 10, tzinfo=UTC)),
        (
            "fetched_at",
            "2026-11-20T10:00:00.1234567Z",
            datetime(2026, 11, 20, 10, 0, 0, 123456, UTC),
        ),
        ("title", "lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("title", "nul\x00inside", "nul\x00inside"),
        ("links", ["a\udfff"], ["a\ufffd"]),
        ("links", [], []),
        ("metadata", {}, {}),
        ("metadata", [], []),
        ("metadata", 0, 0),
        ("metadata", {"n": 2**80}, {"n": 2**80}),
        ("metadata", {"n": float("nan"), "m": 2**80}, {"n": None, "m": 2**80}),
        ("metadata", {"n": float("inf")}, {"n": None}),
        ("metadata", {"a": "\ud800"}, {"a": "\ufffd"}),
    ],
)
def test_a_value_that_can_be_kept_is_kept(name: str, value: object, held: object) -> None:
    row = one(CRAWLED | {name: value})
    assert row[name] == held
    assert row["extra"] is None


def test_items_with_some_fields_have_all_of_them_in_a_frame() -> None:
    batch = rows.batch("crawl", [{"images": [{"url": "a.png"}, {"alt": "A", "width": 7}]}])
    empty = {"url": None, "alt": None, "width": None, "height": None, "caption": None}
    assert rows.decode_items(batch.table["images"]) == [
        [empty | {"url": "a.png"}, empty | {"alt": "A", "width": 7}]
    ]
    assert "images" not in batch.objects


def test_json_that_is_nested_beyond_reason_does_not_break_the_frame() -> None:
    deep: Any = "bottom"
    for _ in range(5000):
        deep = [deep]
    assert one(CRAWLED | {"metadata": deep})["metadata"] == "(nested too deeply to be kept)"


def test_a_page_of_another_service_takes_url_title_and_code_from_its_metadata() -> None:
    held = one(
        {
            "markdown": "text",
            "status": 200,
            "metadata": {"sourceURL": "https://site.test/x", "title": "X", "statusCode": 404},
        }
    )
    assert (held["url"], held["title"], held["status_code"]) == ("https://site.test/x", "X", 200)
    assert held["extra"] == {"status": 200}
    assert held["metadata"]["statusCode"] == 404


def test_metadata_never_overrides_what_the_row_says_itself() -> None:
    held = one({"url": "https://a.test/", "metadata": {"url": "https://b.test/", "title": 5}})
    assert (held["url"], held["title"]) == ("https://a.test/", None)


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
_JSON = (
    _SCALARS
    | st.lists(_SCALARS, max_size=3)
    | st.dictionaries(st.text(max_size=3), st.lists(_SCALARS, max_size=2), max_size=2)
)


@given(
    st.lists(
        st.dictionaries(st.sampled_from([*SCHEMAS["search"].names, "favicon"]), _JSON, max_size=6),
        max_size=4,
    )
)
def test_any_json_row_becomes_a_table_and_nothing_is_lost(given_rows: list[dict[str, Any]]) -> None:
    table = rows.to_table("search", given_rows)
    assert table.schema.equals(SCHEMAS["search"], check_metadata=True)
    for row, held in zip(given_rows, table.to_pylist(), strict=True):
        extra = orjson.loads(held["extra"] or "{}")
        for name, value in row.items():
            if value is None or name == "screenshot":
                continue
            if name in {"extra", "favicon"} or held[name] is None:
                assert name in extra
            elif schemas.has_items(table.schema.field(name)):
                assert len(held[name]) == len(value)  # test_item_lists compares the items
            elif schemas.kind(table.schema.field(name)) == schemas.JSON:
                assert orjson.loads(held[name]) == orjson.loads(dumps(value))
            else:
                assert held[name] == value
