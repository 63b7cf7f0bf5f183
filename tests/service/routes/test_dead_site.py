"""A site that is gone costs its own pages, and holds up nothing else."""

from __future__ import annotations

import asyncio
import time

import pytest
from aiohttp import web

from tests.service.conftest import Api
from tests.site.document import document
from tests.site.server import Site
from webdata_nb.demo.server import SampleSite

pytestmark = pytest.mark.slow

QUERIES = ("aurora forecast", "moss garden", "anemometer", "winter")


async def test_searches_over_a_dead_site_end(api: Api) -> None:
    for _ in range(2):
        with SampleSite() as site:
            crawled = await api.run_job("crawl", url=site.url, max_pages=30)
            assert len(crawled["data"]) == 30
    jobs = [
        await api.start_job("search", {"query": query, "num_results": 3, "formats": ["markdown"]})
        for query in QUERIES
    ]
    async with asyncio.timeout(240):
        ended = [await api.wait_for_end("search", job_id) for job_id in jobs]
    assert {each["status"] for each in ended} == {"completed"}
    with SampleSite() as site:
        crawled = await api.run_job("crawl", url=site.url, max_pages=30)
        assert len(crawled["data"]) == 30


async def test_a_live_site_is_not_held_up_by_a_dead_one_on_the_same_machine(api: Api) -> None:
    with SampleSite() as site:
        dead = site.url
        await api.run_job("crawl", url=dead, max_pages=30)
    with SampleSite() as live:
        await api.run_job("crawl", url=live.url, max_pages=30)
        searches = [
            await api.start_job(
                "search", {"query": query, "num_results": 3, "formats": ["markdown"]}
            )
            for query in QUERIES
        ]
        crawls = [await api.run_job("crawl", url=live.url, max_pages=30) for _ in range(3)]
        assert [len(each["data"]) for each in crawls] == [30, 30, 30]
        rows = [
            row for each in searches for row in (await api.wait_for_end("search", each))["data"]
        ]
        assert {row["success"] for row in rows if row["url"].startswith(live.url)} == {True}
        assert not any(row["success"] for row in rows if row["url"].startswith(dead))


async def test_a_site_that_asks_for_patience_for_seconds_loses_no_page(
    api: Api, site: Site
) -> None:
    back = time.monotonic() + 12.0

    def busy(request: web.BaseRequest) -> web.Response:
        if time.monotonic() < back:
            return web.Response(status=429, headers={"Retry-After": "1"})
        links = [f"/{n}" for n in range(20)]
        return web.Response(
            text=document(f"Page {request.path}", links=links), content_type="text/html"
        )

    site.under("/", busy)
    crawled = await api.run_job("crawl", url=site.url, max_pages=12, concurrency=8)
    assert crawled["status"] == "completed"
    assert [row["success"] for row in crawled["data"]] == [True] * 12


@pytest.mark.parametrize("retry_after", ["0", "1"])
async def test_a_site_that_never_stops_asking_for_patience_costs_a_page_its_timeout(
    api: Api, site: Site, retry_after: str
) -> None:
    site.robots("")
    url = site.page("/", "busy", status=429, headers={"Retry-After": retry_after})
    body = {"url": url, "scrape_options": {"timeout": 6000}}
    crawled = await api.run_job("crawl", **body)
    assert crawled["receipt"]["counts"] == {"failed:http_429": 1}
    assert 2 <= len(site.hits("/")) <= 9
