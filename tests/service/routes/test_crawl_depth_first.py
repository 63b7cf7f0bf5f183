"""Depth first over HTTP: its order, whatever is fetched ahead, and what that may cost the site."""

from __future__ import annotations

import random
from typing import Any

import pytest
from aiohttp import web

from tests.service.conftest import Api
from tests.site.document import document
from tests.site.graphs import depth_first
from tests.site.server import Site
from webdata_nb.service.crawl.page_fetcher import PREFETCHED_PER_FETCH

CONCURRENCIES = [1, 2, 5, 10]


@pytest.fixture
def page_workers() -> int:
    return 2  # pages may be done in another order than fetched


async def crawled(api: Api, url: str, **options: Any) -> Any:
    return await api.run_job("crawl", url=url, crawl_strategy="dfs", **options)


def endless_tree(site: Site, fanout: int = 3) -> None:
    def answer(request: web.BaseRequest) -> str:
        letters = "abcdefghij"[:fanout]
        return document(request.path, links=[f"{request.path}{letter}" for letter in letters])

    site.under("/", answer)


def random_web(site: Site, pages: int = 40) -> dict[str, tuple[str, ...]]:
    """Make pages that link to each other at random; return the links of each."""
    chance = random.Random(7)
    names = ["/", *(f"/p{n}" for n in range(1, pages))]
    links: dict[str, tuple[str, ...]] = {
        name: tuple(dict.fromkeys(chance.choices(names, k=4))) for name in names
    }
    for name, there in links.items():
        site.page(name, document(f"Page {name}", links=list(there)))
    return links


@pytest.mark.parametrize(
    "concurrency", [1, 5, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 10))]
)
async def test_eight_pages_of_a_ternary_tree_reach_depth_seven(api: Api, concurrency: int) -> None:
    with Site(seed=concurrency, latency=0.05) as site:
        endless_tree(site)
        reply = await crawled(api, site.url, max_pages=8, concurrency=concurrency)
        assert [row["depth"] for row in reply["data"]] == list(range(8))
        assert [row["url"] for row in reply["data"]] == [site.at("/" + "a" * n) for n in range(8)]
        # Pages fetched ahead that the crawl did not come to are bounded, and leave no trace.
        assert len(site.paths) <= 8 + PREFETCHED_PER_FETCH * concurrency
        assert reply["receipt"]["counts"] == {"fetched": 8, "over_max_pages": 8 * 2 + 1}


@pytest.mark.slow
async def test_rows_are_those_of_a_depth_first_search_at_any_concurrency(api: Api) -> None:
    tables = []
    for concurrency in CONCURRENCIES:
        with Site(seed=concurrency, latency=0.1) as site:
            links = random_web(site)
            reply = await crawled(api, site.url, concurrency=concurrency)
            rows = [(row["url"].removeprefix(site.url), row["depth"]) for row in reply["data"]]
            tables.append((rows, reply["receipt"]["counts"]))
            assert ["/" + path for path, _ in rows] == list(depth_first(links, "/", max_depth=10))
            # Every page is needed in the end, so none is asked for in vain, or twice.
            assert sorted(site.paths) == sorted("/" + path for path, _ in rows)
    assert all(table == tables[0] for table in tables)


async def test_one_at_a_time_pages_are_asked_for_in_the_order_of_the_rows(api: Api) -> None:
    with Site(latency=0.02) as site:
        random_web(site)
        reply = await crawled(api, site.url, concurrency=1, max_pages=25)
        assert [site.at(path) for path in site.paths] == [row["url"] for row in reply["data"]]
        assert site.peak == 1


async def test_several_pages_are_fetched_at_a_time(api: Api) -> None:
    with Site() as site:
        paths = [f"/{n}" for n in range(20)]
        site.page("/", document("Front", links=paths))
        for path in paths:
            site.page(path, document(path), delay=0.05)
        reply = await crawled(api, site.url, concurrency=10)
        assert [row["url"] for row in reply["data"]] == [site.url, *map(site.at, paths)]
        assert 2 < site.peak <= 10


async def test_a_page_fetched_ahead_does_not_hold_up_the_end(api: Api, site: Site) -> None:
    site.page("/", document("Front", links=["/a", "/slow"]))
    site.page("/a", document("A", links=["/b"]))
    site.page("/b", document("B"))
    with site.hold("/slow"):
        reply = await crawled(api, site.url, max_pages=3, concurrency=5)
        assert [row["url"] for row in reply["data"]] == [
            site.at(path) for path in ("/", "/a", "/b")
        ]
        assert reply["receipt"]["counts"] == {"fetched": 3, "over_max_pages": 1}


async def test_a_page_on_its_way_is_not_asked_for_again_in_its_turn(api: Api, site: Site) -> None:
    site.page("/", document("Front", links=["/a", "/b"]))
    site.page("/a", document("A"))
    site.page("/b", document("B"), delay=0.5)
    reply = await crawled(api, site.url, concurrency=5)
    assert [row["url"] for row in reply["data"]] == [site.at(path) for path in ("/", "/a", "/b")]
    assert len(site.hits("/b")) == 1


async def test_pages_fetched_ahead_that_fail_or_lead_away_are_what_they_are_in_turn(
    api: Api, site: Site
) -> None:
    site.page("/", document("Front", links=["/a", "/lost", "/moved", "/copy", "/b"]))
    site.page("/a", document("One page under two names", links=["/deep"]))
    site.page("/copy", document("One page under two names", links=["/deep"]))
    site.page("/deep", document("Deep"), delay=0.3)
    site.redirect("/moved", "/a")
    site.page("/b", document("B"))
    reply = await crawled(api, site.url, concurrency=10)
    rows = [(row["url"], row["success"]) for row in reply["data"]]
    assert rows == [
        (site.at(path), path != "/lost") for path in ("/", "/a", "/deep", "/lost", "/b")
    ]
    counts = {"fetched": 4, "failed:http_404": 1, "redirect": 1, "duplicate": 1}
    assert reply["receipt"]["counts"] == counts


async def test_where_a_site_wants_a_distance_nothing_is_fetched_ahead(api: Api, site: Site) -> None:
    site.robots("User-agent: *\nCrawl-delay: 0.2\n")
    endless_tree(site)
    reply = await crawled(api, site.url, max_pages=5, concurrency=10)
    assert len(reply["data"]) == 5
    assert site.paths == tuple("/" + "a" * n for n in range(5))


async def test_seeds_come_behind_the_links_of_the_start_page(api: Api, site: Site) -> None:
    locations = "".join(f"<url><loc>{site.at(path)}</loc></url>" for path in ("/s1", "/s2"))
    site.page("/sitemap.xml", f"<urlset>{locations}</urlset>")
    site.page("/", document("Front", links=["/a", "/b"]))
    for path in ("/a", "/b", "/s1", "/s2"):
        site.page(path, document(path))
    reply = await crawled(api, site.url, sitemap=True, concurrency=5)
    order = ("/", "/a", "/b", "/s1", "/s2")
    assert [row["url"] for row in reply["data"]] == [site.at(path) for path in order]
