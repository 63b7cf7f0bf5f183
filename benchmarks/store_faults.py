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

from tests.stores.faults.matrix import faults, later, life, unfaulted, unused


def main() -> int:
    """Print the failures; return 1 if there were any."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seed", type=int, default=0, help="for where the later faults strike")
    arguments.add_argument("--only", metavar="STATEMENT", help="let this one fail")
    given = arguments.parse_args()
    logging.disable(logging.CRITICAL)
    began, chance, told = time.monotonic(), random.Random(given.seed), unfaulted()
    wrong, struck, never = 0, 0, 0
    for statement in unused(told):
        print(f"{statement}: nothing here runs it; add it to tests/stores/faults/chores.py")
        never += 1
    for fault, among_chores in faults(told):
        if given.only not in {None, fault.statement}:
            continue
        for each in (fault, later(fault, chance)):
            found = life(each, among_chores=among_chores)
            struck += found.raised
            never += not found.raised and not each.skip
            wrong += len(found.problems)
            for problem in found.problems:
                print(f"{each}: {problem}", flush=True)
            if not found.raised and not each.skip:
                print(f"{each}: never struck", flush=True)
    print(f"{struck} faults in {time.monotonic() - began:.0f} s: {wrong} losses, {never} unused")
    return int(bool(wrong or never))


if __name__ == "__main__":
    sys.exit(main())
