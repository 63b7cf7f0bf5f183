"""Checks the floors of speed on small inputs, as CI does: a change that costs much fails at once.

Each program runs in a process of its own. A ratio that reaches 0.8 of its floor passes, since small
inputs on a busy machine vary; a program that misses a floor runs once more, and a floor that is
missed twice is an error. The programs check their full floors when they run alone.

    python -m benchmarks.performance [PROGRAM...]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from typing import Final

from benchmarks.floors import SHARE_VARIABLE

SHARE: Final = 0.8
# Programs and their arguments for small inputs.
PROGRAMS: Final[dict[str, tuple[str, ...]]] = {
    "cached_call": ("500", "13"),
    "reply_to_frame": ("300", "13"),
    "page_lists": ("100", "3"),
    "page_work": ("--small",),
    "status_reply": ("--blocks", "20"),
    "stores": ("--only", "pages", "--rounds", "3"),
    "crawl_vs_peers": ("--small", "--rounds", "2"),
}


def run(name: str) -> bool:
    """Run a program, a second time if it misses a floor; return whether it meets its floors."""
    environment = os.environ | {SHARE_VARIABLE: str(SHARE)}
    command = [sys.executable, "-m", f"benchmarks.{name}", *PROGRAMS[name]]
    for _ in range(2):
        start = time.perf_counter()
        process = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        lines = process.stdout.splitlines()
        print(*(line for line in lines if line.startswith(f"{name}: ")), sep="\n")
        print(f"  {name} took {time.perf_counter() - start:.0f} s", flush=True)
        if process.returncode == 0:
            return True
        if process.stderr:
            print(process.stderr, file=sys.stderr)
    return False


def main() -> int:
    """Run the programs; return 1 if one misses a floor twice."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    names = parser.parse_args().programs or list(PROGRAMS)
    if unknown := set(names) - PROGRAMS.keys():
        parser.error(
            f"no such program: {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}"
        )
    missed = [name for name in names if not run(name)]
    if missed:
        print(f"missed twice: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
