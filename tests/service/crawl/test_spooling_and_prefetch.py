"""Workers spool pages and fetch on; spooled pages are not fetched again after a kill."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.ports import free_port
from tests.service.job_stores import store_of
from tests.site.document import document
from tests.site.server import Site
from tests.stores.jobs import ALICE, new_job
from webdata_nb.contract.requests import ExtendedCrawlRequest
from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.scrape.page import scrape
from webdata_nb.page.scrape.scraped import Scraped
from webdata_nb.service.crawl import engine as crawl
from webdata_nb.service.crawl.frontier import DepthFirst
from webdata_nb.service.crawl.journal import CrawlTarget
from webdata_nb.service.errors import JobFailure
from webdata_nb.service.store.job_context import JobContext, JobEvents
from webdata_nb.service.store.spool import SpoolDirectory
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.throttle import HostThrottle
from webdata_nb.service.work.engines import EgressRoutes

PAGES = [f"/p{n}" for n in range(6)]


class BlockingScraper:
    """A scraper that blocks after the start page until `go_on` is set."""

    def __init__(self) -> None:
        self.go_on, self.waiting, self.peak, self.bodies = asyncio.Event(), 0, 0, 0

    def start_soon(self) -> None:
        """Need no workers."""

    async def scrape(
        self, source: FetchedResponse, options: ConversionOptions, *, outlinks: bool = True
    ) -> Scraped:
        if not source.url.endswith("/"):
            self.bodies += len(source.body)
            self.waiting += 1
            self.peak = max(self.peak, self.waiting)
            await self.go_on.wait()
            self.waiting -= 1
        return scrape(source, options, outlinks=outlinks)


class CrawlAttempts:
    """A data directory in which one crawl is attempted several times."""

    def __init__(self, data: Path, site: Site, **options: Any) -> None:
        self.spool_dir, self._data = data / "spool", data
        self.request = ExtendedCrawlRequest.model_validate({"url": site.url, **options})

    async def rows(self) -> list[dict[str, Any]]:
        async with store_of(self._data) as store:
            job = (await store.jobs(ALICE, limit=1))[0]
            pages = await store.rows(ALICE, job.id, start=0, count=99)
        return [orjson.loads(page) for page in pages]

    def files(self) -> list[Path]:
        return [path for path in self.spool_dir.rglob("*") if path.is_file()]

    @asynccontextmanager
    async def attempt(
        self, *, max_bytes: int = 10**6
    ) -> AsyncIterator[tuple[BlockingScraper, asyncio.Task[object]]]:
        """Run the crawl until the block ends, which leaves the files that a kill leaves."""
        scraper, spool = BlockingScraper(), SpoolDirectory(self.spool_dir, max_bytes=max_bytes)
        routes = EgressRoutes(EgressPolicy("local"), "test", HostThrottle(), scraper)
        async with store_of(self._data) as store, routes:
            context = await self._context(store)
            route = await routes.route_for({})
            with suppress(asyncio.CancelledError), spool.open(context.job.id) as files:
                tools = crawl.CrawlResources(
                    route.pipeline, route.polite, route.robots, "test", files
                )
                task = asyncio.create_task(crawl.crawl_pages(context, self.request, tools))
                yield scraper, task
                if not task.done():
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                    raise asyncio.CancelledError

    async def _context(self, store: Store) -> JobContext:
        now = time.time()
        await store.accounts.ensure(ALICE, "Alice", now=now)
        if not await store.jobs(ALICE, limit=1):
            await store.accept(new_job(), now=now)
        await store.expire_leases()
        [found] = await store.claim(f"w{now}", lease_s=60, now=now)
        return JobContext(*found, store, JobEvents())


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as served:
        served.page("/", document("Front", links=PAGES))
        for path in PAGES:
            served.page(path, document(f"Page {path}"))
        yield served


async def wait_for_pages(scraper: BlockingScraper, count: int) -> None:
    async with asyncio.timeout(60):
        while scraper.waiting < count:  # noqa: ASYNC110 - page work is what is watched
            await asyncio.sleep(0.01)


async def test_worker_fetches_next_pages_before_scraping_ends(tmp_path: Path, site: Site) -> None:
    attempts = CrawlAttempts(tmp_path, site, concurrency=1)
    async with attempts.attempt() as (scraper, task):
        await wait_for_pages(scraper, len(PAGES))
        assert len(attempts.files()) == len(PAGES)
        assert scraper.bodies == 0
        scraper.go_on.set()
        await task
    assert site.peak == 1
    assert [row["url"] for row in await attempts.rows()] == [site.at(p) for p in ["/", *PAGES]]
    assert not list(attempts.spool_dir.iterdir())


async def test_spooled_pages_are_not_fetched_again_after_kill(tmp_path: Path, site: Site) -> None:
    attempts = CrawlAttempts(tmp_path, site, concurrency=2)
    async with attempts.attempt() as (scraper, _):
        await wait_for_pages(scraper, len(PAGES))
    assert len(attempts.files()) == len(PAGES)
    async with attempts.attempt() as (scraper, task):
        scraper.go_on.set()
        await task
    assert sorted(site.paths) == ["/", *PAGES]
    rows = await attempts.rows()
    assert [row["url"] for row in rows] == [site.at(path) for path in ["/", *PAGES]]
    assert all(row["markdown"] and row["status_code"] == 200 for row in rows)


async def test_page_with_truncated_spool_file_is_fetched_again(tmp_path: Path, site: Site) -> None:
    attempts = CrawlAttempts(tmp_path, site, concurrency=2)
    async with attempts.attempt() as (scraper, _):
        await wait_for_pages(scraper, len(PAGES))
    broken = min(attempts.files())
    broken.write_bytes(broken.read_bytes()[:-1])
    async with attempts.attempt() as (scraper, task):
        scraper.go_on.set()
        await task
    assert len(site.paths) == len(PAGES) + 2
    assert [row["url"] for row in await attempts.rows()] == [site.at(p) for p in ["/", *PAGES]]


async def test_worker_waits_for_scraping_when_spool_is_full(tmp_path: Path, site: Site) -> None:
    attempts = CrawlAttempts(tmp_path, site, concurrency=2)
    async with attempts.attempt(max_bytes=0) as (scraper, task):
        await wait_for_pages(scraper, 2)
        assert attempts.files() == []
        scraper.go_on.set()
        await task
        assert scraper.peak == 2
        assert scraper.bodies > 0
    assert sorted(site.paths) == ["/", *PAGES]


@pytest.mark.parametrize("strategy", ["bfs", "dfs", "bff"])
async def test_rows_do_not_depend_on_spooling(tmp_path: Path, site: Site, strategy: str) -> None:
    tables = []
    for name, max_bytes in (("ahead", 10**6), ("behind", 0)):
        attempts = CrawlAttempts(tmp_path / name, site, concurrency=2, crawl_strategy=strategy)
        async with attempts.attempt(max_bytes=max_bytes) as (scraper, task):
            scraper.go_on.set()
            await task
        tables.append([(row["url"], row["markdown"]) for row in await attempts.rows()])
    assert tables[0] == tables[1]
    assert len(tables[0]) == len(PAGES) + 1


def add_deep_site(site: Site) -> list[str]:
    """Add three levels of pages; return their paths in depth-first order."""
    order = ["/"]
    site.page("/", document("Front", links=[f"/{n}" for n in range(4)]))
    for n in range(4):
        below = [f"/{n}/{m}" for m in range(3)]
        site.page(f"/{n}", document(f"Page {n}", links=[*below, "/3"]))
        for path in below:
            site.page(path, document(f"Page {path}", links=["/"]))
    # The last section moves up: the first page links to it.
    for n in (0, 3, 1, 2):
        order.extend([f"/{n}", *(f"/{n}/{m}" for m in range(3))])
    return ["/", "/0", "/0/0", "/0/1", "/0/2", *order[5:]]


async def test_depth_first_crawl_continues_after_kills(tmp_path: Path) -> None:
    with Site(latency=0.05) as site:
        order = add_deep_site(site)
        attempts = CrawlAttempts(tmp_path, site, concurrency=4, crawl_strategy="dfs")
        seen: list[str] = []
        for attempt in range(12):
            async with attempts.attempt() as (scraper, task):
                scraper.go_on.set()
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(task), 0.08 + 0.02 * attempt)
            rows = [row["url"] for row in await attempts.rows()]
            assert rows[: len(seen)] == seen
            seen = rows
            if task.done() and not task.cancelled():
                break
        else:
            async with attempts.attempt() as (scraper, task):
                scraper.go_on.set()
                await task
        assert [row["url"] for row in await attempts.rows()] == [site.at(path) for path in order]
        # A kill costs the pages in flight, of which there were never more than four.
        assert len(site.paths) <= len(order) + 12 * 4
        assert not list(attempts.spool_dir.iterdir())


async def test_prefetched_pages_are_not_fetched_again_after_kill(
    tmp_path: Path, site: Site
) -> None:
    attempts = CrawlAttempts(tmp_path, site, concurrency=4, crawl_strategy="dfs")
    async with attempts.attempt() as (scraper, _):
        # The first page is being read, and the others came ahead of their turn.
        await wait_for_pages(scraper, len(PAGES))
    assert sorted(site.paths) == ["/", *PAGES]
    async with attempts.attempt() as (scraper, task):
        scraper.go_on.set()
        await task
    assert sorted(site.paths) == ["/", *PAGES]
    assert [row["url"] for row in await attempts.rows()] == [
        site.at(path) for path in ["/", *PAGES]
    ]
    assert not list(attempts.spool_dir.iterdir())


async def test_crawl_started_with_another_order_fails_with_reason(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = CrawlAttempts(tmp_path, site, concurrency=1, crawl_strategy="dfs")
    monkeypatch.setitem(crawl.FRONTIERS, "dfs", LastLinkFirst)
    async with attempts.attempt() as (scraper, _):
        await wait_for_pages(scraper, 1)
        scraper.go_on.set()
        async with asyncio.timeout(60):
            while len(await attempts.rows()) < 3:  # noqa: ASYNC110 - the store is what is watched
                await asyncio.sleep(0.01)
    monkeypatch.undo()
    async with attempts.attempt() as (scraper, task):
        scraper.go_on.set()
        with pytest.raises(JobFailure, match="an earlier release started this crawl"):
            await task


class LastLinkFirst(DepthFirst):
    """A strategy of another release."""

    def add(self, candidates: Iterable[CrawlTarget]) -> None:
        """Push the links in reverse order."""
        super().add(reversed(list(candidates)))


@pytest.mark.parametrize(
    ("robots", "options", "reason"),
    [
        (404, {}, "the site could not be reached"),
        (200, {}, "robots.txt"),
        (404, {"respect_robots_txt": False}, "the start page could not be fetched"),
    ],
    ids=["unreachable", "disallowed", "unanswered"],
)
async def test_a_crawl_fails_at_its_start_also_if_it_is_killed_after_the_row(
    tmp_path: Path, site: Site, robots: int, options: dict[str, Any], reason: str
) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /", status=robots)
    if robots != HTTPStatus.OK:
        options = {**options, "url": f"http://127.0.0.1:{free_port()}/"}
    attempts = CrawlAttempts(tmp_path, site, **options)
    messages = []
    for _ in range(2):
        async with attempts.attempt() as (_, task):
            with pytest.raises(JobFailure, match=reason) as failure:
                await task
        messages.append(str(failure.value))
    assert messages[0] == messages[1]
