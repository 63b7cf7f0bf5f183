"""Fetches and caches robots.txt files (RFC 9309), and fixes those of a job at first use."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final, Generic, TypeVar

import msgspec

from webdata_nb.contract import outcomes
from webdata_nb.page.charset import decode_text
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import url_origin
from webdata_nb.service.crawl.robots_rules import RobotsRules
from webdata_nb.service.errors import request_failure_kind
from webdata_nb.service.runtime.event_loop import run_cooperatively
from webdata_nb.service.web.fetch import FetchLimits, FetchRequest
from webdata_nb.service.web.polite_fetcher import ResponseSource, fetch_with_retries
from webdata_nb.service.web.request import retry_after_s

# RFC 9309, 2.5: parsers must read at least 500 KiB, and may stop there.
MAX_PARSED_BYTES: Final = 500 * 1024
TIMEOUT_S: Final = 20.0
MAX_DELAY_S: Final = 30.0
# RFC 9309, 2.4: a file may be cached for a day. A complete disallow is soon requested again.
MAX_CACHE_S: Final = 24 * 3600.0
UNREACHABLE_CACHE_S: Final = 60.0
MAX_CACHE_BYTES: Final = 16 * 1024 * 1024
# Five redirects (2.3.1.2). A file that unpacks to more than this is no robots.txt.
LIMITS: Final = FetchLimits(
    wire_bytes=10 * MAX_PARSED_BYTES, decoded_bytes=10 * MAX_PARSED_BYTES, redirects=5
)
# Errors after which the file may be treated as unavailable (2.3.1.2, 2.3.1.3), and the status that
# they stand for: too many redirects, or an archive without it, whose pages are not requested again.
_UNAVAILABLE: Final[Mapping[str, int]] = {
    "redirects": HTTPStatus.FOUND,
    outcomes.NOT_ARCHIVED: HTTPStatus.NOT_FOUND,
}
_UNREADABLE: Final = "robots.txt could not be read"
File = TypeVar("File")
_MAX_AGE: Final = re.compile(r"(?<![\w-])max-age=\"?([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class RobotsReply:
    """A site's reply to the request for its robots.txt; `status` 0 means an unreachable site.

    `read_at` is when it came, in ISO 8601, and `problem_kind` the kind of the error that made the
    site unreachable.
    """

    status: int
    body: str
    problem: str = ""
    read_at: str = field(default="", compare=False)
    problem_kind: str = field(default="", compare=False)

    @property
    def unreachable(self) -> bool:
        """Whether to assume a complete disallow: 2.3.1.4, and 429, which is no "not found"."""
        return (
            self.status in {0, HTTPStatus.TOO_MANY_REQUESTS}
            or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        )

    @property
    def rules(self) -> str:
        """The rules in force: none where the file is unavailable (2.3.1.3)."""
        return self.body if self.status < HTTPStatus.MULTIPLE_CHOICES else ""

    @property
    def refusal(self) -> str:
        """Why a complete disallow is assumed; empty where it is not."""
        if not self.unreachable:
            return ""
        return f"{_UNREADABLE} (status {self.status})" if self.status else self.problem

    @property
    def start_refusal(self) -> str:
        """Why the start page, and so the whole crawl, may not be fetched."""
        if self.status == 0:
            return f"the site could not be reached: {self.problem}"
        if self.unreachable:
            return (
                f"{_UNREADABLE} (status {self.status}), which means that the site must not be "
                "crawled now; respect_robots_txt=false overrides this"
            )
        return "robots.txt does not allow the start page; respect_robots_txt=false overrides this"


@dataclass(frozen=True, slots=True)
class CachedRobots:
    """A reply, and the clock time until which it may be reused."""

    reply: RobotsReply
    expires_at: float

    @property
    def size(self) -> int:
        """The memory that it takes, in bytes."""
        return len(self.reply.body) + 1024


class RobotsCache:
    """The robots.txt files of all sites, for all jobs that use the same egress.

    Requests carry no headers or cookies of a job, so that jobs may share the replies.
    """

    def __init__(
        self, fetcher: ResponseSource, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetcher, self._clock = fetcher, clock
        self._cached: dict[str, CachedRobots] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def reply(self, site: str) -> RobotsReply:
        """Return the reply of an origin, from the cache where it is fresh."""
        lock = self._locks.setdefault(site, asyncio.Lock())
        try:
            async with lock:
                cached = self._cached.get(site)
                if cached is None or self._clock() >= cached.expires_at:
                    cached = await self._fetch(site)
                    self._cached.pop(site, None)  # the oldest ones are evicted beyond the bound
                    self._cached[site] = cached
                    total = sum(entry.size for entry in self._cached.values())
                    while total > MAX_CACHE_BYTES:
                        total -= self._cached.pop(next(iter(self._cached))).size
                return cached.reply
        finally:
            if not lock.locked():
                self._locks.pop(site, None)

    async def _fetch(self, site: str) -> CachedRobots:
        request = FetchRequest(f"{site}/robots.txt", limits=LIMITS)
        with self._fetcher.deadline(TIMEOUT_S) as deadline:
            # Pages already hold their place in the host's queue while they wait for this file.
            fetched = await fetch_with_retries(self._fetcher, request, deadline, queued=False)
        cache_s, after_s = MAX_CACHE_S, None
        if isinstance(fetched, FetchError):
            status, kind = _UNAVAILABLE.get(fetched.kind, 0), request_failure_kind(fetched)
            reply = RobotsReply(status, "", str(fetched), current_time(), kind)
        else:
            # The RFC fixes the encoding, whatever the headers say.
            body = decode_text(fetched.body[:MAX_PARSED_BYTES], "UTF-8")
            reply = RobotsReply(fetched.status, body, read_at=current_time())
            after_s = retry_after_s(fetched)
            cache_control = fetched.header("cache-control") or ""
            if (max_age := _MAX_AGE.search(cache_control)) is not None:
                cache_s = min(MAX_CACHE_S, float(max_age[1]))
            if "no-cache" in cache_control or "no-store" in cache_control:
                cache_s = 0.0
        if reply.unreachable:
            cache_s = max(UNREACHABLE_CACHE_S, after_s or 0.0)
        return CachedRobots(reply, self._clock() + cache_s)


def current_time() -> str:
    """Return the time at which a file is read."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class PinnedFiles(Generic[File]):
    """Files of sites that a job reads, fixed at their first use.

    Parameters
    ----------
    kind
        The type of the files.
    prefix
        Of the names of their snapshots.
    snapshots
        What the job has stored, by name.
    """

    def __init__(self, kind: type[File], prefix: str, snapshots: Mapping[str, bytes]) -> None:
        self._prefix = prefix
        self._files = {
            name.removeprefix(prefix): msgspec.json.decode(snapshot, type=kind)
            for name, snapshot in snapshots.items()
            if name.startswith(prefix)
        }
        self._locks: dict[str, asyncio.Lock] = {}
        self._unsaved: list[tuple[str, bytes]] = []

    async def _file(self, key: str, read: Callable[[str], Awaitable[File]]) -> File:
        """Return the file of a site or URL, read once for each job."""
        if key not in self._files:
            async with self._locks.setdefault(key, asyncio.Lock()):
                if key not in self._files:
                    file = self._files[key] = await read(key)
                    self._unsaved.append((self._prefix + key, msgspec.json.encode(file)))
        return self._files[key]

    def pop_unsaved(self) -> tuple[tuple[str, bytes], ...]:
        """Return the snapshots that the job has yet to store, each once."""
        unsaved, self._unsaved = tuple(self._unsaved), []
        return unsaved


class JobRobots(PinnedFiles[RobotsReply]):
    """The robots.txt files of one job."""

    def __init__(self, cache: RobotsCache, token: str, snapshots: Mapping[str, bytes]) -> None:
        super().__init__(RobotsReply, "robots:", snapshots)
        self._cache, self._token = cache, token
        self._rules: dict[str, RobotsRules] = {}

    async def allowed(self, url: str) -> bool:
        """Return whether robots.txt allows `url`."""
        reply = await self.reply(url)
        if reply.unreachable:
            return False
        return await run_cooperatively((await self.rules(url)).allows_in_steps(url))

    async def delay_s(self, url: str) -> float:
        """Return the crawl-delay of the site in seconds, up to a bound."""
        return min((await self.rules(url)).delay_s or 0.0, MAX_DELAY_S)

    async def rules(self, url: str) -> RobotsRules:
        """Return the parsed rules of the site."""
        site = url_origin(url)
        if (rules := self._rules.get(site)) is None:
            steps = RobotsRules.parse_in_steps((await self.reply(url)).rules, self._token)
            rules = self._rules[site] = await run_cooperatively(steps)
        return rules

    async def reply(self, url: str) -> RobotsReply:
        """Return the site's reply."""
        return await self._file(url_origin(url), self._cache.reply)
