"""Measures the duration of a shutdown and of a cancellation against their limits.

A service is stopped under load: crawls that wait for a page, their streams, clients that do not
read a reply of 12 MB, clients that do not complete a request. It must exit by itself within 10 s,
and every crawl must be complete after the next start. Then a crawl is cancelled whose page worker
would never end by itself: two seconds later the worker must be gone, and no page may have been
fetched since.

Run it from the checkout, in the environment of the tests, on Linux::

    python -m benchmarks.stops --rounds 10
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.wire.stopping import CancelResult, StopResult, cancel_crawl, stop_under_load

STOP_S: Final = 10.0
CANCEL_S: Final = 2.0


def main() -> int:
    """Print every round; return 1 if one took too long or lost something."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--rounds", type=int, default=10)
    rounds = arguments.parse_args().rounds
    stops, cancels = [], []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            stops.append(stop_under_load(Path(first)))
            cancels.append(cancel_crawl(Path(second)))
        print(f"{number + 1:3}/{rounds} {_line(stops[-1], cancels[-1])}", flush=True)
    for stop in stops:
        stop.check()
        assert not stop.is_forced, stop.log_text
    longest = max(measurement.seconds for measurement in stops)
    last = max(measurement.ended_s for measurement in cancels)
    print(f"stopped within {longest:.2f} s (at most {STOP_S:g}), no job failed")
    print(f"workers of cancelled jobs gone within {last:.2f} s (at most {CANCEL_S:g})")
    exceeded = longest > STOP_S or last > CANCEL_S
    return int(exceeded or any(measurement.fetched_after for measurement in cancels))


def _line(stop: StopResult, cancel: CancelResult) -> str:
    return (
        f"stopped in {stop.seconds:.2f} s; cancelled in {cancel.answered_s:.2f} s, worker gone "
        f"after {cancel.ended_s:.2f} s, {cancel.fetched_after} fetches after it"
    )


if __name__ == "__main__":
    sys.exit(main())
