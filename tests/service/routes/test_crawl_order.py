"""One site, one table: whatever the timing, with faults, redirects, duplicates, variants, traps."""

from __future__ import annotations

import time
from typing import Any

import pytest
from aiohttp import web

from tests.service.conftest import Api
from tests.site.document import document, prose
from tests.site.graphs import calendar, redirect_loop, sessions, soft_404s
from tests.site.server import Answer, Site
from webdata_nb.service.crawl.discovery import MAX_SIMILAR_PAGES
from webdata_nb.service.crawl.facets import PROBES_PER_PARAMETER

TIMINGS = {"time_taken", "fetched_at"}


@pytest.fixture
def page_workers() -> int:
    return 2  # pages may be done in another order than fetched


def linked_pages(site: Site) -> None:
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


def without_timings(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_timings(each) for name, each in value.items() if name not in TIMINGS}
    return [without_timings(each) for each in value] if isinstance(value, list) else value


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["bfs", "dfs", "bff"])
async def test_all_columns_but_timings_are_the_same_at_any_concurrency(
    api: Api, strategy: str
) -> None:
    latency = 0.3 if strategy == "bfs" else 0.1
    with Site(seed=7, latency=latency, fault_rate=0.05) as site:
        linked_pages(site)
        assert any(site.is_transient(f"/p{n}") for n in range(24))
        alone, busy = [
            await api.run_job(
                "crawl", url=site.url, crawl_strategy=strategy, concurrency=concurrency,
                max_pages=20, filter_faceted_urls=strategy != "dfs",
                scrape_options={"formats": ["markdown", "links", "headings"]},
            )
            for concurrency in (1, 10)
        ]  # fmt: skip
    assert without_timings(alone["data"]) == without_timings(busy["data"])
    assert alone["receipt"] == busy["receipt"]
    assert len(alone["data"]) == 20
    assert {"redirect", "duplicate", "facet"} & alone["receipt"]["counts"].keys()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["bfs", "dfs", "bff"])
@pytest.mark.parametrize("wanted", [10, 25, 50, 100])
async def test_max_pages_is_exact(api: Api, site: Site, strategy: str, wanted: int) -> None:
    for n in range(130):
        links = [f"/{(7 * n + step) % 130}" for step in range(6)]
        site.page(f"/{n}", document(f"Page {n}", links=["/copy1", "/copy2", "/moved", *links]))
    for n in (1, 2):
        site.page(f"/copy{n}", document("One page under two names"))
    site.redirect("/moved", "/1")
    reply = await api.run_job(
        "crawl", url=site.at("/0"), crawl_strategy=strategy, max_pages=wanted, concurrency=10
    )
    assert len(reply["data"]) == reply["total_results"] == wanted
    assert {"redirect", "duplicate"} <= reply["receipt"]["counts"].keys()


@pytest.mark.slow
async def test_a_thousand_pages_are_a_thousand_rows(api: Api, site: Site) -> None:
    """Each tenth page is a redirect to its neighbour, each tenth a copy: both give budget back."""

    def page_chain(request: web.BaseRequest) -> Answer:
        n = int(request.path.removeprefix("/n/"))
        match n % 10:
            case 3:
                return web.Response(status=302, headers={"Location": f"/n/{n - 1}"})
            case 7:
                return document("One page under many names")
            case _:
                links = [f"/n/{5 * n + step}" for step in range(1, 6)]
                return document(f"Page {n}", links=links)

    site.under("/n/", page_chain)
    body = {
        "url": site.at("/n/0"), "max_pages": 1000, "concurrency": 10,
        "scrape_options": {"formats": ["links"]},
    }  # fmt: skip
    job_id = await api.start_job("crawl", body)
    reply = await api.wait_for_end("crawl", job_id)
    status = await api.get(f"/v1/crawl/{job_id}", params={"per_page": 1000})
    rows = [row["url"] for row in status["data"]]
    assert len(rows) == len(set(rows)) == reply["total_results"] == 1000
    counts = reply["receipt"]["counts"]
    assert counts["fetched"] == 1000
    assert min(counts["redirect"], counts["duplicate"]) >= 90


@pytest.mark.slow
async def test_a_page_in_line_at_a_slow_site_does_not_run_out_of_time(api: Api, site: Site) -> None:
    with Site() as other:  # starts a page worker, whose start would count as time of a page
        other.page("/", document("Other"))
        await api.run_job("crawl", url=other.url)
    # Five pages at a time, a second apart: the last is in line for longer than its deadline.
    site.robots("User-agent: *\nCrawl-delay: 1\n")
    site.page("/", document("Front", links=[f"/{n}" for n in range(5)]))
    for n in range(5):
        site.page(f"/{n}", document(f"Page {n}"))
    reply = await api.run_job(
        "crawl", url=site.url, concurrency=5, scrape_options={"timeout": 3000}
    )
    assert reply["receipt"]["counts"] == {"fetched": 6}
    request_times = [hit.time for hit in site.requests]
    # The site notes when it has read a request, which may be late for the first of them.
    assert request_times[-1] - request_times[1] >= 4
    assert all(row["time_taken"] < 3 for row in reply["data"])


async def test_robots_and_sitemaps_wait_for_their_turn(api: Api, site: Site) -> None:
    site.robots("User-agent: *\nCrawl-delay: 0.5\n")
    site.page("/", document("Front"))
    site.page("/sitemap.xml", f"<urlset><url><loc>{site.at('/seed')}</loc></url></urlset>")
    site.page("/seed", document("Seed"))
    began = time.monotonic()
    reply = await api.run_job("crawl", url=site.url, sitemap=True)
    assert reply["receipt"]["counts"] == {"fetched": 2}
    assert [hit.path for hit in site.requests] == ["/robots.txt", "/", "/sitemap.xml", "/seed"]
    # A loaded site notes requests late, so the time between two of them may be shorter.
    for turn, hit in enumerate(site.requests):
        assert hit.time - began >= turn * 0.5


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
    reply = await api.run_job("crawl", url=site.url, filter_faceted_urls=True)
    rows = [row["url"] for row in reply["data"]]
    assert rows == [site.at(path) for path in ("/", "/list", "/list?page=2", "/p?id=1", "/p?id=2")]
    assert reply["receipt"]["counts"] == {"fetched": 5, "canonical": 1, "duplicate": 1, "facet": 2}
    assert reply["receipt"]["examples"]["facet"] == sorted(site.at(view) for view in views[2:])
    assert not site.hits("/list?sort=new")
    reply = await api.run_job("crawl", url=site.url)
    assert reply["receipt"]["counts"] == {"fetched": 6, "duplicate": 3}


async def test_a_calendar_is_named_a_trap(api: Api, site: Site) -> None:
    start = calendar(site)
    reply = await api.run_job("crawl", url=site.at(start), max_pages=100, max_depth=10)
    assert reply["receipt"]["counts"] == {"fetched": 21, "depth": 2}
    reply = await api.run_job("crawl", url=site.at("/calendar/1/1"), crawl_strategy="dfs")
    assert set(reply["receipt"]["counts"]) <= {"fetched", "depth", "trap"}


async def test_a_farm_of_soft_404s_is_named_a_trap(api: Api, site: Site) -> None:
    start = soft_404s(site, links=4)
    alone, busy = [
        await api.run_job("crawl", url=site.at(start), max_pages=1000, concurrency=concurrency)
        for concurrency in (1, 10)
    ]
    # The start page and its four links, whose own links have fewer folders, are another text.
    assert alone["receipt"]["counts"] == {
        "fetched": 5 + MAX_SIMILAR_PAGES,
        "trap": len(site.paths) // 2 - 32,
    }
    assert without_timings(alone["data"]) == without_timings(busy["data"])
    assert alone["receipt"] == busy["receipt"]
    assert len(site.paths) <= 2 * 5 * MAX_SIMILAR_PAGES


async def test_sessions_in_the_query_are_one_page_each(api: Api, site: Site) -> None:
    paths = sessions(site)
    reply = await api.run_job(
        "crawl", url=site.at(paths[0]), filter_faceted_urls=True, max_pages=50
    )
    counts = reply["receipt"]["counts"]
    # Two are read to learn what the parameter does; their text differs, for it shows the ids.
    assert counts["fetched"] == len(paths) + PROBES_PER_PARAMETER
    assert len(site.paths) == len(paths) + PROBES_PER_PARAMETER


async def test_redirects_that_come_back_are_a_failed_row(api: Api, site: Site) -> None:
    [first, *_] = redirect_loop(site, 3)
    site.page("/", document("Front", links=[first]))
    reply = await api.run_job("crawl", url=site.url)
    assert reply["receipt"]["counts"] == {"fetched": 1, "failed:redirects": 1}
