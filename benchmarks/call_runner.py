"""Measures calls with the version of the package on `PYTHONPATH`, on request.

`benchmarks.against_base` starts it with the URL of a site: `python call_runner.py URL`. Each line
of standard input is the name of a measurement, and a line of JSON answers it: the processor time
of this process and of its local service, the time, and their memory after it. It imports only
public names, so that it runs with any version.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil

import webdata_nb

PAGES = 300
STATUSES = 300
CACHED_CALLS = 30


def measurements(url: str) -> dict[str, Callable[[], object]]:
    """Return the calls by name."""
    job = webdata_nb.crawl_job(url, max_pages=PAGES)
    job.wait()
    cached: dict[str, Any] = {"url": url, "max_pages": PAGES, "progress": False}
    webdata_nb.crawl_df(**cached)
    return {
        "crawl": lambda: webdata_nb.crawl_df(**cached, cache=False),
        "status": lambda: [webdata_nb.job(job.job_id) for _ in range(STATUSES)],
        "cached call": lambda: [webdata_nb.crawl_df(**cached) for _ in range(CACHED_CALLS)],
    }


def processes() -> set[psutil.Process]:
    """Return this process, its service, which names its folder on its command line, and workers."""
    found = {psutil.Process()}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(os.environ["WEBDATA_HOME"] in argument for argument in process.cmdline()):
                found |= {process, *process.children(recursive=True)}
    return found


def usage() -> tuple[float, int]:
    """Return processor time in seconds, and memory in bytes, of all processes."""
    seconds, memory = 0.0, 0
    for process in processes():
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            # A worker that has ended is a child of the service, which counts its time.
            seconds += times.user + times.system + times.children_user + times.children_system
            memory += process.memory_full_info().uss
    return seconds, memory


def main(url: str) -> None:
    """Answer each line of standard input."""
    try:
        calls = measurements(url)
        print("ready", flush=True)
        for line in sys.stdin:
            before, start = usage()[0], time.perf_counter()
            calls[line.strip()]()
            wall_s = time.perf_counter() - start
            after, memory = usage()
            answer = {"processor_s": after - before, "wall_s": wall_s, "memory": memory}
            print(json.dumps(answer), flush=True)
    finally:
        command = [sys.executable, "-m", "webdata_nb", "stop"]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(sys.argv[1])
