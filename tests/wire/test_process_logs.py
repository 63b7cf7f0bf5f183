"""The log of a service of several processes: each end of a job once, and each line an object."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import psycopg
import pytest

from tests.dask_processes import SchedulerProcess, WorkerProcess, scratch, wait_until
from tests.openapi.service_process import ENVIRON
from tests.ports import free_port
from tests.postgres import PostgresServer
from tests.processes import arguments_of
from tests.replica_process import CHECKOUT, HEADERS, ReplicaProcess, add_account
from tests.shell import Shell
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


def wait_for_workers(service: ReplicaProcess, count: int) -> None:
    """Wait until a number of Dask workers run jobs of a service."""
    expected = {"scheduler": "connected", "workers": count}
    url = f"{service.url}/readyz"
    wait_until(
        lambda: httpx.get(url, timeout=60).json()["dask"] == expected, f"not {count} workers"
    )


def check_credits(fleet: Fleet, ends: list[tuple[str, int]]) -> None:
    """Check that each job of the database ended once, and cost what the ledger has."""
    jobs = fleet.read("SELECT id, credits FROM job")
    assert sorted(ends) == sorted(jobs)
    [(total,)] = fleet.read("SELECT SUM(credits) FROM ledger WHERE kind = 'charge'")
    assert sum(cost for _, cost in ends) == total > 0


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
    check_credits(fleet, [(each["job"], each["credits"]) for each in ends])
    assert set(Counter(state for _, state, _ in jobs)) == {"completed", "failed", "cancelled"}
    assert any(each.get("reason", "").startswith("given up after 5") for each in ends)
    started = {each["job"] for each in fleet.events("job_started")}
    assert {each["job"] for each in ends if each["attempt"]} <= started
    return ends


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_workers_of_a_local_cluster_log_each_end_once(
    fleet: Fleet, site: Site, log_format: str
) -> None:
    options = ("--log-format", log_format, "--dask", "local:2", "--slots", "2")
    service = fleet.start("service", *options)
    wait_for_workers(service, 2)
    run_mixed_jobs(fleet, site, replicas=1, slots=4)
    if log_format == "json":
        check_ends(fleet)
    assert service.terminate() == 0
    if log_format == "text":
        text = service.log_path.read_text()
        ends = re.findall(
            r" (?:INFO|WARNING) webdata_nb\S+: job_ended job=(\S+) .*credits=(\d+)", text
        )
        assert len(ends) == text.count("job_ended")
        check_credits(fleet, [(job_id, int(cost)) for job_id, cost in ends])
        assert "replica=dask-0" in text
        return
    names = {each["replica"] for each in check_ends(fleet)}
    assert {"dask-0", "dask-1"} < names  # and that of the service, which cancels
    assert {each["replica"] for each in fleet.events("job_started")} == {"dask-0", "dask-1"}


def test_replicas_and_a_worker_log_each_end_once(fleet: Fleet, site: Site) -> None:
    for name in ("first", "second"):
        fleet.start(name, *JSON, "--slots", "2", "--replica", name)
    worker = fleet.start("third", *JSON, "--slots", "2", "--replica", "third", command="worker")
    run_mixed_jobs(fleet, site, replicas=2, slots=6)
    check_ends(fleet)
    for process in fleet.processes:
        assert process.terminate() == 0
    ends = check_ends(fleet)
    assert {each["replica"] for each in ends} == {"first", "second", "third"}
    lines = [json.loads(line) for line in worker.log_path.read_text().splitlines()]
    assert {each["replica"] for each in lines if each["logger"] != "stderr"} == {"third"}


def test_killed_dask_worker_leaves_json(fleet: Fleet, site: Site) -> None:
    service = fleet.start("service", *JSON, "--dask", "local:1", "--slots", "2")
    wait_for_workers(service, 1)
    paths = link_tree(site, depth=1, fanout=3)
    with site.hold(paths[2]):
        job_id = start(fleet, "/v1/crawl", {"url": site.at(paths[0])})
        site.wait_for(paths[2])
        [worker] = [
            child
            for child in psutil.Process(service.process.pid).children()
            if "spawn_main" in " ".join(arguments_of(child))
        ]
        for child in worker.children(recursive=True):  # its page workers crash
            child.send_signal(signal.SIGSEGV)
        worker.kill()
        wait_until(
            lambda: any(line["logger"] == "distributed.nanny" for line in fleet.lines()),
            "no line of the nanny",
        )
    query = "SELECT state FROM job WHERE id = %s"
    wait_until(lambda: fleet.read(query, job_id) == [("completed",)], "not completed")
    wait_until(lambda: fleet.events("job_ended"), "not logged")
    wait_for_workers(service, 1)
    assert service.terminate() == 0
    [end] = fleet.events("job_ended")
    assert (end["job"], end["status"]) == (job_id, "completed")


@pytest.mark.parametrize("variables", [{}, {"DASK_LOGGING__WEBDATA_NB": "info"}])
def test_worker_of_a_cluster_logs_to_its_own_standard_error(
    fleet: Fleet, site: Site, variables: dict[str, str]
) -> None:
    scheduler = SchedulerProcess(fleet.folder)
    environ: dict[str, Any] = {
        "WEBDATA_STORE": fleet.url,
        "WEBDATA_SECRET_KEY": fleet.key,
        **variables,
    }
    worker = WorkerProcess(fleet.folder, "far", scheduler.address, **environ)
    scheduler.start()
    fleet.stack.callback(scheduler.kill)
    worker.start()
    fleet.stack.callback(worker.kill)
    service = fleet.start("service", *JSON, "--dask", scheduler.address)
    wait_for_workers(service, 1)
    paths = link_tree(site, depth=1, fanout=3)
    job_id = start(fleet, "/v1/crawl", {"url": site.at(paths[0])})
    wait_until(lambda: f"job_ended job={job_id}" in worker.log.read_text(), "not logged")
    [line] = [each for each in worker.log.read_text().splitlines() if "job_ended" in each]
    if variables:  # as Dask was told to
        assert line.endswith("replica=dask-far")
        assert " - webdata_nb.service.events - INFO - job_ended " in line
    else:
        assert json.loads(line)["replica"] == "dask-far"
    assert service.terminate() == 0
    assert not fleet.events("job_ended")


def test_everything_that_a_process_writes_is_json(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.run("keys", "create", "--name", "alice")
    port = free_port()
    command = [sys.executable, "-m", "tests.noisy_service", "serve", "--mode", "team", *JSON]
    environ = os.environ | ENVIRON | {"WEBDATA_HOME": str(tmp_path), "NOISE": "raise"}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)], stderr=log, cwd=CHECKOUT, env=environ
        )
    try:
        wait_until(lambda: "forged" in (tmp_path / "log").read_text(errors="replace"), "quiet")
        second = shell.run(
            *("serve", "--mode", "team", "--port", str(port), *JSON),
            *("--data-dir", str(tmp_path / "other")),
        )
        process.terminate()
        assert process.wait(60) == 1
    finally:
        process.kill()
        process.wait()
    assert second.returncode == 1
    [refusal] = map(json.loads, second.stderr.splitlines())
    assert refusal["message"].startswith(f"cannot listen on 127.0.0.1:{port}: in use by another")
    lines = [json.loads(line) for line in (tmp_path / "log").read_bytes().splitlines()]
    texts = [f"{line['message']} {line.get('exception', '')}" for line in lines]
    for noise in (
        *("a noisy warning", "a noisy thread", "a noisy task", "a noisy deletion"),
        *("a noisy print", "a noisy write", "of two lines, the second without an end"),
        "\ufffd\ufffd a noisy byte",
        *("SystemError: a noisy child", "a wrong number of arguments", "a noisy surrogate"),
        *("noisy\nlines", f"serves http://127.0.0.1:{port}", "ZeroDivisionError: a noisy end"),
    ):
        assert [text for text in texts if noise in text], noise
    assert not [line for line in lines if line.get("event") == "job_ended"]
    assert "Traceback" in next(text for text in texts if "a noisy child" in text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("serve", "--port", "x"), "argument --port: invalid int value: 'x'; `webdata serve --h"),
        (("serve", "--nothing"), "unrecognized arguments: --nothing"),
        (("serve", "--metrics", "9100"), "--metrics takes HOST:PORT"),
        (("worker",), "a worker needs the PostgreSQL database of its service"),
        (("worker", "--dask", "local:1", "--replica", "a"), "for a worker without --dask"),
        (("worker", "--proxy", "nonsense"), "proxy (WEBDATA_PROXY) must be a proxy's URL"),
    ],
)
def test_error_before_the_start_is_one_object(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    done = Shell(tmp_path).run(*words, *JSON, PYTHONWARNINGS="always")
    assert done.returncode in {1, 2}
    assert message in json.loads(done.stderr)["message"]


def test_worker_has_metrics_and_a_health_check(fleet: Fleet) -> None:
    worker = fleet.start("worker", *JSON, "--replica", "w1", command="worker")
    health = worker.metrics_url.replace("/metrics", "/healthz")
    assert httpx.get(health).json() == {"status": "ok"}
    text = httpx.get(worker.metrics_url).text
    for line in ('webdata_replica_info{replica="w1"} 1.0', "webdata_running_jobs 0.0"):
        assert f"{line}\n" in text
    assert 'webdata_replicas{kind="worker"} 1.0\n' in text
    with psycopg.connect(fleet.url) as blocker:
        blocker.execute("LOCK TABLE replica IN ACCESS EXCLUSIVE MODE")
        reply = wait_until(
            lambda: each if (each := httpx.get(health)).status_code == 503 else None, "healthy"
        )
    assert re.fullmatch(
        r"the queue was not read for 1\d s, and no heartbeat written", reply.json()["reason"]
    )
    wait_until(lambda: httpx.get(health).status_code == 200, "not healthy again")
    port = worker.metrics_url.split(":")[2].partition("/")[0]
    second = Shell(fleet.folder).run(
        *("worker", "--metrics", f"127.0.0.1:{port}", "--data-dir", str(fleet.folder / "2"), *JSON),
        WEBDATA_STORE=fleet.url,
        WEBDATA_SECRET_KEY=fleet.key,
    )
    assert second.returncode == 1
    assert json.loads(second.stderr)["message"] == (
        f"cannot listen on 127.0.0.1:{port}: in use by another process; stop it, or choose another "
        "port with --metrics"
    )
    assert worker.terminate() == 0


def test_worker_serves_the_metrics_of_its_cluster(fleet: Fleet) -> None:
    worker = fleet.start("cluster", *JSON, "--dask", "local:1", command="worker")
    line = 'webdata_dask_workers{state="running"} 1.0\n'
    wait_until(lambda: line in httpx.get(worker.metrics_url).text, "no worker")
    assert "webdata_dask_connected 1.0\n" in httpx.get(worker.metrics_url).text
    assert httpx.get(worker.metrics_url.replace("/metrics", "/healthz")).status_code == 200
    assert worker.terminate() == 0
    assert any(" runs jobs in the workers of " in each["message"] for each in fleet.lines())
