"""Runs jobs with their engine, through the proxy and with the providers of their session."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import urlsplit

import orjson
from pydantic import BaseModel, ValidationError

from webdata_nb.contract.choices import ArchiveSource
from webdata_nb.contract.error_messages import plain_message
from webdata_nb.contract.local import SessionSettings
from webdata_nb.contract.replies import EngineEntry
from webdata_nb.contract.requests import ExtendedCrawlRequest, Extract, SearchRequest
from webdata_nb.page.errors import BadInput, FetchError
from webdata_nb.page.extract.results import ValueEvidence
from webdata_nb.service.archives import Archives, WebArchive, WebArchives
from webdata_nb.service.browser.renderer import Browser
from webdata_nb.service.crawl import engine as crawl
from webdata_nb.service.crawl.engine import CrawlResources
from webdata_nb.service.crawl.link_check import LinkSource
from webdata_nb.service.crawl.robots import RobotsCache
from webdata_nb.service.errors import JobFailure, MissingSetting
from webdata_nb.service.models.chat import ModelQueues
from webdata_nb.service.pages import PagePipeline, PageScraper, find_evidence
from webdata_nb.service.runtime.bounded_dict import BoundedDict
from webdata_nb.service.runtime.event_loop import OpenContexts
from webdata_nb.service.runtime.fair_scheduler import current_account
from webdata_nb.service.search import engine as search
from webdata_nb.service.search.breaker import ProviderBreakers
from webdata_nb.service.search.catalog import (
    ProviderCatalog,
    merge_settings,
)
from webdata_nb.service.search.providers.http_provider import provider_identity
from webdata_nb.service.settings import DIRECT, Upstream
from webdata_nb.service.signing.request_signer import RequestSigner
from webdata_nb.service.store.job_context import JobContext
from webdata_nb.service.store.records import CommitBatch, JobRecord
from webdata_nb.service.store.spool import SpoolDirectory
from webdata_nb.service.web.egress_policy import EgressPolicy, classify_address, is_local_host
from webdata_nb.service.web.fetch import Fetcher
from webdata_nb.service.web.polite_fetcher import PoliteFetcher
from webdata_nb.service.web.throttle import HostThrottle

if TYPE_CHECKING:
    from webdata_nb.service.models.extraction import Extractor

# Proxy, CA bundle and user agent.
RouteKey = tuple[str | None, str | None, str]

# Sessions whose search providers stay open between their searches.
_MAX_OPEN_SESSIONS: Final = 32


@dataclass(frozen=True, slots=True)
class EgressRoute:
    """The fetchers and caches of one proxy, CA bundle and user agent.

    `api_fetcher` is for providers: their addresses come from settings alone, so that it may reach
    private addresses. `nearby_api_fetcher` is the same without the proxy, which cannot reach this
    machine or its network. Only `polite` signs requests.
    """

    fetcher: Fetcher
    polite: PoliteFetcher
    api_fetcher: Fetcher
    nearby_api_fetcher: Fetcher
    pipeline: PagePipeline
    browser: Browser
    robots: RobotsCache
    user_agent: str

    def fetcher_for_api(self, url: str) -> Fetcher:
        """Return the fetcher for a provider's address."""
        is_nearby = is_local_host(urlsplit(url).hostname or "")
        return self.nearby_api_fetcher if is_nearby else self.api_fetcher


async def _is_private(fetcher: Fetcher, url: str) -> bool:
    """Return whether a site has private addresses alone.

    The owner of a public site can give its name a private address as well.
    """
    try:
        addresses = await fetcher.addresses(url)
    except FetchError:
        return False
    return bool(addresses) and not any(classify_address(each).public for each in addresses)


class EgressRoutes:
    """One `EgressRoute` for each proxy, CA bundle and user agent, opened on first use."""

    def __init__(
        self,
        policy: EgressPolicy,
        user_agent: str,
        throttle: HostThrottle,
        pages: PageScraper,
        upstream: Upstream = DIRECT,
        *,
        signer: RequestSigner | None = None,
    ) -> None:
        self.policy: EgressPolicy = policy
        self.signer: RequestSigner | None = signer
        self._user_agent, self._upstream = user_agent, upstream
        self.throttle: HostThrottle = throttle
        self.pages: PageScraper = pages
        self._routes = OpenContexts(self._open_route)
        self._public_links = OpenContexts(self._open_public_links)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._public_links.aclose()
        await self._routes.aclose()

    async def route_for(self, context: Mapping[str, Any]) -> EgressRoute:
        """Return the route of a job with this context."""
        user_agent = context.get("user_agent") or self._user_agent
        return await self._routes.get((*self._upstream.of(context), user_agent))

    @property
    def signature_agent(self) -> str | None:
        """The identity with which requests are signed; None if they are not."""
        return None if self.signer is None else self.signer.agent

    async def link_source(
        self, route: EgressRoute, context: Mapping[str, Any], start: str
    ) -> LinkSource:
        """Return where the links of a crawl from `start` are requested.

        Anybody may link to a private address. Where these are allowed, they are requested only from
        the pages of a site that has one itself.
        """
        if self.policy.mode == "team" or await _is_private(route.fetcher, start):
            return LinkSource(route.polite, route.robots)
        return await self._public_links.get((*self._upstream.of(context), route.user_agent))

    async def check_device(self, name: str) -> None:
        """Check the name of a device preset; raises `BadInput` with the closest names."""
        await (await self.route_for({})).browser.check_device(name)

    async def check_browser(self) -> None:
        """Raise `ScrapeError` of kind ``browser_missing`` if no browser is installed."""
        await (await self.route_for({})).browser.check_installed()

    @asynccontextmanager
    async def _open_route(self, key: RouteKey) -> AsyncIterator[EgressRoute]:
        proxy, ca_bundle, user_agent = key
        bundle = Path(ca_bundle) if ca_bundle else None
        new_fetcher = partial(Fetcher, user_agent=user_agent, ca_bundle=bundle)
        async with AsyncExitStack() as stack:
            fetcher = await stack.enter_async_context(new_fetcher(self.policy, proxy=proxy))
            browser = await stack.enter_async_context(
                Browser(
                    self.policy,
                    fetcher,
                    upstream=proxy,
                    ca_bundle=bundle,
                    user_agent=user_agent,
                    throttle=self.throttle,
                )
            )
            # Local mode admits private addresses, such as those of one's own SearXNG.
            api_policy = replace(self.policy, mode="local")
            api_fetcher = nearby_api_fetcher = fetcher
            if self.policy.mode != "local":
                api_fetcher = await stack.enter_async_context(new_fetcher(api_policy, proxy=proxy))
                nearby_api_fetcher = api_fetcher
            if proxy is not None:
                nearby_api_fetcher = await stack.enter_async_context(new_fetcher(api_policy))
            polite = PoliteFetcher(fetcher, self.throttle, signer=self.signer)
            yield EgressRoute(
                fetcher,
                polite,
                api_fetcher,
                nearby_api_fetcher,
                PagePipeline(polite, self.pages, browser),
                browser,
                RobotsCache(polite),
                user_agent,
            )

    @asynccontextmanager
    async def _open_public_links(self, key: RouteKey) -> AsyncIterator[LinkSource]:
        """Open where links at public addresses alone are requested."""
        proxy, ca_bundle, user_agent = key
        policy, bundle = replace(self.policy, mode="team"), Path(ca_bundle) if ca_bundle else None
        async with Fetcher(policy, user_agent=user_agent, proxy=proxy, ca_bundle=bundle) as fetcher:
            polite = PoliteFetcher(fetcher, self.throttle, signer=self.signer)
            yield LinkSource(polite, RobotsCache(polite))


@dataclass(frozen=True, slots=True)
class JobEngines:
    """Runs any job with the crawl engine or the search engine.

    `operator_settings` are the service's own provider settings; a session's override them.
    """

    egress: EgressRoutes
    catalog: ProviderCatalog
    operator_settings: SessionSettings
    spool: SpoolDirectory
    breakers: ProviderBreakers = field(default_factory=ProviderBreakers)
    archives: Archives = field(default_factory=Archives)
    web_archives: WebArchives = field(default_factory=WebArchives)
    model_queues: ModelQueues = field(default_factory=ModelQueues)
    _search_tools: BoundedDict[tuple[EgressRoute, bytes], search.SearchResources] = field(
        default_factory=lambda: BoundedDict(_MAX_OPEN_SESSIONS), repr=False
    )

    def close(self) -> None:
        """Let the threads end that work for jobs."""
        self.archives.close()

    async def run(self, context: JobContext) -> CommitBatch:
        """Run a job to its end; raises what its engine raises."""
        job = context.job
        if job.locked:
            raise JobFailure("no key of this service opens the job's headers, cookies and keys")
        route = await self.egress.route_for(job.context)
        if job.kind == "crawl" or search_request(job).formats:
            route.pipeline.prepare()
        if job.kind == "search":
            request = search_request(job)
            extractor = self._extractor(request.extract, job.context, route)
            tools = self._tools_for_search(job.context, route, extractor)
            return await search.run(context, request, tools)
        crawled = crawl_request(job)
        extractor = self._extractor(crawled.scrape_options.extract, job.context, route)
        with self.spool.open(job.id) as spool:
            crawl_tools = CrawlResources(
                route.pipeline,
                route.polite,
                route.robots,
                route.user_agent,
                spool,
                extractor,
                signature_agent=self.egress.signature_agent,
            )
            if crawled.check_links:
                links = await self.egress.link_source(route, job.context, crawled.start)
                crawl_tools = replace(crawl_tools, links=links)
            open_web_archive = partial(self._archive_of_job, session=job.context)
            return await crawl.run(context, crawled, crawl_tools, self.archives, open_web_archive)

    def check_extract(
        self, extract: Extract | None, session: Mapping[str, Any], loc: tuple[str, ...]
    ) -> None:
        """Raise `BadInput` for an extraction that a job of this session could not carry out."""
        if extract is not None:
            # Most services never extract: their start and their memory go without.
            from webdata_nb.service.models import extraction  # noqa: PLC0415

            access = extraction.model_access(self.operator_settings, session)
            extraction.model_and_schema(extract, access, loc)

    async def find_evidence(
        self, page: str, url: str, data: Mapping[str, Any]
    ) -> list[ValueEvidence]:
        """Find the evidence of extracted data in the source of a page; raises `PageError`."""
        return await find_evidence(self.egress.pages, page, url, data)

    async def open_archive(
        self, source: ArchiveSource, session: Mapping[str, Any], *, patience_s: float | None = None
    ) -> WebArchive:
        """Return a web archive for a session; raises `MissingSetting`."""
        route = await self.egress.route_for(session)
        settings = merge_settings(self.operator_settings, session)
        return self.web_archives.open(
            source,
            settings.access_to,
            route.fetcher_for_api,
            self.egress.throttle,
            patience_s=patience_s,
        )

    async def _archive_of_job(
        self, source: ArchiveSource, session: Mapping[str, Any]
    ) -> WebArchive:
        try:
            return await self.open_archive(source, session)
        except MissingSetting as error:
            raise JobFailure(str(error)) from None

    def list_providers(self, session: Mapping[str, Any]) -> list[EngineEntry]:
        """Return every provider of every engine, in the order in which a search asks them."""
        settings, now = merge_settings(self.operator_settings, session), time.monotonic()
        listed = []
        for entry in settings.entries():
            name = provider_identity(entry.provider, settings.access_to(entry.provider))
            state = self.breakers.state(name, current_account(), now)
            resting_s = state.circuit.remaining_s(now)
            listed.append(
                EngineEntry(
                    engine=entry.engine,
                    position=entry.position,
                    provider=entry.provider,
                    usable=entry.usable,
                    why=entry.problem or (f"rests after: {state.status}" if resting_s else None),
                    resting_s=round(resting_s, 1),
                )
            )
        return listed

    def _tools_for_search(
        self, session: Mapping[str, Any], route: EgressRoute, extractor: Extractor | None
    ) -> search.SearchResources:
        key = route, orjson.dumps([session.get("engines"), session.get("providers")])
        if (tools := self._search_tools.get(key)) is None:
            settings = merge_settings(self.operator_settings, session)
            entries = tuple(settings.entries())
            usable = [entry.provider for entry in entries if entry.usable]
            providers = self.catalog.open_providers(usable, settings, route.fetcher_for_api)
            tools = search.SearchResources(route.pipeline, entries, providers, self.breakers)
            self._search_tools[key] = tools
        agent = self.egress.signature_agent
        if extractor is None and tools.signature_agent == agent:
            return tools
        return replace(tools, extractor=extractor, signature_agent=agent)

    def _extractor(
        self, extract: Extract | None, session: Mapping[str, Any], route: EgressRoute
    ) -> Extractor | None:
        if extract is None:
            return None
        from webdata_nb.service.models import extraction  # noqa: PLC0415

        access = extraction.model_access(self.operator_settings, session)
        try:
            return extraction.open_extractor(
                extract, access, route.fetcher_for_api, self.find_evidence, self.model_queues
            )
        except BadInput as error:  # the settings have changed since the start
            raise JobFailure(f"extract: {error}") from None


_MAX_PROBLEMS: Final = 3
_Model = TypeVar("_Model", bound=BaseModel)


def crawl_request(job: JobRecord) -> ExtendedCrawlRequest:
    """Return the request of a stored crawl.

    Raises
    ------
    JobFailure
        The request exceeds the limits of this release; the message names the fields.
    """
    return _validate(ExtendedCrawlRequest, job)


def search_request(job: JobRecord) -> SearchRequest:
    """Return the request of a stored search; raises `JobFailure`."""
    return _validate(SearchRequest, job)


def _validate(model: type[_Model], job: JobRecord) -> _Model:
    # The limits protect the whole service, so older jobs are no exception.
    try:
        return model.model_validate(job.request)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)
    texts = [
        f"{'.'.join(map(str, problem['loc']))} {plain_message(problem)}"
        for problem in problems[:_MAX_PROBLEMS]
    ]
    if len(problems) > _MAX_PROBLEMS:
        texts.append(f"and {len(problems) - _MAX_PROBLEMS} more")
    raise JobFailure(
        "an earlier release accepted the job with more than this one allows; start it anew within "
        f"the limits: {'; '.join(texts)}"
    )
