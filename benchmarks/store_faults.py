"""Makes every statement of the store fail, in every way, while jobs run.

Run it from the checkout, with the `test` extra; a run takes some minutes::

    python -m benchmarks.store_faults
    python -m benchmarks.store_faults --seed 7
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time

from tests.stores.faults import background_operations
from tests.stores.faults.matrix import (
    faults,
    later,
    run_fleet,
    run_without_faults,
    unused_statements,
)


def main() -> int:
    """Print the failures; return 1 if there were any."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seed", type=int, default=0, help="for where the later faults strike")
    arguments.add_argument("--only", metavar="STATEMENT", help="let this one fail")
    options = arguments.parse_args()
    logging.disable(logging.CRITICAL)
    began, chance, statements = time.monotonic(), random.Random(options.seed), run_without_faults()
    loss_count, struck, never = 0, 0, 0
    for statement in unused_statements(statements):
        print(f"{statement}: no operation runs it; add one to {background_operations.__file__}")
        never += 1
    for fault, among_chores in faults(statements):
        if options.only not in {None, fault.statement}:
            continue
        for strike in (fault, later(fault, chance)):
            run = run_fleet(strike, among_chores=among_chores)
            struck += run.raised
            never += not run.raised and not strike.skip
            loss_count += len(run.problems)
            for problem in run.problems:
                print(f"{strike}: {problem}", flush=True)
            if not run.raised and not strike.skip:
                print(f"{strike}: never struck", flush=True)
    print(
        f"{struck} faults in {time.monotonic() - began:.0f} s: {loss_count} losses, {never} unused"
    )
    return int(bool(loss_count or never))


if __name__ == "__main__":
    sys.exit(main())
