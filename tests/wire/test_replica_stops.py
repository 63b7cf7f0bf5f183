"""SIGTERM to a process on PostgreSQL: it exits, and another one continues what it did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.postgres import PostgresServer
from tests.replica_process import HEADERS, ReplicaProcess, add_account
from tests.requirements import require
from tests.site.server import Site
from webdata_nb.service.encryption import new_key

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PAGES = 40
NAMES = ("east", "west")
_CLAIM_LOG = """
CREATE TABLE claim_log (was_released boolean);
CREATE FUNCTION log_claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO claim_log VALUES (OLD.worker IS NULL);
  RETURN NULL;
END $$;
CREATE TRIGGER log_claim AFTER UPDATE OF attempt ON job
  FOR EACH ROW EXECUTE FUNCTION log_claim();
"""


class Stream:
    """What one connection to an event stream received."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._grew = asyncio.Condition()

    async def read(self, url: str, last_event_id: str = "0") -> None:
        """Read to the end of the stream."""
        headers = HEADERS | {"Last-Event-ID": last_event_id}
        async with (
            httpx.AsyncClient(timeout=60) as http,
            http.stream("GET", url, headers=headers) as response,
        ):
            assert response.status_code == 200
            async for line in response.aiter_lines():
                async with self._grew:
                    self.lines.append(line)
                    self._grew.notify_all()

    async def wait_for_pages(self, count: int) -> None:
        async with self._grew:
            await self._grew.wait_for(lambda: self.lines.count("event: page") >= count)

    @property
    def ids(self) -> list[str]:
        return [line.removeprefix("id: ") for line in self.lines if line.startswith("id: ")]


class Replicas:
    """Two processes on one store."""

    def __init__(self, url: str, processes: dict[str, ReplicaProcess]) -> None:
        self.url, self.processes = url, processes

    def read(self, query: str) -> Any:
        with psycopg.connect(self.url) as connection:
            row = connection.execute(query).fetchone()
            return None if row is None else row[0]

    def log_claims(self) -> None:
        """Log from now on whether a claimed job was released, or its lease had expired."""
        with psycopg.connect(self.url) as connection:
            connection.execute(_CLAIM_LOG)

    async def runner_of_the_job(self, *others: str) -> str:
        """Wait until a process, none of `others`, runs the only job; return its name."""
        async with asyncio.timeout(60):
            while True:
                name = await asyncio.to_thread(
                    self.read, "SELECT name FROM job JOIN replica ON replica.id = job.worker"
                )
                if name is not None and name not in others:
                    return str(name)
                await asyncio.sleep(0.02)


@pytest.fixture
async def replicas(postgres_server: PostgresServer, tmp_path: Path) -> AsyncIterator[Replicas]:
    url, key = postgres_server.new_schema(), new_key()
    await add_account(url, key)
    processes = {
        name: ReplicaProcess(tmp_path / name, url, key, "--replica", name) for name in NAMES
    }
    for process in processes.values():
        await asyncio.to_thread(process.start)
    yield Replicas(url, processes)
    for process in processes.values():
        process.kill()


async def get(replica: ReplicaProcess, path: str) -> Any:
    async with httpx.AsyncClient(timeout=60) as http:
        return (await http.get(replica.url + path, headers=HEADERS)).raise_for_status().json()


async def start_crawl(replica: ReplicaProcess, **body: Any) -> str:
    async with httpx.AsyncClient(timeout=60) as http:
        response = await http.post(f"{replica.url}/v1/crawl", json=body, headers=HEADERS)
        return str(response.raise_for_status().json()["job_id"])


async def test_another_replica_continues_a_crawl_and_its_stream(
    replicas: Replicas, site: Site
) -> None:
    site.page("/", "".join(f'<a href="/{n}">{n}</a>' for n in range(PAGES - 1)))
    for n in range(PAGES - 1):
        site.page(f"/{n}", f"<title>Page {n}</title><p>The page number {n}.</p>", delay=0.3)
    first = replicas.processes["east"]
    job_id = await start_crawl(first, url=site.url, max_pages=PAGES, concurrency=2)
    name = await replicas.runner_of_the_job()
    running = replicas.processes[name]
    [other_name] = set(NAMES) - {name}
    other = replicas.processes[other_name]
    before, after = Stream(), Stream()
    path = f"/v1/crawl/{job_id}/events"
    reading = asyncio.create_task(before.read(running.url + path))
    await before.wait_for_pages(3)
    replicas.log_claims()

    assert await asyncio.to_thread(running.terminate) == 0
    await replicas.runner_of_the_job(name)
    assert replicas.read("SELECT was_released FROM claim_log")
    await reading
    assert "retry: 1000" in before.lines
    assert "event: done" not in before.lines

    await after.read(other.url + path, before.ids[-1])
    assert after.lines.count("event: done") == 1
    assert "retry: 1000" not in after.lines
    ids = before.ids + after.ids  # of each row, and of `done`
    assert len(ids) == len(set(ids)) == PAGES + 1
    reply = await get(other, f"/v1/crawl/{job_id}?per_page=100")
    assert [row["url"] for row in reply["data"]] == [
        site.url,
        *(site.at(f"/{n}") for n in range(PAGES - 1)),
    ]
    assert replicas.read("SELECT COUNT(*) FROM replica") == 1


async def test_sigterm_during_a_render(replicas: Replicas, site: Site) -> None:
    require("chromium")
    site.page("/", "late", delay=100)
    job_id = await start_crawl(
        replicas.processes["east"],
        url=site.url,
        max_pages=1,
        respect_robots_txt=False,
        scrape_options={"render": True, "timeout": 60_000},
    )
    name = await replicas.runner_of_the_job()
    await asyncio.to_thread(site.wait_for, "/")
    stream = Stream()
    url = f"{replicas.processes[name].url}/v1/crawl/{job_id}/events"
    reading = asyncio.create_task(stream.read(url))
    assert await asyncio.to_thread(replicas.processes[name].terminate) == 0
    await asyncio.wait([reading])
    await replicas.runner_of_the_job(name)


async def samples(replica: ReplicaProcess) -> dict[str, float]:
    """Return the values of a process's metrics, by name and labels."""
    async with httpx.AsyncClient(timeout=60) as http:
        text = (await http.get(replica.metrics_url)).raise_for_status().text
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


async def test_every_replica_reports_the_whole_service(replicas: Replicas, site: Site) -> None:
    with site.hold("/"):
        await start_crawl(replicas.processes["east"], url=site.url, max_pages=1)
        await replicas.runner_of_the_job()
        await asyncio.to_thread(site.wait_for, "/")
        reports = [await samples(process) for process in replicas.processes.values()]
        for name, report in zip(NAMES, reports, strict=True):
            assert report['webdata_jobs{kind="crawl",state="running"}'] == 1
            assert report['webdata_replicas{kind="serve"}'] == 2
            assert report["webdata_queue_depth"] == 0
            assert report["webdata_store_up"] == 1
            assert report[f'webdata_replica_info{{replica="{name}"}}'] == 1
            assert "webdata_store_retried_transactions_total" in report
        assert sum(report["webdata_running_jobs"] for report in reports) == 1
        assert await asyncio.to_thread(replicas.processes["east"].terminate) == 0
    report = await samples(replicas.processes["west"])
    assert report['webdata_replicas{kind="serve"}'] == 1


async def test_readiness_names_the_replica(replicas: Replicas) -> None:
    for name, process in replicas.processes.items():
        assert await get(process, "/readyz") == {"status": "ok", "replica": name}
