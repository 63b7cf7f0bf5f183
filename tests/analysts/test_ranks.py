"""Twenty queries tracked over five days, against a search engine whose rankings are known."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web

from tests.analysts.analyst import Analyst
from tests.local_service import stop
from tests.requirements import require_module
from tests.service.search.stubs import Result, StubRequest, stubs
from tests.site.server import Site
from webdata_nb import settings
from webdata_nb.contract.choices import ENGINES
from webdata_nb.settings import Options

pytestmark = pytest.mark.slow
DAYS: Final = 5
DEPTH: Final = 10
SITE: Final = "docs.example.com"
QUERIES: Final = [
    f"how to {verb} {noun}"
    for verb in ("open", "tune", "copy", "test")
    for noun in ("a table", "an index", "a view", "a trigger", "a schema")
]
FAILS: Final = (2, QUERIES[7])
"""The day and the query for which the engine is down."""


@dataclass(slots=True)
class Engine:
    """A search engine; from day to day some results trade places."""

    day: int = 0

    def ranking(self, query: str, day: int) -> list[str]:
        """Return the URLs that the engine knows for a query, best first."""
        chance = random.Random(query)
        urls = [f"https://{name}.example/{chance.randint(1, 99)}" for name in "abcdefghijklmno"]
        if chance.random() < 0.9:
            urls.insert(chance.randint(0, 12), f"https://{SITE}/{query.replace(' ', '-')}")
        for each in range(day):
            at = random.Random(f"{query} {each}").randint(0, 12)
            urls[at], urls[at + 1] = urls[at + 1], urls[at]
        return urls

    def rank(self, query: str, day: int) -> int | None:
        """Return the true rank of the site among the first results."""
        found = [SITE in url for url in self.ranking(query, day)[:DEPTH]]
        return found.index(True) + 1 if True in found else None


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[tuple[Engine, Analyst]]:
    """Give the engine, and an analyst whose service asks it."""
    require_module("papermill")
    engine = Engine()
    stub = stubs()["searxng"]
    answer = stub.answer

    def respond(request: StubRequest, served: list[Result]) -> Any:
        del served
        query = str(request.parameters["q"])
        if (engine.day, query) == FAILS:
            return web.Response(status=500)
        urls = engine.ranking(query, engine.day)
        return answer(request, [Result(url, f"On {url}", "Text") for url in urls])

    stub.answer = respond
    home = tmp_path / "home"
    with Site() as site:
        variables = {"WEBDATA_SEARXNG_URL": stub.on(site)}
        variables |= {f"WEBDATA_{name.upper()}": "searxng" for name in ENGINES}
        yield engine, Analyst(tmp_path, home, variables)
    stop(settings.current(Options(home=home)))


def test_twenty_queries_over_five_days(engine: tuple[Engine, Analyst]) -> None:
    search, analyst = engine
    (analyst.folder / "queries.txt").write_text("\n".join(QUERIES))
    for search.day in range(DAYS):
        analyst.run("ranks", site=SITE)
    rows = analyst.parquet("ranks.parquet")
    snapshots = list(dict.fromkeys(row["snapshot"] for row in rows))
    assert len(snapshots) == len({row["taken_at"] for row in rows}) == DAYS
    found = {(snapshots.index(r["snapshot"]), r["query"]): r["rank"] for r in rows}
    truth = {(day, q): search.rank(q, day) for day in range(DAYS) for q in QUERIES}
    assert {each for each in truth if truth[each] is None}, "a query without rank is a case"
    assert found == truth | {FAILS: None}
    statuses = {(snapshots.index(r["snapshot"]), r["query"]): r["status"] for r in rows}
    assert [each for each, status in statuses.items() if status == "failed"] == [FAILS]
    for row in rows:
        if row["rank"] is not None:
            day = snapshots.index(row["snapshot"])
            assert list(row["above"]) == search.ranking(row["query"], day)[: row["rank"] - 1]

    pivot = {row.pop("query"): list(row.values()) for row in analyst.csv("ranks.csv")}
    text = {None: ""} | {rank: str(rank) for rank in range(1, DEPTH + 1)}
    assert pivot == {q: [text[found[day, q]] for day in range(DAYS)] for q in QUERIES}

    changed = {
        (row["query"], row["old"], row["new"])
        for row in analyst.csv("changes.csv")
        if row["field"] == "rank"
    }
    last = {q: (truth[DAYS - 2, q], truth[DAYS - 1, q]) for q in QUERIES}
    assert {(q, old.removesuffix(".0"), new.removesuffix(".0")) for q, old, new in changed} == {
        (query, text[old], text[new]) for query, (old, new) in last.items() if old != new
    }
