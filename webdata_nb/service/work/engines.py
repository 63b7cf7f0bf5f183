"""From a claimed job to the engine that runs it, with the tools that its session chose."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from webdata_nb.contract.local import SessionSettings
from webdata_nb.contract.replies import EngineEntry
from webdata_nb.contract.requests import Extract
from webdata_nb.service.crawl import engine as crawl
from webdata_nb.service.errors import BadInput, JobFailed
from webdata_nb.service.extract.extraction import Extractions, Extractor, model_access
from webdata_nb.service.runtime.fair_scheduler import current_account
from webdata_nb.service.search import engine as search
from webdata_nb.service.search.breaker import ProviderBreakers
from webdata_nb.service.search.catalog import (
    ProviderCatalog,
    ProviderEntry,
    SearchSettings,
    merge_settings,
)
from webdata_nb.service.search.chain import ChainLink
from webdata_nb.service.search.providers import ddgs
from webdata_nb.service.search.providers.endpoint import provider_identity
from webdata_nb.service.store.base import JobContext
from webdata_nb.service.store.records import Batch
from webdata_nb.service.store.spool import Spool
from webdata_nb.service.work.egress import Way, Ways
from webdata_nb.service.work.stored_requests import crawl_request, search_request

# Sessions whose providers are kept open between their searches.
_KEPT: Final = 32
_Place = tuple[Way, bytes, bool]


@dataclass(frozen=True, slots=True)
class Engines:
    """Runs any job: the crawl engine or the search engine, going out the job's way.

    `operator` are the service's own provider settings; a session's are laid over them.
    """

    ways: Ways
    catalog: ProviderCatalog
    operator: SessionSettings
    spool: Spool
    breakers: ProviderBreakers = field(default_factory=ProviderBreakers)
    extractions: Extractions = field(default_factory=Extractions)
    _tools: dict[_Place, search.SearchResources] = field(default_factory=dict, repr=False)

    async def run(self, context: JobContext) -> Batch:
        """Run a job to its end; raises what its engine raises."""
        job = context.job
        if job.locked:
            raise JobFailed("no key of this service opens the job's headers, cookies and keys")
        way = await self.ways.of(job.context)
        if job.kind == "crawl":
            crawled = crawl_request(job)
            extractor = self._extractor(crawled.scrape_options.extract, job.context, way)
            with self.spool.of(job.id) as spool:
                tools = crawl.CrawlResources(
                    way.visitor, way.polite, way.robots, way.user_agent, spool, extractor
                )
                return await crawl.run(context, crawled, tools)
        request = search_request(job)
        extractor = self._extractor(request.extract, job.context, way)
        return await search.run(context, request, self._search(job.context, way, extractor))

    def _search(
        self, session: Mapping[str, Any], way: Way, extractor: Extractor | None
    ) -> search.SearchResources:
        told = orjson.dumps([session.get("engines"), session.get("providers")])
        place = way, told, ddgs.is_installed()
        if (tools := self._tools.get(place)) is None:
            tools = self._tools[place] = self._opened(session, way)
            while len(self._tools) > _KEPT:
                del self._tools[next(iter(self._tools))]
        return tools if extractor is None else replace(tools, extractor=extractor)

    def _opened(self, session: Mapping[str, Any], way: Way) -> search.SearchResources:
        chosen = merge_settings(self.operator, session)
        entries = tuple(chosen.entries())
        links = [ChainLink(entry.engine, entry.provider) for entry in entries if entry.usable]
        providers = self.catalog.open(links, chosen, way.apis, way.near)
        return search.SearchResources(way.visitor, entries, lambda _links: providers, self.breakers)

    def _extractor(
        self, wanted: Extract | None, session: Mapping[str, Any], way: Way
    ) -> Extractor | None:
        access = model_access(self.operator, session)
        try:
            return self.extractions.extractor(wanted, access, way.towards)
        except BadInput as error:  # the settings have changed since the start
            raise JobFailed(f"extract: {error}") from None

    def check_extract(
        self, wanted: Extract | None, session: Mapping[str, Any], loc: tuple[str, ...]
    ) -> None:
        """Refuse an extraction that a job of this session could not carry out: `BadInput`."""
        self.extractions.check(wanted, model_access(self.operator, session), loc=loc)

    def listing(self, session: Mapping[str, Any]) -> list[EngineEntry]:
        """Return every provider of every engine, in the order in which they are asked."""
        chosen, now = merge_settings(self.operator, session), time.monotonic()
        return [self._standing(entry, chosen, now) for entry in chosen.entries()]

    def _standing(self, entry: ProviderEntry, chosen: SearchSettings, now: float) -> EngineEntry:
        name = provider_identity(entry.provider, chosen.of(entry.provider))
        state = self.breakers.state(name, current_account(), now)
        resting_s = state.circuit.remaining_s(now)
        return EngineEntry(
            engine=entry.engine,
            position=entry.position,
            provider=entry.provider,
            usable=entry.usable,
            why=entry.why or (f"rests after: {state.status}" if resting_s else None),
            resting_s=round(resting_s, 1),
        )
