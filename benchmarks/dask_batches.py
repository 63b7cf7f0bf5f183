"""Compares a batch of searches on Dask workers to the same call without Dask.

A team's service, a search engine that responds with three results of its own for each query, a Dask
scheduler and two Dask workers run as processes of their own. The same 2,000 searches without page
visits run by `executor=client` and by `executor=None`, in turn, without cached results: each round
has new queries, since the service would answer equal ones from the earlier jobs. At most 16
searches run at a time on either side. Every frame is compared to the engine's results.

The figure is the ratio of the medians of five rounds; it should be at least 0.9. All processes
share the processors of the machine.

Run it from the checkout, with the `test` extra; it takes about 10 minutes::

    python -m benchmarks.dask_batches
    python -m benchmarks.dask_batches --rounds 1 --inputs 500
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pandas as pd
import psutil
from aiohttp import web
from distributed import Client

from tests.dask_processes import SchedulerProcess, WorkerProcess, wait_until
from tests.openapi.service_process import ServiceProcess, team
from tests.site.server import Site
from webdata_nb import connect
from webdata_nb.toolkit.api import Session

INPUTS: Final = 2000
ROUNDS: Final = 5
MIN_RATIO: Final = 0.9
WORKERS: Final = 2
RESULTS: Final = 3
SEARCH: Final[dict[str, Any]] = {"formats": [], "num_results": RESULTS, "progress": False}


@dataclass(slots=True)
class BatchCluster:
    """A service, a search engine and a Dask cluster, each a process of its own."""

    service: ServiceProcess
    home: Path
    scheduler: SchedulerProcess
    workers: Sequence[WorkerProcess] = field(default_factory=list)

    def credits(self) -> float:
        """Return the credits that all searches have cost; none may be reserved."""
        reply = httpx.get(f"{self.service.url}/v1/usage", headers=self.service.headers, timeout=60)
        usage = reply.raise_for_status().json()
        if usage["reserved"]:
            raise RuntimeError(f"{usage['reserved']} credits are still reserved")
        return float(usage["used"])

    def scheduler_bytes(self) -> int:
        """Return the resident memory of the scheduler."""
        return int(psutil.Process(self.scheduler.process.pid).memory_info().rss)


def queries_of(name: str, count: int) -> list[str]:
    """Return distinct queries."""
    return [
        f"{name} {hashlib.sha256(f'{name}{n}'.encode()).hexdigest()[:12]}" for n in range(count)
    ]


def results_of(query: str) -> list[dict[str, Any]]:
    """Return the results that the engine has for a query."""
    digest = hashlib.sha256(query.encode()).hexdigest()
    return [
        {
            "url": f"https://{digest[:8]}.example/{number}",
            "title": f"{query}, result {number}",
            "content": f"The text of result {number} for {query}.",
            "engine": "stub",
        }
        for number in range(RESULTS)
    ]


def errors_of(df: pd.DataFrame, queries: Sequence[str]) -> list[str]:
    """Return how a frame differs from the results of all queries, in their order."""
    expected = [(query, each["url"]) for query in queries for each in results_of(query)]
    rows = list(zip(df["query"], df["url"], strict=True))
    if rows == expected:
        return []
    missing, extra = len(set(expected) - set(rows)), len(rows) - len(set(rows))
    return [f"{len(rows)} rows, not {len(expected)}: {missing} missing, {extra} twice"]


@contextmanager
def batch_cluster(home: Path) -> Iterator[BatchCluster]:
    """Run the processes; the API key is in the environment of the workers."""
    with ExitStack() as stack:
        engine_url = stack.enter_context(_engine())
        names = {f"WEBDATA_ENGINE_{name}": "searxng" for name in ("ONE", "TWO", "THREE")}
        service = stack.enter_context(
            team(
                home / "service",
                "--allow-network",
                "127.0.0.0/8",
                **names,
                WEBDATA_SEARXNG_URL=engine_url,
            )
        )
        scheduler = SchedulerProcess(home)
        workers = [
            WorkerProcess(
                home,
                f"worker{number}",
                scheduler.address,
                nanny=True,
                WEBDATA_API_KEY=service.key,
                WEBDATA_HOME=str(home / "workers"),
            )
            for number in range(WORKERS)
        ]
        scheduler.start()
        stack.callback(scheduler.kill)
        for worker in workers:
            worker.start()
            stack.callback(worker.kill)
        wait_until(lambda: b"Scheduler at" in scheduler.log.read_bytes(), "no scheduler")
        with Client(scheduler.address, set_as_default=False, timeout=60) as client:
            client.wait_for_workers(WORKERS, timeout=180)
        yield BatchCluster(service, home, scheduler, workers)


@contextmanager
def _engine() -> Iterator[str]:
    """Run the search engine in a process of its own; yield its URL."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve_engine, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send(None)
        process.join(30)
        process.kill()


def _serve_engine(pipe: Any) -> None:
    with Site() as site:
        site.under("/engine", _reply)
        pipe.send(site.at("/engine"))
        pipe.recv()


async def _reply(request: web.BaseRequest) -> web.StreamResponse:
    query = request.query["q"]
    results = results_of(query) if request.query.get("pageno", "1") == "1" else []
    return web.json_response({"query": query, "results": results, "unresponsive_engines": []})


def search(
    session: Session, queries: Sequence[str], home: Path, client: Client | None
) -> tuple[float, pd.DataFrame]:
    """Run a batch, with a client in partitions; return its seconds and the frame."""
    options = dict(SEARCH)
    if client is None:
        options |= {"cache": False}
    else:
        options |= {"executor": client, "out": str(home / f"parts-{queries[0]}")}
    started_at = time.perf_counter()
    df: pd.DataFrame = session.search_df(list(queries), **options)
    return time.perf_counter() - started_at, df


def main() -> int:
    """Print the figures; return 1 if a frame is wrong or Dask is too slow."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {"without Dask": [], "by Dask": []}
    errors: list[str] = []
    with tempfile.TemporaryDirectory() as folder, batch_cluster(Path(folder)) as cluster:
        os.environ["WEBDATA_HOME"] = folder
        with (
            connect(base_url=cluster.service.url, api_key=cluster.service.key) as session,
            Client(cluster.scheduler.address, set_as_default=False) as client,
        ):
            for number in range(-1, options.rounds):  # the first is not counted
                sides = list(seconds.items())
                for label, taken in sides if number % 2 else reversed(sides):
                    count = options.inputs if number >= 0 else min(200, options.inputs)
                    queries = queries_of(f"{label.replace(' ', '-')}{number}", count)
                    executor = client if label == "by Dask" else None
                    took_s, df = search(session, queries, cluster.home, executor)
                    errors += errors_of(df, queries)
                    if number >= 0:
                        taken.append(took_s)
                        print(f"{label}: {count / took_s:.0f} searches/s", flush=True)
    medians = {label: options.inputs / statistics.median(taken) for label, taken in seconds.items()}
    for label, rate in medians.items():
        print(f"{label}: median {rate:.0f} searches/s")
    ratio = medians["by Dask"] / medians["without Dask"]
    print(f"ratio {ratio:.2f}, at least {MIN_RATIO}", *errors, sep="\n")
    return int(bool(errors) or ratio < MIN_RATIO)


if __name__ == "__main__":
    sys.exit(main())
