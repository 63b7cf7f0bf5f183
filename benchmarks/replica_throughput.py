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
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import psycopg

from benchmarks.floors import check
from tests import postgres
from tests.replica_process import ReplicaProcess
from tests.site.process import SiteProcess
from tests.site.server import Site
from tests.wire.replica_kills import CrawlLoad, add_accounts, start_crawls
from webdata_nb.service.encryption import new_key

CRAWLS, PAGES = 40, 250
ROUNDS: Final = 5
_DEADLINE_S: Final = 900.0
_WARM_UP_S: Final = 3.0
_FIGURES: Final = """
SELECT SUM(published)::int, COUNT(*) FILTER (WHERE state = 'completed'),
  MAX(finished_at) - MIN(started_at)
FROM job
"""


RunSide = Callable[[postgres.PostgresServer, Path, str, CrawlLoad], tuple[float, float]]
"""Runs all crawls; returns the pages per second, and the processor seconds."""


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


@dataclass(frozen=True, slots=True)
class ReplicaSide:
    """Replicas, each with the processors that it may use."""

    processors: tuple[frozenset[int], ...]

    def __call__(
        self, server: postgres.PostgresServer, home: Path, site_url: str, load: CrawlLoad
    ) -> tuple[float, float]:
        """Run all crawls; return the pages per second, and the processor seconds of replicas."""
        store_url, key = server.new_schema(), new_key()
        add_accounts(store_url, key)
        replicas = []
        with ExitStack() as stack:
            for number, processors in enumerate(self.processors):
                options = ("--slots", str(load.slots()), "--replica", f"replica-{number}")
                replica = ReplicaProcess(home / f"replica-{number}", store_url, key, *options)
                with processor_affinity(processors):
                    replica.launch()
                stack.callback(replica.kill)
                replicas.append(replica)
            for replica in replicas:
                replica.wait_ready()
            pids = [replica.process.pid for replica in replicas]
            return measure_crawls(store_url, replicas, pids, site_url, load)


def measure_crawls(
    store_url: str,
    replicas: list[ReplicaProcess],
    pids: Iterable[int],
    site_url: str,
    load: CrawlLoad,
) -> tuple[float, float]:
    """Run all crawls; return the pages per second, and the processor seconds of some processes."""
    time.sleep(_WARM_UP_S)  # for the page workers
    before = sum(map(processor_s, pids))
    start_crawls(replicas, site_url, load)
    wait_for_end(store_url)
    return _pages_per_s(store_url, load), sum(map(processor_s, pids)) - before


def wait_for_end(store_url: str) -> None:
    """Wait until no job waits or runs."""
    deadline = time.monotonic() + _DEADLINE_S
    query = "SELECT COUNT(*) FROM job WHERE state IN ('pending', 'running')"
    with psycopg.connect(store_url, autocommit=True) as connection:
        while (row := connection.execute(query).fetchone()) and row[0]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{row[0]} jobs have not ended")
            time.sleep(0.5)


def processor_s(pid: int) -> float:
    """Return the processor seconds of a process and its descendants, also of those that ended."""
    process = psutil.Process(pid)
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += sum(each.cpu_times()[:4])  # its own and of children that it waited for
    return total


def _pages_per_s(store_url: str, load: CrawlLoad) -> float:
    with psycopg.connect(store_url) as connection:
        pages, completed, seconds = connection.execute(_FIGURES).fetchone() or (0, 0, 0.0)
    if (pages, completed) != (load.crawls * load.pages, load.crawls):
        raise SystemExit(f"{completed} crawls with {pages} pages are complete")
    return float(pages / seconds)


def compare(
    sides: dict[str, RunSide], load: CrawlLoad, rounds: int, processors: frozenset[int]
) -> int:
    """Run the sides in turn and print their figures; return 1 if the second one is too slow."""
    figures: dict[str, list[float]] = {label: [] for label in sides}
    with (
        tempfile.TemporaryDirectory() as folder,
        processor_affinity(processors),
        postgres.running() as server,
        SiteProcess("benchmarks.replica_throughput:crawl_trees") as site,
    ):
        for number in range(rounds):
            for label in sides if number % 2 else reversed(sides):
                home = Path(folder) / f"{number}-{len(figures[label])}-{len(label)}"
                home.mkdir()
                rate, seconds = sides[label](server, home, site.url, load)
                figures[label].append(rate)
                print(
                    f"{label}: {rate:.0f} pages per second, {seconds:.0f} s of processor time",
                    flush=True,
                )
    reference, measured = (statistics.median(rates) for rates in figures.values())
    for label, rate in zip(sides, (reference, measured), strict=True):
        print(f"{label}: median {rate:.0f} pages per second")
    name = "replica_throughput: two replicas, of one with two processors"
    return 0 if check(name, measured / reference) else 1


def main() -> int:
    """Print the figures; return 1 if two replicas are too slow."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--crawls", type=int, default=CRAWLS)
    options = parser.parse_args()
    first, second, *_ = sorted(os.sched_getaffinity(0))
    both = frozenset({first, second})
    sides: dict[str, RunSide] = {
        "one replica with two processors": ReplicaSide((both,)),
        "two replicas with one processor each": ReplicaSide(
            (frozenset({first}), frozenset({second}))
        ),
    }
    return compare(sides, CrawlLoad(options.crawls, PAGES), options.rounds, both)


if __name__ == "__main__":
    sys.exit(main())
