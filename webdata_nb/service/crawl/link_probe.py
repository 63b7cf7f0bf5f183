"""Asks the servers of links whether they work: HEAD, and GET where that is refused or fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final, Literal

from webdata_nb.contract.outcomes import LinkOutcome
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import url_origin
from webdata_nb.service.crawl.journal import CrawlResult
from webdata_nb.service.crawl.robots import JobRobots, RobotsCache
from webdata_nb.service.errors import request_failure_kind
from webdata_nb.service.pages.page_pipeline import http_error
from webdata_nb.service.web.fetch import FetchedResponse, FetchRequest
from webdata_nb.service.web.polite_fetcher import PageDeadline, ResponseSource, retry_delay_s

HEAD_TIMEOUT_S: Final = 10.0
GET_TIMEOUT_S: Final = 20.0
# Sites behind the redirects of one host whose robots.txt rules are kept: parsing takes up to a
# second.
MAX_SITES_BEHIND: Final = 4
# Replies that say nothing about the page: to a login, to this program, or to this method.
_REFUSALS: Final = frozenset({401, 402, 403, 405, 406, 407, 425, 426, 428, 429, 451, 501, 999})
# Failures of which a GET would learn nothing more.
_FINAL_FAILURES: Final = frozenset(
    {"dns", "connect", "tls", "refused", "bad_url", "host_unavailable", "robots"}
)
_OUTCOMES_OF_FAILURES: Final[Mapping[str, LinkOutcome]] = {
    "redirects": "link_broken",
    # No request was sent: by the policy of the service, or at the wish of the host.
    "refused": "link_unchecked",
    "host_unavailable": "link_unchecked",
}

Method = Literal["HEAD", "GET"]
HeadersFor = Callable[[str], tuple[Mapping[str, str], Mapping[str, str]]]
"""Returns the caller's headers and cookies for a URL: none for other sites."""


def outcome_of_status(status: int) -> LinkOutcome:
    """Return what the status of a link's page says about the link.

    Examples
    --------
    >>> [outcome_of_status(status) for status in (200, 404, 403, 503)]
    ['link_ok', 'link_broken', 'link_refused', 'link_unreachable']
    """
    if status < HTTPStatus.BAD_REQUEST:
        return "link_ok"
    if status in _REFUSALS:
        return "link_refused"
    is_fault = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.REQUEST_TIMEOUT
    return "link_unreachable" if is_fault else "link_broken"


@dataclass(frozen=True, slots=True)
class LinkCheckResult:
    """What was found out about a link.

    Attributes
    ----------
    outcome
        As in the receipt.
    final_url
        Where it leads, after redirects.
    reason
        The kind of a failure, such as ``http_404``, or ``robots``; empty if it works.
    detail
        The failure in words.
    status, redirects
        The HTTP status, and URL and status of each redirect.
    """

    outcome: LinkOutcome
    final_url: str
    reason: str = ""
    detail: str = ""
    status: int | None = None
    redirects: tuple[tuple[str, int], ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether another request would learn nothing more."""
        return self.outcome == "link_ok" or self.reason in _FINAL_FAILURES

    @property
    def was_requested(self) -> bool:
        """Whether a request was sent, and not only one for robots.txt."""
        return self.outcome != "link_unchecked" or bool(self.redirects)

    @property
    def receipt_detail(self) -> str:
        """The detail of the receipt."""
        target = f"redirects to {self.final_url}" if self.redirects else ""
        return ": ".join(filter(None, [target, self.detail]))

    def as_crawl_result(self) -> CrawlResult:
        """Return what the journal stores."""
        return CrawlResult(self.outcome, self.final_url, reason=self.reason, detail=self.detail)

    @property
    def facts(self) -> dict[str, Any]:
        """The facts in the journal entry, as `page_facts` reads them."""
        facts = {"status": self.status, "redirects": self.redirects}
        return {name: value for name, value in facts.items() if value}


class LinkProbe:
    """Checks the links of one host, one after the other.

    Parameters
    ----------
    fetcher
        Sends the requests, at the pace of each host.
    robots_cache, token
        The robots.txt files, and the name by which they call this program; None does not obey them.
    headers_for
        The caller's headers and cookies for a URL.
    """

    def __init__(
        self,
        fetcher: ResponseSource,
        robots_cache: RobotsCache | None,
        token: str,
        headers_for: HeadersFor,
    ) -> None:
        self._fetcher, self._headers_for = fetcher, headers_for
        self._robots_cache, self._token = robots_cache, token
        self._robots = self._new_robots()
        # Those of the sites behind redirects, which may be any number of sites.
        self._robots_behind, self._sites_behind = self._new_robots(), set[str]()

    async def check(self, url: str) -> LinkCheckResult:
        """Ask whether a link works; the body of its page is not read."""
        if (refusal := await self._robots_refusal(self._robots, url)) is not None:
            return refusal
        found = await self._request(url, "HEAD", HEAD_TIMEOUT_S)
        return found if found.is_final else await self._request(url, "GET", GET_TIMEOUT_S)

    async def _request(self, url: str, method: Method, timeout_s: float) -> LinkCheckResult:
        """Send a request; retry a GET that fails for the moment."""
        delay_s = 0.0 if self._robots is None else await self._robots.delay_s(url)
        attempt = 0
        with self._fetcher.deadline(timeout_s) as deadline:
            while True:
                attempt += 1
                reply = await self._attempt(url, method, deadline, delay_s)
                wait_s = None if method == "HEAD" else _retry_delay_s(attempt, reply, deadline)
                if wait_s is None:
                    return await self._result(url, reply)
                await asyncio.sleep(wait_s)
                deadline.restart_if_interrupted()

    async def _attempt(
        self, url: str, method: Method, deadline: PageDeadline, delay_s: float
    ) -> FetchedResponse | FetchError:
        headers, cookies = self._headers_for(url)
        request = FetchRequest(
            url, headers=headers, cookies=cookies, method=method, read_body=False
        )
        try:
            return await self._fetcher.fetch(
                request, deadline, delay_s=delay_s, allow_hop=self._hop_refusal
            )
        except FetchError as failure:
            return failure

    async def _result(self, url: str, reply: FetchedResponse | FetchError) -> LinkCheckResult:
        if isinstance(reply, FetchError):
            return _failed(url, request_failure_kind(reply), str(reply))
        redirects = tuple((hop.url, hop.status) for hop in reply.redirects)
        if reply.stopped is not None:
            refusal = await self._refusal_behind(reply.final_url)
            unclear = LinkCheckResult("link_unchecked", reply.final_url, "robots")
            return replace(refusal or unclear, redirects=redirects)
        outcome = outcome_of_status(reply.status)
        error = None if outcome == "link_ok" else http_error(reply.status)
        return LinkCheckResult(
            outcome,
            reply.final_url,
            "" if error is None else error.kind,
            "" if error is None else str(error),
            reply.status,
            redirects,
        )

    # robots.txt

    def _new_robots(self) -> JobRobots | None:
        cache = self._robots_cache
        return None if cache is None else JobRobots(cache, self._token, {})

    async def _hop_refusal(self, url: str) -> str | None:
        return None if await self._refusal_behind(url) is None else "robots"

    async def _refusal_behind(self, url: str) -> LinkCheckResult | None:
        """Return the result of a redirect's target that robots.txt does not allow to ask for."""
        site = url_origin(url)
        if len(self._sites_behind | {site}) > MAX_SITES_BEHIND:
            self._robots_behind = self._new_robots()
            self._sites_behind.clear()
        self._sites_behind.add(site)
        return await self._robots_refusal(self._robots_behind, url)

    async def _robots_refusal(self, robots: JobRobots | None, url: str) -> LinkCheckResult | None:
        """Return the result of a link that robots.txt does not allow to ask for."""
        if robots is None or await robots.allowed(url):
            return None
        reply = await robots.reply(url)
        if reply.unreachable and not reply.status:
            return _failed(url, reply.problem_kind, reply.problem)
        detail = reply.refusal or "robots.txt disallows it"
        return LinkCheckResult("link_unchecked", url, "robots", detail)


def _failed(url: str, kind: str, message: str) -> LinkCheckResult:
    """Return the result of a link to which no reply came."""
    outcome = _OUTCOMES_OF_FAILURES.get(kind, "link_unreachable")
    return LinkCheckResult(outcome, url, kind, message)


def _retry_delay_s(
    attempt: int, reply: FetchedResponse | FetchError, deadline: PageDeadline
) -> float | None:
    failure = reply if isinstance(reply, FetchError) else None
    fetched = reply if isinstance(reply, FetchedResponse) else None
    return retry_delay_s(
        attempt,
        status=None if fetched is None else fetched.status,
        kind="" if failure is None else failure.kind,
        retry_after_s=None if fetched is None else fetched.retry_after_s,
        remaining_s=deadline.remaining_s,
    )
