"""Checks at the end of a crawl whether links to URLs that it did not fetch work.

Each result is committed as an entry of the journal, behind those of the pages. An attempt after a
kill reads them again, and checks the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import Final

from webdata_nb.contract.requests import CrawlRequest
from webdata_nb.service.crawl.journal import CrawlTarget, decode_entry, encode_entry
from webdata_nb.service.crawl.link_probe import HeadersFor, LinkCheckResult, LinkProbe
from webdata_nb.service.crawl.link_selection import (
    LinkSelection,
    SelectedLink,
    external_links,
    max_links,
)
from webdata_nb.service.crawl.robots import RobotsCache
from webdata_nb.service.crawl.scope import OUT_OF_SCOPE, CrawlScope
from webdata_nb.service.store.job_context import JobContext
from webdata_nb.service.store.records import CommitBatch, JournalEntry, StoredEntry, UrlOutcome
from webdata_nb.service.web.polite_fetcher import ResponseSource

# Pages whose links are read at a time.
ENTRIES_PER_READ: Final = 200
# The links that are left then are not checked: hosts that answer slowly may have many.
MAX_SECONDS: Final = 3600.0
# The field of an entry's facts with the seconds since the first check, over all attempts.
_ELAPSED: Final = "elapsed"
_URLS_PER_STEP: Final = 1000
_RESULTS_PER_BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class LinkSource:
    """Where links are requested: a fetcher, and its robots.txt files."""

    fetcher: ResponseSource
    robots: RobotsCache


@dataclass(slots=True)
class CheckedLinks:
    """The links that earlier attempts at a crawl checked.

    Attributes
    ----------
    urls
        Their URLs.
    next_ordinal
        The ordinal behind those of their entries.
    seconds
        How long the attempts checked links.
    """

    urls: set[str] = field(default_factory=set)
    next_ordinal: int = 0
    seconds: float = 0.0

    def add(self, url: str, entry: StoredEntry) -> None:
        """Add a link with its entry; the entries come in their order."""
        self.urls.add(url)
        self.next_ordinal = entry.ordinal + 1
        self.seconds = max(self.seconds, decode_entry(entry.journal).facts.get(_ELAPSED, 0.0))


class LinkCheck:
    """Checks the links of one crawl.

    Parameters
    ----------
    context
        The job.
    request
        Its request.
    source
        Where the links are requested.
    token
        The name by which robots.txt files call this program.
    scope
        The bounds of the crawl: links out of them are checked.
    headers_for
        The caller's headers and cookies for a URL.
    checked
        The links that earlier attempts checked.
    next_ordinal
        The ordinal of the next journal entry.
    """

    def __init__(
        self,
        context: JobContext,
        request: CrawlRequest,
        source: LinkSource,
        *,
        token: str,
        scope: CrawlScope,
        headers_for: HeadersFor,
        checked: CheckedLinks,
        next_ordinal: int,
    ) -> None:
        self._context, self._request, self._source = context, request, source
        self._token, self._scope, self._headers_for = token, scope, headers_for
        self._checked, self._next_ordinal = checked.urls, next_ordinal
        self._selection = LinkSelection(max_links(request.max_pages))
        self._began_at = monotonic() - checked.seconds

    async def run(self, seeds: Sequence[str], unvisited: Sequence[str]) -> None:
        """Check the links of the stored pages, then `seeds` of other sites, then `unvisited` pages.

        Raises `LeaseLost`.
        """
        async for entries in self._journal():
            await self._select(await asyncio.to_thread(self._external_links, entries))
        await self._select(
            [url for url in seeds if self._scope.exclusion_reason(url) == OUT_OF_SCOPE]
        )
        for url in unvisited:
            self._selection.add(url, is_external=False)
        await self._check_hosts()

    # Selection

    async def _journal(self) -> AsyncIterator[Sequence[StoredEntry]]:
        """Yield the entries of the journal, also those of this attempt."""
        start = 0
        while entries := await self._context.entries(start=start, count=ENTRIES_PER_READ):
            yield entries
            start = entries[-1].ordinal + 1

    def _external_links(self, entries: Iterable[StoredEntry]) -> list[str]:
        obey_nofollow = self._request.respect_nofollow
        return list(
            dict.fromkeys(external_links(entries, self._scope, obey_nofollow=obey_nofollow))
        )

    async def _select(self, urls: Iterable[str]) -> None:
        """Select links, and account for those beyond the limits."""
        remaining = iter(urls)
        while part := list(islice(remaining, _URLS_PER_STEP)):
            refused = [outcome for url in part if (outcome := self._selection.add(url)) is not None]
            await self._account(refused)
            await asyncio.sleep(0)

    async def _account(self, outcomes: Sequence[UrlOutcome]) -> None:
        if outcomes:
            await self._context.commit(CommitBatch(url_outcomes=tuple(outcomes)))

    # Checks

    async def _check_hosts(self) -> None:
        """Check the links: those of a host one after the other, several hosts at a time."""
        hosts = deque(self._selection.by_host.values())
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._request.concurrency):
                    group.create_task(self._run_worker(hosts))
        except* Exception as failures:  # noqa: BLE001 - one failure of one job, raised bare
            raise failures.exceptions[0] from None

    async def _run_worker(self, hosts: deque[list[SelectedLink]]) -> None:
        while hosts:
            await self._check_host(hosts.popleft())

    async def _check_host(self, links: Iterable[SelectedLink]) -> None:
        robots = self._source.robots if self._request.respect_robots_txt else None
        probe = LinkProbe(self._source.fetcher, robots, self._token, self._headers_for)
        unchecked = deque(link for link in links if link.url not in self._checked)
        results: list[tuple[SelectedLink, LinkCheckResult]] = []
        while unchecked and self._elapsed_s < MAX_SECONDS:
            link = unchecked.popleft()
            result = await probe.check(link.url)
            results.append((link, result))
            # What took no request may be found out again after a kill.
            if result.was_requested or len(results) >= _RESULTS_PER_BATCH:
                await self._store(results)
                results = []
        await self._store(results)
        await self._account(
            [
                UrlOutcome(link.url, "over_links", "the time for links was over")
                for link in unchecked
                if link.is_external
            ]
        )

    @property
    def _elapsed_s(self) -> float:
        """The seconds of this attempt and of earlier ones."""
        return monotonic() - self._began_at

    async def _store(self, results: Sequence[tuple[SelectedLink, LinkCheckResult]]) -> None:
        if not results:
            return
        batch = CommitBatch(
            entries=tuple(self._entry(link, result) for link, result in results),
            url_outcomes=tuple(
                UrlOutcome(link.url, result.outcome, result.receipt_detail)
                for link, result in results
                if link.is_external
            ),
        )
        await self._context.commit(batch)

    def _entry(self, link: SelectedLink, result: LinkCheckResult) -> JournalEntry:
        target = CrawlTarget(self._next_ordinal, link.url, 0)
        self._next_ordinal += 1
        facts = {**result.facts, _ELAPSED: round(self._elapsed_s, 1)}
        journal = encode_entry(target, result.as_crawl_result(), None, facts)
        return JournalEntry(target.ordinal, link.url, success=False, journal=journal)
