"""One site, one table: whatever the timing, with faults, redirects, duplicates, variants, traps."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.conftest import Api
from tests.site.document import document, prose
from tests.site.graphs import calendar, redirect_loop, sessions, soft_404s
from tests.site.server import Site
from webdata_nb.service.crawl.facets import PROBES
from webdata_nb.service.crawl.traps import QUOTA

TIMINGS = {"time_taken", "fetched_at"}


def troubled(site: Site) -> None:
    """Make 26 pages that link to each other, to redirects, to copies and to variants."""
    paths = [f"/p{n}" for n in range(24)]
    for n, path in enumerate(paths):
        links = [paths[n * step % 24] for step in (2, 3, 5)]
        links += [f"/moved{n % 3}", f"/copy{n % 2}", f"{paths[n - 1]}?utm_source={n}"]
        site.page(path, document(f"Page {path}", links=links))
    site.page("/", document("Front", links=[*paths[1:7], "/lost"]))
    for n in range(3):
        site.redirect(f"/moved{n}", paths[n + 4])
        site.page(f"/copy{n}", document("One page under many names"))


def untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: untimed(each) for name, each in value.items() if name not in TIMINGS}
    return [untimed(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("strategy", ["bfs", "dfs", "bff"])
async def test_all_columns_but_timings_are_the_same_at_any_concurrency(
    api: Api, strategy: str
) -> None:
    latency = 0.3 if strategy == "bfs" else 0.1
    with Site(seed=7, latency=latency, fault_rate=0.05) as site:
        troubled(site)
        assert any(site.is_transient(f"/p{n}") for n in range(24))
        alone, busy = [
            await api.done(
                "crawl", url=site.url, crawl_strategy=strategy, concurrency=concurrency,
                max_pages=20, filter_faceted_urls=strategy != "dfs",
                scrape_options={"formats": ["markdown", "links", "headings"]},
            )
            for concurrency in (1, 10)
        ]  # fmt: skip
    assert untimed(alone["data"]) == untimed(busy["data"])
    assert alone["receipt"] == busy["receipt"]
    assert len(alone["data"]) == 20
    assert {"redirect", "duplicate", "facet"} & alone["receipt"]["counts"].keys()


@pytest.mark.parametrize("strategy", ["bfs", "dfs", "bff"])
@pytest.mark.parametrize("wanted", [10, 25, 50])
async def test_max_pages_is_exact(api: Api, site: Site, strategy: str, wanted: int) -> None:
    for n in range(80):
        links = [f"/{(7 * n + step) % 80}" for step in range(6)]
        site.page(f"/{n}", document(f"Page {n}", links=[*links, "/copy", "/moved"]))
    site.page("/copy", document("Page 0", links=["/none"]))
    site.redirect("/moved", "/1")
    reply = await api.done(
        "crawl", url=site.at("/0"), crawl_strategy=strategy, max_pages=wanted, concurrency=10
    )
    assert len(reply["data"]) == reply["total_results"] == wanted


async def test_variants_are_read_once_where_that_is_asked_for(api: Api, site: Site) -> None:
    views = [f"/list?sort={way}" for way in ("price", "name", "new", "old")]
    site.page("/", document("Front", links=["/list", *views, "/list?page=2", "/p?id=1", "/p?id=2"]))
    own = f'<link rel="canonical" href="{site.at("/list")}">'
    site.page("/list", document("List", links=["/p?id=1"], text=prose("list"), head=own))
    for query in ("page=2", *(view.partition("?")[2] for view in views)):
        text = prose("more") if query == "page=2" else prose("list")
        site.page(f"/list?{query}", document("List", text=text, head=own))
    for number in (1, 2):
        site.page(f"/p?id={number}", document(f"Product {number}"))
    reply = await api.done("crawl", url=site.url, filter_faceted_urls=True)
    rows = [row["url"] for row in reply["data"]]
    assert rows == [site.at(path) for path in ("/", "/list", "/list?page=2", "/p?id=1", "/p?id=2")]
    assert reply["receipt"]["counts"] == {"fetched": 5, "canonical": 1, "duplicate": 1, "facet": 2}
    assert reply["receipt"]["examples"]["facet"] == sorted(site.at(view) for view in views[2:])
    assert not site.hits("/list?sort=new")
    reply = await api.done("crawl", url=site.url)
    assert reply["receipt"]["counts"] == {"fetched": 6, "duplicate": 3}


async def test_a_calendar_is_named_a_trap(api: Api, site: Site) -> None:
    start = calendar(site)
    reply = await api.done("crawl", url=site.at(start), max_pages=100, max_depth=10)
    assert reply["receipt"]["counts"] == {"fetched": 21, "depth": 2}
    reply = await api.done("crawl", url=site.at("/calendar/1/1"), crawl_strategy="dfs")
    assert set(reply["receipt"]["counts"]) <= {"fetched", "depth", "trap"}


async def test_a_farm_of_soft_404s_is_named_a_trap(api: Api, site: Site) -> None:
    start = soft_404s(site, links=4)
    reply = await api.done("crawl", url=site.at(start), max_pages=1000)
    counts = reply["receipt"]["counts"]
    assert set(counts) == {"fetched", "trap"}
    # The first levels, whose lists of links look different, do not count towards the quota.
    assert QUOTA <= counts["fetched"] <= QUOTA + 5
    assert len(site.paths) <= 5 * QUOTA


async def test_sessions_in_the_query_are_one_page_each(api: Api, site: Site) -> None:
    paths = sessions(site)
    reply = await api.done("crawl", url=site.at(paths[0]), filter_faceted_urls=True, max_pages=50)
    counts = reply["receipt"]["counts"]
    # Two are read to learn what the parameter does; their text differs, for it shows the ids.
    assert counts["fetched"] == len(paths) + PROBES
    assert len(site.paths) == len(paths) + PROBES


async def test_redirects_that_come_back_are_a_failed_row(api: Api, site: Site) -> None:
    [first, *_] = redirect_loop(site, 3)
    site.page("/", document("Front", links=[first]))
    reply = await api.done("crawl", url=site.url)
    assert reply["receipt"]["counts"] == {"fetched": 1, "failed:redirects": 1}
