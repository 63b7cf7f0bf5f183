"""Prefetches pages for strategies in which the next page is not certain yet.

In depth-first order each page determines what follows it, so only one URL is certain to be next.
Meanwhile the prefetcher fetches the URLs that come next if no page adds a link. They are members
of the frontier, which the crawl reaches unless its budget ends before. A prefetched page waits for
its turn. Until then it affects neither rows nor receipt nor budget, so these do not depend on what
was prefetched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container
from dataclasses import dataclass
from typing import Any, Final

from webdata_nb.service.crawl import spooled_page
from webdata_nb.service.crawl.earlier_pages import UnchangedPage
from webdata_nb.service.crawl.journal import CrawlTarget
from webdata_nb.service.crawl.page_fetcher import FetchOutcome, PageFetcher
from webdata_nb.service.crawl.plan import CrawlPlan
from webdata_nb.service.pages.page_pipeline import FetchedPage, PageVisit
from webdata_nb.service.store.job_context import PageSpool

# For each concurrent fetch: the URLs of the frontier considered, and the pages prefetched whose
# turn has not come.
CANDIDATES_PER_FETCH: Final = 2
PREFETCHED_PER_FETCH: Final = 4
# Memory for pages that wait. Scraped pages beyond it stay in the spool and are scraped in their
# turn; unchanged pages, which have no body, end the prefetching until others have their turn.
MAX_HELD_BYTES: Final = 16 * 1024 * 1024
# Spool numbers of pages whose ordinal is not known yet; ordinals are smaller.
_FIRST_SPOOL_NUMBER: Final = 1 << 31


@dataclass(slots=True, eq=False)
class PrefetchedPage:
    """A page that is fetched ahead of its turn.

    `outcome` is set when it was fetched and scraped, `target` when its turn has come. `task` is
    the task that works on it.
    """

    url: str
    depth: int
    spool_number: int
    outcome: FetchOutcome | None = None
    target: CrawlTarget | None = None
    task: asyncio.Task[Any] | None = None
    held_bytes: int = 0

    @property
    def provisional_target(self) -> CrawlTarget:
        """A target to fetch the page by before its ordinal is known."""
        return CrawlTarget(self.spool_number, self.url, self.depth)


class Prefetcher:
    """Chooses which pages one crawl prefetches, and holds them until their turn."""

    def __init__(
        self, plan: CrawlPlan, fetcher: PageFetcher, spool: PageSpool, concurrency: int
    ) -> None:
        self._plan, self._fetcher, self._spool = plan, fetcher, spool
        # One fetch is reserved for the page whose turn it is.
        self._max_fetches = concurrency - 1
        self._max_candidates = CANDIDATES_PER_FETCH * concurrency
        self._max_pages = PREFETCHED_PER_FETCH * concurrency
        self._pages: dict[str, PrefetchedPage] = {}
        self._spool_numbers: dict[int, int] = {}
        self._next_spool_number = _FIRST_SPOOL_NUMBER
        self._fetches = self._held_bytes = 0

    async def restore(self, stored_urls: Container[str]) -> None:
        """Load the pages that an earlier attempt prefetched, except those stored since."""
        for number in self._spool.ordinals():
            if number < _FIRST_SPOOL_NUMBER:
                continue
            self._next_spool_number = max(self._next_spool_number, number + 1)
            page = await spooled_page.load(self._spool, number)
            if page is None or page.url in stored_urls or page.url in self._pages:
                self._spool.drop(number)
            else:
                self._pages[page.url] = PrefetchedPage(page.url, 0, number, page)

    def next_page(self) -> PrefetchedPage | None:
        """Choose the next page to prefetch; None when no page may be prefetched at present."""
        if self._fetches >= self._max_fetches or len(self._pages) >= self._max_pages:
            return None
        if self._held_bytes >= MAX_HELD_BYTES:
            return None
        for candidate in self._plan.upcoming(self._max_candidates):
            if candidate.url not in self._pages:
                page = PrefetchedPage(candidate.url, candidate.depth, self._next_spool_number)
                self._pages[page.url] = page
                self._next_spool_number += 1
                self._fetches += 1
                return page
        return None

    async def fetch(self, page: PrefetchedPage) -> FetchOutcome | None:
        """Fetch a page; None if its host has a crawl-delay, which prefetching cannot shorten.

        A page whose turn has come meanwhile is fetched in any case.
        """
        page.task = asyncio.current_task()
        try:
            if await self._fetcher.delay_s(page.url) > 0 and page.target is None:
                del self._pages[page.url]
                self._max_fetches = 0
                return None
            outcome = await self._fetcher.fetch(page.provisional_target)
            if isinstance(outcome, FetchedPage):
                saved = await spooled_page.save(self._spool, page.spool_number, outcome)
                return outcome if saved is None else saved
            return outcome
        finally:
            page.task = None
            self._fetches -= 1

    async def scrape(self, page: PrefetchedPage, fetched: FetchOutcome) -> None:
        """Scrape a prefetched page, and hold the result in memory where there is room."""
        page.task = asyncio.current_task()
        outcome = fetched
        if isinstance(fetched, FetchedPage):
            outcome = await self._fetcher.scrape(page.provisional_target, fetched)
        page.task = None
        page.outcome = outcome
        if page.target is None and isinstance(outcome, PageVisit | UnchangedPage):
            size = _size(outcome)
            is_spooled = isinstance(fetched, FetchedPage) and fetched.source.body_slice is not None
            if is_spooled and self._held_bytes + size > MAX_HELD_BYTES:
                page.outcome = fetched
                return
            page.held_bytes = size
            self._held_bytes += size

    def claim(self, target: CrawlTarget) -> PrefetchedPage | None:
        """Remove and return the page of a target, fetched or in flight; None if not prefetched."""
        page = self._pages.pop(target.url, None)
        if page is not None:
            page.target = target
            self._spool_numbers[target.ordinal] = page.spool_number
            self._held_bytes -= page.held_bytes
        return page

    def pop_spool_number(self, target: CrawlTarget) -> int:
        """Return the number under which a target is spooled."""
        return self._spool_numbers.pop(target.ordinal, target.ordinal)

    def stop(self) -> None:
        """Cancel all work in progress, because the crawl is over."""
        self._max_fetches = 0
        for page in self._pages.values():
            if page.task is not None:
                page.task.cancel()


def _size(visit: PageVisit | UnchangedPage) -> int:
    """Estimate the memory of a page in bytes."""
    if isinstance(visit, UnchangedPage):
        return visit.earlier.size
    if visit.scraped is None:
        return 0
    values = visit.scraped.formats.values()
    return len(visit.scraped.text) + sum(len(v) for v in values if isinstance(v, (str, bytes)))
