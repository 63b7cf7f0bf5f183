"""What changed between two frames: rows, columns and values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.frames import exports, frame, rows, schemas
from webdata_nb.toolkit.frames.compare import diff


def crawled(*pages: dict[str, Any]) -> pd.DataFrame:
    table = rows.to_table("crawl", list(pages))
    columns = schemas.frame_columns("crawl", formats=["markdown", "links"], metadata=True)
    return frame.build(table, columns=columns)


A = {"url": "/a", "title": "A", "links": ["/x"], "time_taken": 1.0, "metadata": {"n": [1]}}
B = {"url": "/b", "title": "B", "status_code": 200}
C = {"url": "/c", "title": "C"}


def cells(changes: pd.DataFrame, *names: str) -> list[list[Any]]:
    """Return columns of changes as lists, with None for missing values."""
    found = changes[list(names)].astype(object)
    rows: list[list[Any]] = found.where(found.notna(), None).to_numpy().tolist()
    return rows


def fields(changes: pd.DataFrame) -> list[str]:
    return [str(each) for each in changes["field"]]


def test_added_removed_and_changed_with_their_values() -> None:
    changed = A | {"links": ["/x", "/y"], "time_taken": 9.0, "title": None}
    found = diff(crawled(A, B), crawled(changed, C))
    assert cells(found, "change", "url", "field", "old", "new") == [
        ["changed", "/a", "links", '[\n"/x"\n]', '[\n"/x",\n"/y"\n]'],
        ["changed", "/a", "title", "A", None],
        ["removed", "/b", "title", "B", None],
        ["added", "/c", "title", None, "C"],
    ]
    assert cells(found, "evidence")[:2] == [['+ "/y"'], [None]]
    assert fields(diff(crawled(A), crawled(changed), columns=["title"])) == ["title"]


def test_added_and_removed_rows_have_the_values_of_the_chosen_columns() -> None:
    found = diff(crawled(B), crawled(C), columns=["status_code", "title"])
    assert cells(found, "change", "field", "old", "new") == [
        ["removed", "status_code", "200", None],
        ["removed", "title", "B", None],
        ["added", "title", None, "C"],
    ]
    bare = diff(crawled(B), crawled({"url": "/c"}))
    assert cells(bare, "change", "field", "new")[1] == ["added", None, None]


def test_page_that_could_not_be_read_has_changed_in_its_outcome_only() -> None:
    page = {**PAGE, "success": True, "status": "completed", "status_code": 200}
    broken = {"url": "/a", "success": False, "status": "failed", "error": "timeout"}
    found = diff(crawled(page), crawled(broken))
    assert fields(found) == ["status", "error", "status_code"]
    back = diff(crawled(broken), crawled(page))
    assert fields(back) == fields(found)
    assert cells(back, "old") == cells(found, "new")
    gone = broken | {"status_code": 404, "title": "Not found"}
    assert "title" in fields(diff(crawled(page), crawled(gone)))


def test_changes_say_when_both_sides_were_fetched_and_what_was_compared() -> None:
    old, new = crawled(A | {"fetched_at": "2026-11-20T10:00:00Z"}), crawled(C)
    new.attrs = {"webdata": {"kind": "crawl", "subject": "https://a.test/", **ENDED}}
    found = diff(old, new)
    assert found["old_at"].tolist() == [pd.Timestamp("2026-11-20 10:00", tz="UTC")] * 2
    assert found["new_at"].tolist() == [pd.Timestamp("2026-11-21 11:00", tz="UTC")] * 2
    assert found.webdata.receipt["changes"]["pages"] == {"changed": 0, "added": 1, "removed": 1}
    line = "compared 1 page of https://a.test/ (2026-11-21 11:00 UTC) with 1 (2026-11-21 11:00 UTC)"
    assert diff(new, new).webdata.line == f"{line}: no change"
    assert diff(new[:0], new).webdata.line.startswith("compared 0 pages of https://a.test/")


ENDED = {"timings": {"finished_at": "2026-11-21T11:00:00Z"}}


def test_times_and_bytes_are_texts() -> None:
    old, new = (
        pd.DataFrame({"url": ["/"], "at": [pd.Timestamp(day)], "png": [png]})
        for day, png in (("2026-11-20", b"a"), ("2026-11-21", b"b"))
    )
    found = diff(old, new)
    assert cells(found, "field", "old")[0] == ["at", "2026-11-20T00:00:00"]
    assert found["new"].str.startswith("sha256:").tolist() == [False, True]


PAGE: dict[str, Any] = {
    **A,
    "markdown": "# A",
    "content_hash": "h1",
    "quality": {"score": 0.5},
    "metadata": {
        "description": "old",
        "fetched_at": "2026-11-20T10:00:00+00:00",
        "content_hash": "h1",
        "crawl_score": 0.5,
    },
}


def test_page_that_reads_the_same_is_unchanged() -> None:
    later = {
        **PAGE,
        "content_hash": "h2",
        "quality": {"score": 0.6},
        "metadata": {**PAGE["metadata"], "fetched_at": "later", "content_hash": "h2"},
    }
    assert diff(crawled(PAGE), crawled(later)).empty
    named = diff(crawled(PAGE), crawled(later), columns=["content_hash", "quality"])
    assert fields(named) == ["content_hash", "quality.score"]


def test_changed_metadata_shows_the_entries_that_changed() -> None:
    own = {"description": "new", "author": "Ada", "title": "B", "rung": "full"}
    later = {**PAGE, "metadata": {**PAGE["metadata"], **own}}
    changes = diff(crawled(PAGE), crawled(later))
    assert cells(changes, "field", "old", "new") == [
        ["metadata.description", "old", "new"],
        ["metadata.author", None, "Ada"],
    ]


def test_received_bytes_are_compared_where_there_is_no_content() -> None:
    table = [rows.to_table("crawl", [{**A, "content_hash": each}]) for each in ("h1", "h2")]
    before, after = (frame.build(each, columns=schemas.frame_columns("crawl")) for each in table)
    assert fields(diff(before, after)) == ["content_hash"]


def test_frames_with_arrow_types_are_compared_with_others() -> None:
    pages = [{**PAGE, "headings": [{"level": 1, "text": "A", "anchor": None}]}]
    table = rows.to_table("crawl", pages)
    assert diff(frame.build(table), frame.build(table, dtype_backend="pyarrow")).empty


def test_frames_of_different_kinds_are_refused() -> None:
    searched = frame.build(rows.to_table("search", [{"url": "/a"}]))
    kinds = pytest.raises(InvalidArgument, match="a is a frame of kind crawl and b of kind search")
    with kinds:
        diff(crawled(A), searched)
    first, second = crawled(A), crawled(A)
    first.attrs, second.attrs = {"webdata": {"kind": "crawl"}}, {"webdata": {"kind": "table"}}
    with pytest.raises(InvalidArgument, match="crawl and b of kind table"):
        diff(first, second)


def test_no_change_is_an_empty_frame_of_the_same_types() -> None:
    some, none = diff(crawled(A), crawled(B)), diff(crawled(A), crawled(A | {"time_taken": 5.0}))
    assert len(none) == 0
    assert none.dtypes.equals(some.dtypes)


def test_rows_of_one_key_are_told_apart_by_order() -> None:
    twice = diff(crawled(A, A), crawled(A, A | {"title": "A2"}, A))
    assert twice["change"].tolist() == ["changed", "added"]


def test_files_and_keys_of_ones_own(tmp_path: Path) -> None:
    table = rows.to_table("crawl", [A])
    exports.write(tmp_path / "a.parquet", table, {})
    assert len(diff(tmp_path / "a.parquet", str(tmp_path / "a.parquet"))) == 0
    old, new = pd.DataFrame({"k": [1], "v": [2]}), pd.DataFrame({"k": [1], "v": [3]})
    assert diff(old, new, on="k")["change"].tolist() == ["changed"]
    refused: list[dict[str, Any]] = [{}, {"on": "x"}, {"on": []}, {"on": "k", "columns": ["x"]}]
    for wrong in refused:
        with pytest.raises(InvalidArgument):
            diff(old, new, **wrong)
    (tmp_path / "no.parquet").write_text("no")
    for missing in (tmp_path / "none.parquet", tmp_path / "no.parquet", 5):
        with pytest.raises(InvalidArgument, match="a "):
            diff(missing, new)  # type: ignore[arg-type]


def test_inputs_are_part_of_the_key() -> None:
    def found(query: str, rank: int) -> pd.DataFrame:
        return pd.DataFrame({"query": [query], "rank": [rank], "url": ["u"]})

    assert diff(found("a", 1), found("b", 1))["change"].tolist() == ["removed", "added"]
    assert fields(diff(found("a", 1), found("a", 2))) == ["rank"]


frames = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), max_size=6).map(
    lambda items: pd.DataFrame(
        {
            "url": pd.Series([url for url, _ in items], dtype="str"),
            "n": pd.Series([n for _, n in items], dtype="int64"),
        }
    )
)


@given(frames, frames)
def test_the_way_back_swaps_added_and_removed(a: pd.DataFrame, b: pd.DataFrame) -> None:
    there, back = diff(a, b)["change"].value_counts(), diff(b, a)["change"].value_counts()
    assert there.get("added", 0) == back.get("removed", 0)
    assert there.get("changed", 0) == back.get("changed", 0)
    assert len(a) + there.get("added", 0) - there.get("removed", 0) == len(b)
