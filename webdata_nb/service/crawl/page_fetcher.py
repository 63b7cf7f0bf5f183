"""How the pages of one crawl are asked for: with its headers, by its robots files, in its scope."""

from __future__ import annotations

from typing import Final

from webdata_nb.contract.requests import CrawlRequest
from webdata_nb.service.content.source import Fact, ScrapeOptions
from webdata_nb.service.crawl.plan import CrawlPlan, CrawlResult, CrawlTarget
from webdata_nb.service.crawl.robots import JobRobots
from webdata_nb.service.crawl.scope import site_of
from webdata_nb.service.extract.extraction import Extractor
from webdata_nb.service.pages.page_pipeline import Arrived, Errand, Visit, Visitor
from webdata_nb.service.pages.render_options import look_of, markdown_mode, page_formats

_FACTS: Final[frozenset[Fact]] = frozenset({"metadata", "quality", "shape"})
_FACETED: Final[frozenset[Fact]] = frozenset({*_FACTS, "sketch"})


class PageFetcher:
    """Fetches the targets of one plan, and has them read."""

    def __init__(
        self,
        request: CrawlRequest,
        options: ScrapeOptions,
        visitor: Visitor,
        robots: JobRobots,
        plan: CrawlPlan,
    ) -> None:
        self._request, self._options = request, options
        self._visitor, self._robots, self._plan = visitor, robots, plan
        wanted = request.scrape_options
        self._look = look_of(
            wanted.formats,
            wanted.format_options,
            mobile=wanted.mobile,
            mobile_device=wanted.mobile_device,
            wait_for=wanted.wait_for,
            render=wanted.render,
        )

    async def fetch(self, target: CrawlTarget) -> Arrived | Visit | CrawlResult:
        """Return the page as it came, or why there is none; a result where robots kept us out."""
        if not await self._allowed(target.url):
            answer = await self._robots.answer(target.url)
            return CrawlResult("robots", target.url, reason=answer.refusal)
        delay_s = await self.delay_s(target.url)
        start = target.ordinal == 0
        return await self._visitor.arrive(
            self._errand(target, delay_s),
            allow_hop=self._robots_only if start else self._allow_hop,
        )

    async def delay_s(self, url: str) -> float:
        """Return the seconds that the host of a URL wants between requests."""
        return await self._robots.delay_s(url) if self._request.respect_robots_txt else 0.0

    async def read(self, target: CrawlTarget, came: Arrived) -> Visit:
        """Turn a page that came into its data."""
        return await self._visitor.read(came, self._errand(target, 0.0))

    def own(self, url: str, given: dict[str, str] | None) -> dict[str, str]:
        """Keep custom headers and cookies to the crawled site, away from others it links to."""
        return given or {} if site_of(url) in self._plan.scope.sites else {}

    def _errand(self, target: CrawlTarget, delay_s: float) -> Errand:
        wanted = self._request.scrape_options
        return Errand(
            target.url,
            self._options,
            timeout_s=wanted.timeout / 1000,
            delay_s=delay_s,
            headers=self.own(target.url, wanted.headers),
            cookies=self.own(target.url, wanted.cookies),
            look=self._look,
        )

    async def _allow_hop(self, url: str) -> str | None:
        return self._plan.scope.verdict(url) or await self._robots_only(url)

    async def _robots_only(self, url: str) -> str | None:
        return None if await self._allowed(url) else "robots"

    async def _allowed(self, url: str) -> bool:
        return not self._request.respect_robots_txt or await self._robots.allowed(url)


def page_options(request: CrawlRequest, extractor: Extractor | None) -> ScrapeOptions:
    """Return what every page of the crawl is asked for."""
    wanted = request.scrape_options
    formats = page_formats(wanted.formats)
    options = ScrapeOptions(
        formats=formats,
        only_main_content=wanted.only_main_content,
        markdown_mode=markdown_mode(wanted.format_options),
        include_tags=wanted.include_tags,
        exclude_tags=wanted.exclude_tags,
        facts=_FACETED if request.filter_faceted_urls else _FACTS,
        encoded=True,
    )
    return options if extractor is None else extractor.scrape_options(options)
