"""Pages fetched before their turn, for a strategy that cannot tell yet whose turn comes next.

Depth first, each page decides what follows it, so one page at a time is certain. Meanwhile the URLs
are fetched that come next if no page adds a link: members of the frontier, which the crawl gets to
unless its budget ends before. What came waits here for its turn; until then neither rows nor
receipt nor budget know of it, so that they do not depend on what was fetched ahead.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.service.crawl import spooled_page
from webdata_nb.service.crawl.plan import CrawlResult, CrawlTarget
from webdata_nb.service.pages.page_pipeline import Arrived, Visit

if TYPE_CHECKING:
    from collections.abc import Container

    from webdata_nb.service.crawl.page_fetcher import PageFetcher
    from webdata_nb.service.crawl.plan import CrawlPlan
    from webdata_nb.service.store.base import Spool

# For each fetch that `concurrency` allows: how many URLs of the frontier are looked at, and how
# many pages may have been asked for whose turn has not come.
CANDIDATES_PER_FETCH: Final = 2
PREFETCHED_PER_FETCH: Final = 4
# Pages that were read and wait; those beyond lie in the spool, and are read again in their turn.
MAX_HELD_BYTES: Final = 16 * 1024 * 1024
# Numbers of spooled pages whose ordinal is not known; ordinals are below.
_UNNUMBERED: Final = 1 << 31


@dataclass(slots=True, eq=False)
class PrefetchedPage:
    """A page asked for before its turn; `came` is set once it is there, `target` in its turn."""

    url: str
    depth: int
    number: int
    came: Arrived | Visit | CrawlResult | None = None
    target: CrawlTarget | None = None
    task: asyncio.Task[Any] | None = None
    held: int = 0


class Prefetcher:
    """Chooses what one crawl fetches ahead, and keeps it until its turn."""

    def __init__(
        self, plan: CrawlPlan, outing: PageFetcher, spool: Spool, concurrency: int
    ) -> None:
        self._plan, self._outing, self._spool = plan, outing, spool
        # One fetch is left for the page whose turn it is.
        self._most_fetches = concurrency - 1
        self._reach, self._most = (
            CANDIDATES_PER_FETCH * concurrency,
            PREFETCHED_PER_FETCH * concurrency,
        )
        self._pages: dict[str, PrefetchedPage] = {}
        self._numbers: dict[int, int] = {}
        self._next = _UNNUMBERED
        self._fetching = self._held = 0

    async def restore(self, stored: Container[str]) -> None:
        """Take up what an earlier attempt fetched ahead, unless it is `stored` by now."""
        for number in self._spool.kept():
            if number < _UNNUMBERED:
                continue
            self._next = max(self._next, number + 1)
            record = await self._spool.take(number)
            came = None if record is None else spooled_page.decode(record)
            if record is None or came is None or came.url in stored or came.url in self._pages:
                self._spool.drop(number)
                continue
            lying = spooled_page.with_body_on_disk(came, record, self._spool.place(number))
            self._pages[came.url] = PrefetchedPage(came.url, 0, number, lying)

    def guess(self) -> PrefetchedPage | None:
        """Choose the next page to fetch ahead, if there is one."""
        if self._fetching >= self._most_fetches or len(self._pages) >= self._most:
            return None
        for candidate in self._plan.likely(self._reach):
            if candidate.url not in self._pages:
                ahead = PrefetchedPage(candidate.url, candidate.depth, self._next)
                self._pages[ahead.url] = ahead
                self._next += 1
                self._fetching += 1
                return ahead
        return None

    async def fetch(self, ahead: PrefetchedPage) -> Arrived | Visit | CrawlResult | None:
        """Fetch a page; None where its host wants a distance, which fetching ahead cannot shorten.

        A page whose turn comes meanwhile is fetched in any case.
        """
        ahead.task = asyncio.current_task()
        try:
            if await self._outing.delay_s(ahead.url) > 0 and ahead.target is None:
                del self._pages[ahead.url]
                self._most_fetches = 0
                return None
            came = await self._outing.fetch(CrawlTarget(ahead.number, ahead.url, ahead.depth))
            return await self._spooled(ahead, came) if isinstance(came, Arrived) else came
        finally:
            ahead.task = None
            self._fetching -= 1

    async def read(self, ahead: PrefetchedPage, came: Arrived | Visit | CrawlResult) -> None:
        """Read a page that was fetched ahead, and hold it."""
        ahead.task = asyncio.current_task()
        visit = came
        if isinstance(came, Arrived):
            visit = await self._outing.read(CrawlTarget(ahead.number, ahead.url, ahead.depth), came)
        ahead.task = None
        ahead.came = visit
        if ahead.target is None and isinstance(visit, Visit):
            ahead.held = _size(visit)
            if isinstance(came, Arrived) and came.source.lies_in and self._is_full(ahead.held):
                ahead.came, ahead.held = came, 0
            self._held += ahead.held

    def claim(self, target: CrawlTarget) -> PrefetchedPage | None:
        """Hand out a page in its turn, fetched or on its way; None where it was not asked for."""
        ahead = self._pages.pop(target.url, None)
        if ahead is not None:
            ahead.target = target
            self._numbers[target.ordinal] = ahead.number
            self._held -= ahead.held
        return ahead

    def number(self, target: CrawlTarget) -> int:
        """Return, once, the number under which a page is spooled."""
        return self._numbers.pop(target.ordinal, target.ordinal)

    def stop(self) -> None:
        """Break off what is on its way: the crawl is over."""
        self._most_fetches = 0
        for ahead in self._pages.values():
            if ahead.task is not None:
                ahead.task.cancel()

    async def _spooled(self, ahead: PrefetchedPage, came: Arrived) -> Arrived:
        parts = spooled_page.encode(came)
        place = await self._spool.keep(ahead.number, *parts)
        return came if place is None else spooled_page.with_body_on_disk(came, parts[0], place)

    def _is_full(self, size: int) -> bool:
        return self._held + size > MAX_HELD_BYTES


def _size(visit: Visit) -> int:
    """Return about how many bytes a page that was read takes."""
    if visit.scraped is None:
        return 0
    values = visit.scraped.formats.values()
    return len(visit.scraped.text) + sum(len(v) for v in values if isinstance(v, (str, bytes)))
