"""A provider over HTTP: takes its turn, sends the request, tells good answers from bad."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from webdata_nb.contract.local import Access
from webdata_nb.pacing.rate_limit import StartSchedule
from webdata_nb.pacing.retry_after import parse_retry_after
from webdata_nb.service.errors import FetchError
from webdata_nb.service.runtime.fair_scheduler import FairSemaphore
from webdata_nb.service.search.providers.api import ApiReply, ApiRequest, SearchApi, status_problem
from webdata_nb.service.search.providers.base import (
    AttemptStatus,
    ProviderProblem,
    QueryRefused,
    QueueFull,
    ResultPage,
    SearchQuery,
)
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.web.request import FetchedResponse, FetchLimits

# A page of results: seconds for the whole exchange, and for the wait until one's turn.
REQUEST_TIMEOUT_S: Final = 10.0
QUEUE_TIMEOUT_S: Final = 30.0
LIMITS: Final = FetchLimits(wire_bytes=2 * 1024 * 1024, decoded_bytes=4 * 1024 * 1024, redirects=0)
NO_RESULTS: Final = ResultPage((), more=False)
_MAX_QUEUES: Final = 1000
_UNKNOWN_LANGUAGE: Final = "it may know nothing of the query's language"
_QUEUE_FULL: Final = "too many searches wait for their turn already"

_FETCH_PROBLEMS: Final[Mapping[str, tuple[AttemptStatus, str]]] = MappingProxyType(
    {
        "timeout": ("timeout", "no answer in time"),
        "dns": ("error", "its name cannot be resolved"),
        "connect": ("error", "it cannot be reached"),
        "tls": ("error", "no secure connection"),
        "reset": ("error", "the connection broke off"),
        "too_large": ("error", "the answer is too large"),
        "decode": ("error", "the answer's compression is broken"),
        "refused": ("error", "the network policy does not allow its address"),
        "bad_url": ("error", "its address is no web address"),
    }
)


@dataclass(slots=True)
class ProviderQueue:
    """The queue at one provider with one key: round-robin over the accounts that search."""

    schedule: StartSchedule
    places: FairSemaphore
    starts: FairSemaphore = field(default_factory=lambda: FairSemaphore(1))

    async def start(self) -> None:
        """Wait until a request may start. Raises `QueueFull`."""
        if self.starts.ahead() * self.schedule.interval_s > QUEUE_TIMEOUT_S:
            raise QueueFull(_QUEUE_FULL)
        try:
            async with asyncio.timeout(QUEUE_TIMEOUT_S), self.starts:
                wait_s, self.schedule = self.schedule.reserve(time.monotonic(), QUEUE_TIMEOUT_S)
                if wait_s is None:
                    raise QueueFull(_QUEUE_FULL)
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
        except TimeoutError:
            raise QueueFull(_QUEUE_FULL) from None

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Be one of those who ask at once. Raises `QueueFull`."""
        try:
            async with asyncio.timeout(QUEUE_TIMEOUT_S):
                await self.places.acquire()
        except TimeoutError:
            raise QueueFull(_QUEUE_FULL) from None
        try:
            yield
        finally:
            self.places.release()


@dataclass(frozen=True, slots=True)
class ProviderQueues:
    """The queues of a process, by `Provider.identity`."""

    _lines: dict[str, ProviderQueue] = field(default_factory=dict)

    def of(self, provider: str, api: SearchApi) -> ProviderQueue:
        """Return a provider's queue."""
        if provider not in self._lines:
            while len(self._lines) >= _MAX_QUEUES:
                del self._lines[next(iter(self._lines))]
            limit = api.rate_limit
            self._lines[provider] = ProviderQueue(
                StartSchedule(limit.interval_s), FairSemaphore(limit.max_concurrent)
            )
        return self._lines[provider]


def provider_identity(name: str, access: Access) -> str:
    """Return what stands for one provider with one address and key, and shows neither."""
    told = "\0".join((name, access.url or "", access.key or ""))
    return f"{name}#{hashlib.sha256(told.encode()).hexdigest()[:16]}"


class HttpProvider:
    """A `Provider` over its HTTP API."""

    def __init__(
        self, api: SearchApi, access: Access, fetcher: Fetcher, lines: ProviderQueues
    ) -> None:
        self.name = api.name
        self.identity = provider_identity(api.name, access)
        self._api, self._access, self._fetcher = api, access, fetcher
        self._line = lines.of(self.identity, api)

    async def page(self, query: SearchQuery, number: int) -> ResultPage:
        """See `Provider.page`."""
        exchange = self._api.exchange(query, number, self._access)
        if exchange is None:
            return NO_RESULTS
        reply = await self.send(exchange)
        return self._api.page(query, number, reply)

    async def send(self, exchange: ApiRequest) -> ApiReply:
        """Send one request in its turn; raises `ProviderProblem` for all but a good answer."""
        await self._line.start()
        async with self._line.place():
            reply = _reply(await self._fetch(exchange))
        interval_s = self._api.interval_s(reply)
        if interval_s is not None:
            self._line.schedule = self._line.schedule.with_interval(interval_s)
        wait_s = parse_retry_after(reply.headers.get("retry-after"), datetime.now(UTC))
        problem = self._api.problem(reply) or status_problem(
            reply, keyed=self._api.needs_key, wait_s=wait_s
        )
        if problem is None:
            return reply
        if exchange.by_query and problem.status == "error":
            raise QueryRefused(f"{problem}: {_UNKNOWN_LANGUAGE}")
        problem.wait_s = wait_s if problem.wait_s is None else problem.wait_s
        raise problem

    async def _fetch(self, exchange: ApiRequest) -> FetchedResponse:
        request = FetchRequest(
            exchange.url,
            headers=exchange.headers,
            timeout_s=REQUEST_TIMEOUT_S,
            limits=LIMITS,
            accept="application/json",
            method=exchange.method,
            body=exchange.body,
            follow_redirects=False,  # a key goes to the address that the settings name alone
        )
        try:
            return await self._fetcher.fetch(request)
        except FetchError as failure:
            # Its own words may show the URL, and some providers take the key there.
            status, words = _FETCH_PROBLEMS.get(
                failure.kind, ("error", "the answer cannot be read")
            )
            if exchange.by_query and status == "error":
                raise QueryRefused(f"{words}: {_UNKNOWN_LANGUAGE}") from None
            raise ProviderProblem(status, words) from None


def _reply(fetched: FetchedResponse) -> ApiReply:
    headers: dict[str, str] = {}
    for name, value in fetched.headers:
        headers.setdefault(name, value)
    return ApiReply(fetched.status, headers, fetched.body)
