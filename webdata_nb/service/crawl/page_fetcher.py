"""Fetches and scrapes the pages of one crawl.

Pages that the plan names are fetched, unless an earlier attempt stored or spooled them. In
depth-first order each page determines what follows it, so only one URL is certain to be next.
Meanwhile those are prefetched that come next if no page adds a link. They are members of the
frontier, which the crawl reaches unless its budget ends before. A prefetched page waits until the
plan names it. Until then it affects neither rows nor receipt nor budget, so these do not depend on
what was prefetched.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from webdata_nb.contract.outcomes import ROBOTS, ROBOTS_UNREACHABLE
from webdata_nb.contract.requests import CrawlRequest, ExtendedCrawlRequest
from webdata_nb.contract.url_keys import site_of
from webdata_nb.page.content.page_source import ConversionOptions, FileSlice, PageFact
from webdata_nb.service.crawl.earlier_pages import EarlierPages, UnchangedPage
from webdata_nb.service.crawl.journal import CrawlResult, CrawlTarget
from webdata_nb.service.crawl.plan import CrawlPlan
from webdata_nb.service.crawl.rights.job_rights import JobRights
from webdata_nb.service.crawl.rights.page_signals import Headers
from webdata_nb.service.crawl.robots import JobRobots
from webdata_nb.service.errors import JobFailure
from webdata_nb.service.pages import (
    PagePipeline,
    PageVisit,
    markdown_mode,
    page_formats,
    render_options,
)
from webdata_nb.service.store.job_context import PageSpool
from webdata_nb.service.store.records import SpoolLocation
from webdata_nb.service.web.request import FetchRequest

if TYPE_CHECKING:
    from webdata_nb.service.models.extraction import Extractor

# Decides what a crawl may request and use: by its scope, robots.txt files and rights of pages.


class PageAccess:
    """The refusals of one crawl, and the files that they are read from.

    Parameters
    ----------
    request
        The crawl's request.
    robots, rights
        The files of its sites.
    plan
        Its plan, which has the scope.
    """

    def __init__(
        self, request: ExtendedCrawlRequest, robots: JobRobots, rights: JobRights, plan: CrawlPlan
    ) -> None:
        self._request, self._robots, self._rights, self._plan = request, robots, rights, plan

    async def refusal(self, url: str) -> CrawlResult | None:
        """Return the result of a page that must not be requested; None if it may."""
        if not await self._is_allowed(url):
            reply = await self._robots.reply(url)
            return CrawlResult(ROBOTS, url, reason=reply.refusal)
        if (rule := await self._rights_refusal(url)) is not None:
            return CrawlResult("rights", url, reason=rule, was_requested=False)
        return None

    async def hop_refusal(self, url: str) -> str | None:
        """Return why a redirect to a URL is not followed."""
        return self._plan.scope.exclusion_reason(url) or await self.start_hop_refusal(url)

    async def start_hop_refusal(self, url: str) -> str | None:
        """Do the same for a page that may redirect to another site."""
        if not await self._is_allowed(url):
            return ROBOTS_UNREACHABLE if (await self._robots.reply(url)).refusal else ROBOTS
        return None if await self._rights_refusal(url) is None else "rights"

    def header_refusal(self, url: str, headers: Headers) -> str | None:
        """Return the rule by which a response's headers refuse the purpose."""
        return self._rights.header_rights(url, headers).refusal(self._request.purpose)

    async def result_of_refused(self, visit: PageVisit) -> PageVisit | CrawlResult:
        """Return the result of a visit that was refused at a redirect or by its headers."""
        url, hops = visit.final_url, visit.hops
        if visit.refused is not None:
            return CrawlResult("rights", url, reason=visit.refused, hops=hops)
        if visit.stopped == "rights":
            rule = await self._rights_refusal(url)
            return CrawlResult("rights", url, reason=f"redirects to {url}: {rule}", hops=hops)
        return visit

    async def with_rights(self, visit: PageVisit) -> PageVisit | CrawlResult:
        """Add its rights to a scraped page; return a result where they refuse the purpose."""
        if visit.scraped is None or not self._request.reads_rights:
            return visit
        rights = await self._rights.page_rights(
            visit.final_url, visit.headers, visit.scraped.declarations, visit.fetched_at
        )
        rule = rights.refusal(self._request.purpose)
        if rule is not None:
            return CrawlResult("rights", visit.final_url, reason=rule, hops=visit.hops)
        return msgspec.structs.replace(visit, rights=rights.as_json())

    async def start_failure(self, result: CrawlResult) -> str | None:
        """Return why a crawl ends whose start page has a result; None if it goes on."""
        if result.kind == ROBOTS or result.reason in {ROBOTS, ROBOTS_UNREACHABLE}:
            return (await self._robots.reply(result.final_url)).start_refusal
        if result.kind == "not_archived":
            return f"the start page is not in the archive: {result.detail}"
        if result.kind == "rights":
            return f"the start page may not be used for {self._request.purpose}: {result.reason}"
        if result.is_unanswered:
            return f"the start page could not be fetched: {result.detail}"
        return None

    async def delay_s(self, url: str) -> float:
        """Return the crawl-delay of a URL's host in seconds."""
        return await self._robots.delay_s(url) if self._request.respect_robots_txt else 0.0

    def headers_and_cookies(self, url: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return those of the caller for a URL: none for sites outside the crawl."""
        if site_of(url) not in self._plan.scope.sites:
            return {}, {}
        options = self._request.scrape_options
        return options.headers or {}, options.cookies or {}

    def pop_unsaved(self) -> Sequence[tuple[str, bytes]]:
        """Return the files that the job has yet to store, each once."""
        return [*self._robots.pop_unsaved(), *self._rights.pop_unsaved()]

    async def _rights_refusal(self, url: str) -> str | None:
        """Return the rule by which a site refuses the purpose, before a page is requested."""
        purpose = self._request.purpose
        return None if purpose is None else (await self._rights.site_rights(url)).refusal(purpose)

    async def _is_allowed(self, url: str) -> bool:
        return not self._request.respect_robots_txt or await self._robots.allowed(url)


FetchOutcome: TypeAlias = PageVisit | UnchangedPage | CrawlResult
"""The visit of a page, fetched or scraped or failed; a page that the site calls unchanged; or the
result of a URL not fetched."""

# Fetched pages that wait in the spool to be scraped and stored.
MAX_UNSTORED_PAGES: Final = 32
# For each concurrent fetch: the URLs of the frontier considered, and the pages prefetched that
# the plan has not named.
CANDIDATES_PER_FETCH: Final = 2
PREFETCHED_PER_FETCH: Final = 4
# Memory for pages that wait. Scraped pages beyond it stay in the spool and are scraped when the
# plan names them; unchanged pages, which have no body, end the prefetching until others are named.
MAX_HELD_BYTES: Final = 16 * 1024 * 1024
# Spool numbers of pages whose ordinal is not known yet; ordinals are smaller.
_FIRST_SPOOL_NUMBER: Final = 1 << 31
_SIZES: Final = struct.Struct("!II")
# Session cookies are no part of the page, and must not be written to disk.
_OMITTED_HEADERS: Final = frozenset({"set-cookie", "set-cookie2"})
_decoder: Final = msgspec.json.Decoder(PageVisit)
_FACTS: Final[frozenset[PageFact]] = frozenset({"metadata", "quality", "shape"})
_RIGHTS: Final[frozenset[PageFact]] = frozenset({"rights"})
_FACTS_FOR_FACETS: Final[frozenset[PageFact]] = frozenset({*_FACTS, "sketch"})
_FACTS_FOR_AUDITS: Final[frozenset[PageFact]] = frozenset({*_FACTS_FOR_FACETS, "audit"})


class PageFetcher:
    """Fetches single pages, and scrapes what was fetched."""

    def __init__(
        self,
        request: ExtendedCrawlRequest,
        options: ConversionOptions,
        pipeline: PagePipeline,
        access: PageAccess,
        earlier_pages: EarlierPages,
    ) -> None:
        self._request, self._options, self._access = request, options, access
        self._pipeline, self._earlier_pages = pipeline, earlier_pages
        scrape_options = request.scrape_options
        self._render_options = render_options(
            scrape_options.formats,
            scrape_options.format_options,
            mobile=scrape_options.mobile,
            mobile_device=scrape_options.mobile_device,
            wait_for=scrape_options.wait_for,
            render=scrape_options.render,
        )

    async def fetch(self, target: CrawlTarget) -> FetchOutcome:
        """Fetch a page, unless robots.txt disallows it or its rights refuse the purpose."""
        if (refusal := await self._access.refusal(target.url)) is not None:
            return refusal
        # The start page may redirect to another site, which then becomes the crawl's own; so may
        # those of a list.
        is_start = target.ordinal == 0 or self._request.urls
        scrape_options = self._request.scrape_options
        headers, cookies = self._access.headers_and_cookies(target.url)
        page_request = FetchRequest(
            target.url,
            headers=headers,
            cookies=cookies,
            timeout_s=scrape_options.timeout / 1000,
            refuse_headers=self._access.header_refusal if self._request.purpose else None,
            delay_s=await self._access.delay_s(target.url),
            allow_hop=self._access.start_hop_refusal if is_start else self._access.hop_refusal,
        )
        earlier = await self._earlier_pages.page(target.url)
        if earlier is None:
            visit = await self._pipeline.fetch(page_request, self._render_options)
            return await self._access.result_of_refused(visit)
        # Ask whether the page has changed; fetch an unchanged one where it is to be checked.
        conditional_request = msgspec.structs.replace(page_request, validators=earlier.validators)
        visit = await self._pipeline.fetch(conditional_request, self._render_options)
        if not visit.not_modified:
            return visit
        if not self._earlier_pages.is_rechecked(page_request.url):
            return UnchangedPage(earlier, visit)
        visit = await self._pipeline.fetch(page_request, self._render_options)
        is_fetched = visit.source is not None
        claimed_hash = earlier.result.content_hash if is_fetched else None
        return msgspec.structs.replace(visit, claimed_hash=claimed_hash)

    async def scrape(self, page: PageVisit) -> PageVisit | CrawlResult:
        """Extract the data of a fetched page, unless its rights refuse the purpose."""
        visit = await self._pipeline.scrape(page, self._options)
        return await self._access.with_rights(visit)


@dataclass(slots=True, eq=False)
class PrefetchedPage:
    """A page that is fetched before the plan names it.

    `outcome` is set when it was fetched and scraped, `target` when the plan has named it. `task` is
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
        return CrawlTarget(self.url, self.depth, ordinal=self.spool_number)


class Prefetcher:
    """Chooses which pages one crawl prefetches, and holds them until the plan names them."""

    def __init__(
        self,
        plan: CrawlPlan,
        fetcher: PageFetcher,
        access: PageAccess,
        spool: PageSpool,
        concurrency: int,
    ) -> None:
        self._plan, self._fetcher, self._access, self._spool = plan, fetcher, access, spool
        # One fetch is reserved for the page that the plan names.
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
            page = await load_page(self._spool, number)
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

        A page that the plan has named meanwhile is fetched in any case.
        """
        page.task = asyncio.current_task()
        try:
            if await self._access.delay_s(page.url) > 0 and page.target is None:
                del self._pages[page.url]
                self._max_fetches = 0
                return None
            outcome = await self._fetcher.fetch(page.provisional_target)
            if isinstance(outcome, PageVisit) and outcome.source is not None:
                saved = await save_page(self._spool, page.spool_number, outcome)
                return outcome if saved is None else saved
            return outcome
        finally:
            page.task = None
            self._fetches -= 1

    async def scrape(self, page: PrefetchedPage, fetched: FetchOutcome) -> None:
        """Scrape a prefetched page, and hold the result in memory where there is room."""
        page.task = asyncio.current_task()
        outcome = fetched
        if isinstance(fetched, PageVisit):
            outcome = await self._fetcher.scrape(fetched)
        page.task = None
        page.outcome = outcome
        if page.target is None and isinstance(outcome, PageVisit | UnchangedPage):
            size = _size(outcome)
            if _is_spooled(fetched) and self._held_bytes + size > MAX_HELD_BYTES:
                page.outcome = fetched
                return
            page.held_bytes = size
            self._held_bytes += size

    def take(self, target: CrawlTarget) -> PrefetchedPage | None:
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


class Downloader:
    """Brings the pages of one crawl: those stored, spooled or prefetched before, and new ones.

    Parameters
    ----------
    plan
        Names the pages.
    fetcher
        Fetches them.
    access
        Has the crawl-delays.
    spool
        Where fetched pages wait to be scraped.
    concurrency
        How many pages are prefetched at a time, and one more.
    spools
        Whether pages wait in the spool: not with a model, so that no more than so many pages use
        the model at a time as are fetched.

    Attributes
    ----------
    prefetcher
        Fetches and scrapes pages that the plan has not named.
    """

    def __init__(
        self,
        plan: CrawlPlan,
        fetcher: PageFetcher,
        access: PageAccess,
        spool: PageSpool,
        *,
        concurrency: int,
        spools: bool,
    ) -> None:
        self._plan, self._fetcher, self._spool, self._spools = plan, fetcher, spool, spools
        self.prefetcher: Prefetcher = Prefetcher(plan, fetcher, access, spool, concurrency)
        # The results of the targets that earlier attempts stored, by ordinal.
        self._stored: dict[int, CrawlResult] = {}
        self._unstored_pages = 0

    async def restore(self, stored: dict[int, CrawlResult]) -> None:
        """Take over the results that earlier attempts stored, and the pages that they prefetched.

        The plan receives the results again in their order.
        """
        self._stored = stored
        for ordinal in stored:
            self._spool.drop(ordinal)
        await self.prefetcher.restore({result.url for result in stored.values()})

    def next_page(self) -> CrawlTarget | PrefetchedPage | None:
        """Return the next target, or a page to prefetch; None when there is neither at present.

        A target that was prefetched is returned as such a page.
        """
        while (target := self._plan.next_target()) is not None:
            if (page := self.prefetcher.take(target)) is None:
                return target
            self._unstored_pages += 1
            if page.outcome is not None:
                return page
        # Stored results are replayed first, without any fetch.
        return None if self._stored else self.prefetcher.next_page()

    async def fetch(self, target: CrawlTarget) -> FetchOutcome:
        """Return the page of a target that an earlier attempt spooled, or fetch it."""
        outcome: FetchOutcome
        page = await load_page(self._spool, target.ordinal)
        if page is not None and page.url == target.url:
            outcome = page
        else:
            self._spool.drop(target.ordinal)
            outcome = await self._fetcher.fetch(target)
        self._unstored_pages += 1
        return outcome

    def pop_stored(self, target: CrawlTarget) -> CrawlResult | None:
        """Return the result of a target that an earlier attempt stored; None without one."""
        result = self._stored.pop(target.ordinal, None)
        if result is not None and result.url != target.url:
            raise JobFailure(
                "an earlier release started this crawl with a different order of pages; "
                "start it again"
            )
        return result

    async def save(self, target: CrawlTarget, outcome: FetchOutcome) -> PageVisit | None:
        """Spool a fetched page, so that another one may be fetched; None where it may not."""
        if not isinstance(outcome, PageVisit) or outcome.source is None:
            return None
        if _is_spooled(outcome):
            return outcome
        if not self._spools or self._unstored_pages > MAX_UNSTORED_PAGES:
            return None
        return await save_page(self._spool, target.ordinal, outcome)

    async def scrape(self, page: PageVisit) -> PageVisit | CrawlResult:
        """Extract the data of a fetched page, unless its rights refuse the purpose."""
        return await self._fetcher.scrape(page)

    def release(self, target: CrawlTarget) -> None:
        """Drop a page that is stored."""
        self._spool.drop(self.prefetcher.pop_spool_number(target))
        self._unstored_pages -= 1


def _is_spooled(page: FetchOutcome) -> bool:
    source = page.source if isinstance(page, PageVisit) else None
    return source is not None and source.body_slice is not None


def _size(visit: PageVisit | UnchangedPage) -> int:
    """Estimate the memory of a page in bytes."""
    if isinstance(visit, UnchangedPage):
        return visit.earlier.size
    if visit.scraped is None:
        return 0
    values = visit.scraped.formats.values()
    return len(visit.scraped.text) + sum(len(v) for v in values if isinstance(v, (str, bytes)))


async def save_page(spool: PageSpool, number: int, page: PageVisit) -> PageVisit | None:
    """Write a page to the spool and return it without its body; None where there is no room."""
    parts = encode_page(page)
    location = await spool.write(number, *parts)
    return None if location is None else with_body_on_disk(page, parts[0], location)


async def load_page(spool: PageSpool, number: int) -> PageVisit | None:
    """Return a page that an earlier attempt saved, without its body; None where there is none."""
    record = await spool.read(number)
    page = None if record is None else decode_page(record)
    if record is None or page is None:
        return None
    return with_body_on_disk(page, record, spool.location(number))


def encode_page(page: PageVisit) -> tuple[bytes, bytes, bytes]:
    """Return the parts of a page's record: sizes and the page without these, body, screenshot."""
    source, body = page.source, b""
    if source is not None:
        body = source.body
        headers = tuple(each for each in source.headers if each[0].lower() not in _OMITTED_HEADERS)
        source = replace(source, body=b"", headers=headers)
    # An empty screenshot stands for the one behind the body.
    head = msgspec.json.encode(
        msgspec.structs.replace(page, source=source, screenshot=page.screenshot and b"")
    )
    return _SIZES.pack(len(head), len(body)) + head, body, page.screenshot or b""


def with_body_on_disk(page: PageVisit, record: bytes, location: SpoolLocation) -> PageVisit:
    """Replace a page's body by its place in the spool; `record` may be the first part alone."""
    head_size, body_size = _SIZES.unpack_from(record)
    body_slice = FileSlice(location.path, location.start + _SIZES.size + head_size, body_size)
    return msgspec.structs.replace(
        page, source=page.source and page.source.with_body_in(body_slice)
    )


def decode_page(record: bytes) -> PageVisit | None:
    """Return the page of a record; None where another release wrote it in another format."""
    with suppress(ValueError, struct.error):
        head_size, body_size = _SIZES.unpack_from(record)
        head_end = _SIZES.size + head_size
        body_end = head_end + body_size
        page = _decoder.decode(memoryview(record)[_SIZES.size : head_end])
        return msgspec.structs.replace(
            page,
            source=page.source and replace(page.source, body=record[head_end:body_end]),
            screenshot=None if page.screenshot is None else record[body_end:],
        )
    return None


def page_options(request: CrawlRequest, extractor: Extractor | None) -> ConversionOptions:
    """Return the scrape options of every page of a crawl."""
    scrape_options = request.scrape_options
    facts = _FACTS_FOR_FACETS if request.filter_faceted_urls else _FACTS
    if request.audit:
        facts = _FACTS_FOR_AUDITS
    options = ConversionOptions(
        formats=page_formats(scrape_options.formats),
        only_main_content=scrape_options.only_main_content,
        markdown_mode=markdown_mode(scrape_options.format_options),
        include_tags=scrape_options.include_tags,
        exclude_tags=scrape_options.exclude_tags,
        facts=facts | _RIGHTS if request.reads_rights else facts,
        encoded=True,
    )
    return options if extractor is None else extractor.scrape_options(options)
