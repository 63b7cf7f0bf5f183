"""Page workers that are killed or stopped while a crawl runs: no page is lost."""

from __future__ import annotations

import asyncio
import random
import signal

import psutil
import pytest

from tests.service.conftest import Api
from tests.service.workers.test_pool import workers
from tests.site.graphs import link_tree
from tests.site.server import Site
from webdata_nb.contract.outcomes import TERMINAL

KILLS = 8
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)


@pytest.fixture
def page_workers() -> int:
    return 2


@pytest.mark.slow
async def test_a_crawl_loses_no_page_to_killed_and_stopped_page_workers(api: Api) -> None:
    chance, sent = random.Random(8), 0
    with Site(seed=8, latency=0.05) as site:
        paths = link_tree(site, depth=3, fanout=6)[:200]
        body = {"url": site.at("/tree"), "max_pages": 200, "max_depth": 5, "concurrency": 8}
        job_id = await api.start_job("crawl", body)
        async with asyncio.timeout(200):
            while True:
                reply = await api.get(f"/v1/crawl/{job_id}", params={"per_page": 1000})
                if reply["status"] in TERMINAL:
                    break
                alive = workers()
                if alive and sent < KILLS:
                    number = SIGNALS[sent % len(SIGNALS)]
                    try:
                        chance.choice(alive).send_signal(number)
                        sent += 1
                    except psutil.NoSuchProcess:
                        continue
                await asyncio.sleep(0.2)
    assert reply["status"] == "completed"
    assert [row["url"] for row in reply["data"]] == [site.at(path) for path in paths]
    assert [row["success"] for row in reply["data"]] == [True] * len(paths)
    assert sent >= 3
