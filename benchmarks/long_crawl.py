"""Measures a crawl of 50,000 pages: pages per second, memory of all processes, and the order.

The site is a tree in a process of its own, whose pages are numbered in breadth-first order. Each
page has 250 words, and links to 8 pages after it and 13 before it. The call runs in a process of
its own with a new local service. Memory is the sum of the proportional set sizes of the caller and
all processes of the service, sampled every two seconds.

Run it from the checkout, with the `test` extra::

    python -m benchmarks.long_crawl --pages 50000
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil
import pyarrow.dataset as ds

from tests.site.graphs import large_tree
from tests.site.process import SiteProcess

if TYPE_CHECKING:
    from tests.site.server import Site

SAMPLE_S: Final = 2.0
MIB: Final = 1024 * 1024
_CALL: Final = """
import sys
from webdata_nb import crawl_df
df = crawl_df(sys.argv[1], max_pages=int(sys.argv[2]), out=sys.argv[3], concurrency=10,
              crawl_strategy=sys.argv[4], progress=False)
print(df.attrs["webdata"]["line"])
"""


def site_recipe(site: Site) -> None:
    """Recipe: the tree."""
    large_tree(site)


@dataclass(frozen=True, slots=True)
class Sample:
    """The memory of all processes in bytes, and the visible rows of the crawl."""

    at_s: float
    memory: int
    rows: int


def _memory(home: Path) -> int:
    """Return the proportional set sizes of all processes with this home, and of their children."""
    processes: set[psutil.Process] = set()
    for process in psutil.process_iter():
        try:
            if process.environ().get("WEBDATA_HOME") == str(home):
                # Page workers have an empty environment.
                processes |= {process, *process.children(recursive=True)}
        except psutil.Error:
            continue
    total = 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total


def _rows(home: Path) -> int:
    """Return the visible rows, read from the service's database."""
    files = list(home.rglob("jobs.sqlite"))
    if not files:
        return 0
    try:
        with closing(sqlite3.connect(f"file:{files[0]}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT SUM(published) FROM job").fetchone()[0] or 0)
    except sqlite3.Error:
        return 0


def _run(url: str, pages: int, strategy: str, folder: Path) -> list[Sample]:
    home, out = folder / "home", folder / "rows"
    environment = {**os.environ, "WEBDATA_HOME": str(home), "WEBDATA_CACHE": str(folder / "cache")}
    command = [sys.executable, "-c", _CALL, url, str(pages), str(out), strategy]
    samples: list[Sample] = []
    start = time.monotonic()
    with subprocess.Popen(command, env=environment) as call:
        while call.poll() is None:
            time.sleep(SAMPLE_S)
            samples.append(Sample(time.monotonic() - start, _memory(home), _rows(home)))
            if len(samples) % 30 == 0:
                last = samples[-1]
                print(
                    f"{last.at_s:6.0f} s {last.rows:6} rows {last.memory / MIB:5.0f} MiB",
                    flush=True,
                )
    for process in psutil.process_iter():
        try:
            if process.environ().get("WEBDATA_HOME") == str(home):
                process.kill()
        except psutil.Error:
            continue
    if call.returncode:
        raise SystemExit(call.returncode)
    return samples


def _rate(samples: list[Sample], start_s: float, end_s: float) -> float:
    inside = [each for each in samples if start_s <= each.at_s <= end_s]
    first, last = inside[0], inside[-1]
    return (last.rows - first.rows) / (last.at_s - first.at_s)


def _report(samples: list[Sample], pages: int, strategy: str, out: Path) -> None:
    working = [each for each in samples if each.rows < pages]
    end_s = working[-1].at_s
    step_s = min(60.0, end_s / 10)
    rates = [_rate(samples, n * step_s, (n + 1) * step_s) for n in range(int(end_s / step_s))]
    half = len(samples) // 2
    first, second = (max(each.memory for each in part) for part in (samples[:half], samples[half:]))
    urls = ds.dataset(out, format="parquet", exclude_invalid_files=True).to_table(["url"])["url"]
    in_order = [int(str(url).rpartition("/")[2]) for url in urls.to_pylist()] == list(range(pages))
    print(f"{strategy}: {len(urls):,} rows in {end_s:.0f} s; in breadth-first order: {in_order}")
    print(f"pages per second by {step_s:.0f} s: {' '.join(f'{rate:.0f}' for rate in rates)}")
    last = _rate(samples, end_s - step_s, end_s)
    print(f"median {statistics.median(rates):.1f}, last / second {last / rates[1]:.2f}")
    print(
        f"peak memory {max(first, second) / MIB:.0f} MiB; second half / first {second / first:.2f}"
    )


def main() -> None:
    """Run the crawl and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=int, default=50_000)
    parser.add_argument("--strategy", default="bfs", choices=["bfs", "dfs", "bff"])
    arguments = parser.parse_args()
    with (
        SiteProcess("benchmarks.long_crawl:site_recipe") as site,
        tempfile.TemporaryDirectory() as folder,
    ):
        samples = _run(
            site.url.rstrip("/") + "/page/0", arguments.pages, arguments.strategy, Path(folder)
        )
        _report(samples, arguments.pages, arguments.strategy, Path(folder) / "rows")


if __name__ == "__main__":
    main()
