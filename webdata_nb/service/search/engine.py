"""The search engine of a job: discover once, keep the ranks, then scrape the pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from webdata_nb.contract.requests import SearchRequest
from webdata_nb.service.content.source import ScrapeOptions
from webdata_nb.service.credits.tariff import result_operations
from webdata_nb.service.errors import JobFailed
from webdata_nb.service.extract.extraction import Extractor
from webdata_nb.service.pages.page_pipeline import Errand, Visit, Visitor
from webdata_nb.service.pages.render_options import look_of, markdown_mode, page_formats
from webdata_nb.service.search.breaker import ProviderBreakers
from webdata_nb.service.search.catalog import ProviderEntry, provider_summary, usable_providers
from webdata_nb.service.search.chain import (
    ChainLink,
    SearchOutcome,
    provider_chain,
    search_providers,
)
from webdata_nb.service.search.providers.base import SearchProvider, SearchQuery, SearchResult
from webdata_nb.service.store.interface import JobContext
from webdata_nb.service.store.records import EMPTY_BATCH, Batch, JournalEntry, UrlOutcome

MAX_CONCURRENT_PAGES: Final = 5


@dataclass(frozen=True, slots=True)
class SearchResources:
    """What a search works with; `sources` are the entries of all engines, unusable ones too."""

    visitor: Visitor
    sources: Sequence[ProviderEntry]
    open: Callable[[Sequence[ChainLink]], Mapping[str, SearchProvider]]
    breakers: ProviderBreakers
    extractor: Extractor | None = None


async def run(context: JobContext, request: SearchRequest, tools: SearchResources) -> Batch:
    """Search to the end; return what is left to write. Raises `JobFailed`, `LeaseLost`."""
    search = _SearchRun(context, request, tools)
    rest = await search.discover()
    if request.formats:
        await search.scrape()
    return rest


class _SearchRun:
    """One attempt at one search."""

    def __init__(self, context: JobContext, request: SearchRequest, tools: SearchResources) -> None:
        self._context, self._request, self._tools = context, request, tools
        self._waiting: dict[int, SearchResult] = {}
        self._total = 0
        self._extractor = tools.extractor
        self._look = look_of(
            request.formats,
            request.format_options,
            mobile=request.mobile,
            mobile_device=request.mobile_device,
        )
        options = ScrapeOptions(
            formats=page_formats(request.formats),
            only_main_content=request.only_main_content,
            markdown_mode=markdown_mode(request.format_options),
            facts=frozenset({"metadata"}),
        )
        extractor = self._extractor
        self._options = options if extractor is None else extractor.scrape_options(options)

    async def discover(self) -> Batch:
        """Rank the results, or find those of an earlier attempt; return what is left to write."""
        stored = await self._context.journal()
        if not stored:
            return await self._rank()
        self._total = len(stored)
        for entry in stored:
            journal = orjson.loads(entry.journal)
            if not journal["done"]:
                self._waiting[entry.ordinal] = SearchResult(**journal["found"])
        return EMPTY_BATCH

    async def scrape(self) -> None:
        """Visit every result page that is still without its formats."""
        turns = asyncio.Semaphore(MAX_CONCURRENT_PAGES)

        async def one(ordinal: int, found: SearchResult) -> None:
            async with turns:
                await self._visit(ordinal, found)

        try:
            async with asyncio.TaskGroup() as group:
                for ordinal, found in list(self._waiting.items()):
                    group.create_task(one(ordinal, found))
        except* Exception as failures:  # noqa: BLE001 - one failure of one job, raised bare
            raise failures.exceptions[0] from None

    async def _rank(self) -> Batch:
        request = self._request
        links = provider_chain(request.engine, usable_providers(self._tools.sources))
        query = SearchQuery(
            text=request.query,
            num_results=request.num_results,
            language=request.language,
            country=request.country,
            safe_search=request.safe_search,
            account_id=self._context.job.account_id,
        )
        providers = self._tools.open(links)
        outcome = await search_providers(links, providers, query, self._tools.breakers)
        ranked = self._ranked(outcome)
        if not self._request.formats and outcome.failure is None:
            return ranked  # nothing follows: the job's end is written with it, in one transaction
        # Visible before any page is fetched; the ranks never change again.
        await self._context.commit(ranked)
        if outcome.failure is not None:
            raise JobFailed(outcome.failure)
        return EMPTY_BATCH

    def _ranked(self, outcome: SearchOutcome) -> Batch:
        self._total = len(outcome.found)
        done = not self._request.formats
        self._waiting = {} if done else dict(enumerate(outcome.found))
        return Batch(
            entries=tuple(
                self._row(ordinal, found, {"success": True, "scraped": False}, done=done)
                for ordinal, found in enumerate(outcome.found)
            ),
            total=self._total,
            completed=self._total if done else 0,
            outcome={**_summary(outcome), **provider_summary(self._tools.sources)},
        )

    async def _visit(self, ordinal: int, found: SearchResult) -> None:
        errand = Errand(
            found.url,
            self._options,
            headers=self._request.headers or {},
            cookies=self._request.cookies or {},
            outlinks=False,
            look=self._look,
        )
        visit = await self._tools.visitor.visit(errand)
        del self._waiting[ordinal]
        reason = "fetched" if visit.error is None else f"failed:{visit.error.kind}"
        page = await self._page(visit)
        await self._context.commit(
            Batch(
                updates=(self._row(ordinal, found, page, done=True),),
                url_outcomes=(UrlOutcome(found.url, reason),),
                completed=self._total - len(self._waiting),
            )
        )

    async def _page(self, visit: Visit) -> dict[str, Any]:
        """Return what scraping adds to an item; a page that failed leaves the others untouched."""
        scraped = visit.scraped
        if scraped is None:
            return {"success": False, "scraped": False, "error": str(visit.error)}
        content = {**scraped.formats, "metadata": scraped.metadata}
        if self._extractor is not None:
            asked = self._request.formats
            content = await self._extractor.apply(scraped.formats, scraped.metadata, asked)
        return {"success": "error" not in content, "scraped": True, **content}

    def _row(
        self, ordinal: int, found: SearchResult, page: dict[str, Any], *, done: bool
    ) -> JournalEntry:
        item = {
            "id": f"{self._context.job.id}-{ordinal + 1}",
            "url": found.url,
            "rank": ordinal + 1,
            "title": found.title,
            "snippet": found.snippet,
            **page,
        }
        journal = {
            "done": done,
            "success": page["success"],
            "found": {"url": found.url, "title": found.title, "snippet": found.snippet},
        }
        return JournalEntry(
            ordinal,
            found.url,
            page["success"] or page["scraped"],
            orjson.dumps(journal),
            orjson.dumps(item),
            position=ordinal,
            charged=result_operations(extracted=bool(page.get("extract")))
            if page["scraped"]
            else (),
        )


def _summary(outcome: SearchOutcome) -> dict[str, Any]:
    accepted = outcome.accepted
    return {
        "engine_used": accepted and accepted.engine,
        "provider_used": accepted and accepted.provider,
        "fallback_used": outcome.fallback_used,
        "fallback_chain": [attempt.model_dump(exclude_none=True) for attempt in outcome.attempts],
    }
