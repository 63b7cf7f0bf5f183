"""Schemathesis against a service that runs: `python -m tests.openapi.fuzzing --examples 500`.

Every operation is called with examples, boundary values, random and wrong requests, and in chains
along the document's links; each answer must be one that the document describes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.openapi.served import Served, team

_SCENARIOS = re.compile(r"Scenarios:\s+(\d+)")
HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent


def fuzz(
    served: Served, at: Path, *, examples: int, seed: int | None = None, phases: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Schemathesis on a service, in directory `at`; exit code 0 where it found nothing."""
    command = [
        *(
            sys.executable,
            "-m",
            "schemathesis.cli",
            "--config-file",
            str(HERE / "schemathesis.toml"),
        ),
        *("run", f"{served.url}/openapi.json", "--url", served.url),
        *("--header", f"Authorization: Bearer {served.key}"),
        *("--max-examples", str(examples), "--continue-on-failure", "--no-color"),
        *("--generation-database", "none", "--workers", "1"),
        *(("--seed", str(seed)) if seed is not None else ()),
        *(("--phases", phases) if phases else ()),
    ]
    return subprocess.run(
        command,
        cwd=at,  # it keeps files of its own where it runs
        env=os.environ | {"PYTHONPATH": str(CHECKOUT), "SCHEMATHESIS_HOOKS": "tests.openapi.hooks"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def chains(report: str) -> int:
    """Return how many chains of calls along the document's links a report tells of."""
    return sum(int(count) for count in _SCENARIOS.findall(report))


def main() -> int:
    """Run it with the command's options, print the report, return its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--examples", type=int, default=500, help="an operation (default 500)")
    parser.add_argument("--seed", type=int, help="of an earlier run")
    parser.add_argument("--phases", help="such as coverage,fuzzing (default: all)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, team(Path(home)) as served:
        found = fuzz(served, Path(home), examples=args.examples, seed=args.seed, phases=args.phases)
    sys.stdout.write(found.stdout)
    if "stateful" in (args.phases or "stateful") and not chains(found.stdout):
        sys.stdout.write("no operation was called along a link of the document\n")
        return 1
    return found.returncode


if __name__ == "__main__":
    sys.exit(main())
