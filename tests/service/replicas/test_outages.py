"""PostgreSQL goes away while crawls run: requests are answered 503, and crawls go on after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import psycopg
import pytest

from tests import postgres
from tests.postgres import PostgresServer
from tests.replica_process import HEADERS, ReplicaProcess, add_account
from tests.service.replicas.outages import (
    DEADLINE_S,
    check_crawl,
    check_refusal,
    open_replica,
    wait_for_pages,
)
from tests.site.graphs import link_tree
from tests.site.server import Site
from webdata_nb.service.encryption import new_key
from webdata_nb.service.work import runner

pytestmark = pytest.mark.slow

PAGES = 100


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """Run a server that the test stops."""
    with postgres.running() as server:
        yield server


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_requests_are_refused_and_crawls_go_on(
    own_server: PostgresServer,
    site: Site,
    tmp_path: Path,
    mode: str,
) -> None:
    urls = [site.at(path) for path in link_tree(site, depth=2, fanout=10)[:PAGES]]
    url, key = own_server.new_schema(), new_key()
    await add_account(url, key)
    async with open_replica(tmp_path / "a", url, key) as api:
        body = {"url": urls[0], "max_pages": PAGES, "concurrency": 4}
        with site.hold("/tree/5"):
            job_id = await api.start_job("crawl", body)
            await wait_for_pages(site, 6)
            await asyncio.to_thread(own_server.stop, mode)
        for _ in range(2):  # more at once than there are threads for them
            reads = [api.http.get(f"/v1/crawl/{job_id}") for _ in range(20)]
            starts = [api.http.post("/v1/crawl", json=body) for _ in range(20)]
            for response in await asyncio.gather(*reads, *starts):
                check_refusal(response)
        await asyncio.to_thread(own_server.start)
        await check_crawl(api, job_id, urls)


async def read_until(lines: AsyncIterator[str], beginning: str) -> list[str]:
    """Read lines of an event stream up to the first one with this beginning."""
    received: list[str] = []
    async for line in lines:
        received.append(line)
        if line.startswith(beginning):
            return received
    raise AssertionError(f"the stream ended without {beginning!r}: {received}")


async def test_event_streams_stay_open_and_readiness_is_logged_once(
    own_server: PostgresServer, site: Site, tmp_path: Path
) -> None:
    urls = [site.at(path) for path in link_tree(site, depth=1, fanout=30)]
    url, key = own_server.new_schema(), new_key()
    await add_account(url, key)
    replica = ReplicaProcess(tmp_path / "a", url, key)
    await asyncio.to_thread(replica.start)
    try:
        async with (
            asyncio.timeout(DEADLINE_S),
            httpx.AsyncClient(base_url=replica.url, headers=HEADERS, timeout=DEADLINE_S) as http,
        ):
            with site.hold("/tree/5"):
                body = {"url": urls[0], "max_pages": len(urls), "concurrency": 1}
                job_id = (await http.post("/v1/crawl", json=body)).json()["job_id"]
                request = http.build_request("GET", f"/v1/crawl/{job_id}/events")
                response = await http.send(request, stream=True)
                lines = response.aiter_lines()
                received = await read_until(lines, "event: page")
                await asyncio.to_thread(own_server.stop)
                for _ in range(3):
                    received += await read_until(lines, ": the database is not available")
                    assert (await http.get("/readyz")).status_code == 503
            await asyncio.to_thread(own_server.start)
            received += await read_until(lines, "event: done")
            received += [line async for line in lines]
    finally:
        replica.kill()
    ids = [line for line in received if line.startswith("id: ")]
    assert ids == [*(f"id: {n}" for n in range(1, len(urls) + 1)), f"id: {len(urls)}-end"]
    assert '"completed"' in received[received.index("event: done") + 2]
    log = (tmp_path / "a.log").read_text()
    assert "Traceback" not in log
    for message in ("not ready", "accepts no connections:", "no job can be taken", "webhooks wait"):
        assert log.count(message) <= 1, log
    assert "psycopg" not in log


async def test_an_outage_longer_than_a_lease(
    own_server: PostgresServer, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease_s = 15.0
    monkeypatch.setattr(runner, "LEASE_S", lease_s)
    monkeypatch.setattr(runner, "RENEW_S", 1000.0)
    urls = [site.at(path) for path in link_tree(site, depth=1, fanout=PAGES - 1)]
    url, key = own_server.new_schema(), new_key()
    await add_account(url, key)
    async with AsyncExitStack() as stack:
        first, second = [
            await stack.enter_async_context(open_replica(tmp_path / name, url, key, replica=name))
            for name in ("first", "second")
        ]
        with site.hold("/tree/20"):
            body = {"url": urls[0], "max_pages": PAGES, "concurrency": 4}
            job_id = await first.start_job("crawl", body)
            await wait_for_pages(site, 6)
            before = await asyncio.to_thread(read_attempt, url)
            monkeypatch.setattr(runner, "LEASE_S", 600.0)  # of the next attempt
            await asyncio.to_thread(own_server.stop)
            await asyncio.sleep(lease_s)  # the length of the outage
            await asyncio.to_thread(own_server.start)
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    if await asyncio.to_thread(read_attempt, url) > before:
                        break
                    await asyncio.sleep(0.05)
        for api in (first, second):
            await check_crawl(api, job_id, urls)
            usage = await api.get("/v1/usage")
            assert (usage["used"], usage["reserved"], usage["active"]) == (PAGES, 0, 0)


def read_attempt(url: str) -> int:
    """Return how often the only job was claimed."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT attempt FROM job").fetchone()
        assert row is not None
        return int(row[0])


async def test_killed_sessions(postgres_server: PostgresServer, site: Site, tmp_path: Path) -> None:
    urls = [site.at(path) for path in link_tree(site, depth=2, fanout=10)[:PAGES]]
    url, key = postgres_server.new_schema(), new_key()
    await add_account(url, key)
    named = f"{url}&application_name=killed"
    async with (
        open_replica(tmp_path / "first", named, key, replica="first") as first,
        open_replica(tmp_path / "second", named, key, replica="second") as second,
    ):
        body = {"url": urls[0], "max_pages": PAGES, "concurrency": 4}
        job_ids = [await api.start_job("crawl", body) for api in (first, second, first, second)]
        listeners = 0
        for fetched in range(20, 400, 40):
            await wait_for_pages(site, fetched)
            listeners += await asyncio.to_thread(kill_sessions, url)
        assert listeners >= 2
        for api in (first, second):
            for job_id in job_ids:
                await check_crawl(api, job_id, urls)
        async with asyncio.timeout(DEADLINE_S):
            while True:
                if await asyncio.to_thread(count_listeners, url) == 2:
                    break
                await asyncio.sleep(0.05)


def kill_sessions(url: str) -> int:
    """Kill all sessions of the replicas; return how many of them listened."""
    listeners = 0
    with psycopg.connect(url, autocommit=True) as connection:
        for (query,) in connection.execute(
            "SELECT query FROM (SELECT query, pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'killed') AS killed"
        ):
            listeners += query.startswith("LISTEN")
    return listeners


def count_listeners(url: str) -> int:
    """Return how many sessions of the replicas listen."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT COUNT(*) FROM pg_stat_activity"
            " WHERE application_name = 'killed' AND query LIKE 'LISTEN%'"
        ).fetchone()
        assert row is not None
        return int(row[0])
