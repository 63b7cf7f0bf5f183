"""Measures the latency of `/healthz` and lost jobs while a service processes hostile inputs.

A team's service and a hostile site run in processes of their own. The service receives one input
after the other (`tests/wire/hostile_inputs.py`); the last one is 16 crawls at once. Meanwhile,
`/healthz` is requested all the time. For each input the benchmark prints the maximum latency, the
99th percentile, the peak memory of the service process, the number of probes during the input, and
the lost jobs: those that failed or did not end.

The exit code is 1 if the 99th percentile exceeded 250 ms, a probe failed, or a job was lost.

Run it from the checkout, in the environment of the tests, on an otherwise idle machine::

    python -m benchmarks.hostile_inputs
    python -m benchmarks.hostile_inputs --only sitemap
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.openapi.service_process import team
from tests.wire.hostile_inputs import INPUTS, Report, under

P99_S: Final = 0.25
# An input is repeated until this number of probes was sent, for a minute at most.
PROBES: Final = 300
ALLOW_LOOPBACK: Final = ("--allow-network", "127.0.0.0/8")


def main() -> int:
    """Print one line per input; return 1 if a limit is exceeded."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--only", default="", help="inputs whose name has this")
    arguments.add_argument("--probes", type=int, default=PROBES, help="of each input, at least")
    arguments.add_argument("--p99-ms", type=float, default=P99_S * 1000)
    options = arguments.parse_args()
    reports: list[Report] = []
    print(f"{'input':32} {'longest':>9} {'p99':>8} {'memory':>8} ", end="")
    print(f"{'probes':>6} {'jobs':>5} {'lost_jobs':>5}")
    with (
        tempfile.TemporaryDirectory() as home,
        team(Path(home), *ALLOW_LOOPBACK) as served,
    ):
        for hostile in INPUTS:
            if options.only not in hostile.name:
                continue
            report = under(
                hostile, served.url, served.headers, served.process.pid, probes=options.probes
            )
            print(_line(report), flush=True)
            reports.append(report)
    longest = max((each.longest_s for each in reports), default=0.0)
    peak = max((each.peak_mb for each in reports), default=0.0)
    lost_jobs = sum(each.losses for each in reports)
    print(f"longest {longest * 1000:.0f} ms, peak memory {peak:.0f} MB, {lost_jobs} jobs lost")
    slow_reports = [each for each in reports if each.p99_s > options.p99_ms / 1000]
    failed = [each for each in reports if each.failed_probes]
    for each in slow_reports:
        print(f"{each.name}: 99 in 100 answers took {each.p99_s * 1000:.0f} ms", file=sys.stderr)
    for each in failed:
        print(f"{each.name}: {each.failed_probes} probes failed", file=sys.stderr)
    return int(bool(slow_reports or failed or lost_jobs))


def _line(report: Report) -> str:
    return (
        f"{report.name:32} {report.longest_s * 1000:6.0f} ms {report.p99_s * 1000:5.0f} ms "
        f"{report.peak_mb:5.0f} MB {report.probes:6} {len(report.jobs):5} {report.losses:5}"
    )


if __name__ == "__main__":
    sys.exit(main())
