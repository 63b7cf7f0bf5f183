"""Killed workers and kernels: every row once, no job started twice; parts in an object store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import dask
import fsspec  # type: ignore[import-untyped]
import pytest
from distributed import Client, LocalCluster

from tests import object_store
from tests.api.receipts import receipt_of
from tests.wire_service import KEY, JobScript, WireService, search_rows
from webdata_nb.toolkit.api import Session

pytestmark = pytest.mark.slow

QUERIES: Final = [f"query {number}" for number in range(40)]
TIMEOUT_S: Final = 120.0
# What a notebook runs, in a process that is killed.
KERNEL: Final = """
import sys
from distributed import Client
from webdata_nb import connect, search_df

if __name__ == "__main__":
    address, url, out = sys.argv[1:]
    connect(base_url=url)
    queries = [f"query {number}" for number in range(40)]
    search_df(queries, executor=Client(address), out=out, partition=4, progress=False)
"""


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def kill_one(client: Client) -> None:
    pids: dict[str, int] = client.run(os.getpid)
    os.kill(min(pids.values()), signal.SIGKILL)


@pytest.mark.filterwarnings("ignore")  # distributed warns of lost workers
def test_killed_worker_repeats_its_partition_with_the_same_jobs(
    session: Session, cluster: Client, out: str, service: WireService
) -> None:
    service.search = JobScript(search_rows(3), running=True)
    frames: list[Any] = []
    calling = threading.Thread(
        target=lambda: frames.append(
            session.search_df(QUERIES, executor=cluster, out=out, partition=4)
        )
    )
    calling.start()
    wait_until(lambda: len(service.jobs) == 8)  # two partitions
    kill_one(cluster)
    starts = len(service.requests)
    wait_until(lambda: len(service.requests) > starts + 20)
    service.search.running = False
    calling.join(TIMEOUT_S)
    df = frames[0]
    assert df["query"].tolist() == [query for query in QUERIES for _ in range(3)]
    assert df["success"].all()
    assert len(service.jobs) == len(QUERIES)


@pytest.mark.filterwarnings("ignore")  # distributed warns of lost workers and clients
def test_killed_kernels_and_worker_lose_nothing(
    session: Session,
    cluster: Client,
    out: str,
    service: WireService,
    tmp_path: Path,
) -> None:
    assert cluster.scheduler is not None
    script = tmp_path / "kernel.py"
    script.write_text(KERNEL)
    arguments = [str(cluster.scheduler.address), service.url, out]
    service.search = JobScript(search_rows(3), running=True)
    for kill_worker in (True, False):
        seen = len(service.jobs)
        with subprocess.Popen(
            [sys.executable, script, *arguments], env=os.environ | {"WEBDATA_API_KEY": KEY}
        ) as kernel:
            wait_until(lambda seen=seen: len(service.jobs) > seen)  # type: ignore[misc]
            if kill_worker:
                kill_one(cluster)
            kernel.kill()
        service.search.running = False  # partitions on workers end, and write their parts
        wait_until(lambda: bool(list(Path(out).glob("part-*"))))
        service.search = JobScript(search_rows(3), running=True)
    service.search.running = False
    for job in service.jobs.values():
        job.script.running = False
    df = session.search_df(QUERIES, executor=cluster, out=out)
    assert df["query"].tolist() == [query for query in QUERIES for _ in range(3)]
    assert len(service.jobs) == len(QUERIES)
    lazy = session.search_df(QUERIES, out=out, lazy=True)
    assert len(lazy) == 120
    assert lazy.dtypes.equals(df.dtypes)


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with object_store.running(tmp_path_factory.mktemp("s3") / "log") as url:
        yield url


def test_parts_in_object_store(
    session: Session, bucket: str, service: WireService, tmp_path: Path
) -> None:
    options: Any = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": ":0"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEBDATA_API_KEY", KEY)
        with (
            dask.config.set({"temporary-directory": str(tmp_path)}),
            LocalCluster(**options) as started,
            Client(started) as client,
        ):
            out = f"{bucket}/queries"
            df = session.search_df(QUERIES, executor=client, out=out, partition=7)
    sent = len(service.requests)
    again = session.search_df(QUERIES, executor="dask", out=out)
    lazy = session.search_df(QUERIES, out=out, lazy=True)
    assert again.equals(df)
    assert lazy.compute(scheduler="sync").equals(df)
    assert receipt_of(again)["inputs"]["found"] == len(QUERIES)
    assert len(service.requests) == sent
    assert len(service.jobs) == len(QUERIES)
    names = [name.rpartition("/")[2] for name in fsspec.filesystem("s3").ls(out, detail=False)]
    assert sum(name.startswith("part-") for name in names) == 6
