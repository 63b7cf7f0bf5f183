"""A crawl whose service is killed at a random instant: what came of it, to be judged."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.site.server import Site
from tests.wire.waiting import TIMEOUT_S, processes_on, services_on, until
from webdata_nb.contract.replies import CrawlStatus
from webdata_nb.settings import Settings
from webdata_nb.toolkit import local
from webdata_nb.toolkit.client.client import Client


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[tuple[Client, local.LocalService]]:
    """Find or start the local service."""
    service = await local.ensure(settings)
    async with Client(service.base_url, service.token, trust_env=False) as client:
        yield client, service
    await service.close()


async def rows_after(client: Client, job_id: str, count: int) -> CrawlStatus:
    """Wait until a crawl shows `count` rows, or is over."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            status = await client.crawl_status(job_id, per_page=1000)
            if len(status.data) >= count or status.status.terminal:
                return status
            await asyncio.sleep(0.01)


def kill(settings: Settings, *, workers: bool = False) -> None:
    """End the service's own process as the kernel would; its page workers too, if asked."""
    for process in services_on(settings.data_dir):
        children = process.children(recursive=True) if workers else []
        for victim in (process, *children):
            os.kill(victim.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class KilledCrawl:
    """A crawl that survived a kill.

    `rows_at_kill` were its rows before, `rows` are its rows in the end; `requested_paths` are the
    paths that the site was asked for, in order; `resumed_s` is the time from the new service's
    first answer to its first request of the site, None where nothing was left to ask for.
    """

    rows_at_kill: list[dict[str, object]]
    rows: list[dict[str, object]]
    state: str
    requested_paths: list[str]
    resumed_s: float | None

    @property
    def refetched(self) -> int:
        """Requests for pages that had been asked for before."""
        return len(self.requested_paths) - len(set(self.requested_paths))

    def check(self, expected: list[str], concurrency: int) -> None:
        """Raise AssertionError where a row is missing, moved, changed or fetched too often."""
        assert self.state == "completed"
        assert [row["url"] for row in self.rows] == expected
        assert self.rows[: len(self.rows_at_kill)] == self.rows_at_kill, (
            "a row that was shown has changed"
        )
        assert self.refetched <= concurrency, f"{self.refetched} pages were fetched again"


async def duration(settings: Settings, start: dict[str, object]) -> float:
    """Return how long the crawl takes when nobody kills it, page workers being there already."""
    async with connected(settings) as (client, _):
        for _ in range(2):
            start_s = time.perf_counter()
            job_id = (await client.start_crawl(start)).job_id
            await rows_after(client, job_id, 10**6)
            took_s = time.perf_counter() - start_s
    return took_s


async def crawl_and_kill(
    settings: Settings,
    site: Site,
    start: dict[str, object],
    *,
    after_s: float,
    workers: bool,
) -> KilledCrawl:
    """Start a crawl, kill its service after some seconds, start it again, wait for the end."""
    earlier = len(site.requests)
    async with connected(settings) as (client, _):
        job_id = (await client.start_crawl(start)).job_id
        await asyncio.sleep(after_s)
        rows = (await client.crawl_status(job_id, per_page=1000)).data
        kill(settings, workers=workers)
    # Workers see the end of their pipe and leave: nothing of the killed service stays behind.
    await until(lambda: not processes_on(settings.data_dir))
    before = len(site.requests)
    async with connected(settings) as (client, _):
        answered = time.monotonic()
        ended = await rows_after(client, job_id, 10**6)
    hits = site.requests[earlier:]
    later = site.requests[before:]
    return KilledCrawl(
        rows_at_kill=rows,
        rows=ended.data,
        state=ended.status.value,
        requested_paths=[hit.path for hit in hits if hit.path != "/robots.txt"],
        resumed_s=max(0.0, later[0].time - answered) if later else None,
    )


def instants(count: int, longest_s: float, *, seed: int) -> list[tuple[float, bool]]:
    """Return random instants of a crawl, each with whether the workers are killed as well."""
    chance = random.Random(seed)
    return [(chance.uniform(0, longest_s), number % 2 == 1) for number in range(count)]
