"""`serp_diff`: rank moves, entries and exits, for one query and for many."""

from __future__ import annotations

import itertools
from collections.abc import Hashable

import pandas as pd
import pytest

from webdata_nb import serp_diff
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.frames import frame, rows


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


def test_moves_entries_and_exits() -> None:
    diff = serp_diff(search(A, B, C), search(B, A, D))
    assert diff["url"].tolist() == [B, A, D, C]
    assert diff["change"].tolist() == ["up", "down", "entered", "left"]
    assert diff["move"].tolist() == [1, -1, pd.NA, pd.NA]
    assert diff["old_rank"].tolist() == [2, 1, pd.NA, 3]
    assert diff["new_rank"].tolist() == [1, 2, 3, pd.NA]
    assert diff["title"].tolist() == [f"Title of {url}" for url in (B, A, D, C)]


TYPES = {
    "url": "str",
    "title": "str",
    "old_rank": "Int32",
    "new_rank": "Int32",
    "move": "Int32",
    "change": "str",
}


@pytest.mark.parametrize(
    ("old", "new"), [((), ()), ((A,), ()), ((), (A,)), ((A, B), (A, B)), ((A,), (B,))]
)
def test_types_never_depend_on_what_was_found(old: tuple[str, ...], new: tuple[str, ...]) -> None:
    diff = serp_diff(search(*old), search(*new))
    assert {name: str(dtype) for name, dtype in diff.dtypes.items()} == TYPES
    assert len(diff) == len({*old, *new})


def test_other_spellings_of_an_address_are_the_same_result() -> None:
    diff = serp_diff(search(A), search("http://www.a.test/page/?utm_source=x#part"))
    assert diff["change"].tolist() == ["same"]
    assert diff["url"].tolist() == ["http://www.a.test/page/?utm_source=x#part"]


def several(*frames: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(frames, ignore_index=True)


def test_several_queries_are_compared_one_by_one() -> None:
    old = several(search(A, B, query="x", country="us"), search(A, query="x", country="de"))
    new = several(search(B, query="x", country="de"), search(B, A, query="x", country="us"))
    diff = serp_diff(old, new)
    assert diff[["query", "country", "url", "change"]].to_numpy().tolist() == [
        ["x", "us", B, "up"],
        ["x", "us", A, "down"],
        ["x", "de", B, "entered"],
        ["x", "de", A, "left"],
    ]


def test_a_query_that_failed_is_left_out_and_one_without_results_is_not() -> None:
    failed = search(A, query="down").assign(rank=pd.array([pd.NA], "Int32"), url=None, error="502")
    old = several(search(A, query="up"), search(A, query="down"))
    diff = serp_diff(old, several(search(B, query="up"), failed))
    assert set(diff["query"]) == {"up"}
    gone = serp_diff(old, search(A, query="up"))
    assert gone[gone["query"] == "down"]["change"].tolist() == ["left"]


def test_arrow_frames_and_bare_ones_will_do() -> None:
    table = rows.to_table("search", [{"rank": 1, "url": A, "title": "t", "id": "1"}])
    arrow = frame.build(table, dtype_backend="pyarrow")
    bare = pd.DataFrame({"rank": [2], "url": [A]})
    diff = serp_diff(bare, arrow)
    assert diff[["old_rank", "new_rank", "move", "change"]].to_numpy().tolist() == [[2, 1, 1, "up"]]
    assert {name: str(dtype) for name, dtype in diff.dtypes.items()} == TYPES


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


def urls_by_query(diff: pd.DataFrame, rank: str) -> dict[Hashable, list[str]]:
    """Return the URLs that have a rank, in the order of the rows, for each query."""
    return diff.dropna(subset=rank).groupby("query")["url"].agg(list).to_dict()


def test_diff_of_any_two_rankings_holds_both() -> None:
    pairs = list(itertools.product(RANKINGS, RANKINGS))
    old, new = ([pair[side] for pair in pairs] for side in (0, 1))
    diff = serp_diff(search_many(old), search_many(new))
    assert urls_by_query(diff, "new_rank") == {str(n): urls for n, urls in enumerate(new) if urls}
    diff = diff.sort_values("old_rank")
    assert urls_by_query(diff, "old_rank") == {str(n): urls for n, urls in enumerate(old) if urls}
    back = serp_diff(search_many(new), search_many(old))
    moves, opposite = (each.set_index(["query", "url"])["move"] for each in (diff, back))
    pd.testing.assert_series_equal(moves.sort_index(), -opposite.sort_index())
