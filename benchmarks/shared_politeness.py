"""Checks that three processes on one PostgreSQL database keep one site's pace together.

A site that asks for a ``Crawl-delay`` of 0.2 s is crawled by twelve jobs, four in each of three
``webdata serve`` processes. The site records when requests arrive. Printed are:

- the least time between the arrivals of two pages (at least 190 ms),
- the share of the turns that the site allows, from the moment when all processes had asked for
  a page until the end of the measurement (at least 0.85),
- the time from the first 429 with ``Retry-After`` to the last page that arrives before the pause
  ends (at most 1 s), and whether the pause was kept.

Requests for robots.txt do not wait for the delay and are not counted.

Run it from the checkout, with the `test` extra and PostgreSQL; it takes about two minutes::

    python -m benchmarks.shared_politeness
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import httpx
from aiohttp import web

from tests.postgres import running
from tests.replica_process import HEADERS, ReplicaProcess, add_account
from tests.site.server import Hit, Site
from webdata_nb.service.encryption import new_key

REPLICAS, JOBS = 3, 12
DELAY_S: Final = 0.2
CLOSEST_S: Final = 0.19
LEAST_SHARE: Final = 0.85
MEASURED_S: Final = 30.0
PAUSE_S: Final = 20
KEPT_WITHIN_S: Final = 1.0
_TIMEOUT_S: Final = 120.0


class PausingSite:
    """Serves pages with links to further ones, and 429 once a pause is requested."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.pauses = False
        self.paused_at: float | None = None
        site.robots(f"User-agent: *\nCrawl-delay: {DELAY_S}\n")
        site.under("/", self._answer)

    def _answer(self, request: web.BaseRequest) -> web.Response:
        if self.pauses:
            if self.paused_at is None:
                self.paused_at = time.monotonic()
            if time.monotonic() < self.paused_at + PAUSE_S:
                return web.Response(status=429, headers={"Retry-After": str(PAUSE_S)})
        links = "".join(f'<a href="{request.path}{n}/">page {n}</a>' for n in range(9))
        text = f"<title>{request.path}</title><p>The page {request.path}.</p>{links}"
        return web.Response(text=text, content_type="text/html")

    def pages(self) -> list[Hit]:
        """Return the requests for pages so far."""
        return [hit for hit in self._site.requests if hit.path != "/robots.txt"]

    def wait_for_all_jobs(self) -> float:
        """Wait until each job has requested its second page; return the time."""
        deadline = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            depths: dict[str, int] = {}
            for hit in self.pages():
                job = hit.path.split("/")[1]
                depths[job] = depths.get(job, 0) + 1
            if len(depths) == JOBS and min(depths.values()) > 1:
                return time.monotonic()
            time.sleep(0.1)
        raise RuntimeError("not all jobs have started")


def measure(store: str, key: str, folder: Path) -> bool:
    """Run the jobs and print the figures; return whether all are within their limits."""
    with Site() as site, ExitStack() as stack:
        pausing = PausingSite(site)
        slots = ("--slots", str(JOBS // REPLICAS * 3 // 2))
        replicas = [
            ReplicaProcess(folder / f"replica-{n}", store, key, *slots) for n in range(REPLICAS)
        ]
        for replica in replicas:
            replica.start()
            stack.callback(replica.kill)
        for number in range(JOBS):
            body = {"url": site.at(f"/job{number}/"), "max_pages": 500, "concurrency": 4}
            url = f"{replicas[number % REPLICAS].url}/v1/crawl"
            httpx.post(url, json=body, headers=HEADERS, timeout=60).raise_for_status()
        start = pausing.wait_for_all_jobs()
        time.sleep(MEASURED_S)
        end = time.monotonic()
        pausing.pauses = True
        while pausing.paused_at is None:
            time.sleep(0.1)
        time.sleep(PAUSE_S + 5)
        return report([hit.time for hit in pausing.pages()], start, end, pausing.paused_at)


def report(arrivals: list[float], start: float, end: float, paused_at: float) -> bool:
    """Print the figures of one run; return whether all are within their limits."""
    gaps = [later - earlier for earlier, later in itertools.pairwise(arrivals)]
    measured = [at for at in arrivals if start <= at < end]
    share = len(measured) * DELAY_S / (end - start)
    in_pause = [at - paused_at for at in arrivals if 0 < at - paused_at < PAUSE_S - 1]
    last = max(in_pause, default=0.0)
    after = sum(at > paused_at + PAUSE_S for at in arrivals)
    print(f"pages: {len(arrivals)}, measured for {end - start:.0f} s: {len(measured)}")
    print(f"closest pages: {min(gaps) * 1000:.1f} ms (at least {CLOSEST_S * 1000:.0f})")
    print(f"closer than the delay: {sum(gap < DELAY_S for gap in gaps)} of {len(gaps)}")
    print(f"turns used: {share:.3f} (at least {LEAST_SHARE})")
    print(f"pages after the 429: {len(in_pause)}, the last {last:.2f} s after it (at most 1)")
    print(f"pages after the pause: {after}")
    return min(gaps) >= CLOSEST_S and share >= LEAST_SHARE and last <= KEPT_WITHIN_S and after > 0


def main() -> int:
    """Run the measurement; return the exit code."""
    os.environ.pop("WEBDATA_HOME", None)
    with running() as server, tempfile.TemporaryDirectory() as folder:
        store = server.new_schema()
        key = new_key()
        asyncio.run(add_account(store, key))
        return 0 if measure(store, key, Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
