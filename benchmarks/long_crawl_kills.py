"""Kills the service or the caller of a long crawl 20 times, and checks its rows.

The site is the tree of `benchmarks.long_crawl`. Whenever the crawl has more rows, at random
numbers, the local service or the script that called `crawl_df` is killed with SIGKILL; it is then
started again with the same arguments. A run is exact if the rows are those of the tree in
breadth-first order, and one job has made all of them.

Run it from the checkout, with the `test` extra::

    python -m benchmarks.long_crawl_kills --pages 5000 --kills 20
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.site.process import SiteProcess
from tests.wire.long_crawl_kills import long_crawl_under_kills


def main() -> int:
    """Print each run; return 1 if one was not exact."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--victims", nargs="+", default=["service", "caller"])
    options = parser.parse_args()
    inexact = 0
    for seed in range(options.runs):
        with (
            SiteProcess("benchmarks.long_crawl:site_recipe") as site,
            tempfile.TemporaryDirectory() as folder,
        ):
            root = site.url.rstrip("/") + "/page/"
            done = long_crawl_under_kills(
                Path(folder),
                f"{root}0",
                pages=options.pages,
                kills=options.kills,
                seed=seed,
                victims=options.victims,
            )
        is_exact = done.urls == [f"{root}{number}" for number in range(options.pages)]
        inexact += not (is_exact and done.jobs == 1)
        print(
            f"seed {seed}: kills {dict(done.kills)}, {len(done.urls)} rows of {done.jobs} job(s) in"
            f" {done.seconds:.0f} s, the script started {done.caller_starts} times:"
            f" {'exact' if is_exact else 'NOT EXACT'}",
            flush=True,
        )
    print(f"{options.runs - inexact} of {options.runs} runs exact")
    return int(bool(inexact))


if __name__ == "__main__":
    sys.exit(main())
