"""Fetches and scrapes the pages of one crawl, within its scope, robots.txt files and rights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from webdata_nb.contract.outcomes import ROBOTS, ROBOTS_UNREACHABLE
from webdata_nb.contract.requests import CrawlRequest, ExtendedCrawlRequest
from webdata_nb.contract.url_keys import site_of
from webdata_nb.page.content.page_source import ConversionOptions, PageFact
from webdata_nb.service.crawl.earlier_pages import EarlierPage, EarlierPages, UnchangedPage
from webdata_nb.service.crawl.journal import CrawlResult, CrawlTarget
from webdata_nb.service.crawl.plan import CrawlPlan
from webdata_nb.service.crawl.rights.job_rights import JobRights
from webdata_nb.service.crawl.rights.page_signals import Headers
from webdata_nb.service.crawl.robots import JobRobots
from webdata_nb.service.models.extraction import Extractor
from webdata_nb.service.pages.page_pipeline import (
    AllowHop,
    FetchedPage,
    PagePipeline,
    PageRequest,
    PageVisit,
)
from webdata_nb.service.pages.render_options import markdown_mode, page_formats, render_options

FetchOutcome: TypeAlias = FetchedPage | PageVisit | UnchangedPage | CrawlResult
"""A fetched page; a visit that is complete (or failed); a page that the site calls unchanged; or
the result of a URL not fetched."""

_FACTS: Final[frozenset[PageFact]] = frozenset({"metadata", "quality", "shape"})
_RIGHTS: Final[frozenset[PageFact]] = frozenset({"rights"})
_FACTS_FOR_FACETS: Final[frozenset[PageFact]] = frozenset({*_FACTS, "sketch"})
_FACTS_FOR_AUDITS: Final[frozenset[PageFact]] = frozenset({*_FACTS_FOR_FACETS, "audit"})


class PageFetcher:
    """Fetches the targets of one plan, and scrapes what was fetched."""

    def __init__(
        self,
        request: ExtendedCrawlRequest,
        options: ConversionOptions,
        pipeline: PagePipeline,
        robots: JobRobots,
        plan: CrawlPlan,
        *,
        rights: JobRights,
        earlier_pages: EarlierPages,
    ) -> None:
        self._request, self._options, self._rights = request, options, rights
        self._earlier_pages = earlier_pages
        self._pipeline, self._robots, self._plan = pipeline, robots, plan
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
        if not await self._is_allowed(target.url):
            reply = await self._robots.reply(target.url)
            return CrawlResult(ROBOTS, target.url, reason=reply.refusal)
        if (rule := await self._rights_refusal(target.url)) is not None:
            return CrawlResult("rights", target.url, reason=rule, was_requested=False)
        page_request = self._page_request(target, await self.delay_s(target.url))
        # The start page may redirect to another site, which then becomes the crawl's own; so may
        # those of a list.
        is_start = target.ordinal == 0 or self._request.urls
        allow_hop = self._robots_refusal if is_start else self._hop_refusal
        earlier = await self._earlier_pages.page(target.url)
        if earlier is None:
            fetched = await self._pipeline.fetch(page_request, allow_hop=allow_hop)
            return await self._refused(fetched) if isinstance(fetched, PageVisit) else fetched
        return await self._revalidate(page_request, earlier, allow_hop)

    async def _revalidate(
        self, page_request: PageRequest, earlier: EarlierPage, allow_hop: AllowHop
    ) -> FetchOutcome:
        """Ask whether a page has changed; fetch an unchanged one where it is to be checked."""
        conditional_request = replace(page_request, validators=earlier.validators)
        visit = await self._pipeline.fetch(conditional_request, allow_hop=allow_hop)
        if not isinstance(visit, PageVisit) or not visit.not_modified:
            return visit
        if not self._earlier_pages.is_rechecked(page_request.url):
            return UnchangedPage(earlier, visit)
        page = await self._pipeline.fetch(page_request, allow_hop=allow_hop)
        if isinstance(page, FetchedPage):
            return replace(page, claimed_hash=earlier.result.content_hash)
        return page

    async def scrape(self, target: CrawlTarget, page: FetchedPage) -> PageVisit | CrawlResult:
        """Extract the data of a fetched page, unless its rights refuse the purpose."""
        visit = await self._pipeline.scrape(page, self._page_request(target, 0.0))
        if visit.scraped is None or not self._request.reads_rights:
            return visit
        rights = await self._rights.page_rights(
            visit.final_url, page.source.headers, visit.scraped.declarations, visit.fetched_at
        )
        rule = rights.refusal(self._request.purpose)
        if rule is not None:
            return CrawlResult("rights", visit.final_url, reason=rule, hops=visit.hops)
        return replace(visit, rights=rights.as_json())

    async def _refused(self, visit: PageVisit) -> PageVisit | CrawlResult:
        """Return the result of a page that was refused at a redirect or by its headers."""
        url, hops = visit.final_url, visit.hops
        if visit.refused is not None:
            return CrawlResult("rights", url, reason=visit.refused, hops=hops)
        if visit.stopped == "rights":
            rule = await self._rights_refusal(url)
            return CrawlResult("rights", url, reason=f"redirects to {url}: {rule}", hops=hops)
        return visit

    async def delay_s(self, url: str) -> float:
        """Return the crawl-delay of a URL's host in seconds."""
        return await self._robots.delay_s(url) if self._request.respect_robots_txt else 0.0

    def headers_and_cookies(self, url: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return those of the caller for a URL: none for sites outside the crawl."""
        if site_of(url) not in self._plan.scope.sites:
            return {}, {}
        options = self._request.scrape_options
        return options.headers or {}, options.cookies or {}

    def _page_request(self, target: CrawlTarget, delay_s: float) -> PageRequest:
        scrape_options = self._request.scrape_options
        headers, cookies = self.headers_and_cookies(target.url)
        return PageRequest(
            target.url,
            self._options,
            timeout_s=scrape_options.timeout / 1000,
            delay_s=delay_s,
            headers=headers,
            cookies=cookies,
            refuse_headers=self._header_refusal if self._request.purpose else None,
            render_options=self._render_options,
        )

    async def _hop_refusal(self, url: str) -> str | None:
        return self._plan.scope.exclusion_reason(url) or await self._robots_refusal(url)

    async def _robots_refusal(self, url: str) -> str | None:
        if not await self._is_allowed(url):
            return ROBOTS_UNREACHABLE if (await self._robots.reply(url)).refusal else ROBOTS
        return None if await self._rights_refusal(url) is None else "rights"

    async def _rights_refusal(self, url: str) -> str | None:
        """Return the rule by which a site refuses the purpose, before a page is requested."""
        purpose = self._request.purpose
        return None if purpose is None else (await self._rights.site_rights(url)).refusal(purpose)

    def _header_refusal(self, url: str, headers: Headers) -> str | None:
        return self._rights.header_rights(url, headers).refusal(self._request.purpose)

    async def _is_allowed(self, url: str) -> bool:
        return not self._request.respect_robots_txt or await self._robots.allowed(url)


def page_options(request: CrawlRequest, extractor: Extractor | None) -> ConversionOptions:
    """Return the scrape options of every page of a crawl."""
    scrape_options = request.scrape_options
    facts = _page_facts(request)
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


def _page_facts(request: CrawlRequest) -> frozenset[PageFact]:
    if request.audit:
        return _FACTS_FOR_AUDITS
    return _FACTS_FOR_FACETS if request.filter_faceted_urls else _FACTS
