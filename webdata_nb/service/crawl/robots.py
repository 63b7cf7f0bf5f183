"""robots.txt by RFC 9309: asked for once a day and origin, frozen with each job."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import orjson

from webdata_nb.service.crawl.robots_rules import RobotsRules
from webdata_nb.service.errors import FetchError
from webdata_nb.service.runtime.cooperative import in_turns
from webdata_nb.service.web.charset import Charset, decode_text
from webdata_nb.service.web.fetch import FetchLimits, FetchRequest
from webdata_nb.service.web.polite_fetcher import PageDeadline, PoliteFetcher, retry_delay_s
from webdata_nb.service.web.urls import url_origin

# RFC 9309, 2.5: parsers must read at least 500 KiB, and may stop there.
MAX_PARSED_BYTES: Final = 500 * 1024
TIMEOUT_S: Final = 20.0
MAX_DELAY_S: Final = 30.0
# RFC 9309, 2.4: an answer may be used for a day; one that keeps us out is soon asked for again.
MAX_CACHE_S: Final = 24 * 3600.0
UNREACHABLE_CACHE_S: Final = 60.0
MAX_CACHE_BYTES: Final = 16 * 1024 * 1024
# The RFC fixes the encoding; no header or guess changes it.
UTF_8: Final = Charset("UTF-8", "default")
# Five hops (2.3.1.2); a file that unpacks to more than this is no robots.txt.
LIMITS: Final = FetchLimits(
    wire_bytes=10 * MAX_PARSED_BYTES, decoded_bytes=10 * MAX_PARSED_BYTES, redirects=5
)
_PREFIX: Final = "robots:"
_MAX_AGE: Final = re.compile(r"(?<![\w-])max-age=\"?([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class RobotsReply:
    """How a site answered for its robots.txt. `status` 0: it could not be reached."""

    status: int
    body: str
    problem: str = ""

    @property
    def unreachable(self) -> bool:
        """Whether to assume a complete disallow: 2.3.1.4, and 429, which is no "not found"."""
        return (
            self.status in {0, HTTPStatus.TOO_MANY_REQUESTS}
            or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        )

    @property
    def rules(self) -> str:
        """The rules in force: none at all where the file is unavailable (2.3.1.3)."""
        return self.body if self.status < HTTPStatus.MULTIPLE_CHOICES else ""

    @property
    def refusal(self) -> str:
        """Why the site keeps everybody out; "" where it answered."""
        if not self.unreachable:
            return ""
        return f"robots.txt answered HTTP {self.status}" if self.status else self.problem


@dataclass(frozen=True, slots=True)
class RobotsAttempt:
    """One attempt: the answer, or the kind of its failure, and what the headers said of time."""

    answer: RobotsReply
    kind: str = ""
    retry_after_s: float | None = None
    most_s: float = MAX_CACHE_S

    @property
    def fresh_s(self) -> float:
        """For how many seconds the answer is good."""
        if self.answer.unreachable:
            return max(UNREACHABLE_CACHE_S, self.retry_after_s or 0.0)
        return min(MAX_CACHE_S, self.most_s)


@dataclass(frozen=True, slots=True)
class CachedRobots:
    """A reply, and the clock time until which it may be reused."""

    answer: RobotsReply
    until: float


class RobotsCache:
    """What sites answered, for all jobs that go out one way.

    Requests carry nothing of a job's own, neither headers nor cookies, so that jobs may share
    the answers.
    """

    def __init__(
        self, fetcher: PoliteFetcher, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetcher, self._clock = fetcher, clock
        self._kept: dict[str, CachedRobots] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def answer(self, site: str) -> RobotsReply:
        """Return the answer of an origin, which is asked unless it answered a short while ago."""
        lock = self._locks.setdefault(site, asyncio.Lock())
        try:
            async with lock:
                kept = self._kept.get(site)
                if kept is None or self._clock() >= kept.until:
                    answer, fresh_s = await self._ask(site)
                    kept = self._keep(site, CachedRobots(answer, self._clock() + fresh_s))
                return kept.answer
        finally:
            if not lock.locked():
                self._locks.pop(site, None)

    def _keep(self, site: str, kept: CachedRobots) -> CachedRobots:
        self._kept.pop(site, None)
        self._kept[site] = kept
        weight = sum(_weight(each.answer) for each in self._kept.values())
        while weight > MAX_CACHE_BYTES:
            weight -= _weight(self._kept.pop(next(iter(self._kept))).answer)
        return kept

    async def _ask(self, site: str) -> tuple[RobotsReply, float]:
        """Ask, again where that may help; return the answer and how long to keep it."""
        with self._fetcher.deadline(TIMEOUT_S) as deadline:
            return await self._ask_within(site, deadline)

    async def _ask_within(self, site: str, deadline: PageDeadline) -> tuple[RobotsReply, float]:
        attempt = 0
        while True:
            attempt += 1
            asked = await self._attempt(site, deadline)
            wait = retry_delay_s(
                attempt,
                status=asked.answer.status or None,
                kind=asked.kind,
                retry_after_s=asked.retry_after_s,
                remaining_s=deadline.remaining_s,
            )
            if wait is None:
                return asked.answer, asked.fresh_s
            await asyncio.sleep(wait)
            deadline.restart_if_interrupted()

    async def _attempt(self, site: str, deadline: PageDeadline) -> RobotsAttempt:
        try:
            request = FetchRequest(f"{site}/robots.txt", limits=LIMITS)
            # Pages wait for this while they hold their turn at the host.
            fetched = await self._fetcher.fetch(request, deadline, queued=False)
        except FetchError as error:
            # 2.3.1.2: whoever is sent on and on may take the file for unavailable.
            status = HTTPStatus.FOUND if error.kind == "redirects" else 0
            return RobotsAttempt(RobotsReply(status, "", str(error)), kind=error.kind)
        after_s = fetched.retry_after_s
        text = decode_text(fetched.body[:MAX_PARSED_BYTES], UTF_8)
        most_s = _most_s(fetched.header("cache-control") or "")
        return RobotsAttempt(
            RobotsReply(fetched.status, text), retry_after_s=after_s, most_s=most_s
        )


def _most_s(cache_control: str) -> float:
    """Return for how long a site lets its answer be kept."""
    if "no-cache" in cache_control or "no-store" in cache_control:
        return 0.0
    found = _MAX_AGE.search(cache_control)
    return float(found[1]) if found else MAX_CACHE_S


def _weight(answer: RobotsReply) -> int:
    return len(answer.body) + 1024


class JobRobots:
    """The robots files of one job, as they were when it first asked."""

    def __init__(self, cache: RobotsCache, token: str, frozen: Mapping[str, bytes]) -> None:
        self._cache, self._token = cache, token
        self._answers: dict[str, RobotsReply] = {}
        self._rules: dict[str, RobotsRules] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._unsaved: list[tuple[str, bytes]] = []
        for name, body in frozen.items():
            if name.startswith(_PREFIX):
                self._answers[name.removeprefix(_PREFIX)] = RobotsReply(**orjson.loads(body))

    async def allowed(self, url: str) -> bool:
        """Tell whether the site lets us fetch `url`."""
        answer = await self.answer(url)
        return not answer.unreachable and await in_turns((await self.rules(url)).deciding(url))

    async def delay_s(self, url: str) -> float:
        """Return the crawl-delay that the site asks for, up to a bound."""
        return min((await self.rules(url)).delay_s or 0.0, MAX_DELAY_S)

    async def rules(self, url: str) -> RobotsRules:
        """Return what the file says to us."""
        answer, site = await self.answer(url), url_origin(url)
        if site not in self._rules:
            self._rules[site] = await in_turns(RobotsRules.parsing(answer.rules, self._token))
        return self._rules[site]

    async def answer(self, url: str) -> RobotsReply:
        """Return the site's answer, asked for once a job."""
        site = url_origin(url)
        if site in self._answers:
            return self._answers[site]
        async with self._locks.setdefault(site, asyncio.Lock()):
            if site not in self._answers:
                answer = await self._cache.answer(site)
                self._answers[site] = answer
                frozen = {"status": answer.status, "body": answer.body, "problem": answer.problem}
                self._unsaved.append((_PREFIX + site, orjson.dumps(frozen)))
        return self._answers[site]

    def unsaved(self) -> tuple[tuple[str, bytes], ...]:
        """Return, once, the snapshots that the job has yet to store."""
        fresh, self._unsaved = tuple(self._unsaved), []
        return fresh
