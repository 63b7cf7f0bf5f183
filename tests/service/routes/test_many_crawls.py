"""Sixteen crawls of one account, and the search of another beside them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.service.conftest import open_service
from tests.service.routes.endless_site import endless
from tests.service.routes.teams import member
from tests.service.search.stubs import Result, stubs
from tests.site.server import Site
from webdata_nb.contract.choices import ENGINES
from webdata_nb.contract.local import SessionSettings
from webdata_nb.service.settings import SLOTS, unreserved_slots


@pytest.mark.slow
async def test_a_search_ends_while_sixteen_crawls_of_another_account_run(
    tmp_path: Path, site: Site
) -> None:
    stub = stubs()["searxng"]
    providers = SessionSettings.model_validate(
        {
            "engines": dict.fromkeys(ENGINES, ("searxng",)),
            "providers": {"searxng": {"url": stub.on(site)}},
        }
    )
    site.page("/result", "<title>Found</title><h1>Found</h1><p>It is red.</p>", delay=0.05)
    site.under("/endless", endless)
    stub.served = [Result(site.at("/result"), "Found", "It is red.")]
    alice, bob = await member(tmp_path, "alice"), await member(tmp_path, "bob")
    async with open_service(
        tmp_path, "team", providers=providers, allow_networks=("127.0.0.0/8",), page_workers=2
    ) as api:
        crawls = [
            await api.start_job(
                "crawl",
                {"url": site.at(f"/endless/{n}"), "max_pages": 1000, "respect_robots_txt": False},
                headers=alice,
            )
            for n in range(unreserved_slots(SLOTS))
        ]
        for crawl in crawls:
            while (await api.get(f"/v1/crawl/{crawl}", headers=alice))["status"] != "running":  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        query = {"query": "colour", "num_results": 1, "formats": ["markdown"]}
        job_id = await api.start_job("search", query, headers=bob)
        found = await api.wait_for_end("search", job_id, headers=bob)
        assert found["status"] == "completed", found
        [row] = found["data"]
        assert (row["scraped"], "It is red." in row["markdown"]) == (True, True)
        for crawl in crawls:
            status = await api.get(f"/v1/crawl/{crawl}", headers=alice)
            assert status["status"] == "running"
            await api.post(f"/v1/jobs/{crawl}/cancel", headers=alice)
