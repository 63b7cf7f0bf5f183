"""Kills replicas and their database at random moments of crawls.

Two replicas run on one PostgreSQL server, which starts for this run. They run 40 crawls of 250
pages, of four accounts. At random moments a replica gets SIGKILL, or PostgreSQL is stopped with
`pg_ctl -m immediate`, or both. PostgreSQL is started again at once; a replica at once or up to 18 s
later, so that the other one continues some jobs. The next kill comes at a random moment after all
interrupted jobs continue. A run takes as many kills as happen before its crawls end; further runs
follow until there were 20 of each kind.

Expected: the rows and receipts of an undisturbed run, in its order; a store that `webdata store
check` finds correct; each job held again within 16 s of the last kill; at most `concurrency` pages
of a job fetched again by a replica that continues its own jobs, and 32 more by the other replica,
which has no spool of them; a webhook for each crawl, with one event id; the ledgers of an
undisturbed run; no replica that ends by itself.

With `--dask`, both replicas keep claim loops in four Dask workers, each below a nanny. At random
moments a worker gets SIGKILL, and its nanny starts another one; or a worker and its nanny; or the
scheduler, while at least half of the pages are missing, so that its workers end and the replicas
take their jobs; or everything, PostgreSQL as well. The time until a job is held again then counts
from the moment in which the first process is back.

With `--standby`, PostgreSQL has a standby that confirms all commits, and the URL of the replicas
names both. Instead of a stop, all processes of the primary get SIGKILL; the standby is promoted up
to 3 s later, and the former primary follows it, until it is its turn.

With `--pooler`, the connections of the replicas go through PgBouncer in session mode.

With `--rapid`, kills come 0.5 to 8 s after each other, also while jobs wait for their next process.
The 16 s are not checked then: jobs without progress in two attempts run one at a time.

Site, database, replicas and receiver of webhooks share the processors of one machine.

Run it from the checkout, with the `test` extra and PostgreSQL; it takes about 20 minutes::

    python -m benchmarks.replica_kills
    python -m benchmarks.replica_kills --kills 2 --rapid
    python -m benchmarks.replica_kills --dask
    python -m benchmarks.replica_kills --standby
    python -m benchmarks.replica_kills --pooler
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, get_args

from tests import postgres
from tests.site.server import Site
from tests.wire.dask_kills import dask_team
from tests.wire.replica_kills import (
    AnyKill,
    CrawlLoad,
    CrawlRun,
    DaskKillKind,
    KillKind,
    OpenTeam,
    pooled_team,
    replica_team,
    run_crawls,
    standby_team,
)

CRAWLS, PAGES = 40, 250
KILLS: Final = 20
HELD_S: Final = 16.0
# Pages are in flight when a kill happens.
LATENCY_S: Final = 0.2
# Processes of Dask take longer to start.
DASK_LATENCY_S: Final = 0.6


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
    kills: list[AnyKill],
    *,
    seed: int,
    held_s: float | None = HELD_S,
    latency_s: float = LATENCY_S,
    open_team: OpenTeam = replica_team,
) -> list[str]:
    """Run crawls until all kills have happened; return what was wrong.

    Without `held_s`, kills are rapid.
    """
    errors: list[str] = []
    runs: list[tuple[CrawlRun, bool]] = []
    with Site() as site:
        load.serve(site)
        expected = run_crawls(server, home / "undisturbed", site, load, [], open_team=open_team)
        site.latency = latency_s
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
                open_team=open_team,
            )
            wrong = killed.errors(expected, load.concurrency, held_s)
            errors += [f"run {number}: {error}" for error in wrong]
            print(f"run {number}: {describe(killed)}: {'; '.join(wrong) or 'exact'}", flush=True)
            runs.append((killed, not wrong))
    print(*summary(runs), sep="\n", flush=True)
    return errors


def summary(runs: Sequence[tuple[CrawlRun, bool]]) -> list[str]:
    """Return a line for each kind of kill; each run comes with whether it was exact."""
    lines = []
    for kind in sorted({kill.kind for run, _ in runs for kill in run.kills}):
        with_kind = [(run, exact) for run, exact in runs if any(k.kind == kind for k in run.kills)]
        kills = sum(kill.kind == kind for run, _ in with_kind for kill in run.kills)
        takeovers = [
            each
            for run, _ in with_kind
            for of_crawl in run.takeovers
            for each in of_crawl
            if each.kind == kind
        ]
        slowest = max((each.seconds or 0.0 for each in takeovers), default=0.0)
        lines.append(
            f"{kind}: {kills} kills in {len(with_kind)} runs,"
            f" {sum(exact for _, exact in with_kind)} of them exact; {len(takeovers)} jobs"
            f" continued, held again after at most {slowest:.1f} s"
        )
    return lines


def main() -> int:
    """Print every run; return 1 if one was not exact."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=KILLS, help="kills of each kind")
    parser.add_argument("--crawls", type=int, default=CRAWLS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rapid", action="store_true", help="do not wait between kills")
    teams = parser.add_mutually_exclusive_group()
    teams.add_argument("--dask", action="store_true", help="kill workers and scheduler of Dask")
    teams.add_argument("--standby", action="store_true", help="lose the primary, promote a standby")
    teams.add_argument("--pooler", action="store_true", help="connect through PgBouncer")
    options = parser.parse_args()
    kinds = get_args(DaskKillKind if options.dask else KillKind)
    kills: list[AnyKill] = [*kinds] * options.kills
    random.Random(options.seed).shuffle(kills)
    load = CrawlLoad(options.crawls, PAGES)
    chosen = {dask_team: options.dask, standby_team: options.standby, pooled_team: options.pooler}
    open_team: OpenTeam = next((team for team in chosen if chosen[team]), replica_team)
    with tempfile.TemporaryDirectory() as folder, postgres.running() as server:
        held_s = None if options.rapid else HELD_S
        errors = run(
            server,
            Path(folder),
            load,
            kills,
            seed=options.seed,
            held_s=held_s,
            latency_s=DASK_LATENCY_S if options.dask else LATENCY_S,
            open_team=open_team,
        )
    print("exact" if not errors else f"WRONG: {len(errors)}", *errors[:50], sep="\n")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
