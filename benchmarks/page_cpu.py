"""Compares the processor time per page of this checkout with an earlier commit.

One process for each checkout converts the same pages to the rows of a crawl, set by set, taking
turns; the time of a set is the minimum of its rounds. `compare` is used by ``content_quality``; run
as a program this file is the process of one checkout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

__all__ = ["compare"]

CHECKOUT: Final = Path(__file__).resolve().parents[1]
ROUNDS: Final = 3
EVERY: Final = 3
"""One of so many pages is measured."""


def compare(commit: str, sets: list[Path]) -> dict[str, float]:
    """Return the ratio of processor times, this checkout to `commit`, by set and for all."""
    with ExitStack() as stack:
        tree = stack.enter_context(worktree(commit))
        processes = [stack.enter_context(converter(path)) for path in (CHECKOUT, tree)]
        seconds = [dict.fromkeys(sets, float("inf")) for _ in processes]
        for index in range(ROUNDS):
            for path in sets:
                for side in (0, 1) if index % 2 else (1, 0):
                    measured = ask(processes[side], path)
                    seconds[side][path] = min(seconds[side][path], measured)
    ratios = {path.name.partition(".")[0]: seconds[0][path] / seconds[1][path] for path in sets}
    return ratios | {"all": sum(seconds[0].values()) / sum(seconds[1].values())}


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
        [sys.executable, __file__],
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


def ask(process: subprocess.Popen[str], path: Path) -> float:
    """Return the processor seconds that a process needs for a set."""
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the process has no pipes")
    process.stdin.write(f"{path}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def load(path: str) -> list[tuple[bytes, str]]:
    """Return the measured pages of a set, with their URLs."""
    with tarfile.open(path) as tar:
        files = {
            member.name.split("/", 1)[1]: file.read()
            for member in tar
            if (file := tar.extractfile(member)) is not None
        }
    truth = json.loads(files["truth.json"])
    return [(files[f"pages/{key}.html"], truth[key]["url"]) for key in sorted(truth)[::EVERY]]


def main() -> None:
    """Convert the sets named on standard input; print the processor seconds of each."""
    from webdata_nb.service.content.page_source import (  # noqa: PLC0415 - of either checkout
        ConversionOptions,
        PageSource,
    )
    from webdata_nb.service.scrape.page import scrape  # noqa: PLC0415

    sets: dict[str, list[tuple[bytes, str]]] = {}
    for line in sys.stdin:
        path = line.strip()
        pages = sets.get(path) or sets.setdefault(path, load(path))
        start = time.process_time()
        for html, url in pages:
            scrape(
                PageSource(url, url, 200, "text/html", html, (), datetime.now(UTC)),
                ConversionOptions(),
            )
        print(time.process_time() - start, flush=True)


if __name__ == "__main__":
    main()
