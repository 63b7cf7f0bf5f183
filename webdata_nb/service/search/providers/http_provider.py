"""Sends the requests of search APIs, within their rate limits, and detects error replies."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from webdata_nb.contract.local import Access
from webdata_nb.pacing.host_pacing import IN_PROCESS, PROVIDER, SharedPacing
from webdata_nb.pacing.retry_policies import parse_retry_after
from webdata_nb.page.content.page_source import FetchedResponse
from webdata_nb.page.errors import FetchError
from webdata_nb.service.foreign_services import QUERY_LIMITS, has_error, read_error
from webdata_nb.service.runtime.bounded_dict import BoundedDict
from webdata_nb.service.runtime.fair_scheduler import FairSemaphore
from webdata_nb.service.search.providers.api import (
    AttemptStatus,
    ProviderProblem,
    ProviderReply,
    ProviderRequest,
    QueryRefused,
    QueueFull,
    ReportedError,
    ResultPage,
    SearchApi,
    SearchQuery,
    api_key,
    reply_problem,
)
from webdata_nb.service.web.fetch import Fetcher, FetchRequest
from webdata_nb.service.web.request import FetchLimits
from webdata_nb.service.web.throttle import PacedStarts

# For each page of results: for the request, and for the wait in the provider's queue.
REQUEST_TIMEOUT_S: Final = 10.0
QUEUE_TIMEOUT_S: Final = 30.0
LIMITS: Final = FetchLimits(wire_bytes=2 * 1024 * 1024, decoded_bytes=4 * 1024 * 1024, redirects=0)
NO_RESULTS: Final = ResultPage((), has_more=False)
_MAX_QUEUES: Final = 1000
_NOTHING_FOUND: Final = re.compile(
    r"\bno (?:search )?(?:results|matches)|\bany results\b", re.IGNORECASE
)
_UNKNOWN_LANGUAGE: Final = "it may not support the query's language"

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
    """The queue for one provider with one key: round-robin over the accounts that search."""

    paced: PacedStarts
    interval_s: float
    slots: FairSemaphore
    starts: FairSemaphore = field(default_factory=lambda: FairSemaphore(1))

    async def wait_for_start(self) -> None:
        """Wait until a request may start. Raises `QueueFull`."""
        if self.starts.ahead() * self.interval_s > QUEUE_TIMEOUT_S:
            raise QueueFull
        try:
            async with asyncio.timeout(QUEUE_TIMEOUT_S), self.starts:
                await self.paced.wait(self.interval_s, QUEUE_TIMEOUT_S)
        except TimeoutError:
            raise QueueFull from None

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold one of the concurrent requests. Raises `QueueFull`."""
        try:
            async with asyncio.timeout(QUEUE_TIMEOUT_S):
                await self.slots.acquire()
        except TimeoutError:
            raise QueueFull from None
        try:
            yield
        finally:
            self.slots.release()


@dataclass(frozen=True, slots=True)
class ProviderQueues:
    """The queues of a process, by `SearchProvider.identity`; `pacing` connects the processes."""

    pacing: SharedPacing = IN_PROCESS
    _queues: BoundedDict[str, ProviderQueue] = field(
        default_factory=lambda: BoundedDict(_MAX_QUEUES)
    )

    def queue(self, identity: str, api: SearchApi) -> ProviderQueue:
        """Return a provider's queue."""
        if identity not in self._queues:
            limit = api.rate_limit
            self._queues[identity] = ProviderQueue(
                PacedStarts(PROVIDER + identity, self.pacing),
                limit.interval_s,
                FairSemaphore(limit.max_concurrent),
            )
        return self._queues[identity]


def provider_identity(name: str, access: Access) -> str:
    """Return an identifier of a provider with its URL and key that reveals neither."""
    text = "\0".join((name, access.url or "", access.key or ""))
    return f"{name}#{hashlib.sha256(text.encode()).hexdigest()[:16]}"


class HttpProvider:
    """A `SearchProvider` that uses an HTTP API.

    No problem shows its key, or the key of one of the `others`.
    """

    def __init__(
        self,
        api: SearchApi,
        access: Access,
        fetcher: Fetcher,
        queues: ProviderQueues,
        *,
        others: Iterable[Access] = (),
    ) -> None:
        self.name: str = api.name
        self.identity: str = provider_identity(api.name, access)
        self._api, self._access, self._fetcher = api, access, fetcher
        self._queue = queues.queue(self.identity, api)
        self._all_access = (access, *others)  # its repr shows no key

    async def fetch_page(self, query: SearchQuery, number: int) -> ResultPage:
        """Request page `number` (from 1). Raises `ProviderProblem`."""
        limit = QUERY_LIMITS.get(self.name)
        if limit is not None and (too_long := limit.problem(query.text)):
            raise QueryRefused(too_long)
        request = self._api.build_request(query, number, self._access)
        if request is None:
            return NO_RESULTS
        reply = await self.send(request, echoes=(query.text,))
        try:
            page = self._api.parse_page(query, number, reply)
        except ProviderProblem as problem:
            raise self._explained(problem, reply, (query.text,)) from None
        if not page.results and has_error(reply.body):
            reported = self._explained(ReportedError(), reply, (query.text,))
            if not _NOTHING_FOUND.search(str(reported)):
                raise reported
        return page

    async def send(self, request: ProviderRequest, *, echoes: Sequence[str] = ()) -> ProviderReply:
        """Send one request in its slot. Raises `ProviderProblem` for an error reply.

        An error reply may quote the texts in `echoes`, which the caller has sent.
        """
        await self._queue.wait_for_start()
        async with self._queue.slot():
            response = await self._fetch(request)
        headers: dict[str, str] = {}
        for name, value in response.headers:
            headers.setdefault(name, value)
        reply = ProviderReply(response.status, headers, response.body)
        interval_s = self._api.parse_interval_s(reply)
        if interval_s is not None:
            self._queue.interval_s = interval_s
        recognized = self._api.parse_problem(reply)
        if recognized is None and reply.status == HTTPStatus.OK:
            return reply
        problem = self._explained(recognized or ReportedError(), reply, echoes)
        if request.host_from_query and problem.status == "error":
            raise QueryRefused(f"{problem}: {_UNKNOWN_LANGUAGE}")
        raise problem

    def _explained(
        self, problem: ProviderProblem, reply: ProviderReply, echoes: Sequence[str]
    ) -> ProviderProblem:
        """Return a problem with the provider's own words.

        What the body says of the key counts more than what an API made of the reply, and what body
        and status mean counts more than that there was no result.
        """
        error = read_error(
            reply.body,
            status=reply.status,
            service=self.name,
            secrets=map(api_key, self._all_access),
            echoes=echoes,
        )
        retry_after_s = parse_retry_after(reply.headers.get("retry-after"), datetime.now(UTC))
        stated = None
        if error.kind == "auth" or isinstance(problem, ReportedError):
            stated = reply_problem(
                reply, error, needs_key=self._api.needs_key, retry_after_s=retry_after_s
            )
        if stated is None:
            stated = problem
            stated.args = (error.explain(str(problem)),)
        if stated.retry_after_s is None:
            stated.retry_after_s = retry_after_s
        return stated

    async def _fetch(self, request: ProviderRequest) -> FetchedResponse:
        fetch_request = FetchRequest(
            request.url,
            headers=request.headers,
            timeout_s=REQUEST_TIMEOUT_S,
            limits=LIMITS,
            accept="application/json",
            method=request.method,
            body=request.body,
            follow_redirects=False,  # the key is only sent to the URL in the settings
        )
        try:
            return await self._fetcher.fetch(fetch_request)
        except FetchError as error:
            # The error's own message may show the URL, which contains the key of some providers.
            status, message = _FETCH_PROBLEMS.get(
                error.kind, ("error", "the answer cannot be read")
            )
            if request.host_from_query and status == "error":
                raise QueryRefused(f"{message}: {_UNKNOWN_LANGUAGE}") from None
            raise ProviderProblem(status, message) from None
