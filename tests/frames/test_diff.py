"""`serp_diff`: rank changes, entries and exits, for one query and for many."""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd
import pytest

from webdata_nb import diff, serp_diff
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.frames import frame, rows
from webdata_nb.toolkit.sites import changes_file


def search(*urls: str, **columns: str) -> pd.DataFrame:
    """Build a frame as `search_df` does."""
    listed = [
        {"rank": n, "url": url, "title": f"Title of {url}", "id": str(n), "success": True}
        for n, url in enumerate(urls, start=1)
    ]
    built = frame.build(rows.to_table("search", listed))
    for name, value in columns.items():
        built.insert(0, name, pd.Series(value, index=built.index, dtype="str"))
    return built


A, B, C, D = (f"https://{name}.test/page" for name in "abcd")


def cells(changes: pd.DataFrame, *names: str) -> list[list[Any]]:
    """Return columns of changes as lists, with None for missing values."""
    found = changes[list(names)].astype(object)
    rows: list[list[Any]] = found.where(found.notna(), None).to_numpy().tolist()
    return rows


def test_moves_entries_and_exits() -> None:
    changes = serp_diff(search(A, B, C), search(B, A, D))
    assert cells(changes, "change", "url", "field", "old", "new", "move") == [
        ["changed", B, "rank", "2", "1", 1],
        ["changed", A, "rank", "1", "2", -1],
        ["added", D, "rank", None, "3", None],
        ["removed", C, "rank", "3", None, None],
    ]
    assert changes["title"].tolist() == [f"Title of {url}" for url in (B, A, D, C)]
    assert changes.webdata.line == "compared 3 results with 3: 2 changed, 1 added, 1 removed"


TYPES = {
    "change": "str",
    "url": "str",
    "field": "str",
    "old": "str",
    "new": "str",
    "evidence": "str",
    "old_at": "datetime64[us, UTC]",
    "new_at": "datetime64[us, UTC]",
    "title": "str",
    "move": "Int32",
}


@pytest.mark.parametrize(
    ("old", "new"), [((), ()), ((A,), ()), ((), (A,)), ((A, B), (A, B)), ((A,), (B,))]
)
def test_types_never_depend_on_what_was_found(old: tuple[str, ...], new: tuple[str, ...]) -> None:
    changes = serp_diff(search(*old), search(*new))
    assert {name: str(dtype) for name, dtype in changes.dtypes.items()} == TYPES
    assert len(changes) == (0 if old == new else len({*old, *new}))
    assert changes.webdata.line.endswith(": no change") == (old == new)


def test_other_spellings_of_an_address_are_the_same_result() -> None:
    spelled = "http://www.a.test/page/?utm_source=x#part"
    assert serp_diff(search(A), search(spelled)).empty
    assert serp_diff(search(A), search(B, spelled))["url"].tolist() == [B, spelled]


def several(*frames: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(frames, ignore_index=True)


def test_several_queries_are_compared_one_by_one() -> None:
    old = several(search(A, B, query="x", country="us"), search(A, query="x", country="de"))
    new = several(search(B, query="x", country="de"), search(B, A, query="x", country="us"))
    changes = serp_diff(old, new)
    assert changes[["query", "country", "url", "change"]].to_numpy().tolist() == [
        ["x", "us", B, "changed"],
        ["x", "us", A, "changed"],
        ["x", "de", B, "added"],
        ["x", "de", A, "removed"],
    ]


def test_a_query_that_failed_is_left_out_and_one_without_results_is_not() -> None:
    failed = search(A, query="down").assign(rank=pd.array([pd.NA], "Int32"), url=None, error="502")
    old = several(search(A, query="up"), search(A, query="down"))
    changes = serp_diff(old, several(search(B, query="up"), failed))
    assert set(changes["query"]) == {"up"}
    assert changes.webdata.line.endswith("1 added, 1 removed; 1 failed and not compared")
    gone = serp_diff(old, search(A, query="up"))
    assert gone[gone["query"] == "down"]["change"].tolist() == ["removed"]


def test_another_provider_is_the_evidence_of_a_change() -> None:
    old, new = search(A, B).assign(provider="brave"), search(B, A).assign(provider="searxng")
    assert set(serp_diff(old, new)["evidence"]) == {"searxng answered, and brave before"}
    assert serp_diff(old, new.assign(provider="brave"))["evidence"].isna().all()


def test_all_comparisons_have_one_shape() -> None:
    pages = [pd.DataFrame({"url": [A], "title": [title]}) for title in ("old", "new")]
    watched = frame.build(changes_file.CHANGES_SCHEMA.empty_table())
    ranked = serp_diff(search(A, B), search(B, A))
    shared = watched.columns.tolist()[: watched.columns.tolist().index("new_at") + 1]
    assert shared == [name for name in TYPES if name not in {"title", "move"}]
    for other in (diff(*pages), ranked):
        assert other.columns[: len(shared)].tolist() == shared
        assert other.dtypes[shared].equals(watched.dtypes[shared])
    together = pd.concat([diff(*pages), ranked, watched], ignore_index=True)
    assert together["field"].tolist() == ["title", "rank", "rank"]
    assert together.dtypes[shared].equals(watched.dtypes[shared])


def test_arrow_frames_and_bare_ones_will_do() -> None:
    table = rows.to_table("search", [{"rank": 1, "url": A, "title": "t", "id": "1"}])
    arrow = frame.build(table, dtype_backend="pyarrow")
    bare = pd.DataFrame({"rank": [2], "url": [A]})
    changes = serp_diff(bare, arrow)
    assert cells(changes, "old", "new", "move", "change") == [["2", "1", 1, "changed"]]
    assert {name: str(dtype) for name, dtype in changes.dtypes.items()} == TYPES


def test_frames_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="new must be a frame of search_df"):
        serp_diff(search(A), pd.DataFrame({"url": [A]}))
    with pytest.raises(InvalidArgument, match="same columns for their inputs"):
        serp_diff(search(A), search(A, query="x"))


RANKINGS = [
    list(each) for count in range(5) for each in itertools.permutations((A, B, C, D), count)
]


def search_many(rankings: list[list[str]]) -> pd.DataFrame:
    """Build a frame as `search_df` does for a list of queries, which are numbers here."""
    found = search(*itertools.chain.from_iterable(rankings))
    found["rank"] = [n for ranking in rankings for n in range(1, len(ranking) + 1)]
    queries = [str(number) for number, ranking in enumerate(rankings) for _ in ranking]
    return found.astype({"rank": "Int32"}).assign(query=queries)


def test_changes_lead_from_any_ranking_to_any_other() -> None:
    pairs = list(itertools.product(RANKINGS, RANKINGS))
    old, new = ([pair[side] for pair in pairs] for side in (0, 1))
    changes = serp_diff(search_many(old), search_many(new))
    rows = cells(changes, "query", "url", "change", "old", "new", "move")
    found: dict[str, dict[str, list[Any]]] = {str(n): {} for n in range(len(pairs))}
    for query, url, *values in rows:
        found[query][url] = values
    for number, (before, after) in enumerate(pairs):
        expected: dict[str, list[Any]] = {}
        for url in {*before, *after}:
            ranks = [each.index(url) + 1 if url in each else None for each in (before, after)]
            if ranks[0] != ranks[1]:
                kind = "added" if ranks[0] is None else "removed" if ranks[1] is None else "changed"
                move = ranks[0] - ranks[1] if ranks[0] and ranks[1] else None
                expected[url] = [kind, *(rank and str(rank) for rank in ranks), move]
        assert found[str(number)] == expected
