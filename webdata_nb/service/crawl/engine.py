"""The crawl engine: workers that fetch what the plan says and store what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from webdata_nb.contract.requests import CrawlRequest
from webdata_nb.service.crawl import spooled_page
from webdata_nb.service.crawl.best_first import BestFirst
from webdata_nb.service.crawl.facets import FacetDetector
from webdata_nb.service.crawl.frontier import BreadthFirst, DepthFirst, Frontier
from webdata_nb.service.crawl.journal import decode_entry, encode_entry
from webdata_nb.service.crawl.page_fetcher import PageFetcher, page_options
from webdata_nb.service.crawl.page_result import refusal, to_crawl_result
from webdata_nb.service.crawl.plan import (
    CrawlLimits,
    CrawlPlan,
    CrawlResult,
    CrawlTarget,
    SettledTarget,
)
from webdata_nb.service.crawl.robots import JobRobots, RobotsCache
from webdata_nb.service.crawl.robots_rules import product_token
from webdata_nb.service.crawl.row import as_pieces, row
from webdata_nb.service.crawl.scope import CrawlScope, site_of
from webdata_nb.service.crawl.sitemaps import SitemapReader, SitemapSeeds
from webdata_nb.service.crawl.speculation import PrefetchedPage, Prefetcher
from webdata_nb.service.credits.tariff import of_page
from webdata_nb.service.errors import JobFailed
from webdata_nb.service.extract.extraction import Extractor
from webdata_nb.service.pages.page_pipeline import Arrived, Visit, Visitor
from webdata_nb.service.runtime.cooperative import in_turns
from webdata_nb.service.runtime.steps import Steps
from webdata_nb.service.scrape.scraped import Scraped
from webdata_nb.service.store.base import JobContext, Spool
from webdata_nb.service.store.records import Batch, JournalEntry, UrlOutcome
from webdata_nb.service.web.polite_fetcher import PoliteFetcher
from webdata_nb.service.web.urls import canonical_key, canonical_url

FRONTIERS: Final[dict[str, Callable[[], Frontier]]] = {
    "bfs": BreadthFirst,
    "dfs": DepthFirst,
    "bff": BestFirst,
}
# Beyond this, a page's text is of no use to the local index and only weighs the journal down.
MAX_INDEXED_CHARACTERS: Final = 100_000
# URLs left over that are accounted for in one step.
URLS_PER_STEP: Final = 1000
# URLs left over that one transaction stores.
OUTCOMES_PER_BATCH: Final = 5000
# Pages of a crawl that came and are not stored, beyond those that its workers hold.
MAX_UNSTORED_PAGES: Final = 32


@dataclass(frozen=True, slots=True)
class CrawlResources:
    """What a crawl works with, shared by all jobs of a process."""

    visitor: Visitor
    fetcher: PoliteFetcher
    robots: RobotsCache
    user_agent: str
    spool: Spool
    extractor: Extractor | None = None


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A target that an earlier attempt has stored."""

    result: CrawlResult


async def run(context: JobContext, request: CrawlRequest, tools: CrawlResources) -> Batch:
    """Crawl to the end; return what is left to account for. Raises `JobFailed`, `LeaseLost`."""
    token = product_token(_user_agent(request, tools))
    snapshots = await context.snapshots()
    robots = JobRobots(tools.robots, token, snapshots)
    crawl = _CrawlRun(context, request, tools, robots)
    crawl.seeds = SitemapSeeds.thawed(snapshots)
    await crawl.replay()
    await crawl.work()
    await crawl.account_for_leftovers()
    return crawl.last_batch()


def _next_outcomes(outcomes: Iterator[UrlOutcome]) -> Steps[tuple[UrlOutcome, ...]]:
    batch: list[UrlOutcome] = []
    for outcome in islice(outcomes, OUTCOMES_PER_BATCH):
        if len(batch) % URLS_PER_STEP == 0:
            yield
        batch.append(outcome)
    return tuple(batch)


def _user_agent(request: CrawlRequest, tools: CrawlResources) -> str:
    """Return the name that pages are asked under: the job's own header, or the service's."""
    given = request.scrape_options.headers or {}
    named = (value for name, value in given.items() if name.lower() == "user-agent")
    return next(named, tools.user_agent)


class _CrawlRun:
    """One attempt at one crawl."""

    def __init__(
        self, context: JobContext, request: CrawlRequest, tools: CrawlResources, robots: JobRobots
    ) -> None:
        self._context, self._request, self._tools = context, request, tools
        self._robots = robots
        self._asked = request.scrape_options.formats
        self._extractor = tools.extractor
        self._options = page_options(request, self._extractor)
        self._stored: dict[int, tuple[str, CrawlResult]] = {}
        self._spool = tools.spool
        self._in_work = 0
        self._start = canonical_url(request.url)
        self._failure: str | None = None
        self.seeds: SitemapSeeds | None = None
        self._unsaved_seeds: SitemapSeeds | None = None
        self._changed = asyncio.Event()
        frontier = FRONTIERS[request.crawl_strategy]()
        self._weighs = frontier.weighs
        self._plan = CrawlPlan(
            self._start,
            CrawlLimits(request.max_pages, request.max_depth),
            CrawlScope(
                frozenset({site_of(self._start)}),
                request.allow_external_links,
                request.include_paths,
                request.exclude_paths,
            ),
            frontier,
            canonical_key,
            obey_nofollow=request.respect_nofollow,
            facets=FacetDetector() if request.filter_faceted_urls else None,
        )
        self._outing = PageFetcher(request, self._options, tools.visitor, robots, self._plan)
        # Where the plan itself runs ahead, fetches are never idle and there is nothing to guess.
        most_fetches = request.concurrency if frontier.ahead == 1 else 1
        self._speculation = Prefetcher(self._plan, self._outing, self._spool, most_fetches)

    async def replay(self) -> None:
        """Read what earlier attempts stored; the plan meets it again in its order."""
        for entry in await self._context.entries():
            self._stored[entry.ordinal] = decode_entry(entry.journal)
            self._spool.drop(entry.ordinal)
        await self._speculation.restore({url for url, _ in self._stored.values()})

    async def work(self) -> None:
        """Run the workers until the plan is over."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._request.concurrency):
                    group.create_task(self._worker(group))
        except* Exception as failures:  # noqa: BLE001 - one failure of one job, raised bare
            raise failures.exceptions[0] from None
        if self._failure is not None:
            raise JobFailed(self._failure)

    async def account_for_leftovers(self) -> None:
        """Store the outcome of each known URL that was not requested, in batches.

        Each batch is a transaction of its own, so that other jobs' writes run in between.
        """
        outcomes = self._plan.leftovers()
        while batch := await in_turns(_next_outcomes(outcomes)):
            await self._context.commit(Batch(seen=batch, total=self._plan.rows))

    def last_batch(self) -> Batch:
        """Return the batch that ends the crawl."""
        return Batch(total=self._plan.rows)

    async def _worker(self, group: asyncio.TaskGroup) -> None:
        """Fetch, page after page; each worker is one of the fetches that `concurrency` allows."""
        while (work := await self._next(group)) is not None:
            if isinstance(work, PrefetchedPage):
                await self._fetch_ahead(work, group)
                continue
            came = await self._come(work)
            self._in_work += 1
            kept = await self._kept(work, came) if isinstance(came, Arrived) else None
            if kept is not None:
                group.create_task(self._finish(work, kept))
            else:
                await self._finish(work, came)

    async def _next(self, group: asyncio.TaskGroup) -> CrawlTarget | PrefetchedPage | None:
        """Wait for a page to fetch, in its turn or ahead of it; None at the end of the crawl."""
        while (work := self._due(group) or self._guess()) is None:
            if self._plan.over:
                self._wake()
                self._speculation.stop()
                return None
            await self._changed.wait()
        return work

    def _wake(self) -> None:
        """Let workers that wait look again at what is to do."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _due(self, group: asyncio.TaskGroup) -> CrawlTarget | None:
        """Return the next page in its turn; finish those that were fetched ahead."""
        while (target := self._plan.next()) is not None:
            if (ahead := self._speculation.claim(target)) is None:
                return target
            self._in_work += 1
            if ahead.came is not None:
                group.create_task(self._finish(target, ahead.came))
        return None

    def _guess(self) -> PrefetchedPage | None:
        # What an earlier attempt stored comes again first, and needs no fetch.
        return None if self._stored else self._speculation.guess()

    async def _fetch_ahead(self, ahead: PrefetchedPage, group: asyncio.TaskGroup) -> None:
        came = await self._speculation.fetch(ahead)
        if came is not None:
            group.create_task(self._read_ahead(ahead, came))

    async def _read_ahead(self, ahead: PrefetchedPage, came: Arrived | Visit | CrawlResult) -> None:
        await self._speculation.read(ahead, came)
        if ahead.target is not None and ahead.came is not None:
            await self._finish(ahead.target, ahead.came)
        self._wake()

    async def _come(self, target: CrawlTarget) -> StoredResult | Arrived | Visit | CrawlResult:
        """Return what a target came to: in an earlier attempt if it did, else by fetching it."""
        url, known = self._stored.pop(target.ordinal, ("", None))
        if known is not None:
            if url != target.url:
                raise JobFailed(
                    "an earlier release began this crawl, with another order of its pages; "
                    "start it again"
                )
            return StoredResult(known)
        record = await self._spool.take(target.ordinal)
        if record is not None:
            came = spooled_page.decode(record)
            if came is not None and came.url == target.url:
                return spooled_page.with_body_on_disk(
                    came, record, self._spool.place(target.ordinal)
                )
            self._spool.drop(target.ordinal)
        return await self._outing.fetch(target)

    async def _kept(self, target: CrawlTarget, came: Arrived) -> Arrived | None:
        """Keep a page where a kill leaves it, so that its worker may fetch another; or do not.

        A page worker reads it there. A model that extracts is asked by the crawl's workers alone,
        no more at a time.
        """
        if came.source.lies_in is not None:
            return came
        if self._in_work > MAX_UNSTORED_PAGES or target.ordinal == 0 or self._extractor is not None:
            return None
        parts = spooled_page.encode(came)
        place = await self._spool.keep(target.ordinal, *parts)
        return None if place is None else spooled_page.with_body_on_disk(came, parts[0], place)

    async def _finish(
        self, target: CrawlTarget, came: StoredResult | Arrived | Visit | CrawlResult
    ) -> None:
        """Read a page and store it; a plan that is told of it may know what to fetch next."""
        if isinstance(came, StoredResult):
            await self._repeat(target, came.result)
        else:
            await self._store(target, came)
            self._spool.drop(self._speculation.number(target))
        self._in_work -= 1

    async def _repeat(self, target: CrawlTarget, known: CrawlResult) -> None:
        if target.ordinal == 0:
            await self._seed(known)
        await self._settle(target, known)

    async def _store(self, target: CrawlTarget, came: Arrived | Visit | CrawlResult) -> None:
        if isinstance(came, Arrived):
            came = await self._outing.read(target, came)
        visit = came if isinstance(came, Visit) else None
        result = to_crawl_result(came, graded=self._weighs) if isinstance(came, Visit) else came
        if target.ordinal == 0:
            await self._judge_start(result, visit)
            await self._seed(result)
        page, charged = None, tuple[str, ...]()
        if visit is not None and not visit.stopped:
            content = await self._content(visit.scraped)
            page = row(visit, target, content)
            extracted = bool(content.get("extract"))
            charged = of_page(rendered=visit.rendered, extracted=extracted)
        journal = encode_entry(target, result, self._text(visit))
        success = result.ending == "page"
        entry = JournalEntry(target.ordinal, target.url, success, journal, page, charged=charged)
        await self._settle(target, result, entry)

    async def _settle(
        self, target: CrawlTarget, result: CrawlResult, entry: JournalEntry | None = None
    ) -> None:
        """Tell the plan, which then knows what comes next, and store what became final.

        Nothing is awaited between the plan's last step and the commit: commits are in the order of
        what they publish.
        """
        settled = await in_turns(self._plan.settling(target.ordinal, result))
        self._wake()
        await self._commit(settled, entry)

    async def _seed(self, start: CrawlResult) -> None:
        """Read the sitemaps, once the start page says which site this is; a replay knows them."""
        if not self._request.sitemap or self._failure is not None:
            return
        if self.seeds is None:
            wanted = self._request.scrape_options
            sitemaps = SitemapReader(
                self._tools.fetcher,
                self._tools.visitor.read_sitemap,
                self._robots,
                self._request.respect_robots_txt,
                headers=self._outing.own(start.final_url, wanted.headers),
                cookies=self._outing.own(start.final_url, wanted.cookies),
            )
            self.seeds = self._unsaved_seeds = await sitemaps.seeds(start.final_url)
        self._plan.seed(self.seeds.pages)

    def _fresh_seeds(self) -> tuple[tuple[UrlOutcome, ...], tuple[tuple[str, bytes], ...]]:
        """Return, once, what to store of the sitemaps: with the start page or not at all."""
        seeds, self._unsaved_seeds = self._unsaved_seeds, None
        if seeds is None:
            return (), ()
        return tuple(UrlOutcome(url, "sitemap", why) for url, why in seeds.problems), seeds.frozen()

    async def _content(self, scraped: Scraped | None) -> dict[str, Any]:
        if scraped is None:
            return {}
        if self._extractor is not None:
            return await self._extractor.apply(scraped.formats, scraped.metadata, self._asked)
        return {**as_pieces(scraped.formats), "metadata": scraped.metadata}

    async def _judge_start(self, result: CrawlResult, visit: Visit | None) -> None:
        """Without its start page a crawl has failed; say why in the job's own error."""
        if "robots" in (result.ending, result.reason):
            answer = await self._robots.answer(result.final_url)
            self._failure = refusal(answer)
        elif visit is not None and visit.error is not None and visit.status is None:
            self._failure = f"the start page could not be fetched: {visit.error}"

    def _text(self, visit: Visit | None) -> str | None:
        """Text for the local index, where the row itself has no Markdown to take it from."""
        if visit is None or visit.scraped is None or "markdown" in self._options.formats:
            return None
        return visit.scraped.text[:MAX_INDEXED_CHARACTERS]

    async def _commit(
        self, settled: list[SettledTarget], entry: JournalEntry | None = None
    ) -> None:
        published = [
            (each.target.ordinal, each.position) for each in settled if each.position is not None
        ]
        seen: list[UrlOutcome] = [one for each in settled for one in each.seen]
        faults, sitemaps = self._fresh_seeds()
        batch = Batch(
            entries=() if entry is None else (entry,),
            published=tuple(published),
            seen=(*seen, *faults),
            snapshots=(*self._robots.unsaved(), *sitemaps),
            total=self._plan.expected,
            completed=self._plan.rows,
        )
        await self._context.commit(batch)
