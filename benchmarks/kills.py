"""Kills the local service with SIGKILL at random moments of a 1,000-page crawl.

Each round starts a crawl of 1,000 pages, ten in parallel, kills the service at a random moment (in
alternating rounds without and with its page workers), restarts it and waits for the end. A round is
exact if the rows equal those of an undisturbed crawl, in the same order, if the rows that a client
had seen are unchanged, and if no more than ten pages were fetched twice. In the full run, the
service must also fetch again within 2 s after it responds.

With `--latency`, each response takes a random time up to that many seconds: the crawl then fetches
ahead of its page work, and the spool contains pages when the kill happens.

Run it from the checkout, with the `test` extra; 60 rounds take about ten minutes::

    python -m benchmarks.kills --kills 60
    python -m benchmarks.kills --kills 60 --latency 0.1
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.site.graphs import link_tree
from tests.site.server import Site
from tests.wire.kills import KilledCrawl, crawl_and_kill, duration, instants
from webdata_nb.settings import Settings
from webdata_nb.toolkit import local

PAGES: Final = 1000
CONCURRENCY: Final = 10
RESUMED_S: Final = 2.0


async def rounds(kills: int, seed: int, latency_s: float) -> list[str]:
    """Return the errors of the rounds that were not exact."""
    errors: list[str] = []
    with tempfile.TemporaryDirectory() as home, Site(latency=latency_s) as site:
        paths = link_tree(site, depth=3, fanout=10)
        settings = Settings(
            data_dir=Path(home, "data"), cache_dir=Path(home, "cache"), log_dir=Path(home, "logs")
        )
        start = {"url": site.at("/tree"), "concurrency": CONCURRENCY, "max_pages": PAGES}
        expected = [site.at(path) for path in paths[:PAGES]]
        longest = await duration(settings, start)
        print(f"unkilled: {PAGES} pages in {longest:.1f} s")
        for number, (after_s, workers) in enumerate(instants(kills, longest, seed=seed)):
            killed = await crawl_and_kill(settings, site, start, after_s=after_s, workers=workers)
            error = error_of_round(killed, expected)
            errors += [f"round {number}: {error}"] if error else []
            print(
                f"{number + 1:3}/{kills} killed after {after_s:5.2f} s"
                f" ({'service and workers' if workers else 'service'}),"
                f" {len(killed.rows_at_kill)} rows shown,"
                f" {killed.refetched} fetched again, resumed {killed.resumed_s or 0:.2f} s"
                f" {error or 'exact'}",
                flush=True,
            )
        await local.stop(settings)
    return errors


def error_of_round(killed: KilledCrawl, expected: list[str]) -> str:
    """Return the error of a round, or ""."""
    try:
        killed.check(expected, CONCURRENCY)
    except AssertionError as error:
        return str(error) or "the rows differ"
    if killed.resumed_s is not None and killed.resumed_s > RESUMED_S:
        return f"resumed after {killed.resumed_s:.1f} s"
    return ""


def main() -> int:
    """Print every round; return 1 if one was not exact."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kills", type=int, default=60)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--latency", type=float, default=0.0)
    options = arguments.parse_args()
    errors = asyncio.run(rounds(options.kills, options.seed, options.latency))
    print(f"{options.kills - len(errors)} of {options.kills} exact", *errors, sep="\n")
    return int(bool(errors))


if __name__ == "__main__":
    sys.exit(main())
