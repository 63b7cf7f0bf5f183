"""Runs a crawl job: fetches the pages that the plan chooses, and stores the results.

Each part owns its state: the plan has order, budget and frontier (`plan`); the access has the
robots.txt files and rights (`page_access`); the downloader has the pages in flight, spooled and
prefetched (`page_fetcher`); the result store has what is committed (`crawl_results`); the link
check has the links (`link_check`). `Crawl` runs the workers, which pass pages from one to the next.

Pages come from their sites, from an archive file, or from a web archive at about a date. Without a
sink, the rows are all that is kept; with one, the exchanges go to a WARC file as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from webdata_nb import __version__
from webdata_nb.contract import limits
from webdata_nb.contract.choices import ArchiveSource
from webdata_nb.contract.outcomes import DAMAGED_ARCHIVE
from webdata_nb.contract.requests import ExtendedCrawlRequest, FileSource, WebArchiveSource
from webdata_nb.contract.url_keys import canonical_key, folder_of, names_folder, site_of
from webdata_nb.page.urls import canonical_url
from webdata_nb.service.archives import (
    ArchiveFetcher,
    Archives,
    DatedCaptures,
    RecordingSource,
    UnusableArchive,
    WarcWriter,
    WebArchive,
    partial_path,
)
from webdata_nb.service.crawl.crawl_results import ResultStore
from webdata_nb.service.crawl.earlier_pages import EarlierPages
from webdata_nb.service.crawl.facets import FacetDetector
from webdata_nb.service.crawl.frontier import BestFirst, BreadthFirst, DepthFirst, Frontier
from webdata_nb.service.crawl.journal import CrawlResult, CrawlTarget
from webdata_nb.service.crawl.link_check import CheckedLinks, LinkCheck, LinkSource, max_links
from webdata_nb.service.crawl.page_fetcher import (
    Downloader,
    FetchOutcome,
    PageAccess,
    PageFetcher,
    PrefetchedPage,
    page_options,
)
from webdata_nb.service.crawl.plan import CrawlLimits, CrawlPlan, ListPlan
from webdata_nb.service.crawl.rights.job_rights import JobRights
from webdata_nb.service.crawl.robots import JobRobots, RobotsCache
from webdata_nb.service.crawl.robots_rules import product_token
from webdata_nb.service.crawl.scope import CrawlScope
from webdata_nb.service.crawl.sitemaps import SitemapReader, SitemapSeeds
from webdata_nb.service.errors import JobFailure
from webdata_nb.service.pages import PagePipeline, PageVisit
from webdata_nb.service.runtime.event_loop import run_cooperatively, task_group
from webdata_nb.service.store.job_context import JobContext, PageSpool
from webdata_nb.service.store.records import CommitBatch, JournalEntry, UrlOutcome
from webdata_nb.service.store.spool import ClosedSpool
from webdata_nb.service.web.fetch import may_identify_user
from webdata_nb.service.web.polite_fetcher import ResponseSource

if TYPE_CHECKING:
    from webdata_nb.service.models.extraction import Extractor

OpenWebArchive: TypeAlias = Callable[[ArchiveSource], Awaitable[WebArchive]]

# The captures of the start's host: an attempt that resumes reads the same ones.
_CAPTURES: Final = "captures"
_MAX_PROBLEMS_LISTED: Final = 10


async def run(
    context: JobContext,
    request: ExtendedCrawlRequest,
    resources: CrawlResources,
    archives: Archives,
    open_web_archive: OpenWebArchive,
) -> CommitBatch:
    """Crawl to the end and return the last batch.

    Raises
    ------
    JobFailure
        The crawl cannot be carried out, or an archive cannot be read or written.
    LeaseLost
        Another worker has the job.
    """
    if (file := request.source.file) is not None:
        return await _crawl_file(context, request, resources, archives, file)
    if (captures := request.source.web_archive) is not None:
        archive = await open_web_archive(captures.archive)
        return await _crawl_captures(context, request, resources, archive, captures)
    if request.sink.warc is not None:
        return await _crawl_to_warc(context, request, resources, archives, Path(request.sink.warc))
    return await crawl_pages(context, request, resources)


async def _crawl_file(
    context: JobContext,
    request: ExtendedCrawlRequest,
    resources: CrawlResources,
    archives: Archives,
    file: FileSource,
) -> CommitBatch:
    """Crawl the pages of an archive file; no request is sent."""
    try:
        archive = await archives.open(Path(file.path), file.version)
    except UnusableArchive as error:
        raise JobFailure(str(error)) from None
    if not request.start:
        url = await archives.first_page(archive)
        if url is None:
            raise JobFailure(
                "the archive has no page to start from: pass its URL, and the file as archive"
            )
        request = request.model_copy(update={"url": url})
    fetcher = ArchiveFetcher.of_file(archive, archives)
    archived = replace(resources.reading_from(fetcher), signature_agent=None)
    batch = await crawl_pages(context, request, archived)
    problems = archive.index.problems
    if not problems:
        return batch
    detail = "; ".join(problems[:_MAX_PROBLEMS_LISTED])
    if len(problems) > _MAX_PROBLEMS_LISTED:
        detail += f"; and {len(problems) - _MAX_PROBLEMS_LISTED:,} more"
    damage = UrlOutcome(archive.path.as_uri(), DAMAGED_ARCHIVE, detail)
    return replace(batch, url_outcomes=(*batch.url_outcomes, damage))


async def _crawl_captures(
    context: JobContext,
    request: ExtendedCrawlRequest,
    resources: CrawlResources,
    archive: WebArchive,
    captures: WebArchiveSource,
) -> CommitBatch:
    """Crawl a site as a web archive captured it; no request is sent to the site."""

    async def pin(index: bytes) -> None:
        await context.commit(CommitBatch(pinned_files=((_CAPTURES, index),)))

    reader = DatedCaptures(
        archive,
        datetime.fromisoformat(captures.as_of),
        timedelta(days=captures.max_distance),
        request.start,
        pin=pin,
    )
    if (pinned := (await context.pinned_files()).get(_CAPTURES)) is not None:
        reader.restore(pinned)
    # The deadline of a page is for sites; that of a request to a web archive is another.
    fetcher = ArchiveFetcher(lambda url, limits, _: reader.read(url, limits))
    dated = replace(resources.reading_from(fetcher), signature_agent=None)
    return await crawl_pages(context, request, dated)


async def _crawl_to_warc(
    context: JobContext,
    request: ExtendedCrawlRequest,
    resources: CrawlResources,
    archives: Archives,
    path: Path,
) -> CommitBatch:
    """Crawl sites and write the exchanges to a WARC file, which is complete before the job is."""
    info = {
        "software": f"webdata_nb {__version__}",
        "format": "WARC File Format 1.1",
        "description": "a crawl; secrets, cookies and transfer codings are left out",
        "isPartOf": f"urn:uuid:{context.job.id}",
    }
    partial = partial_path(path, context.job.id)
    writer = WarcWriter(path, partial, info, archives.index_threads)
    # With robots.txt of its own: what other jobs have fetched would not be in the file.
    recorded = resources.reading_from(RecordingSource(resources.fetcher, writer))
    try:
        await writer.open()
        batch = await crawl_pages(context, request, recorded)
        await writer.complete()
    finally:
        writer.close()
    return batch


FRONTIERS: Final[dict[str, Callable[[], Frontier]]] = {
    "bfs": BreadthFirst,
    "dfs": DepthFirst,
    "bff": BestFirst,
}


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


async def crawl_pages(
    context: JobContext, request: ExtendedCrawlRequest, resources: CrawlResources
) -> CommitBatch:
    """Crawl to the end and return the last batch. Raises `JobFailure`, `LeaseLost`."""
    pinned_files = await context.pinned_files()
    headers = request.scrape_options.headers or {}
    own_agents = (value for name, value in headers.items() if name.lower() == "user-agent")
    token = product_token(next(own_agents, resources.user_agent))
    robots = JobRobots(resources.robots, token, pinned_files)
    rights = JobRights(resources.fetcher, robots, token, pinned_files)
    frontier = FRONTIERS[request.crawl_strategy]()
    plan = _new_plan(request, frontier)
    access = PageAccess(request, robots, rights, plan)
    options = page_options(request, resources.extractor)
    fetcher = PageFetcher(
        request, options, resources.pipeline, access, await EarlierPages.load(context, request)
    )
    downloader = Downloader(
        plan,
        fetcher,
        access,
        # A page is stored nowhere before it is known that it is not refused.
        resources.spool if request.purpose is None else ClosedSpool(),
        # Only where one page at a time is certain to be next, fetches would be idle otherwise.
        concurrency=request.concurrency if frontier.round_size == 1 else 1,
        spools=resources.extractor is None,
    )
    checks_links = resources.links is not None
    results = ResultStore(
        context, request, plan, access, options, resources.extractor, checks_links=checks_links
    )
    seeds = SitemapSeeds.from_snapshots(pinned_files)
    start = StartPage(request, resources, robots, access, seeds)

    checked_links = CheckedLinks()
    await downloader.restore(await results.load(checked_links))
    scrape_options, agent = request.scrape_options, resources.signature_agent
    if agent and not may_identify_user(scrape_options.headers, scrape_options.cookies):
        await results.state_signature_agent(agent)
    await Crawl(plan, downloader, results, start, request.concurrency).run(context.job.settled_rows)
    unvisited = await results.commit_leftovers(max_links(request.max_pages) if checks_links else 0)
    if resources.links is not None:
        check = LinkCheck(
            context,
            request,
            resources.links,
            token=token,
            scope=plan.scope,
            headers_for=access.headers_and_cookies,
            checked=checked_links,
            next_ordinal=max(checked_links.next_ordinal, plan.next_ordinal),
        )
        await check.run(start.seeds, unvisited)
    return CommitBatch(total=plan.rows)


def _new_plan(request: ExtendedCrawlRequest, frontier: Frontier) -> CrawlPlan:
    """Return the plan of a request."""
    by_key: dict[str, str] = {}  # two spellings of a URL are one page
    for url in map(canonical_url, request.urls):
        by_key.setdefault(canonical_key(url), url)
    pages = list(by_key.values())
    start = pages[0] if pages else canonical_url(request.url)
    folder = "" if request.scope == "site" else folder_of(start)
    if request.scope == "auto" and not names_folder(start):
        folder = f"{site_of(start)}/"
    scope = CrawlScope(
        frozenset(map(site_of, pages or [start])),
        request.allow_external_links,
        request.include_paths,
        request.exclude_paths,
        folder,
    )
    budget = CrawlLimits(request.row_limit, request.max_depth)
    if pages:
        return ListPlan(pages, budget, scope, frontier)
    return CrawlPlan(
        start,
        budget,
        scope,
        frontier,
        obey_nofollow=request.respect_nofollow,
        facets=FacetDetector() if request.filter_faceted_urls else None,
    )


class StartPage:
    """The page on which a crawl depends, and the seeds of its site; a list of pages has none.

    Attributes
    ----------
    failure
        Why the crawl ends, once the page is read.
    """

    def __init__(
        self,
        request: ExtendedCrawlRequest,
        resources: CrawlResources,
        robots: JobRobots,
        access: PageAccess,
        seeds: SitemapSeeds | None,
    ) -> None:
        self._request, self._resources = request, resources
        self._robots, self._access = robots, access
        self._seeds = seeds
        self._unsaved_seeds: SitemapSeeds | None = None
        self.failure: str | None = None

    @property
    def seeds(self) -> tuple[str, ...]:
        """The pages that the site's files list, as far as they are read."""
        return () if self._seeds is None else self._seeds.pages

    def is_target(self, target: CrawlTarget) -> bool:
        """Return whether a target is the start page."""
        return target.ordinal == 0 and not self._request.urls

    async def check(self, result: CrawlResult) -> None:
        """Set `failure` where the page could not be fetched, in this or in an earlier attempt."""
        self.failure = await self._access.start_failure(result)

    async def read_seeds(self, final_url: str) -> tuple[str, ...]:
        """Return the seeds of the page's site; an earlier attempt may have stored them."""
        reads_sitemaps, reads_llms_txt = self._request.sitemap, self._request.llms_txt
        if not (reads_sitemaps or reads_llms_txt) or self.failure is not None:
            return ()
        if self._seeds is None:
            headers, cookies = self._access.headers_and_cookies(final_url)
            reader = SitemapReader(
                self._resources.fetcher,
                self._resources.pipeline.read_sitemap if reads_sitemaps else None,
                self._resources.pipeline.read_llms_txt if reads_llms_txt else None,
                self._robots,
                self._request.respect_robots_txt,
                headers=headers,
                cookies=cookies,
            )
            self._seeds = self._unsaved_seeds = await reader.read_seeds(final_url)
        return self._seeds.pages

    def pop_unsaved(self) -> SitemapSeeds | None:
        """Return the seeds where they have yet to be stored."""
        seeds, self._unsaved_seeds = self._unsaved_seeds, None
        return seeds


class Crawl:
    """The workers of one attempt at one crawl: each makes one of the concurrent fetches."""

    def __init__(
        self,
        plan: CrawlPlan,
        downloader: Downloader,
        results: ResultStore,
        start: StartPage,
        concurrency: int,
    ) -> None:
        self._plan, self._downloader, self._results = plan, downloader, results
        self._start, self._concurrency = start, concurrency
        self._plan_changed = asyncio.Event()

    async def run(self, rows: int) -> None:
        """Run the workers until the plan is over; `rows` are those at the last checkpoint."""
        while True:
            self._plan.set_checkpoint(rows + limits.CHECKPOINT_PAGES)
            async with task_group() as group:
                for _ in range(self._concurrency):
                    group.create_task(self._run_worker(group))
            if self._start.failure is not None:
                raise JobFailure(self._start.failure)
            if not self._plan.is_at_checkpoint:
                return
            await self._results.pass_checkpoint()
            rows = self._plan.rows

    async def _run_worker(self, group: asyncio.TaskGroup) -> None:
        while (page := await self._next_page()) is not None:
            if isinstance(page, PrefetchedPage):
                if page.target is not None and page.outcome is not None:
                    group.create_task(self._store(page.target, page.outcome))
                elif (fetched := await self._downloader.prefetcher.fetch(page)) is not None:
                    group.create_task(self._store_prefetched(page, fetched))
                continue
            if (result := self._downloader.pop_stored(page)) is not None:
                await self._commit(page, result)
                continue
            outcome = await self._downloader.fetch(page)
            saved = None
            if not self._start.is_target(page):
                saved = await self._downloader.save(page, outcome)
            if saved is not None:
                group.create_task(self._store(page, saved))
            else:
                await self._store(page, outcome)

    async def _next_page(self) -> CrawlTarget | PrefetchedPage | None:
        """Wait for a page to fetch or to prefetch; None at a checkpoint and at the end."""
        while (page := self._downloader.next_page()) is None:
            if self._plan.is_over:
                self._wake_workers()
                if not self._plan.is_at_checkpoint:
                    self._downloader.prefetcher.stop()
                return None
            await self._plan_changed.wait()
        return page

    def _wake_workers(self) -> None:
        self._plan_changed.set()
        self._plan_changed = asyncio.Event()

    async def _store_prefetched(self, page: PrefetchedPage, fetched: FetchOutcome) -> None:
        await self._downloader.prefetcher.scrape(page, fetched)
        if page.target is not None and page.outcome is not None:
            await self._store(page.target, page.outcome)
        self._wake_workers()

    async def _store(self, target: CrawlTarget, outcome: FetchOutcome) -> None:
        """Scrape a page, and commit its result and its journal entry."""
        if isinstance(outcome, PageVisit):
            outcome = await self._downloader.scrape(outcome)
        result, entry = await self._results.encode(target, outcome)
        await self._commit(target, result, entry)
        self._downloader.release(target)

    async def _commit(
        self, target: CrawlTarget, result: CrawlResult, entry: JournalEntry | None = None
    ) -> None:
        """Pass a result to the plan and commit what became final, with a new journal entry.

        Nothing is awaited between the plan's last step and the commit, so the commits are in the
        order of the rows that they publish.
        """
        if self._start.is_target(target):
            await self._start.check(result)
            self._plan.set_seeds(await self._start.read_seeds(result.final_url))
        effects = await run_cooperatively(self._plan.commit_in_steps(target.ordinal, result))
        self._wake_workers()
        await self._results.commit(effects, entry, self._start.pop_unsaved())
