"""PostgreSQL goes away while crawls run: requests are answered 503, and crawls go on after it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from tests import postgres
from tests.postgres import PostgresServer
from tests.replica_process import HEADERS, add_account
from tests.service.conftest import Api, open_service
from tests.site.graphs import link_tree
from tests.site.server import Site
from webdata_nb.contract.states import TERMINAL
from webdata_nb.service.encryption import new_key
from webdata_nb.service.store.postgres import database

pytestmark = pytest.mark.slow

PAGES = 100
DEADLINE_S = 120.0


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """Run a server that the test stops."""
    with postgres.running() as server:
        yield server


async def wait_for_pages(site: Site, count: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if len(site.paths) >= count:
                return
            await asyncio.sleep(0.02)


def check_refusal(response: httpx.Response) -> None:
    assert response.status_code == 503, response.text
    assert "not available" in response.json()["detail"]
    assert int(response.headers["Retry-After"]) > 0


async def check_crawl(api: Api, job_id: str, urls: list[str]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            response = await api.http.get(f"/v1/crawl/{job_id}?per_page=1000")
            if response.status_code == 503:  # the sessions were killed just now
                check_refusal(response)
            elif (reply := Api._checked(response, 200))["status"] in TERMINAL:
                break
            await asyncio.sleep(0.05)
    assert (reply["status"], reply["error"]) == ("completed", None)
    assert [row["url"] for row in reply["data"]] == urls


@pytest.mark.parametrize("mode", [pytest.param("fast", marks=pytest.mark.smoke), "immediate"])
async def test_requests_are_refused_and_crawls_go_on(
    own_server: PostgresServer,
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    monkeypatch.setattr(database, "POOL_WAIT_S", 1.0)
    urls = [site.at(path) for path in link_tree(site, depth=2, fanout=10)[:PAGES]]
    url, key = own_server.new_schema(), new_key()
    await add_account(url, key)
    async with open_service(
        tmp_path / "a", "team", networks=("127.0.0.0/8",), store_url=url, secret_keys=(key,)
    ) as api:
        api.http.headers.update(HEADERS)
        body = {"url": urls[0], "max_pages": PAGES, "concurrency": 4}
        with site.hold("/tree/5"):
            job_id = await api.start_job("crawl", body)
            await wait_for_pages(site, 6)
            await asyncio.to_thread(own_server.stop, mode)
        for _ in range(2):
            check_refusal(await api.http.get(f"/v1/crawl/{job_id}"))
            check_refusal(await api.http.post("/v1/crawl", json=body))
        await asyncio.to_thread(own_server.start)
        await check_crawl(api, job_id, urls)


async def test_killed_sessions(postgres_server: PostgresServer, site: Site, tmp_path: Path) -> None:
    urls = [site.at(path) for path in link_tree(site, depth=2, fanout=10)[:PAGES]]
    url, key = postgres_server.new_schema(), new_key()
    await add_account(url, key)
    named = f"{url}&application_name=killed"
    async with open_service(
        tmp_path / "a", "team", networks=("127.0.0.0/8",), store_url=named, secret_keys=(key,)
    ) as api:
        api.http.headers.update(HEADERS)
        body = {"url": urls[0], "max_pages": PAGES, "concurrency": 4}
        job_ids = [await api.start_job("crawl", body) for _ in range(4)]
        for fetched in range(20, 400, 40):
            await wait_for_pages(site, fetched)
            await asyncio.to_thread(kill_sessions, url)
        for job_id in job_ids:
            await check_crawl(api, job_id, urls)


def kill_sessions(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'killed'"
        )
