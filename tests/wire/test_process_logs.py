"""The log of a service of several processes: each end of a job once, and each line an object."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg
import pytest

from tests.dask_processes import scratch, wait_until
from tests.openapi.service_process import ENVIRON
from tests.postgres import PostgresServer
from tests.replica_process import HEADERS, ReplicaProcess, add_account
from tests.site.graphs import link_tree
from tests.site.server import Site
from webdata_nb.service.encryption import new_key

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

JSON: Final = ("--log-format", "json")


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


class Fleet:
    """Processes on one store, and the lines of their logs."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url, self.key = folder, url, new_key()
        self.processes: list[ReplicaProcess] = []
        self.stack = ExitStack()
        asyncio.run(add_account(url, self.key, concurrency=100))

    def start(self, name: str, *options: str, command: str = "serve") -> ReplicaProcess:
        """Start a process, and wait until it answers its health check."""
        process = ReplicaProcess(
            self.folder / name,
            self.url,
            self.key,
            *options,
            command=command,
            **scratch(self.folder),
            **ENVIRON,
        )
        process.launch()
        self.stack.callback(process.kill)
        self.processes.append(process)
        process.wait_ready()
        return process

    def read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return rows of the database."""
        with psycopg.connect(self.url) as connection:
            return connection.execute(query, values).fetchall()

    def write(self, query: str, *values: Any) -> None:
        """Change the database."""
        with psycopg.connect(self.url) as connection:
            connection.execute(query, values)

    def lines(self) -> list[dict[str, Any]]:
        """Return what the processes wrote to their standard errors, which is JSON."""
        texts = [process.log_path.read_text() for process in self.processes]
        found = [json.loads(line) for text in texts for line in text.splitlines()]
        assert all(isinstance(each, dict) for each in found)
        return found

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of a name."""
        return [line for line in self.lines() if line.get("event") == name]


@pytest.fixture
def fleet(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, postgres_server.new_schema())
    with fleet.stack:
        yield fleet


def start(fleet: Fleet, path: str, body: dict[str, Any], *, at: int = 0) -> str:
    """Start a job at a process; return its id."""
    url = f"{fleet.processes[at].url}{path}"
    reply = httpx.post(url, json=body, headers=HEADERS, timeout=60).raise_for_status()
    return str(reply.json()["job_id"])


def cancel(fleet: Fleet, job_id: str, *, at: int = 0) -> None:
    url = f"{fleet.processes[at].url}/v1/jobs/{job_id}/cancel"
    httpx.post(url, headers=HEADERS, timeout=60).raise_for_status()


def run_mixed_jobs(fleet: Fleet, site: Site, *, replicas: int, slots: int) -> None:
    """Run 43 jobs: crawls and searches that complete, fail, are cancelled, and are given up."""
    paths = link_tree(site, depth=1, fanout=3)
    held = [f"/held/{number}" for number in range(slots)]
    with ExitStack() as gates:
        for path in held:
            gates.enter_context(site.hold(path))
        running = [start(fleet, "/v1/crawl", {"url": site.at(path)}) for path in held]
        for path in held:
            site.wait_for(path)
        # All slots are taken: these wait.
        crash_loop = start(fleet, "/v1/crawl", {"url": site.at(paths[0])})
        fleet.write("UPDATE job SET attempts_since_progress = 5 WHERE id = %s", crash_loop)
        pending = [start(fleet, "/v1/crawl", {"url": site.at(paths[0])}) for _ in range(3)]
        for number, job_id in enumerate(pending):
            cancel(fleet, job_id, at=number % replicas)
            cancel(fleet, job_id, at=(number + 1) % replicas)  # it is cancelled already
        for number, job_id in enumerate(running[:2]):
            cancel(fleet, job_id, at=number % replicas)
    started = len(running) + 1 + len(pending)
    for number in range(43 - started):
        at = number % replicas
        if number % 4 == 0:
            start(fleet, "/v1/search", {"query": "page", "engine": "engine_one"}, at=at)
        elif number % 4 == 1:
            start(fleet, "/v1/crawl", {"url": "http://127.0.0.1:1024/", "max_pages": 1}, at=at)
        else:
            start(fleet, "/v1/crawl", {"url": site.at(paths[0]), "max_pages": number}, at=at)
    query = "SELECT COUNT(*) FROM job WHERE finished_at IS NOT NULL"
    wait_until(lambda: fleet.read(query) == [(43,)], "not all jobs ended")


def check_ends(fleet: Fleet) -> list[dict[str, Any]]:
    """Check that the log has each end of a job once, and the credits of the ledger."""
    jobs = fleet.read("SELECT id, state, credits FROM job")
    # A line is written right after its commit.
    with suppress(AssertionError):
        wait_until(lambda: len(fleet.events("job_ended")) >= len(jobs), "", within_s=30)
    ends = fleet.events("job_ended")
    assert Counter(each["job"] for each in ends) == Counter(job_id for job_id, _, _ in jobs)
    logged = {(each["job"], each["status"], each["credits"]) for each in ends}
    assert logged == set(jobs)
    [(total,)] = fleet.read("SELECT SUM(credits) FROM ledger WHERE kind = 'charge'")
    assert sum(each["credits"] for each in ends) == total
    assert set(Counter(state for _, state, _ in jobs)) == {"completed", "failed", "cancelled"}
    assert any(each.get("reason", "").startswith("given up after 5") for each in ends)
    started = {each["job"] for each in fleet.events("job_started")}
    assert {each["job"] for each in ends if each["attempt"]} <= started
    return ends


def test_workers_of_a_local_cluster_log_each_end_once(fleet: Fleet, site: Site) -> None:
    service = fleet.start("service", *JSON, "--dask", "local:2", "--slots", "2")
    expected = {"scheduler": "connected", "workers": 2}
    wait_until(
        lambda: httpx.get(f"{service.url}/readyz", timeout=60).json()["dask"] == expected,
        "not two workers",
    )
    run_mixed_jobs(fleet, site, replicas=1, slots=4)
    ends = check_ends(fleet)
    assert service.terminate() == 0
    check_ends(fleet)
    names = {each["replica"] for each in ends}
    assert {"dask-0", "dask-1"} < names  # and that of the service, which cancels
