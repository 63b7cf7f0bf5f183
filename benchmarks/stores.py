"""Compares the speed of the store on PostgreSQL with the store on SQLite.

Both sides, and with ``--base COMMIT`` the store on SQLite of that commit, take turns in one run,
each in a process of its own, with rows of 20 kB and fsync on. A figure is the median of the rounds.

``pages``: pages committed per second, 16 jobs with four pages in flight each. ``jobs``: jobs of 16
accounts claimed and ended per second. ``depth``: the time of a page's commit in a job of 50,000
rows, relative to a job of 100 rows. The exit code is 1 if a limit is missed::

    python -m benchmarks.stores --base COMMIT

It needs PostgreSQL (Debian package ``postgresql``) and starts a server of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.floors import check
from benchmarks.page_cpu import CHECKOUT, worktree
from tests import postgres

ROUNDS: Final = 5
SQLITE, POSTGRES, BASE = "SQLite", "PostgreSQL", "SQLite before"


@dataclass(frozen=True, slots=True)
class StoreSide:
    """A process that loads new stores of one kind."""

    label: str
    process: subprocess.Popen[str]
    server: postgres.PostgresServer | None = None

    def figure(self, measure: str) -> float:
        """Return one figure, measured on new stores."""
        with tempfile.TemporaryDirectory() as name:
            stores = []
            for number in range(2 if measure == "depth" else 1):
                folder = Path(name) / str(number)
                folder.mkdir()
                stores.append((str(folder), self.server and self.server.new_schema()))
            stdin, stdout = self.process.stdin, self.process.stdout
            if stdin is None or stdout is None:
                raise RuntimeError("the process has no pipes")
            stdin.write(json.dumps({"measure": measure, "stores": stores}) + "\n")
            stdin.flush()
            return float(stdout.readline())


@contextmanager
def load_process(checkout: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the process that loads stores with the code of `checkout`."""
    process = subprocess.Popen(
        [sys.executable, str(CHECKOUT / "benchmarks" / "store_load.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(checkout)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def measure(sides: list[StoreSide], name: str, rounds: int) -> dict[str, float]:
    """Return the median figure of each side; they take turns."""
    figures: dict[str, list[float]] = {side.label: [] for side in sides}
    for number in range(rounds):
        for side in sides if number % 2 else sides[::-1]:
            figures[side.label].append(side.figure(name))
    medians = {label: statistics.median(each) for label, each in figures.items()}
    print(name, {label: [round(x, 2) for x in each] for label, each in figures.items()})
    return medians


def main() -> int:
    """Print the figures; return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", metavar="COMMIT", help="compare SQLite with an earlier commit")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", choices=("pages", "jobs", "depth"))
    arguments = parser.parse_args()
    results = []
    with ExitStack() as stack:
        server = stack.enter_context(postgres.running())
        checkouts = [CHECKOUT, CHECKOUT]
        if arguments.base:
            checkouts.append(stack.enter_context(worktree(arguments.base)))
        processes = [stack.enter_context(load_process(checkout)) for checkout in checkouts]
        both = [StoreSide(SQLITE, processes[0]), StoreSide(POSTGRES, processes[1], server)]
        sides = both + [StoreSide(BASE, process) for process in processes[2:]]
        for name in ("pages", "jobs"):
            if arguments.only in {None, name}:
                rates = measure(sides, name, arguments.rounds)
                share = rates[POSTGRES] / rates[SQLITE]
                results.append(check(f"stores: {name}, PostgreSQL to SQLite", share))
                if arguments.base:
                    share = rates[SQLITE] / rates[BASE]
                    results.append(check(f"stores: {name}, to the base", share))
        if arguments.only in {None, "depth"}:
            ratios = measure(both, "depth", arguments.rounds)
            results += [
                check(f"stores: commit at row 50,000, {label}", ratio)
                for label, ratio in ratios.items()
            ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
