"""A long crawl whose service or caller is killed at random moments until it ends."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil
import pyarrow.dataset as ds

from tests.wire.waiting import services_on

# A generous end for a machine under load.
DEADLINE_S: Final = 1800.0
VICTIMS: Final = ("service", "caller")
_POLL_S: Final = 0.02
# Writes a file when the call has returned; until then the script is run again.
_CALLER: Final = """
import pathlib, sys
from webdata_nb import crawl_df
url, pages, out, line = sys.argv[1:]
df = crawl_df(url, max_pages=int(pages), out=out, concurrency=10, progress=False)
pathlib.Path(line).write_text(df.attrs["webdata"]["line"])
"""


@dataclass(slots=True)
class KilledLongCrawl:
    """What a crawl came to: the URLs of its rows, the jobs it took, and the kills."""

    urls: list[str]
    jobs: int
    checkpoints: int
    caller_starts: int
    seconds: float
    kills: Counter[str] = field(default_factory=Counter)


def long_crawl_under_kills(
    home: Path, url: str, *, pages: int, kills: int, seed: int
) -> KilledLongCrawl:
    """Crawl in a process of its own; kill the service or the caller after random rows."""
    chance = random.Random(seed)
    moments = sorted(chance.sample(range(1, pages), kills))
    run = _LongCall(home, url, pages)
    killed, start_s = Counter[str](), time.monotonic()
    try:
        for moment in moments:
            while run.rows() < moment and not run.is_done():
                run.keep_going(start_s)
            victim = chance.choice(VICTIMS)
            killed[victim] += run.kill(victim)
        while not run.is_done():
            run.keep_going(start_s)
        jobs, checkpoints = run.jobs_and_checkpoints()
    finally:
        run.end()
    rows = ds.dataset(run.out, format="parquet", exclude_invalid_files=True).to_table(["url"])
    urls = [str(each) for each in rows["url"].to_pylist()]
    return KilledLongCrawl(urls, jobs, checkpoints, run.starts, time.monotonic() - start_s, killed)


class _LongCall:
    """The caller's process, started again whenever it ended without its result."""

    def __init__(self, home: Path, url: str, pages: int) -> None:
        self.out, self.starts = home / "rows", 0
        self._home, self._line = home, home / "line.txt"
        arguments = (url, str(pages), str(self.out), str(self._line))
        self._command = (sys.executable, "-c", _CALLER, *arguments)
        self._environment = os.environ | {
            "WEBDATA_HOME": str(home),
            "WEBDATA_CACHE": str(home / "cache"),
        }
        self._caller: subprocess.Popen[bytes] | None = None

    def keep_going(self, start_s: float) -> None:
        """Start the caller where none runs and the result is not there; wait a little."""
        if time.monotonic() - start_s > DEADLINE_S:
            raise TimeoutError(f"the crawl did not end in {DEADLINE_S:.0f} s")
        if not self.is_done() and (self._caller is None or self._caller.poll() is not None):
            self.starts += 1
            with (self._home / "caller.log").open("ab") as log:
                self._caller = subprocess.Popen(
                    self._command, env=self._environment, stdout=log, stderr=log
                )
        time.sleep(_POLL_S)

    def is_done(self) -> bool:
        """Return whether the call has returned."""
        return self._line.exists()

    def rows(self) -> int:
        """Return the visible rows of all jobs."""
        return self._number("SELECT SUM(published) FROM job")

    def jobs_and_checkpoints(self) -> tuple[int, int]:
        """Return the number of jobs, and about how many checkpoints were passed."""
        jobs = self._number("SELECT COUNT(*) FROM job")
        return jobs, self._number("SELECT SUM(settled_rows) FROM job") // 990

    def kill(self, victim: str) -> int:
        """Kill a process as the kernel would; return how many."""
        if victim == "caller":
            if self._caller is None or self._caller.poll() is not None:
                return 0
            self._caller.kill()
            self._caller.wait()
            return 1
        count = 0
        for process in services_on(self._home / "data"):
            with contextlib.suppress(psutil.Error):
                process.kill()
                count += 1
        return count

    def end(self) -> None:
        """End the caller and the service."""
        self.kill("caller")
        self.kill("service")

    def _number(self, query: str) -> int:
        file = self._home / "data" / "jobs.sqlite"
        with (
            contextlib.suppress(sqlite3.Error),
            closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database,
        ):
            return int(database.execute(query).fetchone()[0] or 0)
        return 0
