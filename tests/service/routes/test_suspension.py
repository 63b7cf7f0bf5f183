"""A suspended account: its running jobs stop at once, wait, and continue after its end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.service.conftest import Api, open_service
from tests.service.job_stores import store_of, wait_for_other_processes
from tests.service.routes.teams import member
from tests.site.server import Site

PAGES = 30


async def no_job_runs(api: Api) -> None:
    async with asyncio.timeout(60):
        while True:
            if not api.running.metrics.registry.get_sample_value("webdata_running_jobs"):
                return
            await asyncio.sleep(0.05)


@pytest.mark.both_stores
async def test_a_running_crawl_stops_and_continues(tmp_path: Path, site: Site) -> None:
    links = " ".join(f'<a href="/{number}">{number}</a>' for number in range(1, PAGES))
    site.page("/", f"<html><body>{links}</body></html>")
    for number in range(1, PAGES):
        site.page(f"/{number}", f"text {number}")
    alice, bob = await member(tmp_path, "alice"), await member(tmp_path, "bob")
    body = {"url": site.url, "max_pages": PAGES, "concurrency": 1}
    async with (
        open_service(tmp_path, "team", allow_networks=("127.0.0.0/8",)) as api,
        store_of(tmp_path) as store,
    ):
        with site.hold("/9"):
            job_id = (await api.post("/v1/crawl", body, headers=alice))["job_id"]
            await asyncio.to_thread(site.wait_for, "/9", 1)
            await store.accounts.suspend("alice", now=store.now())
            await no_job_runs(api)
        seen = len(site.paths)
        other = (await api.post("/v1/crawl", {**body, "max_pages": 1}, headers=bob))["job_id"]
        await api.wait_for_end("crawl", other, headers=bob)
        assert len(site.paths) == seen + 1
        assert (await store.job("alice", job_id)).state.value == "pending"
        await store.accounts.resume("alice", now=store.now())
        await wait_for_other_processes()
        status = await api.wait_for_end("crawl", job_id, headers=alice)
        assert (status["status"], len(status["data"])) == ("completed", PAGES)
        assert len({row["url"] for row in status["data"]}) == PAGES
