"""Checks at the end of a crawl whether links to URLs that it did not fetch work.

Their servers are asked by HEAD, and by GET where that is refused or fails. Each result is committed
as an entry of the journal, behind those of the pages. An attempt after a kill reads them again, and
checks the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from itertools import islice
from time import monotonic
from typing import Final, Literal

from webdata_nb.contract.outcomes import LinkOutcome
from webdata_nb.contract.requests import CrawlRequest
from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.page.content.page_source import FetchedResponse
from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import host_and_port, url_origin
from webdata_nb.service.crawl.facets import UrlHashes
from webdata_nb.service.crawl.journal import CrawlResult, CrawlTarget, decode_entry, encode_entry
from webdata_nb.service.crawl.robots import JobRobots, RobotsCache
from webdata_nb.service.crawl.scope import OUT_OF_FOLDER, OUT_OF_SCOPE, CrawlScope
from webdata_nb.service.errors import request_failure_kind
from webdata_nb.service.pages import http_error
from webdata_nb.service.runtime.event_loop import task_group
from webdata_nb.service.store.job_context import JobContext
from webdata_nb.service.store.records import CommitBatch, JournalEntry, UrlOutcome
from webdata_nb.service.web.fetch import FetchRequest
from webdata_nb.service.web.polite_fetcher import ResponseSource, fetch_with_retries

# Links that a crawl checks, and those of one host: a page may list any number of them.
LINKS_PER_ROW: Final = 10
EXTRA_LINKS: Final = 1000
MAX_LINKS: Final = 20_000
MAX_LINKS_PER_HOST: Final = 500
# Outcomes of pages of the crawl's own to which it only did not get.
UNVISITED: Final = frozenset({"over_max_pages", "over_requests", "depth"})
# Where a crawl does not go by its bounds; path patterns are the wish of its caller.
_OUTSIDE: Final = frozenset({OUT_OF_SCOPE, OUT_OF_FOLDER})


def max_links(max_pages: int) -> int:
    """Return how many links a crawl checks at most."""
    return min(MAX_LINKS, LINKS_PER_ROW * max_pages + EXTRA_LINKS)


@dataclass(frozen=True, slots=True)
class SelectedLink:
    """A link to check; `is_external` if the receipt has no other outcome of it."""

    url: str
    is_external: bool


class LinkSelection:
    """The links to check by host, each once.

    Examples
    --------
    >>> selection = LinkSelection(2)
    >>> selection.add("http://a.test/x"), selection.add("http://a.test/x?")
    (None, None)
    >>> selection.add("http://b.test/"), selection.add("http://c.test/").outcome
    (None, 'over_links')
    >>> list(selection.by_host)
    ['a.test:80', 'b.test:80']
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known = UrlHashes()
        self._count = 0
        self.by_host: dict[str, list[SelectedLink]] = {}

    def add(self, url: str, *, is_external: bool = True) -> UrlOutcome | None:
        """Add a canonical URL; return its outcome if it is new, and beyond a limit."""
        key = canonical_key(url)
        if key in self._known:
            return None
        self._known.add(key)
        host = host_and_port(url)
        links = self.by_host.get(host, [])
        if self._count >= self._limit:
            return UrlOutcome(url, "over_links", f"more than {self._limit:,} links")
        if len(links) >= MAX_LINKS_PER_HOST:
            return UrlOutcome(url, "over_links", f"more than {MAX_LINKS_PER_HOST:,} of {host}")
        links.append(SelectedLink(url, is_external))
        self.by_host[host] = links
        self._count += 1
        return None


def outgoing_links(
    entries: Iterable[JournalEntry], scope: CrawlScope, *, obey_nofollow: bool
) -> Iterator[SelectedLink]:
    """Yield the links of pages out of the crawl's sites and folder, and such redirects."""
    for entry in entries:
        result = decode_entry(entry.journal)
        if result.kind == "stopped" and result.reason in _OUTSIDE:
            yield SelectedLink(result.final_url, result.reason == OUT_OF_SCOPE)
        elif result.kind == "page" and not (obey_nofollow and result.nofollow_page):
            left_out = frozenset(result.nofollow_links if obey_nofollow else ())
            for index, url in enumerate(result.links):
                if index not in left_out and (reason := scope.exclusion_reason(url)) in _OUTSIDE:
                    yield SelectedLink(url, reason == OUT_OF_SCOPE)


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

    def as_crawl_result(self, elapsed_s: float) -> CrawlResult:
        """Return what the journal stores, with facts as `page_facts` reads them."""
        facts = {"status": self.status, "redirects": self.redirects}
        return CrawlResult(
            self.outcome,
            self.final_url,
            reason=self.reason,
            detail=self.detail,
            facts={name: value for name, value in facts.items() if value} | {_ELAPSED: elapsed_s},
        )


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
        headers, cookies = self._headers_for(url)
        request = FetchRequest(
            url,
            headers=headers,
            cookies=cookies,
            method=method,
            read_body=False,
            delay_s=0.0 if self._robots is None else await self._robots.delay_s(url),
            allow_hop=self._hop_refusal,
        )
        with self._fetcher.deadline(timeout_s) as deadline:
            retries = method != "HEAD"
            reply = await fetch_with_retries(self._fetcher, request, deadline, retries=retries)
            return await self._result(url, reply)

    async def _result(self, url: str, reply: FetchedResponse | FetchError) -> LinkCheckResult:
        if isinstance(reply, FetchError):
            return _failed(url, request_failure_kind(reply), str(reply))
        if reply.stopped is not None:
            refusal = await self._refusal_behind(reply.final_url)
            unclear = LinkCheckResult("link_unchecked", reply.final_url, "robots")
            return replace(refusal or unclear, redirects=reply.redirects)
        outcome = outcome_of_status(reply.status)
        error = None if outcome == "link_ok" else http_error(reply.status)
        return LinkCheckResult(
            outcome,
            reply.final_url,
            "" if error is None else error.kind,
            "" if error is None else str(error),
            reply.status,
            reply.redirects,
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

    def add(self, ordinal: int, result: CrawlResult) -> None:
        """Add a link with the ordinal of its entry; the entries come in their order."""
        self.urls.add(result.url)
        self.next_ordinal = ordinal + 1
        self.seconds = max(self.seconds, result.facts.get(_ELAPSED, 0.0))


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
        start = 0  # the entries of this attempt are read as well
        while entries := await self._context.entries(start=start, count=ENTRIES_PER_READ):
            await self._select(await asyncio.to_thread(self._outgoing_links, entries))
            start = entries[-1].ordinal + 1
        await self._select(
            [
                SelectedLink(url, reason == OUT_OF_SCOPE)
                for url in seeds
                if (reason := self._scope.exclusion_reason(url)) in _OUTSIDE
            ]
        )
        for url in unvisited:
            self._selection.add(url, is_external=False)
        # The links of a host are checked one after the other, several hosts at a time.
        hosts = deque(self._selection.by_host.values())
        async with task_group() as group:
            for _ in range(self._request.concurrency):
                group.create_task(self._run_worker(hosts))

    # Selection

    def _outgoing_links(self, entries: Iterable[JournalEntry]) -> list[SelectedLink]:
        obey_nofollow = self._request.respect_nofollow
        return list(
            dict.fromkeys(outgoing_links(entries, self._scope, obey_nofollow=obey_nofollow))
        )

    async def _select(self, links: Iterable[SelectedLink]) -> None:
        """Select links, and account for those to other sites beyond the limits."""
        remaining = iter(links)
        while part := list(islice(remaining, _URLS_PER_STEP)):
            refused = [
                outcome
                for link in part
                if (outcome := self._selection.add(link.url, is_external=link.is_external))
                is not None
                and link.is_external
            ]
            await self._account(refused)
            await asyncio.sleep(0)

    async def _account(self, outcomes: Sequence[UrlOutcome]) -> None:
        if outcomes:
            await self._context.commit(CommitBatch(url_outcomes=tuple(outcomes)))

    # Checks

    async def _run_worker(self, hosts: deque[list[SelectedLink]]) -> None:
        robots = self._source.robots if self._request.respect_robots_txt else None
        while hosts:
            probe = LinkProbe(self._source.fetcher, robots, self._token, self._headers_for)
            unchecked = deque(link for link in hosts.popleft() if link.url not in self._checked)
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
        entries: list[JournalEntry] = []
        for link, result in results:
            target = CrawlTarget(link.url, 0, ordinal=self._next_ordinal)
            self._next_ordinal += 1
            entries.append(encode_entry(target, result.as_crawl_result(round(self._elapsed_s, 1))))
        batch = CommitBatch(
            entries=tuple(entries),
            url_outcomes=tuple(
                UrlOutcome(link.url, result.outcome, result.receipt_detail)
                for link, result in results
                if link.is_external
            ),
        )
        await self._context.commit(batch)
