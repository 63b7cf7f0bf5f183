"""Reads the files of a site that list pages, sitemaps and llms.txt, once and in a fixed order."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from webdata_nb.contract import outcomes
from webdata_nb.page import sitemap
from webdata_nb.page.content.page_source import FetchedResponse
from webdata_nb.page.errors import FetchError
from webdata_nb.page.sitemap import ParsedSitemap
from webdata_nb.page.urls import join_url, url_origin
from webdata_nb.service.crawl.robots import JobRobots
from webdata_nb.service.store.records import UrlOutcome
from webdata_nb.service.web.fetch import FetchLimits, FetchRequest
from webdata_nb.service.web.polite_fetcher import (
    PageDeadline,
    ResponseSource,
    fetch_with_retries,
)

# An index lists files, which may be indexes as well, so the bounds apply to all files together.
MAX_FILES: Final = 50
MAX_SEEDS: Final = 50_000
# Unread files that the receipt lists one by one.
MAX_PROBLEMS_LISTED: Final = 100
FILE_TIMEOUT_S: Final = 20.0
TOTAL_TIMEOUT_S: Final = 60.0
LIMITS: Final = FetchLimits(wire_bytes=sitemap.MAX_BYTES, decoded_bytes=sitemap.MAX_BYTES)
# Outcomes of unreadable files in the receipt.
SITEMAP: Final = "sitemap"
LLMS_TXT: Final = "llms_txt"
_SNAPSHOT_NAME: Final = "sitemaps"
_NOT_FOUND: Final = frozenset({"HTTP 404", "HTTP 410", outcomes.NOT_ARCHIVED})

Parse: TypeAlias = Callable[[FetchedResponse], Awaitable[ParsedSitemap]]
"""Extracts the URLs of a fetched file."""


class SitemapSeeds(Struct, frozen=True):
    """The pages that sitemaps and llms.txt list, and each of these files that is unreadable."""

    pages: tuple[str, ...] = ()
    problems: tuple[UrlOutcome, ...] = ()

    def snapshot(self) -> tuple[str, bytes]:
        """Return name and content of the snapshot that the job stores."""
        return _SNAPSHOT_NAME, msgspec.json.encode(self)

    @classmethod
    def from_snapshots(cls, snapshots: Mapping[str, bytes]) -> SitemapSeeds | None:
        """Return the seeds that an earlier attempt stored, None where it stored none."""
        snapshot = snapshots.get(_SNAPSHOT_NAME)
        return None if snapshot is None else msgspec.json.decode(snapshot, type=cls)


@dataclass(slots=True)
class SitemapReader:
    """Reads the sitemaps of one site and its llms.txt, one after the other.

    `parse` and `parse_llms_txt` extract the URLs of a fetched file; a file without a parser is not
    read. `headers` and `cookies` are sent to the site itself, but not to other sites that its
    robots.txt names.
    """

    fetcher: ResponseSource
    parse: Parse | None
    parse_llms_txt: Parse | None
    robots: JobRobots
    respect_robots_txt: bool
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)

    async def read_seeds(self, start: str) -> SitemapSeeds:
        """Return the pages that the sitemaps of the start page's site list, then its llms.txt."""
        total = PageDeadline(TOTAL_TIMEOUT_S)
        seeds = SitemapSeeds()
        if self.parse is not None:
            seeds = await self._read_sitemaps(start, total, self.parse)
        if self.parse_llms_txt is not None:
            more = await self._read_llms_txt(start, total, self.parse_llms_txt)
            pages = tuple(dict.fromkeys((*seeds.pages, *more.pages)))[:MAX_SEEDS]
            seeds = SitemapSeeds(pages, (*seeds.problems, *more.problems))
        return seeds

    async def _read_llms_txt(self, start: str, total: PageDeadline, parse: Parse) -> SitemapSeeds:
        url = f"{url_origin(start)}/llms.txt"
        if self.respect_robots_txt and not await self.robots.allowed(url):
            return SitemapSeeds()
        listing = await self._read_file(url, total, parse, is_own=True)
        if listing.problem and listing.problem not in _NOT_FOUND:
            return SitemapSeeds(problems=(UrlOutcome(url, LLMS_TXT, listing.problem),))
        return SitemapSeeds(listing.pages)

    async def _read_sitemaps(self, start: str, total: PageDeadline, parse: Parse) -> SitemapSeeds:
        announced: dict[str, None] = {}
        for text in (await self.robots.rules(start)).sitemaps:
            try:
                url = join_url(f"{url_origin(start)}/robots.txt", text)
            except FetchError:
                continue
            if url is not None:
                announced[url] = None
        urls = list(announced)
        default = f"{url_origin(start)}/sitemap.xml"
        # The default location is no promise: that it does not exist is not a problem.
        optional = set() if default in urls else {default}
        if optional and (not self.respect_robots_txt or await self.robots.allowed(default)):
            urls.append(default)
        queue, listed_urls, pages = deque(urls), set(urls), dict[str, None]()
        problems: list[tuple[str, str]] = []
        files = 0
        while queue and files < MAX_FILES and len(pages) < MAX_SEEDS:
            url = queue.popleft()
            files += 1
            is_own = url_origin(url) == url_origin(start)
            listing = await self._read_file(url, total, parse, is_own=is_own)
            if listing.problem and not (url in optional and listing.problem in _NOT_FOUND):
                problems.append((url, listing.problem))
            pages |= dict.fromkeys(listing.pages)
            nested = [url for url in listing.sitemaps if url not in listed_urls]
            listed_urls.update(nested)
            queue.extend(nested)
        unread = list(queue)
        reason = f"not read: {MAX_FILES} files or {MAX_SEEDS:,} URLs were reached"
        problems += [(url, reason) for url in unread[:MAX_PROBLEMS_LISTED]]
        if len(unread) > MAX_PROBLEMS_LISTED:
            omitted_count = len(unread) - MAX_PROBLEMS_LISTED - 1
            reason = f"{reason}; {omitted_count} more were not read either"
            problems.append((unread[MAX_PROBLEMS_LISTED], reason))
        outcomes = (UrlOutcome(url, SITEMAP, reason) for url, reason in problems)
        return SitemapSeeds(tuple(pages)[:MAX_SEEDS], tuple(outcomes))

    async def _read_file(
        self, url: str, total: PageDeadline, parse: Parse, *, is_own: bool
    ) -> ParsedSitemap:
        request = FetchRequest(
            url,
            headers=self.headers if is_own else {},
            cookies=self.cookies if is_own else {},
            limits=LIMITS,
            delay_s=await self.robots.delay_s(url) if self.respect_robots_txt else 0.0,
        )
        with self.fetcher.deadline(min(FILE_TIMEOUT_S, total.remaining_s)) as deadline:
            fetched, problem = await fetch_file(self.fetcher, request, deadline)
        total.queued_s += deadline.queued_s
        return ParsedSitemap(problem=problem) if fetched is None else await parse(fetched)


async def fetch_file(
    fetcher: ResponseSource,
    request: FetchRequest,
    deadline: PageDeadline,
    *,
    queued: bool = True,
) -> tuple[FetchedResponse | None, str]:
    """Fetch a file; returns it, or None and the problem.

    `queued` is False for files that pages wait for while they hold their place in a queue.
    """
    reply = await fetch_with_retries(fetcher, request, deadline, queued=queued)
    if isinstance(reply, FetchError):
        return None, reply.kind if reply.kind == outcomes.NOT_ARCHIVED else str(reply)
    return (reply, "") if reply.status == HTTPStatus.OK else (None, f"HTTP {reply.status}")
