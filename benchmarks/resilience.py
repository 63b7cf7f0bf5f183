"""Runs the store fault suite, all hostile inputs, and random kills.

Runs `store_faults` (every statement of the store fails in several ways), `hostile_inputs` (maximum
latency of `/healthz`, peak memory, lost jobs) and `random_kills` (processes killed during a crawl).
Each prints its own figures; the last lines name those that missed a limit. The exit code is 1 if
any did.

Run it from the checkout, with the `test` extra, on an otherwise idle machine; it takes about ten
minutes::

    python -m benchmarks.resilience
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Final

PROGRAMS: Final = ("store_faults", "hostile_inputs", "random_kills")


def main() -> int:
    """Run every program; return 1 if one of them failed."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    codes = {}
    for name in PROGRAMS:
        print(f"== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        codes[name] = subprocess.run(command, check=False).returncode
    print("==")
    for name, code in codes.items():
        print(f"{name}: {'passed' if not code else f'failed with exit code {code}'}")
    return int(any(codes.values()))


if __name__ == "__main__":
    sys.exit(main())
