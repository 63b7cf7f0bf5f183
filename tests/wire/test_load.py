"""Many crawls at once in one service: every row arrives once, and memory stays flat.

The memory of the service and its page workers (proportional set size, PSS) after the first rows is
compared with the maximum from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.site.graphs import link_tree
from tests.site.process import SiteProcess
from tests.site.server import Site
from tests.wire.kills import connected
from tests.wire.waiting import processes_on, until
from webdata_nb.settings import Settings
from webdata_nb.toolkit import local
from webdata_nb.toolkit.client.client import Client

pytestmark = pytest.mark.slow

CRAWLS, PAGES, CONCURRENCY = 4, 120, 10


@dataclass(frozen=True, slots=True)
class Load:
    """Results of the crawls: the rows of each, settled memory and maximum memory in MB."""

    urls: list[list[str]]
    settled_mb: float
    peak_mb: float


def forest(site: Site) -> None:
    """Recipe: trees of 1,111 pages."""
    for number in range(CRAWLS):
        link_tree(site, depth=3, fanout=10, root=f"/tree{number}")


def memory_mb(pid: int) -> float:
    """Return the memory of a process and its children."""
    return sum(_shares(pid)) / 1e6


def _shares(pid: int) -> Iterator[int]:
    with contextlib.suppress(psutil.Error):
        service = psutil.Process(pid)
        for process in (service, *service.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                yield int(process.memory_full_info().pss)


async def load(home: Path, url: str, *, crawls: int, pages: int, settled: int) -> Load:
    """Run the crawls concurrently; return their rows and the memory of the service."""
    settings = Settings(data_dir=home / "data", cache_dir=home / "cache", log_dir=home / "logs")
    try:
        async with connected(settings) as (client, _):
            pid = min(process.pid for process in processes_on(settings.data_dir))
            starts = [
                {"url": f"{url}tree{number}", "max_pages": pages, "concurrency": CONCURRENCY}
                for number in range(crawls)
            ]
            jobs = [(await client.start_crawl(start)).job_id for start in starts]
            settled_mb, peak = await _memory_use(client, jobs, pid, settled)
            urls = [await _urls(client, job_id) for job_id in jobs]
    finally:
        await local.stop(settings)
    return Load(urls, settled_mb, peak)


async def _memory_use(
    client: Client, jobs: list[str], pid: int, settled: int
) -> tuple[float, float]:
    """Wait for all jobs; return the memory after `settled` rows, and the maximum from then on."""
    settled_mb = peak = 0.0
    while True:
        states = [await client.crawl_status(job_id, include_data=False) for job_id in jobs]
        rows = sum(state.completed_pages for state in states)
        now = memory_mb(pid)
        if rows >= settled:
            settled_mb, peak = settled_mb or now, max(peak, now)
        if all(state.status.terminal for state in states):
            return settled_mb, peak
        await asyncio.sleep(0.1)


async def _urls(client: Client, job_id: str) -> list[str]:
    status = await client.crawl_status(job_id, per_page=1000)
    if status.status.value != "completed":
        pytest.fail(f"a crawl is {status.status.value}: {status.error}")
    return [str(row["url"]) for row in status.data]


async def test_every_row_of_crawls_at_once_arrives_and_none_twice(tmp_path: Path) -> None:
    with SiteProcess("tests.wire.test_load:forest") as site:
        done = await load(tmp_path, site.url, crawls=CRAWLS, pages=PAGES, settled=PAGES)
    for number, urls in enumerate(done.urls):
        assert len(urls) == len(set(urls)) == PAGES
        assert all(url.startswith(f"{site.url}tree{number}") for url in urls)
    assert 0 < done.settled_mb <= done.peak_mb
    await until(lambda: not processes_on(tmp_path))
