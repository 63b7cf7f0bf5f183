"""Runs a crawl job: fetches the pages that the plan chooses, and stores the results."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, Final

import msgspec

from webdata_nb.contract import limits
from webdata_nb.contract.outcomes import LINK_OUTCOMES, ROBOTS, ROBOTS_UNREACHABLE
from webdata_nb.contract.requests import ExtendedCrawlRequest
from webdata_nb.page.scrape.scraped import Scraped
from webdata_nb.service.crawl import spooled_page
from webdata_nb.service.crawl.checkpoint import StateReader, UnusableState
from webdata_nb.service.crawl.discovery import URLS_PER_STEP
from webdata_nb.service.crawl.earlier_pages import EarlierPages, UnchangedPage
from webdata_nb.service.crawl.frontier import BestFirst, BreadthFirst, DepthFirst, Frontier
from webdata_nb.service.crawl.journal import CrawlResult, CrawlTarget, decode_entry, encode_entry
from webdata_nb.service.crawl.link_check import CheckedLinks, LinkCheck, LinkSource
from webdata_nb.service.crawl.link_selection import UNVISITED, max_links
from webdata_nb.service.crawl.new_plan import new_plan
from webdata_nb.service.crawl.page_facts import facts_of_unchanged, facts_of_visit
from webdata_nb.service.crawl.page_fetcher import FetchOutcome, PageFetcher, page_options
from webdata_nb.service.crawl.page_result import (
    embed_json,
    encode_row,
    encode_unchanged_row,
    to_crawl_result,
    unchanged_result,
    with_distance,
)
from webdata_nb.service.crawl.plan import SettledTarget
from webdata_nb.service.crawl.prefetch import PrefetchedPage, Prefetcher
from webdata_nb.service.crawl.rights.job_rights import JobRights
from webdata_nb.service.crawl.robots import JobRobots, RobotsCache
from webdata_nb.service.crawl.robots_rules import product_token
from webdata_nb.service.crawl.scope import OUT_OF_SCOPE
from webdata_nb.service.crawl.sitemaps import SitemapReader, SitemapSeeds
from webdata_nb.service.crawl.visit_record import VisitRecord
from webdata_nb.service.credits import tariff
from webdata_nb.service.errors import CreditsUsedUp, JobFailure, JobRequeued
from webdata_nb.service.models.extraction import Extractor
from webdata_nb.service.pages.page_pipeline import (
    FetchedPage,
    PagePipeline,
    PageVisit,
    source_of_values,
)
from webdata_nb.service.runtime.cooperative import run_cooperatively
from webdata_nb.service.runtime.steps import Steps
from webdata_nb.service.store.job_context import JobContext, PageSpool
from webdata_nb.service.store.page_contents import share_content
from webdata_nb.service.store.records import (
    CommitBatch,
    CrawlState,
    JournalEntry,
    LegEnd,
    UrlOutcome,
)
from webdata_nb.service.store.spool import ClosedSpool
from webdata_nb.service.web.polite_fetcher import ResponseSource
from webdata_nb.service.web.redirects import may_identify_user

log = logging.getLogger(__name__)

FRONTIERS: Final[dict[str, Callable[[], Frontier]]] = {
    "bfs": BreadthFirst,
    "dfs": DepthFirst,
    "bff": BestFirst,
}
# More text of a page would not improve the local index.
MAX_INDEXED_CHARACTERS: Final = 100_000
# Fetched pages that wait in the spool to be scraped and stored.
MAX_UNSTORED_PAGES: Final = 32
# The state is stored again after so many pages, and earlier when the crawl has grown by this share:
# an attempt after a kill replays no more.
STATE_PAGES: Final = 10_000
STATE_SHARE: Final = 0.2
# Leftover URLs that one transaction stores.
OUTCOMES_PER_BATCH: Final = 5000


@dataclass(frozen=True, slots=True)
class CrawlResources:
    """What a crawl works with, shared by all jobs of a process.

    `signature_agent` is the identity with which requests are signed; None if they are not. `links`
    is where a crawl with `check_links` requests its links.
    """

    pipeline: PagePipeline
    fetcher: ResponseSource
    robots: RobotsCache
    user_agent: str
    spool: PageSpool
    extractor: Extractor | None = None
    signature_agent: str | None = None
    links: LinkSource | None = None

    def reading_from(self, source: ResponseSource) -> CrawlResources:
        """Return these with another source of all responses, robots.txt included."""
        return replace(
            self,
            pipeline=self.pipeline.with_source(source),
            fetcher=source,
            robots=RobotsCache(source),
        )


@dataclass(frozen=True, slots=True)
class StoredResult:
    """The result of a target that an earlier attempt has stored."""

    result: CrawlResult


async def run(
    context: JobContext, request: ExtendedCrawlRequest, resources: CrawlResources
) -> CommitBatch:
    """Crawl to the end and return the last batch. Raises `JobFailure`, `LeaseLost`."""
    pinned_files = await context.pinned_files()
    token = product_token(_user_agent(request, resources))
    robots = JobRobots(resources.robots, token, pinned_files)
    rights = JobRights(resources.fetcher, robots, token, pinned_files)
    if request.purpose is not None:
        # A page is stored nowhere before it is known that it is not refused.
        resources = replace(resources, spool=ClosedSpool())
    seeds = SitemapSeeds.from_snapshots(pinned_files)
    earlier_pages = await EarlierPages.load(context, request)
    crawl = _CrawlRun(
        context,
        request,
        resources,
        robots,
        seeds,
        rights=rights,
        earlier_pages=earlier_pages,
    )
    await crawl.load()
    await crawl.state_signature_agent()
    await crawl.work()
    unvisited = await crawl.account_for_leftovers()
    if resources.links is not None:
        await crawl.check_links(resources.links, token, unvisited)
    return crawl.last_batch()


def _user_agent(request: ExtendedCrawlRequest, resources: CrawlResources) -> str:
    """Return the User-Agent of the job's own headers, or the service's."""
    headers = request.scrape_options.headers or {}
    values = (value for name, value in headers.items() if name.lower() == "user-agent")
    return next(values, resources.user_agent)


class _CrawlRun:
    """One attempt at one crawl."""

    def __init__(
        self,
        context: JobContext,
        request: ExtendedCrawlRequest,
        resources: CrawlResources,
        robots: JobRobots,
        seeds: SitemapSeeds | None,
        *,
        rights: JobRights,
        earlier_pages: EarlierPages,
    ) -> None:
        self._context, self._request, self._resources = context, request, resources
        self._robots, self._rights, self._spool = robots, rights, resources.spool
        self._extractor = resources.extractor
        self._options = page_options(request, self._extractor)
        captures = request.source.web_archive
        self._as_of = None if captures is None else datetime.fromisoformat(captures.as_of)
        frontier = FRONTIERS[request.crawl_strategy]()
        self._grade_anchors = frontier.uses_link_weights
        self._plan = new_plan(request, frontier)
        self._fetcher = PageFetcher(
            request,
            self._options,
            resources.pipeline,
            robots,
            self._plan,
            rights=rights,
            earlier_pages=earlier_pages,
        )
        # Only where one page at a time is certain to be next, fetches would be idle otherwise.
        max_fetches = request.concurrency if frontier.round_size == 1 else 1
        self._prefetcher = Prefetcher(self._plan, self._fetcher, self._spool, max_fetches)
        # URL and result of the targets that earlier attempts stored, by ordinal.
        self._stored: dict[int, tuple[str, CrawlResult]] = {}
        self._unstored_pages = 0
        self._seeds = seeds
        self._unsaved_seeds: SitemapSeeds | None = None
        self._failure: str | None = None
        # What the job states beside its counts.
        self._outcome: dict[str, Any] = dict(context.job.outcome)
        self._plan_changed = asyncio.Event()
        # The rows of the state that is stored.
        self._stored_rows = 0
        self._checked_links = CheckedLinks()

    async def load(self) -> None:
        """Load the state after the last leg, and the results that earlier attempts stored since.

        The plan receives the results again in their order.
        """
        start = await self._load_state()
        for entry in await self._context.journal(start=start):
            stored = decode_entry(entry.journal)
            if stored.result.kind in LINK_OUTCOMES:
                self._checked_links.add(stored.url, entry)
                continue
            check = VisitRecord.decode(entry.visit).check
            result = msgspec.structs.replace(stored.result, check=check)
            self._stored[entry.ordinal] = stored.url, result
            self._spool.drop(entry.ordinal)
        await self._prefetcher.restore({url for url, _ in self._stored.values()})

    async def state_signature_agent(self) -> None:
        """Store with which identity the requests for pages are signed, if they are."""
        options, agent = self._request.scrape_options, self._resources.signature_agent
        if agent is not None and not may_identify_user(options.headers, options.cookies):
            self._outcome["signature_agent"] = agent
            await self._context.commit(CommitBatch(outcome=self._outcome))

    async def _load_state(self) -> int:
        """Continue from the state that is stored; return the ordinal of the next entry."""
        stored = await self._context.crawl_state()
        if stored is None:
            return 0
        try:
            await run_cooperatively(self._plan.restore(StateReader(stored.state)))
        except UnusableState as error:
            log.warning("job %s: %s; its journal is replayed", self._context.job.id, error)
            return 0
        self._stored_rows = self._plan.rows
        return stored.next_ordinal

    async def work(self) -> None:
        """Run the workers until the plan is over, leg by leg."""
        leg_start = self._context.job.settled_rows
        while True:
            self._plan.begin_leg(leg_start + limits.LEG_PAGES)
            await self._run_leg()
            if not self._plan.is_leg_over:
                return
            await self._end_leg()
            leg_start = self._plan.rows

    async def _end_leg(self) -> None:
        """Store the state where it is due; raises `JobRequeued` if other jobs wait."""
        rows, max_pages = self._plan.rows, self._request.row_limit
        state = None
        if rows - self._stored_rows >= min(STATE_PAGES, STATE_SHARE * rows):
            record = await run_cooperatively(self._plan.encode_state())
            state = CrawlState(record, self._plan.next_ordinal)
            self._stored_rows = rows
        leg_end = LegEnd(
            state,
            max_charges=tariff.leg_charges(self._request, max_pages - rows),
            pinned_files=self._robots.pop_unsaved() + self._rights.pop_unsaved(),
        )
        try:
            runs_on = await self._context.end_leg(leg_end)
        except CreditsUsedUp as error:
            raise JobFailure(
                f"the crawl ended after {rows:,} of {max_pages:,} pages, because the account's "
                f"credits do not suffice for more: {error}"
            ) from None
        if not runs_on:
            raise JobRequeued(self._context.job.id)

    async def _run_leg(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._request.concurrency):
                    group.create_task(self._run_worker(group))
        except* Exception as failures:  # noqa: BLE001 - one failure of one job, raised bare
            raise failures.exceptions[0] from None
        if self._failure is not None:
            raise JobFailure(self._failure)

    async def account_for_leftovers(self) -> list[str]:
        """Store the outcomes of the URLs that were discovered and not fetched, in batches.

        Each batch is a transaction of its own, so that other jobs can write in between. Returns the
        first ones to which the crawl only did not get, as many as it checks links at most.
        """
        outcomes, unvisited = self._plan.leftovers(), list[str]()
        checks_links = self._resources.links is not None
        limit = max_links(self._request.max_pages) if checks_links else 0
        while batch := await run_cooperatively(_take_batch(outcomes)):
            await self._context.commit(CommitBatch(url_outcomes=batch, total=self._plan.rows))
            unvisited_urls = (each.url for each in batch if each.outcome in UNVISITED)
            unvisited += islice(unvisited_urls, limit - len(unvisited))
        return unvisited

    async def check_links(self, source: LinkSource, token: str, unvisited: Sequence[str]) -> None:
        """Check the links that lead where the crawl did not go."""
        check = LinkCheck(
            self._context,
            self._request,
            source,
            token=token,
            scope=self._plan.scope,
            headers_for=self._fetcher.headers_and_cookies,
            checked=self._checked_links,
            next_ordinal=max(self._checked_links.next_ordinal, self._plan.next_ordinal),
        )
        await check.run(() if self._seeds is None else self._seeds.pages, unvisited)

    def last_batch(self) -> CommitBatch:
        """Return the batch that ends the crawl."""
        return CommitBatch(total=self._plan.rows)

    # Workers: each makes one of the concurrent fetches

    async def _run_worker(self, group: asyncio.TaskGroup) -> None:
        while (work := await self._next_work(group)) is not None:
            if isinstance(work, PrefetchedPage):
                await self._prefetch(work, group)
                continue
            outcome = await self._load_or_fetch(work)
            self._unstored_pages += 1
            spooled = await self._spool_page(work, outcome)
            if spooled is not None:
                group.create_task(self._store(work, spooled))
            else:
                await self._store(work, outcome)

    async def _next_work(self, group: asyncio.TaskGroup) -> CrawlTarget | PrefetchedPage | None:
        """Wait for a page to fetch or to prefetch; None at the end of the crawl."""
        while (work := self._next_target(group) or self._next_prefetch()) is None:
            if self._plan.is_over:
                self._wake_workers()
                if not self._plan.is_leg_over:
                    self._prefetcher.stop()
                return None
            await self._plan_changed.wait()
        return work

    def _next_target(self, group: asyncio.TaskGroup) -> CrawlTarget | None:
        """Return the next target that is not prefetched; store those that are."""
        while (target := self._plan.next_target()) is not None:
            if (page := self._prefetcher.claim(target)) is None:
                return target
            self._unstored_pages += 1
            if page.outcome is not None:
                group.create_task(self._store(target, page.outcome))
        return None

    def _next_prefetch(self) -> PrefetchedPage | None:
        # Stored results are replayed first, without any fetch.
        return None if self._stored else self._prefetcher.next_page()

    def _wake_workers(self) -> None:
        self._plan_changed.set()
        self._plan_changed = asyncio.Event()

    async def _prefetch(self, page: PrefetchedPage, group: asyncio.TaskGroup) -> None:
        outcome = await self._prefetcher.fetch(page)
        if outcome is not None:
            group.create_task(self._scrape_prefetched(page, outcome))

    async def _scrape_prefetched(self, page: PrefetchedPage, fetched: FetchOutcome) -> None:
        await self._prefetcher.scrape(page, fetched)
        if page.target is not None and page.outcome is not None:
            await self._store(page.target, page.outcome)
        self._wake_workers()

    async def _load_or_fetch(self, target: CrawlTarget) -> StoredResult | FetchOutcome:
        """Return what an earlier attempt stored or spooled of a target, or fetch it."""
        url, result = self._stored.pop(target.ordinal, ("", None))
        if result is not None:
            if url != target.url:
                raise JobFailure(
                    "an earlier release started this crawl with a different order of pages; "
                    "start it again"
                )
            return StoredResult(result)
        page = await spooled_page.load(self._spool, target.ordinal)
        if page is not None and page.url == target.url:
            return page
        self._spool.drop(target.ordinal)
        return await self._fetcher.fetch(target)

    async def _spool_page(
        self, target: CrawlTarget, outcome: StoredResult | FetchOutcome
    ) -> FetchedPage | None:
        """Spool a fetched page, so that its worker may fetch the next one; None where it may not.

        Crawls with a model do not spool, so that no more than `concurrency` pages use the model
        at a time.
        """
        if not isinstance(outcome, FetchedPage):
            return None
        if outcome.source.body_slice is not None:
            return outcome
        is_full = self._unstored_pages > MAX_UNSTORED_PAGES
        if is_full or self._is_start(target) or self._extractor is not None:
            return None
        return await spooled_page.save(self._spool, target.ordinal, outcome)

    # Results

    async def _store(self, target: CrawlTarget, outcome: StoredResult | FetchOutcome) -> None:
        """Scrape a page, settle its target and commit what became final."""
        if isinstance(outcome, StoredResult):
            if self._is_start(target):
                await self._set_seeds(outcome.result)
            await self._settle(target, outcome.result)
        elif isinstance(outcome, UnchangedPage):
            await self._store_unchanged(target, outcome)
            self._prefetcher.pop_spool_number(target)
        else:
            if isinstance(outcome, FetchedPage):
                outcome = await self._fetcher.scrape(target, outcome)
            await self._store_outcome(target, outcome)
            self._spool.drop(self._prefetcher.pop_spool_number(target))
        self._unstored_pages -= 1

    async def _store_outcome(self, target: CrawlTarget, outcome: PageVisit | CrawlResult) -> None:
        visit = outcome if isinstance(outcome, PageVisit) else None
        result = (
            to_crawl_result(outcome, grade_anchors=self._grade_anchors)
            if isinstance(outcome, PageVisit)
            else outcome
        )
        distance_s = None
        if self._as_of is not None and visit is not None and visit.status is not None:
            distance_s = (visit.fetched_at - self._as_of).total_seconds()
            result = with_distance(result, visit.fetched_at, distance_s)
        if self._is_start(target):
            await self._check_start_page(result, visit)
            await self._set_seeds(result)
        row, charged = None, tuple[str, ...]()
        if visit is not None and not visit.stopped and result.kind != "not_archived":
            content = await self._content(visit.scraped)
            row = encode_row(visit, target, content, capture_distance_s=distance_s)
            row = replace(row, source=source_of_values(visit.scraped))
            extracted = bool(content.get("extract"))
            charged = tariff.page_operations(rendered=visit.rendered, extracted=extracted)
        audits = self._request.audit
        facts = None if visit is None else facts_of_visit(visit, audits=audits)
        journal = encode_entry(target, result, self._text_to_index(visit), facts)
        success = result.kind == "page"
        record = VisitRecord.of(visit, result.check) if visit and success else VisitRecord()
        entry = JournalEntry(
            target.ordinal, target.url, success, journal, charged=charged, visit=record.encode()
        )
        if row is not None:
            entry = await share_content(self._context.job, entry, row, shares_journal=True)
        await self._settle(target, result, entry)

    async def _store_unchanged(self, target: CrawlTarget, page: UnchangedPage) -> None:
        """Store the earlier page as that of this visit."""
        result = unchanged_result(page)
        if self._is_start(target):
            await self._check_start_page(result, page.visit)
            await self._set_seeds(result)
        facts = facts_of_unchanged(page.earlier.facts, page.visit)
        entry = JournalEntry(
            target.ordinal,
            target.url,
            success=True,
            journal=encode_entry(target, result, page.earlier.indexed_text, facts),
            charged=tariff.page_operations(rendered=False, extracted=False),
            visit=msgspec.structs.replace(page.earlier.record, check=result.check).encode(),
        )
        row = encode_unchanged_row(page, target)
        entry = await share_content(self._context.job, entry, row, shares_journal=True)
        await self._settle(target, result, entry)

    async def _content(self, scraped: Scraped | None) -> dict[str, Any]:
        """Return the formats and the metadata of a row."""
        if scraped is None:
            return {}
        if self._extractor is None:
            return {**embed_json(scraped.formats), "metadata": scraped.metadata}
        formats = self._request.scrape_options.formats
        return await self._extractor.apply(scraped.formats, scraped.metadata, formats)

    def _text_to_index(self, visit: PageVisit | None) -> str | None:
        """Return a page's text for the local index, unless its row has Markdown to index."""
        if visit is None or visit.scraped is None or "markdown" in self._options.formats:
            return None
        return visit.scraped.text[:MAX_INDEXED_CHARACTERS]

    async def _settle(
        self, target: CrawlTarget, result: CrawlResult, entry: JournalEntry | None = None
    ) -> None:
        """Settle a target and commit.

        Nothing is awaited between the plan's last step and the commit, so the commits are in the
        order of the rows that they publish.
        """
        settled = await run_cooperatively(self._plan.settle_in_steps(target.ordinal, result))
        self._wake_workers()
        await self._commit(settled, entry)

    async def _commit(self, settled: list[SettledTarget], entry: JournalEntry | None) -> None:
        published = tuple(
            (page.target.ordinal, page.position) for page in settled if page.position is not None
        )
        outcomes = [each for page in settled for each in page.outcomes if self._is_final(each)]
        pinned_files = [*self._robots.pop_unsaved(), *self._rights.pop_unsaved()]
        # The sitemaps are stored with the start page, or not at all.
        seeds, self._unsaved_seeds = self._unsaved_seeds, None
        if seeds is not None:
            outcomes += seeds.problems
            pinned_files.append(seeds.snapshot())
        batch = CommitBatch(
            entries=() if entry is None else (entry,),
            published=published,
            url_outcomes=tuple(outcomes),
            pinned_files=tuple(pinned_files),
            total=self._plan.expected_rows,
            completed=self._plan.rows,
            outcome=self._changed_outcome(),
        )
        await self._context.commit(batch)

    def _changed_outcome(self) -> dict[str, Any] | None:
        """Return what the job states, with the rows of low confidence; None if that is stored."""
        counts = dict(self._plan.low_confidence)
        if counts == self._outcome.get("low_confidence", {}):
            return None
        self._outcome = {**self._outcome, "low_confidence": counts}
        return self._outcome

    def _is_final(self, outcome: UrlOutcome) -> bool:
        """Return whether the receipt keeps an outcome: not of a link that is checked later."""
        is_checked = self._resources.links is not None
        return not (is_checked and outcome.outcome == OUT_OF_SCOPE and not outcome.detail)

    # Start page

    def _is_start(self, target: CrawlTarget) -> bool:
        """Return whether the crawl depends on a page; on none of a list."""
        return target.ordinal == 0 and not self._request.urls

    async def _check_start_page(self, result: CrawlResult, visit: PageVisit | None) -> None:
        """Fail the job where the start page could not be fetched."""
        if result.kind == ROBOTS or result.reason in {ROBOTS, ROBOTS_UNREACHABLE}:
            reply = await self._robots.reply(result.final_url)
            self._failure = reply.start_refusal
        elif result.kind == "not_archived":
            self._failure = f"the start page is not in the archive: {result.detail}"
        elif result.kind == "rights":
            self._failure = (
                f"the start page may not be used for {self._request.purpose}: {result.reason}"
            )
        elif visit is not None and visit.error is not None and visit.status is None:
            self._failure = f"the start page could not be fetched: {visit.error}"

    async def _set_seeds(self, start: CrawlResult) -> None:
        """Read the seeds of the start page's site, unless an earlier attempt stored them."""
        reads_sitemaps, reads_llms_txt = self._request.sitemap, self._request.llms_txt
        if not (reads_sitemaps or reads_llms_txt) or self._failure is not None:
            return
        if self._seeds is None:
            headers, cookies = self._fetcher.headers_and_cookies(start.final_url)
            reader = SitemapReader(
                self._resources.fetcher,
                self._resources.pipeline.read_sitemap if reads_sitemaps else None,
                self._resources.pipeline.read_llms_txt if reads_llms_txt else None,
                self._robots,
                self._request.respect_robots_txt,
                headers=headers,
                cookies=cookies,
            )
            self._seeds = self._unsaved_seeds = await reader.read_seeds(start.final_url)
        self._plan.set_seeds(self._seeds.pages)


def _take_batch(outcomes: Iterator[UrlOutcome]) -> Steps[tuple[UrlOutcome, ...]]:
    batch: list[UrlOutcome] = []
    for outcome in islice(outcomes, OUTCOMES_PER_BATCH):
        if len(batch) % URLS_PER_STEP == 0:
            yield
        batch.append(outcome)
    return tuple(batch)
