"""Dask workers run the jobs of a service; they are retired, killed, and lose their scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import psutil
import psycopg
import pytest

from tests.dask_processes import (
    SchedulerProcess,
    WorkerProcess,
    create_certificate,
    scratch,
    wait_until,
)
from tests.planted_secrets import PlantedSecrets, files
from tests.postgres import PostgresServer
from tests.replica_process import HEADERS, ReplicaProcess, add_account
from tests.site.graphs import link_tree
from tests.site.server import Site
from webdata_nb.contract.local import WIRE
from webdata_nb.service.encryption import new_key
from webdata_nb.service.job_workers.claim_loop import worker_options
from webdata_nb.service.job_workers.cluster import ClaimLoopPlugin
from webdata_nb.service.job_workers.cluster_status import METRIC
from webdata_nb.service.settings import ServiceSettings
from webdata_nb.service.store.backends import SCHEMA_VERSION

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

OPTIONS: Final = worker_options(
    ServiceSettings(data_dir=Path("unused"), allow_networks=("127.0.0.0/8",))
)


class Team:
    """A scheduler, a service that uses it, and workers on one store."""

    def __init__(self, folder: Path, url: str, *, dask: str | None = None) -> None:
        self.folder, self.url, self.key = folder, url, new_key()
        self.scheduler = SchedulerProcess(folder)
        self.service = ReplicaProcess(
            folder / "service",
            url,
            self.key,
            *("--dask", dask or self.scheduler.address, "--replica", "service"),
            **scratch(folder),
        )
        self.stack = ExitStack()

    def start_worker(self, name: str, **options: Any) -> WorkerProcess:
        """Start a worker that has the store and the key in its environment."""
        environ = {"WEBDATA_STORE": self.url, "WEBDATA_SECRET_KEY": self.key}
        worker = WorkerProcess(self.folder, name, self.scheduler.address, **{**environ, **options})
        worker.start()
        self.stack.callback(worker.kill)
        return worker

    def health(self) -> Any:
        """Return what the readiness check says about Dask."""
        reply = httpx.get(f"{self.service.url}/readyz", timeout=60)
        assert reply.status_code == 200, reply.text
        return reply.json()["dask"]

    def wait_for_workers(self, count: int) -> None:
        """Wait until a number of workers run jobs."""
        expected = {"scheduler": "connected", "workers": count}
        wait_until(lambda: self.health() == expected, f"not {count} workers")

    def start_crawl(self, site: Site, paths: tuple[str, ...]) -> str:
        """Start a crawl; return its id."""
        body = {"url": site.at(paths[0]), "max_pages": len(paths), "concurrency": 2}
        reply = httpx.post(f"{self.service.url}/v1/crawl", json=body, headers=HEADERS, timeout=60)
        return str(reply.raise_for_status().json()["job_id"])

    def runner_of(self, job_id: str) -> str | None:
        """Return the name of the process that holds a job."""
        query = "SELECT name FROM job JOIN replica ON replica.id = worker WHERE job.id = %s"
        row = self.read(query, job_id)
        return None if row is None else str(row[0])

    def read(self, query: str, *values: str) -> tuple[Any, ...] | None:
        """Return the first row of a query."""
        with psycopg.connect(self.url) as connection:
            return connection.execute(query.encode(), values).fetchone()

    def wait_for_runner(self, job_id: str, *others: str) -> str:
        """Wait until a process, none of `others`, holds a job; return its name."""
        found = wait_until(
            lambda: None if (name := self.runner_of(job_id)) in others else name, "no runner"
        )
        return str(found)

    def rows(self, job_id: str) -> list[str]:
        """Wait for the end of a crawl; return the paths of its rows."""
        url = f"{self.service.url}/v1/crawl/{job_id}?per_page=1000"

        def ended() -> Any:
            reply = httpx.get(url, headers=HEADERS, timeout=60).raise_for_status().json()
            return reply if reply["status"] in {"completed", "failed"} else None

        return [urlsplit(row["url"]).path for row in wait_until(ended, "no end")["data"]]


@pytest.fixture
def team(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Team]:
    """Start a scheduler, and a service that uses it."""
    team = Team(tmp_path, postgres_server.new_schema())
    asyncio.run(add_account(team.url, team.key))
    with team.stack:
        team.scheduler.start()
        team.stack.callback(team.scheduler.kill)
        wait_until(lambda: b"Scheduler at" in team.scheduler.log.read_bytes(), "no scheduler")
        team.service.launch()
        team.stack.callback(team.service.kill)
        team.service.wait_ready()
        yield team


def test_workers_run_jobs_until_they_are_retired_or_killed(team: Team, site: Site) -> None:
    paths = link_tree(site, depth=2, fanout=5)
    first = team.start_worker("first")
    team.wait_for_workers(1)
    with site.hold(paths[10]):
        job_id = team.start_crawl(site, paths)
        site.wait_for(paths[10])
        assert team.runner_of(job_id) == "dask-first"
        second = team.start_worker("second")  # it joins later
        team.wait_for_workers(2)
        team.scheduler.retire("first")
        assert team.wait_for_runner(job_id, "dask-first") == "dask-second"
        assert first.process.wait(60) == 0
        team.wait_for_workers(1)  # the retired worker no longer counts
        third = team.start_worker("third")
        team.wait_for_workers(2)
        second.kill()  # its lease ends
        assert team.wait_for_runner(job_id, "dask-second") == "dask-third"
        third.process.terminate()
        # No worker is left, so the service takes the job.
        assert team.wait_for_runner(job_id, "dask-third") == "service"
    assert team.rows(job_id) == list(paths)


def test_retired_worker_releases_its_leases(team: Team, site: Site) -> None:
    paths = link_tree(site, depth=2, fanout=5)
    team.start_worker("first")
    team.wait_for_workers(1)
    with site.hold(paths[10]):
        team.start_crawl(site, paths)
        site.wait_for(paths[10])
        team.service.kill()  # nobody takes the released job
        team.scheduler.retire("first")
        query = "SELECT state FROM job WHERE worker IS NULL"  # anyone may claim it
        wait_until(lambda: team.read(query), "the lease is not released")


def test_service_runs_jobs_while_the_scheduler_is_lost(team: Team, site: Site) -> None:
    paths = link_tree(site, depth=2, fanout=5)
    team.start_worker("first")
    team.wait_for_workers(1)
    metrics = httpx.get(team.service.metrics_url, timeout=60).text
    assert "webdata_dask_connected 1.0" in metrics
    assert 'webdata_dask_workers{state="running"} 1.0' in metrics
    with site.hold(paths[10]):
        job_id = team.start_crawl(site, paths)
        site.wait_for(paths[10])
        assert team.runner_of(job_id) == "dask-first"
        team.scheduler.kill()
        assert team.wait_for_runner(job_id, "dask-first") == "service"
        wait_until(lambda: team.health() == {"scheduler": "lost", "workers": 0}, "not lost")
        metrics = httpx.get(team.service.metrics_url, timeout=60).text
        assert "webdata_dask_connected 0.0" in metrics
    assert team.rows(job_id) == list(paths)
    team.scheduler.start()
    team.start_worker("second")
    team.wait_for_workers(1)  # the plugin is registered again
    others = link_tree(site, depth=2, fanout=5, root="/other")
    with site.hold(others[10]):
        job_id = team.start_crawl(site, others)
        site.wait_for(others[10])
        assert team.runner_of(job_id) == "dask-second"
    assert team.rows(job_id) == list(others)


def test_worker_processes_of_one_machine_run_jobs(
    postgres_server: PostgresServer, tmp_path: Path, site: Site
) -> None:
    local = Team(tmp_path, postgres_server.new_schema(), dask="local:2")
    asyncio.run(add_account(local.url, local.key))
    crawls = [link_tree(site, depth=2, fanout=5, root=root) for root in ("/tree", "/other")]
    with local.stack:
        local.stack.callback(local.service.kill)
        local.service.start()
        local.wait_for_workers(2)
        with site.hold(crawls[0][10]), site.hold(crawls[1][10]):
            job_ids = [local.start_crawl(site, paths) for paths in crawls]
            site.wait_for(crawls[0][10])
            site.wait_for(crawls[1][10])
            runners = {local.runner_of(job_id) for job_id in job_ids}
        assert [local.rows(job_id) for job_id in job_ids] == [list(paths) for paths in crawls]
        children = psutil.Process(local.service.process.pid).children(recursive=True)
        assert local.service.terminate() == 0
    assert len(runners) == 2
    assert "service" not in runners
    _, alive = psutil.wait_procs(children, timeout=120)
    assert not alive


def test_killed_worker_is_replaced_by_its_nanny(team: Team, site: Site) -> None:
    paths = link_tree(site, depth=2, fanout=5)
    worker = team.start_worker("first", nanny=True)
    team.wait_for_workers(1)
    with site.hold(paths[10]):
        job_id = team.start_crawl(site, paths)
        site.wait_for(paths[10])
        worker.kill_worker()
        wait_until(lambda: team.runner_of(job_id) is not None, "no runner")
    assert team.rows(job_id) == list(paths)
    team.wait_for_workers(1)


def test_scheduler_knows_no_secret(team: Team, tmp_path: Path) -> None:
    secrets = PlantedSecrets("password", "provider", "proxy")
    team.start_worker(
        "good",
        WEBDATA_BRAVE_KEY=secrets.plain("provider"),
        WEBDATA_PROXY=f"http://ann:{secrets.plain('proxy')}@127.0.0.1:1",
    )
    wrong = f"postgresql://webdata:{secrets.plain('password')}@127.0.0.1:1/none"
    team.start_worker("wrong", WEBDATA_STORE=wrong)
    team.start_worker("unset", WEBDATA_STORE="")
    team.wait_for_workers(1)
    wait_until(
        lambda: b"this worker runs no jobs: " in (tmp_path / "wrong.log").read_bytes(), "no log"
    )
    dump = tmp_path / "state"

    async def read(client: Any) -> None:
        await client.dump_cluster_state(str(dump), format="yaml")
        (tmp_path / "events").write_text(repr(await client.get_events()))
        (tmp_path / "logs").write_text(repr(await client.get_scheduler_logs()))
        (tmp_path / "worker-logs").write_text(repr(await client.get_worker_logs()))
        plugins = await client.run_on_scheduler(
            lambda dask_scheduler: repr(dask_scheduler.worker_plugins)
        )
        assert "webdata-claim-loop" in plugins
        (tmp_path / "plugins").write_text(plugins)

    team.scheduler.ask(read)
    written = files(tmp_path)
    assert any(METRIC.encode() in data for name, data in written.items() if "state" in name)
    assert secrets.traces(written) == []
    keys = [team.key.encode(), team.url.partition("@")[0].rpartition(":")[2].encode()]
    assert [name for name, data in written.items() for key in keys if key in data] == []
    log = tmp_path / "service.log"
    wait_until(lambda: "needs the PostgreSQL database" in log.read_text(), "no warning")
    assert secrets.traces(files(tmp_path)) == []


@pytest.mark.parametrize(
    ("wire", "schema", "message"),
    [
        (WIRE + 1, 0, f"the service has wire version {WIRE + 1}, this worker {WIRE} "),
        (WIRE, 1000, f"the service has database schema 1000, this worker {SCHEMA_VERSION} "),
    ],
)
def test_worker_of_another_release_is_refused(
    tmp_path: Path, wire: int, schema: int, message: str
) -> None:
    scheduler = SchedulerProcess(tmp_path)
    worker = WorkerProcess(tmp_path, "worker", scheduler.address)
    with ExitStack() as stack:
        for process in (scheduler, worker):
            process.start()
            stack.callback(process.kill)

        async def read(client: Any) -> Any:
            await client.wait_for_workers(1, timeout=120)
            await client.register_plugin(ClaimLoopPlugin(wire, schema, OPTIONS))
            while True:
                identity = await client.scheduler.identity(n_workers=-1)
                [worker] = identity["workers"].values()
                if (report := worker["metrics"].get(METRIC)) is not None:
                    return report
                await asyncio.sleep(0.1)

        report = scheduler.ask(read)
    assert report["state"] == "refused"
    assert message in report["error"]


def test_tls_scheduler(postgres_server: PostgresServer, tmp_path: Path, site: Site) -> None:
    paths = link_tree(site, depth=1, fanout=5)
    certificate, key = tls = create_certificate(tmp_path)
    names = ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")
    variables = {
        f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(path)
        for name, path in zip(names, (certificate, certificate, key), strict=True)
    }
    team = Team(tmp_path, postgres_server.new_schema())
    asyncio.run(add_account(team.url, team.key))
    team.scheduler = SchedulerProcess(tmp_path, protocol="tls", tls=tls)
    options = ("--dask", team.scheduler.address)
    team.service = ReplicaProcess(tmp_path / "service", team.url, team.key, *options, **variables)
    with team.stack:
        team.scheduler.start()
        team.stack.callback(team.scheduler.kill)
        wait_until(lambda: b"Scheduler at" in team.scheduler.log.read_bytes(), "no scheduler")
        team.service.launch()
        team.stack.callback(team.service.kill)
        team.service.wait_ready()
        team.start_worker("first", tls=tls)
        team.wait_for_workers(1)
        assert team.rows(team.start_crawl(site, paths)) == list(paths)
