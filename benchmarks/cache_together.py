"""Runs the same call in four processes at once, and counts failed reads and downloads.

    python -m benchmarks.cache_together [seconds] [processes]

All processes start with an empty cache, so that their first calls coincide. No read may fail or
return a different frame, and the service may receive one job only, and send its rows once. In the
second part, one process fetches again all the time (`refresh=True`) while the others read: again no
read may fail, and each refresh is one job.

The peer is pandas: one process replaces a file of the same rows by renaming while the others read
it by its path. Its failed reads are what immutable files prevent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.wire_service import KEY, JobScript, WireService, crawl_rows

CHECKOUT: Final = Path(__file__).resolve().parent.parent
ROWS: Final = 300
OURS: Final = """
from webdata_nb import connect
session = connect(base_url=sys.argv[3], api_key=sys.argv[4])
def read():
    return session.crawl_df("https://site.test/", refresh=writes, progress=False)
"""
PEER: Final = """
import os
import pandas as pd
path = os.environ["PEER_FILE"]
def read():
    df = pd.read_parquet(path)
    if writes:
        df.to_parquet(f"{path}.new")
        os.replace(f"{path}.new", path)
    return df
"""
LOOP: Final = """
import hashlib, json, sys, time
writes = sys.argv[2] == "writes"
{how}
def digest(df):
    return hashlib.sha256(df[["url", "title", "markdown"]].to_csv().encode()).hexdigest()
reads, failed, seen = 0, [], set()
first = None
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until or not reads:
    reads += 1
    try:
        df = read()
        if first is None:
            first = df
            seen.add(digest(df))
        elif not df.equals(first):
            seen.add(digest(df))
            failed.append("another frame")
    except Exception as error:
        failed.append(f"{type(error).__name__}: {error}"[:200])
print(json.dumps({"reads": reads, "failed": failed, "seen": sorted(seen)}))
"""


@dataclass(frozen=True, slots=True)
class ReadResults:
    """The combined results of some processes, and the `calls` of each in order."""

    calls: tuple[int, ...]
    failed: tuple[str, ...]
    frames: int

    @property
    def reads(self) -> int:
        """The calls of all processes."""
        return sum(self.calls)


def run_processes(
    how: str, roles: Sequence[str], seconds: float, env: dict[str, str]
) -> ReadResults:
    """Run one process per role (`reads` or `writes`), and return their results."""
    program = LOOP.replace("{how}", how)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(seconds), role, env.get("URL", ""), KEY],
            env=os.environ | {"PYTHONPATH": str(CHECKOUT)} | env,
            stdout=subprocess.PIPE,
            text=True,
        )
        for role in roles
    ]
    outputs = [process.communicate(timeout=seconds + 120)[0] for process in processes]
    results = [json.loads(line) for line in outputs]
    return ReadResults(
        tuple(result["reads"] for result in results),
        tuple(why for result in results for why in result["failed"]),
        len({digest for result in results for digest in result["seen"]}),
    )


def count_row_requests(service: WireService) -> int:
    """Return the number of requests for rows at the service."""
    requests = [request for request in service.requests if request.path.startswith("/v1/crawl/")]
    return sum(request.query.get("include_data") != "false" for request in requests)


def measure(seconds: float, processes: int) -> tuple[ReadResults, int, int]:
    """Make the same call with an empty cache; return the results, jobs and pages of rows."""
    with WireService() as service, tempfile.TemporaryDirectory() as folder:
        service.crawl = JobScript(crawl_rows(ROWS))
        env = {"WEBDATA_CACHE": folder, "URL": service.url}
        result = run_processes(OURS, ["reads"] * processes, seconds, env)
        return result, len(service.jobs), count_row_requests(service)


def measure_refreshed(seconds: float, processes: int) -> tuple[ReadResults, int]:
    """Make the same call while one process refreshes it; return the results and jobs."""
    with WireService() as service, tempfile.TemporaryDirectory() as folder:
        service.crawl = JobScript(crawl_rows(ROWS))
        env = {"WEBDATA_CACHE": folder, "URL": service.url}
        roles = ["writes", *["reads"] * (processes - 1)]
        return run_processes(OURS, roles, seconds, env), len(service.jobs)


def measure_peer(seconds: float, processes: int) -> ReadResults:
    """Read a file by its path while one process replaces it."""
    # Only here: it is the peer's.
    import pandas as pd  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.parquet")
        pd.DataFrame(crawl_rows(ROWS)).drop(columns=["quality", "metadata"]).to_parquet(path)
        roles = ["writes", *["reads"] * (processes - 1)]
        return run_processes(PEER, roles, seconds, {"PEER_FILE": path})


def main() -> None:
    """Run all parts and print the figures; return 1 if a read failed."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    result, jobs, pages = measure(seconds, processes)
    print(f"{processes} processes, one question, {seconds:g} s")
    print(
        f"one download: {result.reads} reads, {len(result.failed)} failed, {result.frames} frame;",
        end="",
    )
    print(f" {jobs} job, {pages} pages of rows sent for {ROWS} rows")
    refresh, refreshed = measure_refreshed(seconds / 4, processes)
    print(f"one asks anew: {refresh.reads} reads, {len(refresh.failed)} failed; {refreshed} jobs")
    peer = measure_peer(seconds / 4, processes)
    print(f"pandas, one file replaced: {peer.reads} reads, {len(peer.failed)} failed")
    for why in sorted({*result.failed, *refresh.failed}):
        print(f"  {why}")
    passed = not result.failed and not refresh.failed and (jobs, result.frames) == (1, 1)
    sys.exit(not passed)


if __name__ == "__main__":
    main()
