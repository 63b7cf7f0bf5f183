"""`rank_df`: one snapshot per call, failures, refusals, the file, the cache, and costs."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.recipes import web
from tests.shell import Shell
from tests.site.server import Site
from tests.wire_service import KEY, JobScript, WireService, search_rows
from webdata_nb import connect, estimate, history_df, rank_df, search_df
from webdata_nb.contract import paths
from webdata_nb.errors import InvalidArgument, JobFailed, OfflineError, OverBudget
from webdata_nb.toolkit.api import Session


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"site": "no host"}, "site must be a host"),
        ({"site": []}, "site must be a host .* it is an empty list"),
        ({"queries": []}, "query must have at least one entry"),
        ({"queries": 7}, "quer"),
        ({"num_results": 100}, "num_results"),
        ({"engine": "google"}, "engine"),
        ({"out": "ranks.csv"}, "out must be the path of a .parquet file"),
        ({"out": "s3://bucket/ranks.parquet"}, "of this machine"),
        ({"out": "missing/ranks.parquet"}, "in a directory that exists"),
        ({"budget": -1}, "budget"),
        ({"on_error": "ignore"}, "on_error"),
        ({"formats": ["markdown"]}, "formats"),
        ({"refresh": False}, "refresh"),
        ({"stream": True}, "stream"),
    ],
)
def test_bad_input_is_refused_before_any_work(
    service: WireService, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        rank_df(**{"queries": ["a"], "site": "site.test", **arguments})
    assert service.requests == []


@pytest.mark.usefixtures("connected")
def test_a_file_of_something_else_is_refused_before_any_work(
    service: WireService, tmp_path: Path
) -> None:
    path = tmp_path / "mine.parquet"
    pd.DataFrame({"url": ["x"]}).to_parquet(path)
    with pytest.raises(InvalidArgument, match="one that rank_df has made"):
        rank_df("a", site="site.test", out=path)
    assert service.requests == []
    assert [each.name for each in tmp_path.iterdir()] == ["mine.parquet"]


def test_offline_and_beyond_the_budget_nothing_is_asked(
    service: WireService, connected: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.weights = [{"platform": "search", "operation": "discovery", "weight": 1}]
    out = tmp_path / "ranks.parquet"
    with pytest.raises(OverBudget):
        connected.rank_df(["a", "b"], site="site.test", out=out, budget=1)
    assert service.posted(paths.SEARCH) == []
    monkeypatch.setenv("WEBDATA_OFFLINE", "1")
    with pytest.raises(OfflineError, match="rank_df asks the engines anew"):
        connected.rank_df("a", site="site.test", out=out)
    assert not out.exists()


def test_each_call_asks_anew_and_costs_a_search_per_query(
    service: WireService, connected: Session
) -> None:
    service.weights = [{"platform": "search", "operation": "discovery", "weight": 1}]
    queries = ["a", "b", "a"]
    for _ in range(2):
        df = connected.rank_df(queries, site="site.test", country=["us", "de"], num_results=3)
    posted = service.posted(paths.SEARCH)
    assert len(posted) == 8
    assert {(each["query"], each["country"]) for each in posted} == {
        (query, country) for query in "ab" for country in ("us", "de")
    }
    assert all(each["formats"] == [] and each["num_results"] == 3 for each in posted)
    assert df[["query", "country", "engine", "rank"]].to_numpy().tolist() == [
        [query, country, "engine_one", 1] for query in "ab" for country in ("us", "de")
    ]
    cost = estimate(connected.rank_df, queries, site="site.test", country=["us", "de"])
    assert (cost.credits, cost.inputs, cost.cached) == (4, 4, 0)
    with pytest.raises(InvalidArgument, match="site must be"):
        estimate(connected.rank_df, queries, site="no host")


def test_the_cache_has_the_ranks_of_all_snapshots(service: WireService, connected: Session) -> None:
    taken = []
    for count in (3, 2):
        service.search = JobScript(search_rows(count)[::-1])
        taken.append(connected.rank_df(["a", "b"], site="site.test/2"))
    history = history_df(connected.rank_df, ["a", "b"], site="site.test/2")
    expected = pd.concat(taken, ignore_index=True)
    assert history.drop(columns="above").equals(expected.drop(columns="above"))
    assert history["above"].tolist() == expected["above"].tolist()
    assert history.webdata.ranks().shape == (2, 2)
    other = history_df(connected.rank_df, ["a"], site="other.test")
    assert other["status"].tolist() == ["not_ranked"] * 2
    results = history_df(connected.search_df, ["a", "b"], engine=None, formats=[])
    assert set(results["taken_at"]) == set(expected["taken_at"])
    assert len(history_df(connected.rank_df, ["never"], site="site.test")) == 0


def test_a_search_that_failed_has_an_error_and_no_rank(
    service: WireService, connected: Session, tmp_path: Path
) -> None:
    out = tmp_path / "ranks.parquet"
    connected.rank_df("a", site="site.test", out=out)
    service.search = JobScript(search_rows(1), status="failed", error="all engines are blocked")
    df = connected.rank_df(["a", " "], site=["site.test", "b.test"], out=out)
    assert df["status"].tolist() == ["failed"] * 4
    assert df["rank"].isna().all()
    assert df["error"].str.contains("all engines are blocked").tolist() == [
        True,
        True,
        False,
        False,
    ]
    assert df["error"].str.startswith("InvalidArgument").tolist() == [False, False, True, True]
    assert len(df.webdata.failed) == 4
    stored = pd.read_parquet(out)
    assert stored.webdata.changes().empty
    assert stored["status"].tolist() == ["ranked", *["failed"] * 4]
    with pytest.raises(JobFailed):
        connected.rank_df("a", site="site.test", out=out, on_error="raise")
    assert len(pd.read_parquet(out)) == 5


async def test_a_call_that_is_cancelled_takes_no_snapshot(
    service: WireService, connected: Session, tmp_path: Path
) -> None:
    out = tmp_path / "ranks.parquet"
    service.search.running = True
    call = asyncio.create_task(connected.arank_df(["a", "b"], site="site.test", out=out))
    service.polled.clear()
    assert await asyncio.to_thread(service.polled.wait, 30)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not out.exists()


def test_a_search_without_results_is_not_a_failure(
    service: WireService, connected: Session
) -> None:
    service.search = JobScript([])
    df = connected.rank_df("a", site="site.test")
    assert df[["status", "results"]].to_numpy().tolist() == [["not_ranked", 0]]


def test_other_functions_do_not_take_ranks_for_results(connected: Session) -> None:
    df = connected.rank_df("a", site="site.test")
    for repeat in (df.webdata.refresh, lambda: connected.retry_failed(df)):
        with pytest.raises(InvalidArgument):
            repeat()
    assert connected.rank_df("a", site="site.test", dtype_backend="pyarrow")["rank"][0] == 1
    assert search_df("a", formats=[], session=connected)["rank"].tolist() == [1, 2, 3]


def test_calls_at_the_same_time_append_a_snapshot_each(connected: Session, tmp_path: Path) -> None:
    out = tmp_path / "ranks.parquet"

    def rank(number: int) -> pd.DataFrame:
        return connected.rank_df(["a", f"b{number}"], site="site.test", out=out, progress=False)

    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(rank, range(4)))
    stored = pd.read_parquet(out)
    assert sorted(stored["snapshot"]) == sorted(pd.concat(taken)["snapshot"])
    assert len(set(stored["snapshot"])) == 4


def test_the_command_appends_a_snapshot(service: WireService, tmp_path: Path) -> None:
    shell, out = Shell(tmp_path), tmp_path / "ranks.parquet"
    service.reset()
    call = ("rank", "a", "b", "--site", "site.test", "--country", "de", "--out", str(out))
    environ = {"WEBDATA_BASE_URL": service.url, "WEBDATA_API_KEY": KEY}
    done = shell.call(*call, **environ)
    assert done.returncode == 0
    assert "ranks of site.test: 2 ranked" in done.stderr
    assert {each["country"] for each in service.posted(paths.SEARCH)} == {"de"}
    service.search = JobScript([], status="failed", error="all engines are blocked")
    failed = shell.call(*call[:-2], "--format", "json", **environ)
    assert failed.returncode == 1
    assert [row["status"] for row in json.loads(failed.stdout)] == ["failed", "failed"]
    assert shell.call("rank", "a", "--site", "no host", **environ).returncode == 2
    assert len(pd.read_parquet(out)) == 2


# A real service


@pytest.mark.slow
def test_twenty_queries_over_five_days(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two engines, of which one fails for some queries; the truth is what the providers served."""
    out, failing = tmp_path / "ranks.parquet", set[str]()
    monkeypatch.setenv("WEBDATA_HOME", str(home))
    queries = [f"query {n}" for n in range(20)]
    expected: dict[str, list[int | None]] = {query: [] for query in queries}
    with Site() as site, connect():
        served: dict[str, list[str]] = {"searxng": []}
        for name, value in web.serve_providers(site, failing, served).items():
            monkeypatch.setenv(name, value)
        for engine in ("ONE", "TWO", "THREE"):
            monkeypatch.setenv(f"WEBDATA_ENGINE_{engine}", "searxng")
        for day in range(5):
            place = day % 4
            urls = [f"https://r{n}.test/" for n in range(6)]
            urls.insert(place, "https://docs.own.test/page")
            served["searxng"][:] = urls[: 3 + day]
            failing.clear()
            failing |= {queries[day], queries[day + 1]}
            df = rank_df(queries, site="own.test", num_results=5, out=out, progress=False)
            for query in queries:
                is_ranked = query not in failing and place < min(3 + day, 5)
                expected[query].append(place + 1 if is_ranked else None)
            assert set(df[df["status"] == "failed"]["query"]) == failing
            assert df["taken_at"].drop_duplicates().size == 1
        pivot = pd.read_parquet(out).webdata.ranks()
        assert pivot.shape == (20, 5)
        found = pivot.astype(object).where(pivot.notna(), None).to_numpy().tolist()
        assert dict(zip(pivot.index, found, strict=True)) == expected
