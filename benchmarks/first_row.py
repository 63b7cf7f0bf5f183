"""Measures how long a new process waits for its first row, and whether its first crawl is slower.

The site is Debian's Python documentation, served by nginx on loopback. Each round is a new
interpreter with a new home:

- `cold`: seconds from the call `crawl_df(url, max_pages=1)` to its frame, while no local service
  runs. The reference is an interpreter that imports what every such service needs (FastAPI,
  uvicorn, aiohttp), so the ratio depends less on the machine.
- `warm`: the same call for another page, in the same interpreter.
- `first crawl`: pages per second of a crawl of 500 pages directly after a call that started the
  service but read no page, divided by the median of the three crawls after it.

Imports of the calling interpreter do not count. The result cache is off.

Run it from the checkout, with the `test` extra, nginx and python3-doc installed::

    python -m benchmarks.first_row

The exit code is 1 if a median misses its floor.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.floors import check
from tests.requirements import find
from tests.site.nginx import NginxSite

ROUNDS: Final = 5
PAGES: Final = 500
_CHECKOUT: Final = Path(__file__).resolve().parent.parent
_REFERENCE: Final = "import fastapi, uvicorn, aiohttp"
_PAGES: Final = ("tutorial/index.html", "glossary.html")


def in_new_process(what: str, url: str) -> Any:
    """Run `what` in a new interpreter with a new home; return what it measured."""
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.first_row", "--process", what, "--url", url],
            cwd=_CHECKOUT,
            env={**os.environ, "WEBDATA_HOME": home},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def reference_s() -> float:
    """Return the seconds of an interpreter that imports the libraries of such a service."""
    start_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", _REFERENCE], check=True)
    return time.perf_counter() - start_s


def timed_crawl(url: str, pages: int) -> float:
    """Crawl this many pages; return the seconds until the frame is there."""
    from webdata_nb import crawl_df  # noqa: PLC0415 - only a measured process needs it

    start_s = time.perf_counter()
    frame = crawl_df(url, max_pages=pages, cache=False, progress=False)
    took_s = time.perf_counter() - start_s
    if len(frame) != pages:
        raise SystemExit(frame.attrs["webdata"]["line"])
    return took_s


def measure(what: str, url: str) -> dict[str, Any]:
    """Measure in this process, whose service stops afterwards."""
    import asyncio  # noqa: PLC0415

    from webdata_nb import jobs_df  # noqa: PLC0415
    from webdata_nb.settings import current  # noqa: PLC0415
    from webdata_nb.toolkit import local  # noqa: PLC0415

    try:
        if what == "rows":
            cold_s, warm_s = (timed_crawl(url + page, 1) for page in _PAGES)
            return {"cold": cold_s, "warm": warm_s}
        jobs_df()
        first, *later = (PAGES / timed_crawl(url, PAGES) for _ in range(4))
        return {"first": first, "later": statistics.median(later)}
    finally:
        asyncio.run(local.stop(current()))


def main() -> int:
    """Print each round and the medians; return 1 where one of them misses its limit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--process", choices=("rows", "rate"))
    parser.add_argument("--url")
    args = parser.parse_args()
    if args.process:
        print(json.dumps(measure(args.process, args.url)))
        return 0
    docs = find("python-docs")
    if docs is None or find("nginx") is None:
        raise SystemExit("nginx and python3-doc are needed")
    with NginxSite(docs) as site:
        return compare(site.url, args.rounds)


def compare(url: str, count: int) -> int:
    """Run the rounds against the site at `url`."""
    cold, warm, ratio, first_crawl = [], [], [], []
    for number in range(1, count + 1):
        bare_s = reference_s()
        rows, rate = in_new_process("rows", url), in_new_process("rate", url)
        cold.append(rows["cold"])
        warm.append(rows["warm"])
        ratio.append(rows["cold"] / bare_s)
        first_crawl.append(rate["first"] / rate["later"])
        print(
            f"round {number}: cold {rows['cold']:.2f} s ({ratio[-1]:.1f} of the reference), "
            f"warm {rows['warm']:.3f} s, first crawl {rate['first']:.0f} pages/s, "
            f"later {rate['later']:.0f}: {first_crawl[-1]:.2f}",
            flush=True,
        )
    print(f"medians of {count}: cold {statistics.median(ratio):.1f} of the reference")
    met = [
        check("first_row: cold, seconds", statistics.median(cold)),
        check("first_row: warm, seconds", statistics.median(warm)),
        check("first_row: first crawl, of later ones", statistics.median(first_crawl)),
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
