"""Compares processor time and memory of a crawl, statuses and cached calls with an earlier commit.

Both versions run in processes of their own, each with a local service and data of its own, and take
turns: a crawl of 300 generated pages on loopback (`benchmarks.same_rows`), 300 statuses of an ended
crawl, 30 calls that the cache answers. Processor time is of the caller, the service and its page
workers; memory is what they hold for themselves after the call. The ratio is that of the medians.
The exit code is 1 where one is above the limit. `benchmarks.stores --base` compares commits.

    python -m benchmarks.against_base --base COMMIT [--rounds 7]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.floors import check
from benchmarks.page_cpu import worktree
from benchmarks.same_rows import BASE, site

CHECKOUT: Final = Path(__file__).resolve().parents[1]
RUNNER: Final = Path(__file__).with_name("call_runner.py")
MEASUREMENTS: Final = ("crawl", "status", "cached call")

Answer = dict[str, float]


def main() -> int:
    """Print the medians of both versions and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--base", default=BASE, metavar="COMMIT", help=f"default: {BASE}")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    answers: dict[tuple[int, str], list[Answer]] = {}
    with ExitStack() as stack:
        url = f"{stack.enter_context(site())}tree/"
        checkouts = (stack.enter_context(worktree(options.base)), CHECKOUT)
        runners = [stack.enter_context(runner(checkout, url)) for checkout in checkouts]
        for number in range(options.rounds):
            for version in (0, 1) if number % 2 else (1, 0):
                for name in MEASUREMENTS:
                    answer = ask(runners[version], name)
                    answers.setdefault((version, name), []).append(answer)
    met = []
    for name in MEASUREMENTS:
        for figure, scale, unit in (("processor_s", 1.0, "s"), ("memory", 1e-6, "MB")):
            before, now = (
                median(answer[figure] for answer in answers[version, name]) * scale
                for version in (0, 1)
            )
            print(f"{name:<12} {figure:<12} {before:8.2f} {now:8.2f} {unit}")
            met.append(check(f"against_base: {figure}, of the base", now / before))
    return 0 if all(met) else 1


@contextmanager
def runner(checkout: Path, url: str) -> Iterator[subprocess.Popen[str]]:
    """Start the process that calls the package of `checkout`."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("WEBDATA_")
    }
    with tempfile.TemporaryDirectory() as home:
        process = subprocess.Popen(
            [sys.executable, str(RUNNER), url],
            cwd=checkout,
            env=environment | {"PYTHONPATH": str(checkout), "WEBDATA_HOME": home},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                if _line(process) != "ready":
                    raise SystemExit(f"the calls of {checkout} did not start")
                yield process
            finally:
                if process.stdin is not None:
                    process.stdin.close()
                process.wait()


def ask(process: subprocess.Popen[str], name: str) -> Answer:
    """Carry out one measurement."""
    assert process.stdin is not None
    process.stdin.write(f"{name}\n")
    process.stdin.flush()
    answer: Answer = json.loads(_line(process))
    return answer


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


if __name__ == "__main__":
    sys.exit(main())
