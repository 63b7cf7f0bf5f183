"""Compares two Dask workers with one page worker each to a service with two page workers.

Both sides run 40 crawls of 250 pages of a local site on PostgreSQL, in turn, each run in a new
schema and on the same two processors:

- a service that runs its jobs itself, with a page worker per processor;
- a service with `--dask`, a Dask scheduler, and two Dask workers with one thread each, so that each
  of them has one page worker.

Pages per second count from the first claim to the last end. The figure is the ratio of the medians
of five runs; it should be at least 0.9. The site and PostgreSQL share the processors with the
services, on both sides.

Run it from the checkout, with the `test` extra and PostgreSQL, on Linux with at least two
processors; it takes about 15 minutes::

    python -m benchmarks.dask_throughput
    python -m benchmarks.dask_throughput --rounds 1 --crawls 10
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.replica_throughput import (
    CRAWLS,
    PAGES,
    ROUNDS,
    ReplicaSide,
    RunSide,
    compare,
    measure_crawls,
)
from tests import postgres
from tests.dask_processes import SchedulerProcess, WorkerProcess, scratch, wait_until
from tests.replica_process import ReplicaProcess
from tests.wire.replica_kills import CrawlLoad, add_accounts
from webdata_nb.service.encryption import new_key

WORKERS: Final = 2


def run_dask(
    server: postgres.PostgresServer, home: Path, site_url: str, load: CrawlLoad
) -> tuple[float, float]:
    """Run all crawls in Dask workers.

    Return the pages per second, and the processor seconds of service, scheduler and workers.
    """
    store_url, key = server.new_schema(), new_key()
    add_accounts(store_url, key)
    scheduler = SchedulerProcess(home)
    variables: dict[str, Any] = {"WEBDATA_STORE": store_url, "WEBDATA_SECRET_KEY": key}
    workers = [
        WorkerProcess(home, f"worker{number}", scheduler.address, nanny=True, **variables)
        for number in range(WORKERS)
    ]
    options = ("--slots", str(load.slots(WORKERS)), "--dask", scheduler.address)
    service = ReplicaProcess(home / "service", store_url, key, *options, **scratch(home))
    with ExitStack() as stack:
        scheduler.start()
        stack.callback(scheduler.kill)
        for worker in workers:
            worker.start()
            stack.callback(worker.kill)
        wait_until(lambda: b"Scheduler at" in scheduler.log.read_bytes(), "no scheduler")
        service.launch()
        stack.callback(service.kill)
        service.wait_ready()
        wait_until(partial(_have_joined, service.url), "not all workers run jobs")
        pids = [service.process.pid, scheduler.process.pid]
        pids += [worker.process.pid for worker in workers]
        return measure_crawls(store_url, [service], pids, site_url, load)


def _have_joined(service_url: str) -> bool:
    reply = httpx.get(f"{service_url}/readyz", timeout=60).json()
    return bool(reply.get("dask", {}).get("workers") == WORKERS)


def main() -> int:
    """Print the figures; return 1 if the Dask workers are too slow."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--crawls", type=int, default=CRAWLS)
    options = parser.parse_args()
    processors = frozenset(sorted(os.sched_getaffinity(0))[:WORKERS])
    sides: dict[str, RunSide] = {
        "a service that runs its jobs itself": ReplicaSide((processors,)),
        "two Dask workers": run_dask,
    }
    return compare(sides, CrawlLoad(options.crawls, PAGES), options.rounds, processors)


if __name__ == "__main__":
    sys.exit(main())
