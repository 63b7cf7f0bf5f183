"""Runs a search job: ranks the results of a provider once, then scrapes their pages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
import orjson

from webdata_nb.contract.requests import SearchRequest
from webdata_nb.page.content.page_source import ConversionOptions
from webdata_nb.service.errors import JobFailure, StoreUnavailable
from webdata_nb.service.ledger import result_operations
from webdata_nb.service.pages import (
    PagePipeline,
    PageVisit,
    markdown_mode,
    page_formats,
    render_options,
    source_of_values,
)
from webdata_nb.service.runtime.event_loop import task_group
from webdata_nb.service.search.breaker import ProviderBreakers
from webdata_nb.service.search.catalog import ProviderEntry, provider_summary, usable_providers
from webdata_nb.service.search.chain import (
    SearchOutcome,
    provider_chain,
    search_providers,
)
from webdata_nb.service.search.providers.api import (
    ProviderProblem,
    ResultPage,
    SearchProvider,
    SearchQuery,
    SearchResult,
)
from webdata_nb.service.store.indexing import Indexer
from webdata_nb.service.store.job_context import JobContext
from webdata_nb.service.store.page_contents import share_content
from webdata_nb.service.store.records import (
    EMPTY_BATCH,
    CommitBatch,
    JournalEntry,
    TextMatch,
    UrlOutcome,
)
from webdata_nb.service.store.sql.text_index import TextIndex
from webdata_nb.service.web.fetch import may_identify_user
from webdata_nb.service.web.request import FetchRequest

if TYPE_CHECKING:
    from webdata_nb.service.models.extraction import Extractor

MAX_CONCURRENT_PAGES: Final = 5
# The members of a row that belong to its search; the others are the same in every search.
_OF_SEARCH: Final = ("id", "url", "rank", "title", "snippet")


@dataclass(frozen=True, slots=True)
class SearchResources:
    """What a search works with.

    `entries` are the provider lists of all engines, with unusable providers. `providers` are the
    usable ones by name. `signature_agent` is the identity with which requests for pages are signed.
    """

    pipeline: PagePipeline
    entries: Sequence[ProviderEntry]
    providers: Mapping[str, SearchProvider]
    breakers: ProviderBreakers
    extractor: Extractor | None = None
    signature_agent: str | None = None


class StoredResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The journal of a result; statements of the store read `done` and `success`."""

    done: bool
    success: bool
    found: SearchResult
    reason: str = ""


async def run(
    context: JobContext, request: SearchRequest, resources: SearchResources
) -> CommitBatch:
    """Search to the end and return the last batch. Raises `JobFailure`, `LeaseLost`."""
    search = _SearchRun(context, request, resources)
    last_batch = await search.find_results()
    if request.formats:
        await search.scrape_pages()
    return last_batch


class _SearchRun:
    """One attempt at one search."""

    def __init__(
        self, context: JobContext, request: SearchRequest, resources: SearchResources
    ) -> None:
        self._context, self._request, self._resources = context, request, resources
        self._unscraped: dict[int, SearchResult] = {}
        self._total = 0
        self._render_options = render_options(
            request.formats,
            request.format_options,
            mobile=request.mobile,
            mobile_device=request.mobile_device,
        )
        options = ConversionOptions(
            formats=page_formats(request.formats),
            only_main_content=request.only_main_content,
            markdown_mode=markdown_mode(request.format_options),
            facts=frozenset({"metadata"}),
        )
        self._extractor = extractor = resources.extractor
        self._options = options if extractor is None else extractor.scrape_options(options)

    async def find_results(self) -> CommitBatch:
        """Rank the results, or load those of an earlier attempt; return what is not yet stored."""
        entries = await self._context.journal()
        if not entries:
            request, resources = self._request, self._resources
            links = provider_chain(request.engine, usable_providers(resources.entries))
            query = SearchQuery(
                text=request.query,
                num_results=request.num_results,
                language=request.language,
                country=request.country,
                safe_search=request.safe_search,
                account_id=self._context.job.account_id,
            )
            outcome = await search_providers(links, resources.providers, query, resources.breakers)
            batch = self._results_batch(outcome)
            if not request.formats and outcome.failure is None:
                return batch  # the job ends here: its end is stored in the same transaction
            # The results are visible before any page is fetched. Their ranks never change.
            await self._context.commit(batch)
            if outcome.failure is not None:
                raise JobFailure(outcome.failure)
            return EMPTY_BATCH
        self._total = len(entries)
        for entry in entries:
            stored = msgspec.json.decode(entry.journal, type=StoredResult)
            if not stored.done:
                self._unscraped[entry.ordinal] = stored.found
        return EMPTY_BATCH

    async def scrape_pages(self) -> None:
        """Scrape the result pages that have no formats yet."""
        slots = asyncio.Semaphore(MAX_CONCURRENT_PAGES)
        async with task_group() as group:
            for ordinal, result in list(self._unscraped.items()):
                group.create_task(self._scrape_page(ordinal, result, slots))

    def _results_batch(self, outcome: SearchOutcome) -> CommitBatch:
        self._total = len(outcome.results)
        done = not self._request.formats
        self._unscraped = {} if done else dict(enumerate(outcome.results))
        content = {"success": True, "scraped": False}
        accepted = outcome.accepted
        # The requests for pages may be signed, those to providers never are.
        request = self._request
        is_signed = request.formats and not may_identify_user(request.headers, request.cookies)
        return CommitBatch(
            entries=tuple(
                replace(
                    self._entry(ordinal, result, content, done=done),
                    page=orjson.dumps(self._row(ordinal, result, content)),
                )
                for ordinal, result in enumerate(outcome.results)
            ),
            total=self._total,
            completed=self._total if done else 0,
            outcome={
                "engine_used": accepted and accepted.engine,
                "provider_used": accepted and accepted.provider,
                "fallback_used": outcome.fallback_used,
                "fallback_chain": [
                    attempt.model_dump(exclude_none=True) for attempt in outcome.attempts
                ],
                **provider_summary(self._resources.entries),
                "signature_agent": self._resources.signature_agent if is_signed else None,
            },
        )

    async def _scrape_page(
        self, ordinal: int, result: SearchResult, slots: asyncio.Semaphore
    ) -> None:
        page_request = FetchRequest(
            result.url,
            headers=self._request.headers or {},
            cookies=self._request.cookies or {},
        )
        pipeline = self._resources.pipeline
        async with slots:
            page = await pipeline.fetch(page_request, self._render_options)
            visit = await pipeline.scrape(page, self._options, outlinks=False)
            del self._unscraped[ordinal]
            content = await self._content(visit)
            reason = "" if visit.error is None else visit.error.kind
            outcome = f"failed:{reason}" if reason else "fetched"
            entry = await share_content(
                self._context.job,
                self._entry(ordinal, result, content, done=True, reason=reason),
                self._row(ordinal, result, content),
                of_visit=_OF_SEARCH,
                source=source_of_values(visit.scraped),
                shares_journal=False,  # it is read by statements
            )
            await self._context.commit(
                CommitBatch(
                    updates=(entry,),
                    url_outcomes=(UrlOutcome(result.url, outcome),),
                    completed=self._total - len(self._unscraped),
                )
            )

    async def _content(self, visit: PageVisit) -> dict[str, Any]:
        """Return the members that scraping adds to a result."""
        scraped = visit.scraped
        if scraped is None:
            return {"success": False, "scraped": False, "error": str(visit.error)}
        content = {**scraped.formats, "metadata": scraped.metadata}
        if self._extractor is not None:
            content = await self._extractor.apply(
                scraped.formats, scraped.metadata, self._request.formats
            )
        return {"success": "error" not in content, "scraped": True, **content}

    def _entry(
        self,
        ordinal: int,
        result: SearchResult,
        content: dict[str, Any],
        *,
        done: bool,
        reason: str = "",
    ) -> JournalEntry:
        """Return the journal entry of a result, without its row."""
        stored = StoredResult(done, content["success"], result, reason)
        is_extracted = bool(content.get("extract"))
        return JournalEntry(
            ordinal,
            result.url,
            content["success"] or content["scraped"],
            msgspec.json.encode(stored),
            position=ordinal,
            charged=result_operations(extracted=is_extracted) if content["scraped"] else (),
        )

    def _row(
        self, ordinal: int, result: SearchResult, content: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the row of a result."""
        return {
            "id": f"{self._context.job.id}-{ordinal + 1}",
            "url": result.url,
            "rank": ordinal + 1,
            "title": result.title,
            "snippet": result.snippet,
            **content,
        }


# Searches the pages that the account has crawled: needs no key and no network.


log: Final = logging.getLogger(__name__)

# URLs that differ in `www.` or a trailing slash are several documents, but one result.
MAX_COPIES: Final = 4
UNREACHABLE: Final = "[site unreachable at its last visit]"
"""Begins the snippet of a page whose site could not be reached when it was last visited."""


class LocalProvider:
    """Full-text search (BM25) over the stored pages of the account."""

    name = "local"
    identity = "local"

    def __init__(self, index: TextIndex, indexer: Indexer) -> None:
        self._index, self._indexer = index, indexer

    async def fetch_page(self, query: SearchQuery, number: int) -> ResultPage:
        """Return all results on the first page."""
        if number > 1:
            return ResultPage((), has_more=False)
        try:
            hits = await self._find(query)
        except StoreUnavailable as error:
            raise ProviderProblem("error", str(error)) from None
        results = []
        for hit in hits:
            words = hit.snippet.split()
            if hit.unreachable:
                words.insert(0, UNREACHABLE)
            results.append(SearchResult(hit.url, hit.title, " ".join(words)))
        return ResultPage(tuple(results), has_more=False)

    async def _find(self, query: SearchQuery) -> list[TextMatch]:
        try:
            await self._indexer.catch_up(query.account_id)
            return await self._match(query)
        except StoreUnavailable as error:
            log.warning("local search: %s", error)
        # A damaged index was emptied, and is filled again. On a full disk, it is searched as it is.
        with suppress(StoreUnavailable):
            await self._indexer.catch_up(query.account_id)
        return await self._match(query)

    async def _match(self, query: SearchQuery) -> list[TextMatch]:
        return await self._index.find(
            query.account_id, query.text, limit=query.num_results * MAX_COPIES
        )
