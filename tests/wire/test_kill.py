"""kill -9 of the service in the middle of a crawl: nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.site.graphs import link_tree
from tests.site.server import Site
from tests.wire.waiting import PATIENCE_S, processes_on, until
from webdata_nb import local
from webdata_nb.client.client import Client
from webdata_nb.contract.replies import CrawlStatus
from webdata_nb.settings import Settings

CONCURRENCY = 4


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[tuple[Client, local.LocalService]]:
    """Find or start the local service."""
    service = await local.ensure(settings)
    async with Client(service.base_url, service.token, trust_env=False) as client:
        yield client, service
    await service.close()


async def rows_after(client: Client, job_id: str, count: int) -> CrawlStatus:
    """Wait until a crawl shows `count` rows."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            status = await client.crawl_status(job_id, per_page=1000)
            if len(status.data) >= count or status.status.terminal:
                return status
            await asyncio.sleep(0.01)


def kill(settings: Settings) -> None:
    """End the service's own process and nothing else, as the kernel would."""
    for process in processes_on(settings.data_dir):
        if "serve" in process.cmdline():
            os.kill(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("after", [0, 1, 7, 30])
async def test_a_killed_service_finishes_its_crawl(chosen: Settings, after: int) -> None:
    with Site(seed=after, latency=0.02) as site:
        paths = link_tree(site, depth=3, fanout=4)
        start = {"url": site.at("/tree"), "concurrency": CONCURRENCY, "max_pages": 60}
        async with connected(chosen) as (client, _):
            job_id = (await client.start_crawl(start)).job_id
            before = await rows_after(client, job_id, after)
            kill(chosen)
        await until(lambda: not processes_on(chosen.data_dir))
        async with connected(chosen) as (client, _):
            ended = await rows_after(client, job_id, 1000)
        assert ended.status == "completed"
        assert [row["url"] for row in ended.data] == [site.at(path) for path in paths[:60]]
        # A row once seen is there for ever, as it was.
        assert ended.data[: len(before.data)] == before.data
        asked = [hit.path for hit in site.requests if hit.path != "/robots.txt"]
        assert len(asked) - len(set(asked)) <= CONCURRENCY


async def test_rows_of_a_crawl_do_not_depend_on_how_often_it_was_killed(
    chosen: Settings,
) -> None:
    with Site(seed=1, latency=0.02) as site:
        paths = link_tree(site, depth=3, fanout=3)
        start = {"url": site.at("/tree"), "concurrency": CONCURRENCY}
        job_id, seen = "", 0
        for _ in range(3):
            async with connected(chosen) as (client, _service):
                job_id = job_id or (await client.start_crawl(start)).job_id
                status = await rows_after(client, job_id, seen + 8)
                seen = len(status.data)
                kill(chosen)
            await until(lambda: not processes_on(chosen.data_dir))
        async with connected(chosen) as (client, _service):
            ended = await rows_after(client, job_id, 1000)
        assert [row["url"] for row in ended.data] == [site.at(path) for path in paths]
        assert ended.receipt is not None
        assert ended.receipt.counts == {"fetched": len(paths)}
