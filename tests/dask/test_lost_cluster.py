"""Clusters that are lost, without workers, or with other versions: clear errors, and parts stay."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from distributed import Client

from tests.dask_processes import SchedulerProcess, WorkerProcess
from tests.wire_service import KEY, JobScript, WireService, search_rows
from webdata_nb.errors import ConnectionFailed, InvalidArgument, WorkerLost
from webdata_nb.toolkit import dask_executor
from webdata_nb.toolkit.api import Session
from webdata_nb.toolkit.calls import partitions

pytestmark = [
    pytest.mark.slow,
    # distributed warns of lost schedulers and clients
    pytest.mark.filterwarnings("ignore"),
]

QUERIES: Final = [f"query {number}" for number in range(12)]
TIMEOUT_S: Final = 180.0


class Cluster:
    """A scheduler and a worker as processes; each start has a new one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.scheduler = SchedulerProcess(folder)
        self._workers: list[WorkerProcess] = []

    def start(self) -> None:
        """Start the scheduler on its port, and a worker."""
        self.scheduler.start()
        name = f"worker{len(self._workers)}"
        worker = WorkerProcess(self._folder, name, self.scheduler.address, WEBDATA_API_KEY=KEY)
        worker.start()
        self._workers.append(worker)

    def kill(self) -> None:
        """Kill all processes."""
        self.scheduler.kill()
        self.kill_workers()

    def kill_workers(self) -> None:
        """Kill every worker."""
        for worker in self._workers:
            worker.kill()

    def connect(self) -> Client:
        """Return a client, once there is a worker."""
        client = Client(self.scheduler.address, timeout=TIMEOUT_S)
        waiting: Any = client.wait_for_workers
        waiting(1, timeout=TIMEOUT_S)
        return client


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    cluster.start()
    yield cluster
    cluster.kill()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_lost_scheduler_is_an_error_and_a_new_cluster_continues(
    session: Session, own_cluster: Cluster, out: str, service: WireService
) -> None:
    first = service.search = JobScript(search_rows(3), running=True)
    errors: list[BaseException] = []

    def call(client: Client) -> None:
        try:
            session.search_df(QUERIES, executor=client, out=out, partition=4, progress=False)
        except ConnectionFailed as error:
            errors.append(error)

    with own_cluster.connect() as client:
        calling = threading.Thread(target=call, args=[client])
        calling.start()
        wait_until(lambda: len(service.jobs) == 4)
        service.search = JobScript(search_rows(3), running=True)
        first.running = False
        wait_until(lambda: len(service.jobs) == 8)
        own_cluster.kill()
        calling.join(TIMEOUT_S)
    [error] = errors
    assert "scheduler" in str(error)
    assert "finished parts are kept" in str(error)
    assert len(list(Path(out).glob("part-*"))) == 1

    service.search.running = False
    own_cluster.start()
    with own_cluster.connect() as client:
        df = session.search_df(QUERIES, executor=client, out=out, progress=False)
    assert df["query"].tolist() == [query for query in QUERIES for _ in range(3)]
    assert len(service.jobs) == len(QUERIES)


def test_cluster_that_lost_its_workers_ends_the_call(
    session: Session,
    own_cluster: Cluster,
    out: str,
    service: WireService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dask_executor, "NO_WORKER_S", 2.0)
    monkeypatch.setattr(dask_executor, "_CHECK_S", 0.5)
    service.search = JobScript(search_rows(3), running=True)
    with own_cluster.connect() as client:

        def kill() -> None:
            wait_until(lambda: bool(service.jobs))
            own_cluster.kill_workers()

        killing = threading.Thread(target=kill)
        killing.start()
        with pytest.raises(WorkerLost, match=r"has had no worker for 2 s; finished parts are kept"):
            session.search_df(QUERIES, executor=client, out=out, partition=4, progress=False)
        killing.join(TIMEOUT_S)
    assert not list(Path(out).glob("part-*"))


@pytest.mark.parametrize("package", ["python", "dask", "distributed"])
def test_versions_that_differ_are_refused_before_work(
    session: Session, cluster: Client, out: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions: Any = cluster.get_versions()
    [name, *_] = versions["workers"]
    if package == "python":
        versions["workers"][name]["host"] = {"python": "3.9.1.final.0"}
    else:
        versions["workers"][name]["packages"] = {
            **versions["workers"][name]["packages"],
            package: "2020.1",
        }
    monkeypatch.setattr(cluster, "get_versions", lambda: versions)
    with pytest.raises(InvalidArgument, match=rf"the worker {name} has {package} .* this notebook"):
        session.search_df(QUERIES, executor=cluster, out=out)
    assert not list(Path(out).glob("part-*"))


def test_other_release_of_the_package_is_refused_before_work(
    session: Session,
    cluster: Client,
    out: str,
    service: WireService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partitions, "__version__", "99.0")
    with pytest.raises(InvalidArgument, match=r"has webdata_nb .* and this process 99\.0"):
        session.search_df(QUERIES, executor=cluster, out=out)
    assert not service.jobs


def test_closed_scheduler_is_named_before_work(
    session: Session, own_cluster: Cluster, out: str, service: WireService
) -> None:
    client = own_cluster.connect()
    own_cluster.kill()
    wait_until(lambda: client.status != "running")
    with pytest.raises(ConnectionFailed, match="create a new Client"):
        session.search_df(QUERIES, executor=client, out=out)
    assert not service.jobs
    client.close()
