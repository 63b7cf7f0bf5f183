"""PostgreSQL has no space left: starts are refused, running crawls wait, and nothing is lost."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
import pytest

from tests import postgres
from tests.postgres import PostgresServer, give_to_server
from tests.replica_process import add_account
from tests.service.conftest import Api
from tests.service.replicas.outages import (
    DEADLINE_S,
    check_crawl,
    check_refusal,
    open_replica,
)
from tests.service.routes.test_disk_full import big_site, check_completed, check_starts_are_refused
from tests.site.server import Site
from tests.small_disk import SmallDisk, small_disk
from webdata_nb.contract import paths
from webdata_nb.pacing.retry_policies import BackoffPolicy
from webdata_nb.service.encryption import new_key
from webdata_nb.service.routes import open_endpoints
from webdata_nb.service.store import job_context

pytestmark = pytest.mark.slow

CRAWLS: Final = 2


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_endpoints, "FRESH_S", 0.0)
    monkeypatch.setattr(job_context, "STORE", BackoffPolicy(0.1, 0.2))


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """Run a server whose WAL has small files, so that it soon needs a new one."""
    with postgres.running("--wal-segsize=1") as server:
        yield server


async def test_tables_cannot_grow(own_server: PostgresServer, site: Site, tmp_path: Path) -> None:
    folder = own_server.folder / "small"
    folder.mkdir()
    with small_disk(folder, megabytes=24) as disk:
        give_to_server(folder)
        with psycopg.connect(own_server.url, autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
            connection.execute("ALTER DATABASE postgres SET default_tablespace = small")
        try:
            await check_full_disk(own_server, disk, site, tmp_path)
        finally:
            own_server.stop("immediate")


async def wait_until_full(api: Api) -> None:
    """Wait until crawls wait for space, and go on waiting."""
    observed = 0
    async with asyncio.timeout(DEADLINE_S):
        while observed < 20:
            readiness = (await api.http.get(paths.READY)).json()
            observed = observed + 1 if readiness.get("reason") == "disk full" else 0
            await asyncio.sleep(0.05)


async def check_full_disk(
    server: PostgresServer, disk: SmallDisk, site: Site, tmp_path: Path
) -> None:
    expected = big_site(site)
    url, key = server.new_schema(), new_key()
    await add_account(url, key)
    body = {"url": expected[0], "max_pages": len(expected), "concurrency": 5}
    async with (
        open_replica(tmp_path / "first", url, key, replica="first") as api,
        open_replica(tmp_path / "second", url, key, replica="second") as other,
    ):
        disk.fill(but=600_000)
        job_ids = [await api.start_job("crawl", body) for _ in range(CRAWLS)]
        await wait_until_full(api)
        disk.fill()
        await wait_until_full(api)
        tables = [(await api.get(f"/v1/crawl/{job_id}"))["data"] for job_id in job_ids]
        accepted = await check_starts_are_refused(api, body)
        await asyncio.sleep(1)
        for each in (api, other):
            for job_id, rows in zip(job_ids, tables, strict=True):
                still = await each.get(f"/v1/crawl/{job_id}")
                assert (still["status"], still["error"]) == ("running", None)
                assert still["data"][: len(rows)] == rows
        disk.free()
        for each in (api, other):
            for job_id, rows in zip(job_ids, tables, strict=True):
                await check_crawl(each, job_id, expected)
                ended = await each.get(f"/v1/crawl/{job_id}")
                assert ended["data"][: len(rows)] == rows
        await check_completed(api, accepted)
        usage = await api.get("/v1/usage")
        assert (usage["reserved"], usage["active"]) == (0, 0)
        assert (await api.get(paths.READY))["status"] == "ok"
        again = await api.run_job("crawl", **body)
        assert len(again["data"]) == len(expected)


def log_of(server: PostgresServer) -> str:
    return (server.folder / "log").read_text()


async def test_the_wal_cannot_grow(own_server: PostgresServer, site: Site, tmp_path: Path) -> None:
    own_server.stop()
    wal, folder = own_server.folder / "data" / "pg_wal", own_server.folder / "small"
    folder.mkdir()
    with small_disk(folder, megabytes=16) as disk:
        give_to_server(folder)
        shutil.copytree(wal, folder, dirs_exist_ok=True)
        for path in folder.rglob("*"):
            give_to_server(path)
        shutil.rmtree(wal)
        wal.symlink_to(folder)
        own_server.configure(min_wal_size="'2MB'")
        own_server.start()
        try:
            await check_full_wal(own_server, disk, site, tmp_path)
        finally:
            if own_server.is_running():
                own_server.stop("immediate")


async def check_full_wal(
    server: PostgresServer, disk: SmallDisk, site: Site, tmp_path: Path
) -> None:
    expected = big_site(site)
    url, key = server.new_schema(), new_key()
    await add_account(url, key)
    body = {"url": expected[0], "max_pages": len(expected), "concurrency": 5}
    async with open_replica(tmp_path / "first", url, key) as api:
        job_ids = [await api.start_job("crawl", body) for _ in range(2 * CRAWLS)]
        disk.fill()
        async with asyncio.timeout(DEADLINE_S):
            while True:
                if "PANIC" in await asyncio.to_thread(log_of, server):
                    break
                await asyncio.sleep(0.05)
        for _ in range(50):  # the server stops, or starts and stops again
            response = await api.http.get(f"/v1/crawl/{job_ids[0]}")
            if response.status_code == 503:
                check_refusal(response)
            else:
                assert response.json()["status"] != "failed"
            await asyncio.sleep(0.05)
        disk.free()
        if not await asyncio.to_thread(server.is_running):
            await asyncio.to_thread(server.start)
        for job_id in job_ids:
            await check_crawl(api, job_id, expected)
        usage = await api.get("/v1/usage")
        charged = len(expected) * len(job_ids)
        assert (usage["used"], usage["reserved"], usage["active"]) == (charged, 0, 0)
