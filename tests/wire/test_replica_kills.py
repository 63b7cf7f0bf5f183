"""Processes on one PostgreSQL store that are killed: another continues their jobs, exactly."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from benchmarks.replica_kills import run
from tests import postgres
from tests.postgres import PostgresServer
from tests.replica_process import HEADERS, ReplicaProcess, add_account
from tests.site.graphs import link_tree
from tests.site.server import Site
from tests.wire.dask_kills import dask_team
from tests.wire.replica_kills import (
    AnyKill,
    CrawlLoad,
    DaskKillKind,
    KillKind,
    OpenTeam,
    pooled_team,
    standby_team,
)
from webdata_nb.service.encryption import new_key

CRAWLS = 6


@pytest.fixture
def replicas(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[list[ReplicaProcess]]:
    """Start two processes on one store, which has the account of Alice."""
    url, key = postgres_server.new_schema(), new_key()
    asyncio.run(add_account(url, key))
    started = [ReplicaProcess(tmp_path / f"replica-{n}", url, key) for n in range(2)]
    for replica in started:
        replica.start()
    yield started
    for replica in started:
        replica.kill()


def read(replicas: list[ReplicaProcess], path: str, **parameters: Any) -> Any:
    """Read from whichever process answers."""
    for replica in random.sample(replicas, len(replicas)):
        with contextlib.suppress(httpx.TransportError):
            response = httpx.get(replica.url + path, headers=HEADERS, params=parameters, timeout=30)
            assert response.status_code == 200, response.text
            return response.json()
    return None


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kills", [2])
def test_rows_are_exact_after_kills_of_replicas(
    replicas: list[ReplicaProcess], site: Site, kills: int
) -> None:
    trees = [link_tree(site, depth=3, fanout=4, root=f"/tree{n}") for n in range(CRAWLS)]
    job_ids = []
    for number, paths in enumerate(trees):
        body = {"url": site.at(paths[0]), "max_pages": len(paths), "concurrency": 4}
        reply = httpx.post(f"{replicas[number % 2].url}/v1/crawl", json=body, headers=HEADERS)
        job_ids.append(reply.json()["job_id"])
    for number in range(kills):
        time.sleep(random.uniform(0.2, 1.5))
        replicas[number % 2].kill()
        time.sleep(0.5)
        replicas[number % 2].start()
    deadline = time.monotonic() + 300
    unfinished = set(job_ids)
    while unfinished:
        assert time.monotonic() < deadline, f"{len(unfinished)} jobs have not ended"
        for job_id in tuple(unfinished):
            status = read(replicas, f"/v1/crawl/{job_id}", include_data=False)
            if status is not None and status["status"] == "completed":
                unfinished.discard(job_id)
        time.sleep(0.2)
    for job_id, paths in zip(job_ids, trees, strict=True):
        rows = read(replicas, f"/v1/crawl/{job_id}", per_page=100)["data"]
        # As in an undisturbed crawl: breadth first, each page once.
        assert [urlsplit(row["url"]).path for row in rows] == list(paths)
    usage = read(replicas, "/v1/usage")
    page_count = sum(map(len, trees))
    assert (usage["used"], usage["active"], usage["reserved"]) == (page_count, 0, 0)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_killed_replica_continues_its_own_jobs_at_once(
    replicas: list[ReplicaProcess], site: Site
) -> None:
    paths = link_tree(site, depth=2, fanout=5)
    replicas[1].terminate()
    with site.hold(paths[10]):
        body = {"url": site.at(paths[0]), "max_pages": len(paths), "concurrency": 2}
        reply = httpx.post(f"{replicas[0].url}/v1/crawl", json=body, headers=HEADERS)
        site.wait_for(paths[10])
        replicas[0].kill()
        prolong_lease(replicas[0].store_url)  # so that it does not end while the replica starts
        replicas[0].start()
        deadline = time.monotonic() + 120
        while attempts(replicas[0].store_url) == 1:
            assert time.monotonic() < deadline, "it waits for the end of the lease"
            time.sleep(0.02)
    job_id = reply.json()["job_id"]
    while read(replicas[:1], f"/v1/crawl/{job_id}", include_data=False)["status"] != "completed":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    rows = read(replicas[:1], f"/v1/crawl/{job_id}", per_page=100)["data"]
    assert [urlsplit(row["url"]).path for row in rows] == list(paths)
    assert len(site.paths) - len(set(site.paths)) <= 2  # those in flight


def prolong_lease(store_url: str) -> None:
    """Have the lease of the only job last for an hour."""
    with psycopg.connect(store_url) as connection:
        connection.execute("UPDATE job SET lease_until = lease_until + 3600")


def attempts(store_url: str) -> int:
    """Return how often the only job was claimed."""
    with psycopg.connect(store_url) as connection:
        row = connection.execute("SELECT attempt FROM job").fetchone()
    return int(row[0]) if row else 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_rows_webhooks_and_credits_are_exact_after_kills(tmp_path: Path) -> None:
    # The short version of `python -m benchmarks.replica_kills`.
    kills: list[AnyKill] = [*get_args(KillKind)]
    with postgres.running() as server:
        # The crawls are so slow that the kills happen before their end. Other tests share the
        # machine: no limit of seconds.
        load = CrawlLoad(4, 100)
        errors = run(server, tmp_path, load, kills, seed=1, held_s=math.inf, latency_s=0.8)
    assert errors == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("open_team", [standby_team, pooled_team])
def test_rows_are_exact_at_a_promoted_standby_and_behind_a_pooler(
    tmp_path: Path, open_team: OpenTeam
) -> None:
    # The short version of `python -m benchmarks.replica_kills --standby`, and `--pooler`.
    kills: list[AnyKill] = ["database", "both", "database"]
    with postgres.running() as server:
        errors = run(
            server,
            tmp_path,
            CrawlLoad(4, 100),
            kills,
            seed=1,
            held_s=math.inf,
            latency_s=0.8,
            open_team=open_team,
        )
    assert errors == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_rows_are_exact_after_kills_of_dask_processes(tmp_path: Path) -> None:
    # The short version of `python -m benchmarks.replica_kills --dask`.
    kills: list[AnyKill] = [*get_args(DaskKillKind)]
    with postgres.running() as server:
        load = CrawlLoad(4, 100)
        errors = run(
            server,
            tmp_path,
            load,
            kills,
            seed=1,
            held_s=math.inf,
            latency_s=2.0,
            open_team=dask_team,
        )
    assert errors == []
