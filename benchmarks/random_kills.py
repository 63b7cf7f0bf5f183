"""Kills the client, service and page workers of a 500-page crawl 20 times.

A script calls `crawl_df` and is restarted whenever it ended without its table. At random moments of
the crawl, one process is killed with SIGKILL: the script, the local service, or one of its page
workers. A run is exact if the table has one successful row per page, in the order of an undisturbed
crawl, and if the same holds for every job that a killed script left behind.

Run it from the checkout, with the `test` extra; a run takes about a minute::

    python -m benchmarks.random_kills --runs 3
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
from tests.wire.random_kills import Outcome, crawl_under_kills
from webdata_nb.settings import Settings
from webdata_nb.toolkit import local

PAGES: Final = 500
CONCURRENCY: Final = 10
LATENCY_S: Final = 0.05


def killed_crawl(*, pages: int, kills: int, seed: int) -> tuple[Outcome, list[str]]:
    """Run one crawl under kills; return its result and the expected rows."""
    with tempfile.TemporaryDirectory() as folder, Site(latency=LATENCY_S, seed=seed) as site:
        home = Path(folder)
        paths = link_tree(site, depth=2, fanout=22)[:pages]
        outcome = asyncio.run(
            crawl_under_kills(home, site, paths, kills=kills, concurrency=CONCURRENCY, seed=seed)
        )
        settings = Settings(data_dir=home / "data", cache_dir=home / "cache", log_dir=home / "logs")
        asyncio.run(local.stop(settings))
    return outcome, [site.at(path) for path in paths]


def main() -> int:
    """Print each run; return 1 if one was not exact."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--runs", type=int, default=1)
    arguments.add_argument("--kills", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    inexact = 0
    for seed in range(options.seed, options.seed + options.runs):
        outcome, expected = killed_crawl(pages=PAGES, kills=options.kills, seed=seed)
        try:
            outcome.check(expected)
            verdict = "exact"
        except AssertionError as error:
            inexact, verdict = inexact + 1, str(error)
        print(
            f"seed {seed}: {sum(outcome.killed.values())} kills {dict(outcome.killed)},"
            f" {len(outcome.frame)} rows in {outcome.seconds:.1f} s, {outcome.refetched} pages"
            f" requested again, {outcome.starts} client starts: {verdict}",
            flush=True,
        )
    print(f"{options.runs - inexact} of {options.runs} runs exact")
    return int(bool(inexact))


if __name__ == "__main__":
    sys.exit(main())
