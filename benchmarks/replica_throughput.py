"""Compares two replicas with one processor each to one replica with two.

Both sides run 40 crawls of 250 pages of a local site on PostgreSQL, in turn, each run in a new
schema. A replica and its page workers use the processors that it is given (`sched_setaffinity`).
Pages per second count from the first claim to the last end. The figure is the ratio of the medians
of five runs; it should be at least 0.9.

The site and PostgreSQL share the two processors with the replicas, on both sides.

Run it from the checkout, with the `test` extra and PostgreSQL, on Linux with at least two
processors; it takes about 15 minutes::

    python -m benchmarks.replica_throughput
    python -m benchmarks.replica_throughput --rounds 1 --crawls 10
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import psycopg

from tests import postgres
from tests.replica_process import ReplicaProcess
from tests.site.process import SiteProcess
from tests.site.server import Site
from tests.wire.replica_kills import CrawlLoad, add_accounts, start_crawls
from webdata_nb.service.encryption import new_key

CRAWLS, PAGES = 40, 250
ROUNDS: Final = 5
FLOOR: Final = 0.9
_DEADLINE_S: Final = 900.0
_WARM_UP_S: Final = 3.0
_FIGURES: Final = """
SELECT SUM(published)::int, COUNT(*) FILTER (WHERE state = 'completed'),
  MAX(finished_at) - MIN(started_at)
FROM job
"""


@dataclass(frozen=True, slots=True)
class ReplicaSide:
    """The processors of each replica of one side."""

    label: str
    processors: tuple[frozenset[int], ...]


def crawl_trees(site: Site) -> None:
    """Recipe: a tree of more than 250 pages for each crawl."""
    CrawlLoad(CRAWLS, PAGES).serve(site)


@contextmanager
def processor_affinity(processors: frozenset[int]) -> Iterator[None]:
    """Let this process, and those that it starts meanwhile, use some processors only."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def run_side(
    server: postgres.PostgresServer, home: Path, side: ReplicaSide, site_url: str, load: CrawlLoad
) -> tuple[float, float]:
    """Run all crawls; return the pages per second, and the processor seconds of the replicas."""
    store_url, key = server.new_schema(), new_key()
    add_accounts(store_url, key)
    replicas = []
    with ExitStack() as stack:
        for number, processors in enumerate(side.processors):
            options = ("--slots", str(load.slots), "--replica", f"replica-{number}")
            replica = ReplicaProcess(home / f"replica-{number}", store_url, key, *options)
            with processor_affinity(processors):
                replica.launch()
            stack.callback(replica.kill)
            replicas.append(replica)
        for replica in replicas:
            replica.wait_ready()
        time.sleep(_WARM_UP_S)  # for the page workers
        before = sum(map(_processor_s, replicas))
        start_crawls(replicas, site_url, load)
        wait_for_end(store_url)
        return _pages_per_s(store_url, load), sum(map(_processor_s, replicas)) - before


def wait_for_end(store_url: str) -> None:
    """Wait until no job waits or runs."""
    deadline = time.monotonic() + _DEADLINE_S
    query = "SELECT COUNT(*) FROM job WHERE state IN ('pending', 'running')"
    with psycopg.connect(store_url, autocommit=True) as connection:
        while (row := connection.execute(query).fetchone()) and row[0]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{row[0]} jobs have not ended")
            time.sleep(0.5)


def _processor_s(replica: ReplicaProcess) -> float:
    """Return the processor seconds of a replica and its page workers."""
    service = psutil.Process(replica.process.pid)
    times = [each.cpu_times() for each in (service, *service.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def _pages_per_s(store_url: str, load: CrawlLoad) -> float:
    with psycopg.connect(store_url) as connection:
        pages, completed, seconds = connection.execute(_FIGURES).fetchone() or (0, 0, 0.0)
    if (pages, completed) != (load.crawls * load.pages, load.crawls):
        raise SystemExit(f"{completed} crawls with {pages} pages are complete")
    return float(pages / seconds)


def main() -> int:
    """Print the figures; return 1 if two replicas are too slow."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--crawls", type=int, default=CRAWLS)
    options = parser.parse_args()
    load = CrawlLoad(options.crawls, PAGES)
    first, second, *_ = sorted(os.sched_getaffinity(0))
    one = ReplicaSide("one replica with two processors", (frozenset({first, second}),))
    two = ReplicaSide(
        "two replicas with one processor each", (frozenset({first}), frozenset({second}))
    )
    figures: dict[str, list[float]] = {one.label: [], two.label: []}
    with (
        tempfile.TemporaryDirectory() as folder,
        processor_affinity(frozenset({first, second})),
        postgres.running() as server,
        SiteProcess("benchmarks.replica_throughput:crawl_trees") as site,
    ):
        for number in range(options.rounds):
            for side in (one, two) if number % 2 else (two, one):
                home = Path(folder) / f"{number}-{len(side.processors)}"
                home.mkdir()
                rate, processor_s = run_side(server, home, side, site.url, load)
                figures[side.label].append(rate)
                print(
                    f"{side.label}: {rate:.0f} pages per second, {processor_s:.0f} s of processor"
                    " time of the replicas",
                    flush=True,
                )
    medians = {label: statistics.median(rates) for label, rates in figures.items()}
    ratio = medians[two.label] / medians[one.label]
    print(
        *(f"{label}: median {rate:.0f} pages per second" for label, rate in medians.items()),
        sep="\n",
    )
    print(f"ratio {ratio:.2f} (at least {FLOOR})")
    return int(ratio < FLOOR)


if __name__ == "__main__":
    sys.exit(main())
