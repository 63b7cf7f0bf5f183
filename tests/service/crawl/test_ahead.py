"""Workers fetch on while pages are read and stored, and a kill makes none fetch them again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.site.document import document
from tests.site.server import Site
from tests.stores.jobs import ALICE, new_job
from webdata_nb.contract.requests import CrawlRequest
from webdata_nb.service.content.source import ScrapeOptions, Source
from webdata_nb.service.crawl import engine as crawl
from webdata_nb.service.crawl.frontier import Candidate, DepthFirst
from webdata_nb.service.errors import JobFailed
from webdata_nb.service.scrape.page import scrape
from webdata_nb.service.scrape.scraped import Scraped
from webdata_nb.service.store.spool import SpoolDirectory
from webdata_nb.service.store.sqlite.store import SqliteStore
from webdata_nb.service.web.egress_policy import EgressPolicy
from webdata_nb.service.web.throttle import HostThrottle
from webdata_nb.service.work.engines import EgressRoutes
from webdata_nb.service.work.events import JobEvents
from webdata_nb.service.work.job_context import LeasedJob

PAGES = [f"/p{n}" for n in range(6)]


class Readers:
    """Page work that begins with the start page, and goes on when it is let go."""

    def __init__(self) -> None:
        self.go_on, self.waiting, self.peak, self.bodies = asyncio.Event(), 0, 0, 0

    async def scrape(
        self, source: Source, options: ScrapeOptions, *, outlinks: bool = True
    ) -> Scraped:
        if not source.url.endswith("/"):
            self.bodies += len(source.body)
            self.waiting += 1
            self.peak = max(self.peak, self.waiting)
            await self.go_on.wait()
            self.waiting -= 1
        return scrape(source, options, outlinks=outlinks)


class House:
    """A data directory in which one crawl is attempted again and again."""

    def __init__(self, data: Path, site: Site, **options: Any) -> None:
        self.spool_dir, self._data = data / "spool", data
        self.request = CrawlRequest.model_validate({"url": site.url, **options})

    async def rows(self) -> list[dict[str, Any]]:
        async with SqliteStore(self._data / "jobs.sqlite") as store:
            job = (await store.jobs(ALICE, limit=1))[0]
            pages = await store.rows(ALICE, job.id, start=0, count=99)
        return [orjson.loads(page) for page in pages]

    def files(self) -> list[Path]:
        return [path for path in self.spool_dir.rglob("*") if path.is_file()]

    @asynccontextmanager
    async def attempt(
        self, *, max_bytes: int = 10**6
    ) -> AsyncIterator[tuple[Readers, asyncio.Task[object]]]:
        """Run the crawl as far as the block lets it; what is left then is what a kill leaves."""
        readers, spool = Readers(), SpoolDirectory(self.spool_dir, max_bytes=max_bytes)
        ways = EgressRoutes(EgressPolicy("local"), "test", HostThrottle(), readers)
        async with SqliteStore(self._data / "jobs.sqlite") as store, ways:
            context = await self._context(store)
            way = await ways.route_for({})
            with suppress(asyncio.CancelledError), spool.open(context.job.id) as files:
                tools = crawl.CrawlResources(way.visitor, way.polite, way.robots, "test", files)
                task = asyncio.create_task(crawl.run(context, self.request, tools))
                yield readers, task
                if not task.done():
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                    raise asyncio.CancelledError

    async def _context(self, store: SqliteStore) -> LeasedJob:
        now = time.time()
        await store.accounts.ensure(ALICE, "Alice", now=now)
        if not await store.jobs(ALICE, limit=1):
            await store.accept(new_job(), now=now)
        await store.expire_leases()
        [found] = await store.claim(f"w{now}", lease_s=60, now=now)
        return LeasedJob(*found, store, JobEvents())


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as served:
        served.page("/", document("Front", links=PAGES))
        for path in PAGES:
            served.page(path, document(f"Page {path}"))
        yield served


async def until_waiting(readers: Readers, count: int) -> None:
    async with asyncio.timeout(60):
        while readers.waiting < count:  # noqa: ASYNC110 - page work is what is watched
            await asyncio.sleep(0.01)


async def test_one_worker_fetches_page_after_page_while_none_is_read(
    tmp_path: Path, site: Site
) -> None:
    house = House(tmp_path, site, concurrency=1)
    async with house.attempt() as (readers, task):
        await until_waiting(readers, len(PAGES))
        assert len(house.files()) == len(PAGES)
        assert readers.bodies == 0
        readers.go_on.set()
        await task
    assert site.peak == 1
    assert [row["url"] for row in await house.rows()] == [site.at(p) for p in ["/", *PAGES]]
    assert not list(house.spool_dir.iterdir())


async def test_after_a_kill_no_page_that_came_is_fetched_again(tmp_path: Path, site: Site) -> None:
    house = House(tmp_path, site, concurrency=2)
    async with house.attempt() as (readers, _):
        await until_waiting(readers, len(PAGES))
    assert len(house.files()) == len(PAGES)
    async with house.attempt() as (readers, task):
        readers.go_on.set()
        await task
    assert sorted(site.paths) == ["/", *PAGES]
    rows = await house.rows()
    assert [row["url"] for row in rows] == [site.at(path) for path in ["/", *PAGES]]
    assert all(row["markdown"] and row["status_code"] == 200 for row in rows)


async def test_a_file_that_is_not_whole_is_fetched_again(tmp_path: Path, site: Site) -> None:
    house = House(tmp_path, site, concurrency=2)
    async with house.attempt() as (readers, _):
        await until_waiting(readers, len(PAGES))
    broken = min(house.files())
    broken.write_bytes(broken.read_bytes()[:-1])
    async with house.attempt() as (readers, task):
        readers.go_on.set()
        await task
    assert len(site.paths) == len(PAGES) + 2
    assert [row["url"] for row in await house.rows()] == [site.at(p) for p in ["/", *PAGES]]


async def test_without_room_to_keep_a_page_its_worker_waits_for_it(
    tmp_path: Path, site: Site
) -> None:
    house = House(tmp_path, site, concurrency=2)
    async with house.attempt(max_bytes=0) as (readers, task):
        await until_waiting(readers, 2)
        assert house.files() == []
        readers.go_on.set()
        await task
        assert readers.peak == 2
        assert readers.bodies > 0
    assert sorted(site.paths) == ["/", *PAGES]


@pytest.mark.parametrize("strategy", ["bfs", "dfs", "bff"])
async def test_rows_do_not_tell_how_far_workers_ran_ahead(
    tmp_path: Path, site: Site, strategy: str
) -> None:
    tables = []
    for name, max_bytes in (("ahead", 10**6), ("behind", 0)):
        house = House(tmp_path / name, site, concurrency=2, crawl_strategy=strategy)
        async with house.attempt(max_bytes=max_bytes) as (readers, task):
            readers.go_on.set()
            await task
        tables.append([(row["url"], row["markdown"]) for row in await house.rows()])
    assert tables[0] == tables[1]
    assert len(tables[0]) == len(PAGES) + 1


def deep_site(site: Site) -> list[str]:
    """Make pages that lead down and on; return them depth first."""
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


async def test_depth_first_goes_on_where_a_kill_left_it(tmp_path: Path) -> None:
    with Site(latency=0.05) as site:
        order = deep_site(site)
        house = House(tmp_path, site, concurrency=4, crawl_strategy="dfs")
        seen: list[str] = []
        for attempt in range(12):
            async with house.attempt() as (readers, task):
                readers.go_on.set()
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(task), 0.08 + 0.02 * attempt)
            rows = [row["url"] for row in await house.rows()]
            assert rows[: len(seen)] == seen
            seen = rows
            if task.done() and not task.cancelled():
                break
        else:
            async with house.attempt() as (readers, task):
                readers.go_on.set()
                await task
        assert [row["url"] for row in await house.rows()] == [site.at(path) for path in order]
        # A kill costs the pages in flight, of which there were never more than four.
        assert len(site.paths) <= len(order) + 12 * 4
        assert not list(house.spool_dir.iterdir())


async def test_what_came_ahead_of_its_turn_is_not_fetched_again_after_a_kill(
    tmp_path: Path, site: Site
) -> None:
    house = House(tmp_path, site, concurrency=4, crawl_strategy="dfs")
    async with house.attempt() as (readers, _):
        # The first page is being read, and the others came ahead of their turn.
        await until_waiting(readers, len(PAGES))
    assert sorted(site.paths) == ["/", *PAGES]
    async with house.attempt() as (readers, task):
        readers.go_on.set()
        await task
    assert sorted(site.paths) == ["/", *PAGES]
    assert [row["url"] for row in await house.rows()] == [site.at(path) for path in ["/", *PAGES]]
    assert not list(house.spool_dir.iterdir())


async def test_a_crawl_that_began_in_another_order_says_so(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path, site, concurrency=1, crawl_strategy="dfs")
    monkeypatch.setitem(crawl.FRONTIERS, "dfs", LastLinkFirst)
    async with house.attempt() as (readers, _):
        await until_waiting(readers, 1)
        readers.go_on.set()
        async with asyncio.timeout(60):
            while len(await house.rows()) < 3:  # noqa: ASYNC110 - the store is what is watched
                await asyncio.sleep(0.01)
    monkeypatch.undo()
    async with house.attempt() as (readers, task):
        readers.go_on.set()
        with pytest.raises(JobFailed, match="an earlier release began this crawl"):
            await task


class LastLinkFirst(DepthFirst):
    """An order that this release does not have."""

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Push the links the other way round."""
        super().add(reversed(list(candidates)))
