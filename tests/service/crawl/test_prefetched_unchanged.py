"""Prefetched pages that their site calls unchanged wait in memory, within its bound."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from webdata_nb.service.crawl import page_fetcher
from webdata_nb.service.crawl.earlier_pages import EarlierPage, UnchangedPage
from webdata_nb.service.crawl.journal import CrawlResult, CrawlTarget
from webdata_nb.service.crawl.page_fetcher import PREFETCHED_PER_FETCH, Prefetcher
from webdata_nb.service.pages import PageVisit
from webdata_nb.service.store.spool import ClosedSpool

CONCURRENCY = 10
MAX_PAGES = PREFETCHED_PER_FETCH * CONCURRENCY
URLS = [f"http://x.test/{number}" for number in range(100)]


def unchanged_page(url: str, row_bytes: int) -> UnchangedPage:
    earlier = EarlierPage({}, CrawlResult("page", url, etag='"a"'), row_bytes=row_bytes)
    return UnchangedPage(earlier, PageVisit(url, url, 304, 0.1, datetime.now(UTC)))


async def prefetched(row_bytes: int) -> tuple[Prefetcher, list[str]]:
    """Return the pages that are prefetched before the first one has its turn."""

    async def fetch(target: CrawlTarget) -> UnchangedPage:
        return unchanged_page(target.url, row_bytes)

    async def delay_s(_url: str) -> float:
        return 0.0

    candidates = [SimpleNamespace(url=url, depth=1) for url in URLS]
    plan = cast("Any", SimpleNamespace(upcoming=lambda _count: candidates))
    fetcher, access = SimpleNamespace(fetch=fetch), SimpleNamespace(delay_s=delay_s)
    prefetcher = Prefetcher(
        plan, cast("Any", fetcher), cast("Any", access), ClosedSpool(), CONCURRENCY
    )
    urls = []
    while (page := prefetcher.next_page()) is not None:
        outcome = await prefetcher.fetch(page)
        assert outcome is not None
        await prefetcher.scrape(page, outcome)
        urls.append(page.url)
    return prefetcher, urls


async def test_short_pages_are_prefetched_up_to_their_number() -> None:
    _, urls = await prefetched(row_bytes=1000)
    assert urls == URLS[:MAX_PAGES]


async def test_long_pages_are_prefetched_up_to_their_size() -> None:
    size = page_fetcher.MAX_HELD_BYTES // 4
    prefetcher, urls = await prefetched(row_bytes=size)
    assert urls == URLS[:4]
    prefetcher.take(CrawlTarget(URLS[0], 1, ordinal=1))
    assert prefetcher.next_page() is not None
