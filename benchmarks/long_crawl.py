"""Measures a crawl of 50,000 pages: speed, processor time, memory of all processes, and the order.

The site is a tree in a process of its own, whose pages are numbered in breadth-first order. Each
page has 250 words, and links to 8 pages after it and 13 before it. The call runs in a process of
its own with a new local service. Memory is the sum of the proportional set sizes of the caller and
all processes of the service, sampled every second. Processor time is that of the caller, the
service, its page workers and the site, each by tenths of the pages: on a busy machine it shows what
grows with the crawl, which the speed does not.

A crawl of 50,000 pages takes less than ten minutes. Its speed is therefore given by tenths of its
time, or by minutes if it takes longer than that.

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
    from collections.abc import Iterator

    from tests.site.server import Site

SAMPLE_S: Final = 1.0
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


ROLES: Final = ("caller", "service", "page workers", "site")


@dataclass(frozen=True, slots=True)
class Sample:
    """The visible rows of the crawl, the memory of the call's processes in bytes, and more.

    `processor_s` has the processor seconds of all processes so far, by role.
    """

    at_s: float
    memory: int
    rows: int
    processor_s: dict[str, float]


class ProcessMeter:
    """Measures the processes of a call, and of the site."""

    def __init__(self, home: Path, caller: int, site: int) -> None:
        self._home, self._caller, self._site = home, caller, site
        # By process, also of those that have ended.
        self._processor_s: dict[int, tuple[str, float]] = {}

    def memory(self) -> int:
        """Return the sum of the proportional set sizes of the caller and the service."""
        total = 0
        for role, process in list(self._processes()):
            try:
                total += process.memory_full_info().pss if role != "site" else 0
                times = process.cpu_times()
                self._processor_s[process.pid] = role, times.user + times.system
            except psutil.Error:
                continue
        return total

    def processor_s(self) -> dict[str, float]:
        """Return the processor seconds by role, as of the last call of `memory`."""
        return {
            role: sum(used for other, used in self._processor_s.values() if other == role)
            for role in ROLES
        }

    def _processes(self) -> Iterator[tuple[str, psutil.Process]]:
        yield "site", psutil.Process(self._site)
        for process in _processes_of(self._home):
            if process.pid == self._caller:
                yield "caller", process
            else:
                yield "service", process
                # Page workers have an empty environment and do not know the folder.
                yield from (("page workers", each) for each in process.children())


def _processes_of(home: Path) -> Iterator[psutil.Process]:
    """Return the caller and the service: their environment or arguments have the folder."""
    for process in psutil.process_iter():
        try:
            is_caller = process.environ().get("WEBDATA_HOME") == str(home)
            if is_caller or any(str(home) in argument for argument in process.cmdline()):
                yield process
        except psutil.Error:
            continue


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


def _run(url: str, pages: int, strategy: str, folder: Path, site: int) -> list[Sample]:
    home, out = folder / "home", folder / "rows"
    environment = {**os.environ, "WEBDATA_HOME": str(home), "WEBDATA_CACHE": str(folder / "cache")}
    command = [sys.executable, "-c", _CALL, url, str(pages), str(out), strategy]
    samples: list[Sample] = []
    start = time.monotonic()
    with subprocess.Popen(command, env=environment) as call:
        meter = ProcessMeter(home, call.pid, site)
        while call.poll() is None:
            time.sleep(SAMPLE_S)
            memory = meter.memory()
            samples.append(
                Sample(time.monotonic() - start, memory, _rows(home), meter.processor_s())
            )
            if len(samples) % 60 == 0:
                last = samples[-1]
                print(
                    f"{last.at_s:6.0f} s {last.rows:6} rows {last.memory / MIB:5.0f} MiB",
                    flush=True,
                )
    for process in _processes_of(home):
        process.kill()
    if call.returncode:
        raise SystemExit(call.returncode)
    return samples


def _rate(samples: list[Sample], start_s: float, end_s: float) -> float:
    inside = [each for each in samples if start_s <= each.at_s <= end_s]
    first, last = inside[0], inside[-1]
    return (last.rows - first.rows) / (last.at_s - first.at_s)


def _print_processor_s(samples: list[Sample], pages: int) -> None:
    """Print the processor seconds for 1,000 pages, by tenths of the pages."""
    last = Sample(0.0, 0, 0, dict.fromkeys(ROLES, 0.0))
    print("processor seconds for 1,000 pages:", ", ".join(ROLES))
    for sample in samples:
        if sample.rows - last.rows < pages / 10:
            continue
        thousands = (sample.rows - last.rows) / 1000
        used = ((sample.processor_s[role] - last.processor_s[role]) / thousands for role in ROLES)
        print(f"{last.rows:7} to {sample.rows:6}:", " ".join(f"{each:6.2f}" for each in used))
        last = sample
    print("in all:", ", ".join(f"{role} {samples[-1].processor_s[role]:.0f} s" for role in ROLES))


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
    _print_processor_s(samples, pages)
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
            site.url.rstrip("/") + "/page/0",
            arguments.pages,
            arguments.strategy,
            Path(folder),
            site.pid,
        )
        _report(samples, arguments.pages, arguments.strategy, Path(folder) / "rows")


if __name__ == "__main__":
    main()
