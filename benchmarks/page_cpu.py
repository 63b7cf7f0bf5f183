"""Compares the processor time per page of this checkout with an earlier commit.

One process for each checkout converts the same pages to the rows of a crawl, taking turns. The time
of a page is the minimum of its rounds, since other programs can only add time. ``content_quality``
compares labelled sets; this program compares any folder of HTML files, every third of them, as main
content and as whole pages. The exit code is 1 if a ratio is above its limit.

Run it from the checkout, in the environment of the tests::

    python -m benchmarks.page_cpu --base COMMIT FOLDER
    python -m benchmarks.page_cpu --base 6ed243f /usr/share/doc/python3-doc/html/library
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
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.floors import check

__all__ = ["compare"]

CHECKOUT: Final = Path(__file__).resolve().parents[1]
CONVERTER: Final = Path(__file__).with_name("page_converter.py")
MODES: Final = ("main content", "whole page")
ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """The processor seconds of the same pages with this checkout and with an earlier commit."""

    pages: int
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """The times of this checkout, relative to those of the earlier commit."""
        return self.ours / self.theirs


def compare(commit: str, sets: list[Path]) -> dict[str, float]:
    """Return the ratio of processor times, this checkout to `commit`, by set and for all."""
    times = measure(commit, sets, MODES[0])
    ours, theirs = (sum(getattr(each, side) for each in times) for side in ("ours", "theirs"))
    ratios = {
        path.name.partition(".")[0]: each.ratio for path, each in zip(sets, times, strict=True)
    }
    return ratios | {"all": ours / theirs}


def measure(commit: str, sets: list[Path], mode: str) -> list[CpuTimes]:
    """Return the processor times of each set."""
    with ExitStack() as stack:
        tree = stack.enter_context(worktree(commit))
        processes = [stack.enter_context(converter(path)) for path in (CHECKOUT, tree)]
        return [measure_set(processes, path, mode) for path in sets]


def measure_set(processes: list[subprocess.Popen[str]], path: Path, mode: str) -> CpuTimes:
    """Return the processor times of a set; the processes take turns."""
    rounds: tuple[list[list[float]], list[list[float]]] = ([], [])
    for index in range(ROUNDS):
        for side in (0, 1) if index % 2 else (1, 0):
            rounds[side].append(ask(processes[side], path, mode))
    ours, theirs = (sum(map(min, zip(*each, strict=True))) for each in rounds)
    return CpuTimes(len(rounds[0][0]), ours, theirs)


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """Give a checkout of `commit`, removed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ("git", "-C", str(CHECKOUT), "worktree")
        subprocess.run([*git, "add", "-q", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


@contextmanager
def converter(checkout: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the process that converts pages with the code of `checkout`."""
    process = subprocess.Popen(
        [sys.executable, str(CONVERTER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(checkout)},
        cwd=checkout,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def ask(process: subprocess.Popen[str], path: Path, mode: str) -> list[float]:
    """Return the processor seconds that a process needs for each page of a set."""
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the process has no pipes")
    process.stdin.write(f"{json.dumps([mode, str(path)])}\n")
    process.stdin.flush()
    seconds: list[float] = json.loads(process.stdout.readline())
    return seconds


def main() -> int:
    """Print the times of a folder in both modes; return 1 if a ratio is too high."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--base", metavar="COMMIT", required=True, help="compare with it")
    parser.add_argument("folder", type=Path, help="a folder with HTML files")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    if next(folder.rglob("*.html"), None) is None:
        parser.error(f"no HTML file in {arguments.folder}")
    met = []
    for mode in MODES:
        (times,) = measure(arguments.base, [folder], mode)
        ours, theirs = (1000 * each / times.pages for each in (times.ours, times.theirs))
        print(
            f"{mode}: {ours:.2f} ms per page, {arguments.base} {theirs:.2f} ms, {times.pages} pages"
        )
        met.append(check("page_cpu: processor time, of the base", times.ratio))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
