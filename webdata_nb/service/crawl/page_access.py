"""Decides what a crawl may request and use: by its scope, robots.txt files and rights of pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from webdata_nb.contract.outcomes import ROBOTS, ROBOTS_UNREACHABLE
from webdata_nb.contract.requests import ExtendedCrawlRequest
from webdata_nb.contract.url_keys import site_of
from webdata_nb.service.crawl.journal import CrawlResult
from webdata_nb.service.crawl.plan import CrawlPlan
from webdata_nb.service.crawl.rights.job_rights import JobRights
from webdata_nb.service.crawl.rights.page_signals import Headers
from webdata_nb.service.crawl.robots import JobRobots
from webdata_nb.service.pages import PageVisit


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
        return replace(visit, rights=rights.as_json())

    async def start_failure(self, result: CrawlResult) -> str | None:
        """Return why a crawl ends whose start page has a result; None if it goes on."""
        if result.kind == ROBOTS or result.reason in {ROBOTS, ROBOTS_UNREACHABLE}:
            return (await self._robots.reply(result.final_url)).start_refusal
        if result.kind == "not_archived":
            return f"the start page is not in the archive: {result.detail}"
        if result.kind == "rights":
            return f"the start page may not be used for {self._request.purpose}: {result.reason}"
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
