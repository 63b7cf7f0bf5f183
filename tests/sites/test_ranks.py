"""Ranks of sites: which URLs are of a site, rows, pivots and changes, and the file of ranks."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import webdata_nb
from tests.api.test_docstrings import columns
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.frames import frame
from webdata_nb.toolkit.sites import ranks
from webdata_nb.toolkit.sites.changes_file import CHANGES_SCHEMA
from webdata_nb.toolkit.sites.ranks import RANKS_SCHEMA, RanksFile, Searched, Site

CHECKOUT = Path(__file__).resolve().parents[2]
START = datetime(2026, 11, 1, 6, 30, tzinfo=UTC)

# Sites


@pytest.mark.parametrize(
    ("site", "name", "inside", "outside"),
    [
        (
            "example.com",
            "example.com",
            ["https://example.com", "http://WWW.Example.com/a?b#c", "https://a.b.example.com./x",
             "https://example.com:8443/"],
            ["https://notexample.com/", "https://example.com.evil.test/", "https://example.org/",
             "https://evil.test/example.com", "https://evil.test/?u=https://example.com/",
             "https://example.com@evil.test/", "mailto:a@example.com", "http://[x", ""],
        ),
        (
            " https://www.Example.com/docs/ ",
            "example.com/docs",
            ["https://example.com/docs", "https://example.com/docs?p=1", "http://m.example.com/docs/a/b",
             "https://example.com/%64ocs/"],
            ["https://example.com/", "https://example.com/docs2", "https://example.com/a/docs/",
             "https://example.com/Docs/"],
        ),
        ("example.com:8080", "example.com:8080", ["http://example.com:8080/"],
         ["http://example.com/", "http://example.com:80800/", "http://example.com:x/"]),
        ("b\xfccher.example", "b\xfccher.example", ["https://xn--bcher-kva.example/a"],
         ["https://bucher.example/"]),
        ("127.0.0.1:81/a b", "127.0.0.1:81/a b", ["http://127.0.0.1:81/a%20b/c"], ["http://27.0.0.1:81/"]),
        ("[::1]", "[::1]", ["http://[::1]/", "http://[::1]:80/"], ["http://[::2]/"]),
        ("localhost", "localhost", ["http://localhost:9/"], ["http://host/"]),
    ],
)  # fmt: skip
def test_which_urls_are_of_a_site(
    site: str, name: str, inside: Sequence[str], outside: Sequence[str]
) -> None:
    parsed = Site.parse(site)
    assert parsed.name == name
    assert [url for url in inside if not parsed.has(url)] == []
    assert [url for url in outside if parsed.has(url)] == []
    assert Site.parse(parsed.name) == parsed


@pytest.mark.parametrize(
    ("site", "message"),
    [
        ("", "site must be a host such as 'example.com'.*it is ''"),
        (7, "it is 7"),
        (None, "it is None"),
        ("my shop", "it is 'my shop'"),
        ("*.example.com", r"subdomains are included without '\*\.'"),
        ("ftp://example.com", "it is 'ftp://example.com'"),
        ("example.com/?q=1", "without '\\?' and '#'"),
        ("https://example.com/#a", "without '\\?' and '#'"),
        ("/docs", "it is '/docs'"),
        ("https://user:pw@example.com/", "site must be a host"),
        ("example.com:http", "it is 'example.com:http'"),
        ([], "it is an empty list"),
        (["example.com", 3], "it is 3"),
    ],
)
def test_what_is_no_site_is_refused(site: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as refused:
        ranks.parse_sites(site)
    assert "pw" not in str(refused.value)


def test_each_site_is_looked_for_once() -> None:
    sites = ranks.parse_sites(["a.test", "https://www.a.test/", "a.test/x"])
    assert [site.name for site in sites] == ["a.test", "a.test/x"]


# Rows


def found(*urls: str, provider: str = "brave") -> list[dict[str, Any]]:
    """Return results as `search_df` does, in any order."""
    rows = [
        {"rank": n, "url": url, "title": f"T {url}", "provider": provider}
        for n, url in enumerate(urls, 1)
    ]
    return random.Random(len(urls)).sample(rows, len(rows))


def snapshot(
    day: int,
    searches: Mapping[str, Sequence[str] | None],
    *,
    site: Any = "own.test",
    n: int = 10,
    provider: str = "brave",
) -> pd.DataFrame:
    """Return one snapshot of queries with these results; None for a query that failed."""
    outcomes = [
        Searched(
            {"query": query},
            found(*urls or (), provider=provider),
            None if urls is not None else "502",
        )
        for query, urls in searches.items()
    ]
    table = ranks.rank_table(
        outcomes, ranks.parse_sites(site), engine="engine_one", num_results=n,
        snapshot=f"{day:02d}", taken_at=START + timedelta(days=day),
    )  # fmt: skip
    return frame.build(table, attrs={"kind": "ranks"})


OWN, SUB, OTHER, THIRD = (
    "https://own.test/a",
    "https://m.own.test/b",
    "https://x.test/",
    "https://y.test/",
)


def cells(df: pd.DataFrame, *names: str) -> list[list[Any]]:
    """Return columns as lists, with None for missing values."""
    plain = df[list(names)].astype(object)
    rows: list[list[Any]] = plain.where(plain.notna(), None).to_numpy().tolist()
    return rows


def test_rank_is_that_of_the_best_result_and_failures_have_none() -> None:
    searches = {"two": [OTHER, SUB, OWN], "none": [OTHER, THIRD], "empty": [], "down": None}
    df = snapshot(0, searches)
    assert cells(df, "query", "status", "rank", "url", "results", "provider", "error") == [
        ["two", "ranked", 2, SUB, 3, "brave", None],
        ["none", "not_ranked", None, None, 2, "brave", None],
        ["empty", "not_ranked", None, None, 0, None, None],
        ["down", "failed", None, None, None, None, "502"],
    ]
    assert df["above"].tolist() == [[OTHER], [OTHER, THIRD], [], None]
    assert set(df["snapshot"]) == {"00"}
    assert set(df["taken_at"]) == {pd.Timestamp(START)}
    two = [snapshot(0, searches), snapshot(0, searches).assign(snapshot="00 of another process")]
    assert pd.concat(two).pipe(ranks.rank_pivot, "rank").shape == (4, 2)
    assert df.webdata.failed["query"].tolist() == ["down"]


def test_each_site_of_a_list_has_rows_of_its_own() -> None:
    df = snapshot(0, {"q": [OTHER, OWN]}, site=["own.test", "x.test", "own.test/none"])
    assert cells(df, "site", "rank") == [["own.test", 2], ["x.test", 1], ["own.test/none", None]]


def test_the_columns_told_are_those_of_the_schema() -> None:
    documented = {name: dtype for name, dtype in columns(webdata_nb.rank_df) if name}
    empty = frame.build(RANKS_SCHEMA.empty_table())
    assert documented == {name: str(dtype) for name, dtype in empty.dtypes.items()}


# Snapshots


def history(*days: Mapping[str, Sequence[str] | None], **options: Any) -> pd.DataFrame:
    df = pd.concat([snapshot(n, day, **options) for n, day in enumerate(days)], ignore_index=True)
    df.attrs = {"webdata": {"kind": "ranks"}}
    return df


def test_ranks_over_time_have_a_column_for_each_snapshot() -> None:
    df = history(
        {"a": [OWN], "b": [OTHER, OWN]}, {"a": None, "b": [OTHER]}, {"b": [OWN], "c": [OWN]}
    )
    pivot = df.webdata.ranks()
    assert cells(pivot, *pivot.columns) == [[1, None, None], [2, None, 1], [None, None, 1]]
    assert pivot.index.tolist() == ["a", "b", "c"]
    assert pivot.columns.tolist() == [pd.Timestamp(START + timedelta(days=n)) for n in range(3)]
    assert set(map(str, pivot.dtypes)) == {"Int32"}
    statuses = df.webdata.ranks("status")
    assert cells(statuses, *statuses.columns)[:2] == [
        ["ranked", "failed", None],
        ["ranked", "not_ranked", "ranked"],
    ]
    assert df.sample(frac=1, random_state=1).webdata.ranks().sort_index().equals(pivot)


def test_rows_are_also_of_what_differs_besides_the_query() -> None:
    df = history({"a": [OWN]}, {"a": [OTHER, OWN]}, site=["own.test", "x.test"])
    pivot = df.webdata.ranks()
    assert pivot.index.names == ["query", "site"]
    assert cells(pivot, *pivot.columns) == [[1, 2], [None, 1]]
    twenty = history(*[{f"q{n}": [OWN] for n in range(20)}] * 2)
    assert twenty.webdata.ranks().shape == (20, 2)
    assert len(twenty[:0].webdata.ranks()) == 0


def test_a_pivot_of_something_else_is_refused() -> None:
    df = history({"a": [OWN]})
    with pytest.raises(InvalidArgument, match="did you mean 'rank'"):
        df.webdata.ranks("rnk")
    with pytest.raises(InvalidArgument, match=r"a frame of rank_df, of history_df\(rank_df"):
        df.drop(columns="status").webdata.ranks()


def test_changes_are_those_of_the_last_snapshot_in_the_shape_of_all_changes() -> None:
    before = {"up": [OTHER, OWN], "down": [OWN, OTHER], "in": [OTHER], "out": [OWN], "same": [OWN],
              "page": [OWN, SUB]}  # fmt: skip
    after = {"up": [OWN], "down": [OTHER, THIRD, OWN], "in": [OTHER, OWN], "out": [OTHER],
             "same": [OWN], "page": [SUB, OWN], "first": [OWN]}  # fmt: skip
    df = history({"up": [OWN]}, before, after)
    changes = df.webdata.changes()
    assert cells(changes, "query", "change", "field", "old", "new", "move") == [
        ["up", "changed", "rank", "2", "1", 1],
        ["down", "changed", "rank", "1", "3", -2],
        ["in", "added", "rank", None, "2", None],
        ["out", "removed", "rank", "1", None, None],
        ["page", "changed", "url", OWN, SUB, None],
    ]
    assert changes["evidence"].tolist()[:2] == [
        f"no longer above: {OTHER}",
        f"now above: {OTHER} {THIRD}",
    ]
    assert set(changes["old_at"]) == {pd.Timestamp(START + timedelta(days=1))}
    shared = CHANGES_SCHEMA.names[: CHANGES_SCHEMA.names.index("new_at") + 1]
    assert changes.dtypes[shared].equals(frame.build(CHANGES_SCHEMA.empty_table()).dtypes[shared])
    assert changes.webdata.line == (
        "compared 6 ranks of own.test (2026-11-03 06:30 UTC) with the last known before "
        "(2026-11-02 06:30 UTC): 2 changed, 1 added, 1 removed; 1 for the first time"
    )


def test_failures_are_passed_over() -> None:
    df = history({"a": [OTHER, OWN], "b": [OWN]}, {"a": None, "b": None}, {"a": [OWN], "b": [OWN]})
    changes = df.webdata.changes()
    assert cells(changes, "query", "old", "new") == [["a", "2", "1"]]
    assert changes["old_at"].tolist() == [pd.Timestamp(START)]
    down = history({"a": [OWN]}, {"a": None})
    assert down.webdata.changes().empty
    assert down.webdata.changes().webdata.line.endswith("no change; 1 failed and not compared")
    assert "no earlier snapshot" in history({"a": [OWN]}).webdata.changes().webdata.line


def test_ranks_that_one_snapshot_could_not_see_are_not_compared() -> None:
    deep = [f"https://s{n}.test/" for n in range(12)] + [OWN]
    short = deep[:10]
    pair = [snapshot(0, {"a": short}, n=10), snapshot(1, {"a": deep}, n=20)]
    assert pd.concat(pair).pipe(ranks.rank_changes).empty
    back = [snapshot(0, {"a": deep}, n=20), snapshot(1, {"a": short}, n=10)]
    assert pd.concat(back).pipe(ranks.rank_changes).empty
    seen = [snapshot(0, {"a": deep}, n=20), snapshot(1, {"a": short}, n=20)]
    assert pd.concat(seen).pipe(ranks.rank_changes)["change"].tolist() == ["removed"]


def test_another_provider_is_the_evidence() -> None:
    pair = [
        snapshot(0, {"a": [OWN]}),
        snapshot(1, {"a": [OTHER, OWN]}, provider="mojeek"),
    ]
    changes = ranks.rank_changes(pd.concat(pair))
    assert changes["evidence"].tolist() == ["mojeek answered, and brave before"]


def test_changes_of_random_histories_are_those_of_a_plain_computation() -> None:
    chooser = random.Random(45)
    pages = [OWN, *(f"https://s{n}.test/" for n in range(4))]
    for _ in range(60):
        days: list[dict[str, list[str] | None]] = [
            {
                query: None
                if chooser.random() < 0.3
                else chooser.sample(pages, chooser.randint(0, 5))
                for query in "abc"
                if chooser.random() < 0.9
            }
            for _ in range(4)
        ]
        expected = {}
        for query, urls in days[-1].items():
            known = [day[query] for day in days[:-1] if day.get(query) is not None]
            if urls is None or not known or known[-1] is None:
                continue
            pair = [each.index(OWN) + 1 if OWN in each else None for each in (known[-1], urls)]
            if pair[0] != pair[1]:
                expected[query] = [each and str(each) for each in pair]
        if not any(days) or not days[-1]:
            continue
        rows = cells(ranks.rank_changes(history(*days)), "query", "old", "new")
        assert {query: pair for query, *pair in rows} == expected


# The file


def test_a_file_of_snapshots_is_read_by_pandas_alone(tmp_path: Path) -> None:
    file = RanksFile(tmp_path / "ranks.parquet")
    file.check()
    days: list[Mapping[str, Sequence[str] | None]]
    days = [{"a": [OTHER, OWN], "b": [OTHER]}, {"a": [OWN], "b": None}]
    for n, day in enumerate(days):
        whole = file.append(frame.to_table(snapshot(n, day)).cast(RANKS_SCHEMA))
    assert whole.num_rows == 4
    read = pd.read_parquet(file.path)
    expected = history(*days)
    assert read.webdata.ranks().equals(expected.webdata.ranks())
    assert cells(read.webdata.changes(), "query", "old", "new", "evidence") == [
        ["a", "2", "1", f"no longer above: {OTHER}"]
    ]
    assert [*read.columns] == RANKS_SCHEMA.names


@pytest.mark.parametrize("content", [b"no Parquet", None, "changes"])
def test_a_file_of_something_else_is_refused_and_kept(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "mine.parquet"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        names = CHANGES_SCHEMA.names if content else RANKS_SCHEMA.names
        pd.DataFrame(columns=names).to_parquet(path)
    before = path.read_bytes()
    table = RANKS_SCHEMA.empty_table()
    for use in (RanksFile(path).check, lambda: RanksFile(path).append(table)):
        with pytest.raises(
            InvalidArgument, match=r"out (cannot be read as a|must be a new file.*rank_df)"
        ):
            use()
    assert path.read_bytes() == before


APPEND = """
import sys
from pathlib import Path
from tests.sites.test_ranks import OWN, RANKS_SCHEMA, snapshot
from webdata_nb.toolkit.frames import frame
from webdata_nb.toolkit.sites.ranks import RanksFile

start = int(sys.argv[2])
for day in range(start, start + 12):
    table = frame.to_table(snapshot(day, {"a": [OWN]}))
    RanksFile(Path(sys.argv[1])).append(table.cast(RANKS_SCHEMA))
"""


def test_processes_that_append_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ranks.parquet"
    started = [
        subprocess.Popen([sys.executable, "-c", APPEND, str(path), str(n)], cwd=CHECKOUT)
        for n in (0, 12)
    ]
    assert [each.wait(60) for each in started] == [0, 0]
    read = pd.read_parquet(path)
    assert sorted(read["snapshot"]) == [f"{n:02d}" for n in range(24)]
    assert read.webdata.ranks().shape == (1, 24)


def test_an_order_of_snapshots_does_not_matter() -> None:
    days = [snapshot(n, {"a": [OWN] if n % 2 else [OTHER, OWN]}) for n in range(3)]
    expected = ranks.rank_changes(pd.concat(days))
    for order in itertools.permutations(days):
        assert ranks.rank_changes(pd.concat(order)).equals(expected)
