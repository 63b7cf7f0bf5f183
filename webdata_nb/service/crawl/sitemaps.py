"""A site's sitemaps as seeds: fetched once a job, in a fixed order, and frozen with it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import orjson

from webdata_nb.service.crawl.robots import JobRobots
from webdata_nb.service.documents import sitemap
from webdata_nb.service.documents.sitemap import Listing
from webdata_nb.service.errors import FetchError
from webdata_nb.service.web.fetch import FetchedResponse, FetchLimits, FetchRequest
from webdata_nb.service.web.polite_fetcher import PageDeadline, PoliteFetcher, retry_delay_s
from webdata_nb.service.web.urls import join_url, url_origin

# An index lists files, and those may be indexes; files and time are bounded over all of them.
MAX_FILES: Final = 50
MAX_SEEDS: Final = 50_000
# Files left out that the receipt names one by one.
MAX_PROBLEMS_LISTED: Final = 100
FILE_TIMEOUT_S: Final = 20.0
TOTAL_TIMEOUT_S: Final = 60.0
LIMITS: Final = FetchLimits(wire_bytes=sitemap.BYTES, decoded_bytes=sitemap.BYTES)
_SNAPSHOT: Final = "sitemaps"


@dataclass(frozen=True, slots=True)
class SitemapSeeds:
    """The pages that sitemaps list, and (URL, reason) of each sitemap that could not be read."""

    pages: tuple[str, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()

    def frozen(self) -> tuple[tuple[str, bytes], ...]:
        """Return the snapshot that the job keeps."""
        return ((_SNAPSHOT, orjson.dumps({"pages": self.pages, "problems": self.problems})),)

    @classmethod
    def thawed(cls, snapshots: Mapping[str, bytes]) -> SitemapSeeds | None:
        """Return what an earlier attempt froze."""
        if _SNAPSHOT not in snapshots:
            return None
        told = orjson.loads(snapshots[_SNAPSHOT])
        problems = tuple((url, reason) for url, reason in told["problems"])
        return cls(tuple(told["pages"]), problems)


@dataclass(slots=True)
class SitemapReader:
    """Reads the sitemaps of one site, one after the other."""

    fetcher: PoliteFetcher
    read: Callable[[FetchedResponse], Awaitable[Listing]]
    robots: JobRobots
    polite: bool
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)

    async def seeds(self, start: str) -> SitemapSeeds:
        """Return what the sitemaps of the site of `start` list, in their order."""
        listed = await self._announced(start)
        guess = f"{url_origin(start)}/sitemap.xml"
        # A file that nobody announced is not even a fault where it is not there.
        silent = set() if guess in listed else {guess}
        if silent and (not self.polite or await self.robots.allowed(guess)):
            listed.append(guess)
        return await self._read_all(deque(listed), silent, url_origin(start))

    async def _announced(self, start: str) -> list[str]:
        found: list[str] = []
        for text in (await self.robots.rules(start)).sitemaps:
            try:
                url = join_url(f"{url_origin(start)}/robots.txt", text)
            except FetchError:
                continue
            if url is not None:
                found.append(url)
        return list(dict.fromkeys(found))

    async def _read_all(self, queue: deque[str], silent: set[str], home: str) -> SitemapSeeds:
        whole = PageDeadline(TOTAL_TIMEOUT_S)
        known, pages = set(queue), dict[str, None]()
        problems: list[tuple[str, str]] = []
        files = 0
        while queue:
            url = queue.popleft()
            files += 1
            if files > MAX_FILES or len(pages) >= MAX_SEEDS:
                reason = f"not read: {MAX_FILES} files or {MAX_SEEDS:,} URLs were reached"
                left = (url, *queue)
                problems.extend((each, reason) for each in left[:MAX_PROBLEMS_LISTED])
                if len(left) > MAX_PROBLEMS_LISTED:
                    problems.append(
                        (
                            left[MAX_PROBLEMS_LISTED],
                            f"{reason}; nor were {len(left) - MAX_PROBLEMS_LISTED - 1} more",
                        )
                    )
                break
            listing = await self._read(url, whole, own=url_origin(url) == home)
            if listing.problem and not (url in silent and listing.problem in _ABSENT):
                problems.append((url, listing.problem))
            pages |= dict.fromkeys(listing.pages)
            fresh = [each for each in listing.sitemaps if each not in known]
            known.update(fresh)
            queue.extend(fresh)
        return SitemapSeeds(tuple(pages)[:MAX_SEEDS], tuple(problems))

    async def _read(self, url: str, whole: PageDeadline, *, own: bool) -> Listing:
        request = FetchRequest(
            url,
            headers=self.headers if own else {},
            cookies=self.cookies if own else {},
            limits=LIMITS,
        )
        delay_s = await self.robots.delay_s(url) if self.polite else 0.0
        with self.fetcher.deadline(min(FILE_TIMEOUT_S, whole.remaining_s)) as deadline:
            fetched, problem = await _fetched(self.fetcher, request, deadline, delay_s)
        whole.queued_s += deadline.queued_s
        return Listing(problem=problem) if fetched is None else await self.read(fetched)


_ABSENT: Final = frozenset({"HTTP 404", "HTTP 410"})


async def _fetched(
    fetcher: PoliteFetcher, request: FetchRequest, deadline: PageDeadline, delay_s: float
) -> tuple[FetchedResponse | None, str]:
    """Return a file, or why there is none; passing faults are tried again."""
    attempt = 0
    while True:
        attempt += 1
        status, kind, after_s = None, "", None
        try:
            fetched = await fetcher.fetch(request, deadline, delay_s=delay_s)
        except FetchError as error:
            kind, problem = error.kind, str(error)
        else:
            status, problem = fetched.status, f"HTTP {fetched.status}"
            after_s = fetched.retry_after_s
            if status == HTTPStatus.OK:
                return fetched, ""
        wait = retry_delay_s(
            attempt,
            status=status,
            kind=kind,
            retry_after_s=after_s,
            remaining_s=deadline.remaining_s,
        )
        if wait is None:
            return None, problem
        await asyncio.sleep(wait)
        deadline.restart_if_interrupted()
