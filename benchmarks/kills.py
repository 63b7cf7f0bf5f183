"""Kills processes of crawls with SIGKILL at random moments, and checks that nothing is lost.

``service``: a crawl of 1,000 pages, ten in parallel, in each of 60 rounds. The local service is
killed at a random moment (in alternating rounds without and with its page workers) and restarted.
A round is exact if the rows equal those of an undisturbed crawl, in the same order, if the rows
that a client had seen are unchanged, and if no more than ten pages were fetched twice; the service
must fetch again within 2 s after it responds. With `--latency`, each response takes a random time
up to that many seconds: the crawl then fetches ahead of its page work, and fetched bodies are
waiting when the kill happens.

``call``: a script that calls `crawl_df` for 500 pages is restarted whenever it ended without its
table, while the script, the local service or one of its page workers is killed 20 times. A run is
exact if the table has one successful row per page, in the order of an undisturbed crawl, and if the
same holds for every job that a killed script left behind.

``long-crawl``: a crawl of 5,000 pages with `out=` of the tree of `benchmarks.long_crawl`, while the
service or the script is killed 20 times. A run is exact if the rows are those of the tree in
breadth-first order, and one job has made all of them.

Run it from the checkout, with the `test` extra; each takes one to ten minutes::

    python -m benchmarks.kills service --kills 60 --latency 0.1
    python -m benchmarks.kills call --runs 3
    python -m benchmarks.kills long-crawl
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.site.graphs import link_tree
from tests.site.process import SiteProcess
from tests.site.server import Site
from tests.wire.kills import KilledCrawl, crawl_and_kill, duration, instants
from tests.wire.long_crawl_kills import long_crawl_under_kills
from tests.wire.random_kills import Outcome, crawl_under_kills
from webdata_nb.settings import Settings
from webdata_nb.toolkit import local

KILLS: Final = {"service": 60, "call": 20, "long-crawl": 20}
PAGES: Final = {"service": 1000, "call": 500, "long-crawl": 5000}
CONCURRENCY: Final = 10
CALL_LATENCY_S: Final = 0.05
RESUMED_S: Final = 2.0


def main() -> int:
    """Print every round; return 1 if one was not exact."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("subject", choices=KILLS)
    arguments.add_argument("--kills", type=int, help="60 of the service, 20 of the others")
    arguments.add_argument("--runs", type=int, default=1, help="of a call or a long crawl")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--latency", type=float, default=0.0, help="seconds, for the service")
    options = arguments.parse_args()
    kills = options.kills or KILLS[options.subject]
    if options.subject == "service":
        errors = asyncio.run(service_rounds(kills, options.seed, options.latency))
        rounds = kills
    else:
        run = call_run if options.subject == "call" else long_crawl_run
        seeds = range(options.seed, options.seed + options.runs)
        errors = [f"seed {seed}: {error}" for seed in seeds if (error := run(kills, seed))]
        rounds = options.runs
    print(f"{rounds - len(errors)} of {rounds} exact", *errors, sep="\n")
    return int(bool(errors))


async def service_rounds(kills: int, seed: int, latency_s: float) -> list[str]:
    """Kill the service once in each round; return the errors of those that were not exact."""
    errors: list[str] = []
    pages = PAGES["service"]
    with tempfile.TemporaryDirectory() as home, Site(latency=latency_s) as site:
        paths = link_tree(site, depth=3, fanout=10)
        settings = settings_in(Path(home))
        start = {"url": site.at("/tree"), "concurrency": CONCURRENCY, "max_pages": pages}
        expected = [site.at(path) for path in paths[:pages]]
        longest = await duration(settings, start)
        print(f"unkilled: {pages} pages in {longest:.1f} s")
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


def call_run(kills: int, seed: int) -> str:
    """Run a call under kills and print it; return its error, or ""."""
    outcome, expected = killed_call(pages=PAGES["call"], kills=kills, seed=seed)
    try:
        outcome.check(expected)
        error = ""
    except AssertionError as failure:
        error = str(failure) or "the rows differ"
    print(
        f"seed {seed}: {sum(outcome.killed.values())} kills {dict(outcome.killed)},"
        f" {len(outcome.frame)} rows in {outcome.seconds:.1f} s, {outcome.refetched} pages"
        f" requested again, {outcome.starts} client starts: {error or 'exact'}",
        flush=True,
    )
    return error


def killed_call(*, pages: int, kills: int, seed: int) -> tuple[Outcome, list[str]]:
    """Run one call under kills; return its result and the expected rows."""
    with tempfile.TemporaryDirectory() as folder, Site(latency=CALL_LATENCY_S, seed=seed) as site:
        home = Path(folder)
        paths = link_tree(site, depth=2, fanout=22)[:pages]
        outcome = asyncio.run(
            crawl_under_kills(home, site, paths, kills=kills, concurrency=CONCURRENCY, seed=seed)
        )
        asyncio.run(local.stop(settings_in(home)))
    return outcome, [site.at(path) for path in paths]


def long_crawl_run(kills: int, seed: int) -> str:
    """Run a long crawl under kills and print it; return its error, or ""."""
    pages = PAGES["long-crawl"]
    with (
        SiteProcess("benchmarks.long_crawl:site_recipe") as site,
        tempfile.TemporaryDirectory() as folder,
    ):
        root = site.url.rstrip("/") + "/page/"
        done = long_crawl_under_kills(Path(folder), f"{root}0", pages=pages, kills=kills, seed=seed)
    error = ""
    if done.urls != [f"{root}{number}" for number in range(pages)]:
        error = "the rows differ"
    elif done.jobs != 1:
        error = f"{done.jobs} jobs"
    print(
        f"seed {seed}: kills {dict(done.kills)}, {len(done.urls)} rows of {done.jobs} job(s) in"
        f" {done.seconds:.0f} s, the script started {done.caller_starts} times: {error or 'exact'}",
        flush=True,
    )
    return error


def settings_in(home: Path) -> Settings:
    """Return settings with every folder in `home`."""
    return Settings(data_dir=home / "data", cache_dir=home / "cache", log_dir=home / "logs")


if __name__ == "__main__":
    sys.exit(main())
