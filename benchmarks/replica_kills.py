"""Kills replicas and their database at random moments of crawls.

Two replicas run on one PostgreSQL server, which starts for this run. They run 40 crawls of 250
pages, of four accounts. At random moments a replica gets SIGKILL, or PostgreSQL is stopped with
`pg_ctl -m immediate`, or both. PostgreSQL is started again at once; a replica at once or up to 18 s
later, so that the other one continues some jobs. The next kill comes at a random moment after all
interrupted jobs continue. A run takes as many kills as happen before its crawls end; further runs
follow until there were 20 of each kind.

Expected: the rows of an undisturbed run, in its order; each job held again within 16 s of the last
kill; at most `concurrency` pages of a job fetched again by a replica that continues its own jobs,
and 32 more by the other replica, which has no spool of them; a webhook for each crawl, with one
event id; the ledgers of an undisturbed run; no replica that ends by itself.

With `--rapid`, kills come 0.5 to 8 s after each other, also while jobs wait for their next process.
The 16 s are not checked then: jobs without progress in two attempts run one at a time.

Site, database, replicas and receiver of webhooks share the processors of one machine.

Run it from the checkout, with the `test` extra and PostgreSQL; it takes about 20 minutes::

    python -m benchmarks.replica_kills
    python -m benchmarks.replica_kills --kills 2 --rapid
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final, get_args

from tests import postgres
from tests.site.server import Site
from tests.wire.replica_kills import CrawlLoad, CrawlRun, KillKind, run_crawls

CRAWLS, PAGES = 40, 250
KILLS: Final = 20
HELD_S: Final = 16.0
# Pages are in flight when a kill happens.
LATENCY_S: Final = 0.2


def describe(run: CrawlRun) -> str:
    """Return the figures of a run in a line."""
    takeovers = [each for takeovers in run.takeovers for each in takeovers]
    seconds = [each.seconds for each in takeovers if each.seconds is not None]
    own = sum(each.is_same_replica for each in takeovers)
    kinds = Counter(kill.kind for kill in run.kills)
    return (
        f"{sum(map(len, run.rows))} rows in {run.seconds:.0f} s,"
        f" kills {dict(kinds)}, {len(takeovers)} jobs continued ({own} by the replica itself,"
        f" {len(takeovers) - len(seconds)} without a kill), held again after at most"
        f" {max(seconds, default=0):.1f} s, {sum(run.refetched)} pages fetched again, at most"
        f" {max(run.refetched)} of a crawl, webhooks {sum(map(len, run.event_ids))}"
    )


def run(
    server: postgres.PostgresServer,
    home: Path,
    load: CrawlLoad,
    kills: list[KillKind],
    *,
    seed: int,
    held_s: float | None = HELD_S,
    latency_s: float = LATENCY_S,
) -> list[str]:
    """Run crawls until all kills have happened; return what was wrong.

    Without `held_s`, kills are rapid.
    """
    errors: list[str] = []
    with Site(latency=latency_s) as site:
        load.serve(site)
        expected = run_crawls(server, home / "undisturbed", site, load, [])
        print(f"undisturbed: {describe(expected)}", flush=True)
        errors += expected.errors(expected, load.concurrency, held_s)
        number = 0
        while kills:
            number += 1
            killed = run_crawls(
                server,
                home / f"run-{number}",
                site,
                load,
                kills,
                seed=seed + number,
                is_rapid=held_s is None,
            )
            wrong = killed.errors(expected, load.concurrency, held_s)
            errors += [f"run {number}: {error}" for error in wrong]
            print(f"run {number}: {describe(killed)}: {'; '.join(wrong) or 'exact'}", flush=True)
    return errors


def main() -> int:
    """Print every run; return 1 if one was not exact."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=KILLS, help="kills of each kind")
    parser.add_argument("--crawls", type=int, default=CRAWLS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rapid", action="store_true", help="do not wait between kills")
    options = parser.parse_args()
    kills: list[KillKind] = [*get_args(KillKind)] * options.kills
    random.Random(options.seed).shuffle(kills)
    load = CrawlLoad(options.crawls, PAGES)
    with tempfile.TemporaryDirectory() as folder, postgres.running() as server:
        held_s = None if options.rapid else HELD_S
        errors = run(server, Path(folder), load, kills, seed=options.seed, held_s=held_s)
    print("exact" if not errors else f"WRONG: {len(errors)}", *errors[:50], sep="\n")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
