"""A replica's processes are stopped for longer than a lease, and continued."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg
import pytest

from tests.postgres import PostgresServer
from tests.replica_process import HEADERS, ReplicaProcess, add_account
from tests.service.replicas.outages import (
    DEADLINE_S,
    check_webhooks,
    crawl_body,
    wait_for_pages,
)
from tests.service.webhooks.endpoint import Endpoint
from tests.site.graphs import link_tree
from tests.site.server import Site
from webdata_nb.contract.outcomes import TERMINAL
from webdata_nb.service.encryption import new_key

pytestmark = pytest.mark.slow

STOPPED_S: Final = 30.0
PAGES: Final = 100
CRAWLS: Final = 4


def attempts(url: str) -> list[int]:
    """Return how often each job was claimed."""
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT attempt FROM job")]


async def ended(http: httpx.AsyncClient, job_id: str) -> Any:
    """Wait for the end of a crawl; return its status."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            response = await http.get(f"/v1/crawl/{job_id}?per_page=1000")
            response.raise_for_status()
            if (reply := response.json())["status"] in TERMINAL:
                return reply
            await asyncio.sleep(0.05)


async def test_jobs_of_a_stopped_replica_are_taken_over(
    postgres_server: PostgresServer, site: Site, tmp_path: Path
) -> None:
    urls = [site.at(path) for path in link_tree(site, depth=2, fanout=10)[:PAGES]]
    url, key = postgres_server.new_schema(), new_key()
    await add_account(url, key)
    first, second = replicas = [
        ReplicaProcess(tmp_path / name, url, key, "--replica", name, "--webhook-loopback")
        for name in ("first", "second")
    ]
    try:
        async with (
            Endpoint() as endpoint,
            httpx.AsyncClient(base_url=first.url, headers=HEADERS, timeout=DEADLINE_S) as at_first,
            httpx.AsyncClient(
                base_url=second.url, headers=HEADERS, timeout=DEADLINE_S
            ) as at_second,
        ):
            await asyncio.to_thread(first.start)
            body = crawl_body(urls, endpoint)
            with site.hold("/tree/5/0"):
                with site.hold("/tree/5"):
                    job_ids = []
                    for _ in range(CRAWLS):
                        response = await at_first.post("/v1/crawl", json=body)
                        job_ids.append(response.raise_for_status().json()["job_id"])
                    await wait_for_pages(site, 6 * CRAWLS)
                    await asyncio.to_thread(second.start)
                await wait_for_pages(site, 20 * CRAWLS)  # commits and page work are under way
                first.signal_group(signal.SIGSTOP)
            try:
                taken_over = [asyncio.create_task(ended(at_second, each)) for each in job_ids]
                await asyncio.sleep(STOPPED_S)  # the length of the stop
                statuses = [await task for task in taken_over]
            finally:
                first.signal_group(signal.SIGCONT)
            for reply in statuses:
                assert (reply["status"], reply["error"]) == ("completed", None)
                assert [row["url"] for row in reply["data"]] == urls
            assert min(await asyncio.to_thread(attempts, url)) > 1
            after = [await ended(at_first, job_id) for job_id in job_ids]
            assert [reply["data"] for reply in after] == [reply["data"] for reply in statuses]
            assert await asyncio.to_thread(second.terminate) == 0
            # The continued replica takes jobs again.
            response = await at_first.post("/v1/crawl", json=body)
            job_ids.append(response.raise_for_status().json()["job_id"])
            again = await ended(at_first, job_ids[-1])
            assert [row["url"] for row in again["data"]] == urls
            usage = (await at_first.get("/v1/usage")).json()
            charged = PAGES * len(job_ids)
            assert (usage["used"], usage["reserved"], usage["active"]) == (charged, 0, 0)
            await check_webhooks(endpoint, job_ids)
    finally:
        for replica in replicas:
            replica.kill()
    logs = [(tmp_path / f"{name}.log").read_text() for name in ("first", "second")]
    assert "Traceback" not in "".join(logs)
    for job_id in job_ids[:CRAWLS]:
        assert f"job {job_id} was taken from this worker" in logs[0]
