"""The network between a replica and its database loses packets, silently and in either direction.

The other replica continues the jobs when their leases end. The one that is cut off refuses requests
in time, and what it writes afterwards is rejected.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg
import pytest

from tests import postgres
from tests.replica_process import HEADERS, ReplicaProcess, add_account
from tests.service.replicas.outages import DEADLINE_S, check_refusal, wait_for_pages
from tests.service.replicas.partition import Lost, Partition, listen_everywhere, partition
from tests.service.replicas.test_stopped_replica import ended
from tests.site.graphs import link_tree
from tests.site.server import Site
from webdata_nb.contract import paths
from webdata_nb.service.encryption import new_key

pytestmark = pytest.mark.slow

PAGES: Final = 100
CRAWLS: Final = 4
# Longer than the leases.
LONG_S: Final = 25.0
SHORT_S: Final = 3.0
# 8 s until a lost packet ends a connection, 3 s for a new one, and some for a loaded machine.
REFUSED_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class CutService:
    """A service with a replica in a namespace, and another one beside the database."""

    network: Partition
    site: Site
    store_url: str = field(repr=False)
    cut_off: ReplicaProcess
    other: ReplicaProcess

    @property
    def urls(self) -> list[str]:
        """The pages of the site's tree, breadth first."""
        return [self.site.at(path) for path in link_tree(self.site, depth=2, fanout=10)[:PAGES]]


@contextmanager
def cut_service(folder: Path) -> Iterator[CutService]:
    """Run the service until the block ends."""
    with ExitStack() as stack:
        network = stack.enter_context(partition())
        server = stack.enter_context(postgres.running())
        listen_everywhere(server)
        site = stack.enter_context(Site(host=network.others.outer_address, latency=0.2))
        url, key = server.new_schema(), new_key()
        asyncio.run(add_account(url, key))
        options = ("--allow-network", "10.0.0.0/8", "--replica")
        cut_off = ReplicaProcess(
            *(folder / "cut-off", network.url_in(url), key, *options, "cut-off"),
            host=network.others.inner_address,
            run_in=network.run_in,
        )
        other = ReplicaProcess(folder / "other", url, key, *options, "other")
        for replica in (cut_off, other):
            replica.launch()
            stack.callback(replica.kill)
        for replica in (cut_off, other):
            replica.wait_ready()
        yield CutService(network, site, url, cut_off, other)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[CutService]:
    with cut_service(tmp_path) as running:
        yield running


@asynccontextmanager
async def clients(service: CutService) -> AsyncIterator[tuple[httpx.AsyncClient, ...]]:
    """Open a client of the replica that is cut off, and one of the other."""
    options: dict[str, Any] = {"headers": HEADERS, "timeout": DEADLINE_S, "trust_env": False}
    async with (
        httpx.AsyncClient(base_url=service.cut_off.url, **options) as cut_off,
        httpx.AsyncClient(base_url=service.other.url, **options) as other,
    ):
        yield cut_off, other


async def start_crawls(http: httpx.AsyncClient, body: dict[str, Any]) -> list[str]:
    replies = [await http.post(paths.CRAWL, json=body) for _ in range(CRAWLS)]
    return [reply.raise_for_status().json()["job_id"] for reply in replies]


async def timed(http: httpx.AsyncClient, method: str, path: str, **options: Any) -> httpx.Response:
    """Send a request; check that its reply did not take longer than a refusal may."""
    began = time.monotonic()
    response = await http.request(method, path, **options)
    assert time.monotonic() - began < REFUSED_S, f"{method} {path}: {response.text}"
    return response


async def refused_requests(
    http: httpx.AsyncClient, job_id: str, body: dict[str, Any], seconds: float
) -> list[httpx.Response]:
    """Send reads, starts and readiness checks once a second; return the replies to all."""
    began = time.monotonic()
    sent = []
    while (now := time.monotonic() - began) < seconds:
        key = {paths.IDEMPOTENCY_KEY: str(uuid.uuid4())}
        requests = (
            timed(http, "GET", f"/v1/crawl/{job_id}"),
            timed(http, "POST", paths.CRAWL, json=body, headers=key),
            timed(http, "GET", paths.READY),
        )
        # Those of the last seconds may still wait when the packets arrive again.
        sent.append((now, [asyncio.create_task(request) for request in requests]))
        await asyncio.sleep(1)
    return [await task for at, tasks in sent for task in tasks if at < seconds - REFUSED_S]


def claims(service: CutService) -> list[tuple[str, int]]:
    """Return the state of each job, and how often it was claimed."""
    with psycopg.connect(service.store_url) as connection:
        return connection.execute("SELECT state, attempt FROM job").fetchall()


async def check_jobs(service: CutService, job_ids: list[str]) -> None:
    """Check the rows of all jobs at both replicas, and the credits."""
    urls = service.urls
    async with clients(service) as both:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                if (await both[0].get(paths.READY)).status_code == 200:
                    break
                await asyncio.sleep(0.1)
        for http in both:
            for job_id in job_ids:
                reply = await ended(http, job_id)
                assert (reply["status"], reply["error"]) == ("completed", None)
                assert [row["url"] for row in reply["data"]] == urls
            usage = (await http.get(paths.USAGE)).raise_for_status().json()
            charged = PAGES * len(job_ids)
            assert (usage["used"], usage["reserved"], usage["active"]) == (charged, 0, 0)
    states = await asyncio.to_thread(claims, service)
    assert [state for state, _ in states] == ["completed"] * len(job_ids)


@pytest.mark.parametrize("lost", ["both", "requests", "replies"])
async def test_the_other_replica_takes_the_jobs_of_one_that_is_cut_off(
    tmp_path: Path, service: CutService, lost: Lost
) -> None:
    urls = service.urls
    body = {"url": urls[0], "max_pages": PAGES, "concurrency": 4}
    async with clients(service) as (cut_off, other):
        job_ids = await start_crawls(cut_off, body)
        await wait_for_pages(service.site, 10 * CRAWLS)
        service.network.database.cut(lost)
        try:
            replies = await refused_requests(cut_off, job_ids[0], body, LONG_S)
            # The other one has continued the jobs meanwhile.
            ends = [await ended(other, job_id) for job_id in job_ids]
        finally:
            service.network.database.heal()
        for response in replies:
            if response.request.url.path == paths.READY:
                assert response.status_code == 503
                assert response.json()["reason"] == "database or disk unavailable"
            else:
                check_refusal(response)
        assert max(attempt for _, attempt in await asyncio.to_thread(claims, service)) > 1
        assert {reply["status"] for reply in ends} == {"completed"}
        await check_jobs(service, job_ids)
        # The replica takes jobs again.
        job_ids += await start_crawls(cut_off, body)
        await check_jobs(service, job_ids)
    log = (tmp_path / "cut-off.log").read_text()
    assert "was taken from this worker" in log
    assert "Traceback" not in log + (tmp_path / "other.log").read_text()


async def test_a_short_partition_moves_no_job(service: CutService) -> None:
    urls = service.urls
    body = {"url": urls[0], "max_pages": PAGES, "concurrency": 4}
    async with clients(service) as (cut_off, _):
        with service.site.hold("/tree/5"):
            job_ids = await start_crawls(cut_off, body)
            await wait_for_pages(service.site, 6 * CRAWLS)
            service.network.database.cut("both")
            await asyncio.sleep(SHORT_S)  # the length of the partition
            service.network.database.heal()
        await check_jobs(service, job_ids)
    assert {attempt for _, attempt in await asyncio.to_thread(claims, service)} == {1}
