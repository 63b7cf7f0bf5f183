"""The crawl as a pure machine: which URL is next, and what each result means.

Results may arrive in any order; they take effect in the order in which their URLs were popped.
The rows, their order and the receipt are therefore a function of the site and the request,
never of timing, and a plan that is fed the stored journal comes to where it was before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Literal, NamedTuple

from webdata_nb.service.crawl.anchor_grading import WEIGHTS
from webdata_nb.service.crawl.facets import FacetDetector, PageFingerprint, UrlVariant
from webdata_nb.service.crawl.frontier import Candidate, Frontier
from webdata_nb.service.crawl.scope import CrawlScope, site_of
from webdata_nb.service.crawl.traps import MAX_LINKS_PER_PAGE, TrapDetector
from webdata_nb.service.runtime.steps import Steps, at_once
from webdata_nb.service.store.records import UrlOutcome

# URLs that are judged in one step: some milliseconds.
URLS_PER_STEP: Final = 100

# Requests that yield no row (redirects, duplicates) are not charged to max_pages; this bounds
# them on sites that consist of little else.
REQUESTS_PER_ROW: Final = 3
EXTRA_REQUESTS: Final = 50
# What one page may take: its own request and its redirects (`web.transfer.Limits`).
MAX_REQUESTS_PER_PAGE: Final = 11
# URLs that robots.txt keeps out take no request; this bounds them.
TARGETS_PER_ROW: Final = 10
EXTRA_TARGETS: Final = 100
# URLs that a crawl keeps in memory; those that it finds later are in the receipt alone.
KNOWN_URLS_PER_ROW: Final = 100
EXTRA_KNOWN_URLS: Final = 50_000

ResultKind = Literal["page", "failed", "robots", "stopped"]


@dataclass(frozen=True, slots=True)
class CrawlLimits:
    """The budget of a crawl."""

    max_pages: int
    max_depth: int

    @property
    def max_requests(self) -> int:
        """How many pages and redirect hops may be asked for in all."""
        return REQUESTS_PER_ROW * self.max_pages + EXTRA_REQUESTS

    @property
    def max_targets(self) -> int:
        """How many URLs may be taken from the frontier, those that robots.txt forbids included."""
        return TARGETS_PER_ROW * self.max_pages + EXTRA_TARGETS

    @property
    def max_known_urls(self) -> int:
        """How many URLs the crawl keeps track of."""
        return KNOWN_URLS_PER_ROW * self.max_pages + EXTRA_KNOWN_URLS


@dataclass(frozen=True, slots=True)
class CrawlTarget:
    """A URL to fetch, at its place in the crawl's order; `score` is why, for best first."""

    ordinal: int
    url: str
    depth: int
    score: float | None = None


@dataclass(frozen=True, slots=True)
class CrawlResult:
    """What a target came to; all that the plan needs to know, and to know again after a kill.

    `ending`: a `page`; `failed` with `reason` its kind and `detail` its message; kept out by
    `robots`; or `stopped` at a redirect to `final_url`, `reason` being why that is left out.
    `grades` has a digit for each of the `links`, what its text tells, where the strategy wants to
    know; `nofollow` are the indices of the links that say so, and `sealed` is a page that says so
    of all of them. `canonical` is the URL that the page calls its own; `sketch` and `shape` tell
    its text (`scrape.sketch`). `hops` are the redirects that were followed.
    """

    ending: ResultKind
    final_url: str
    reason: str = ""
    detail: str = ""
    content_hash: str | None = None
    links: tuple[str, ...] = ()
    grades: str = ""
    nofollow: tuple[int, ...] = ()
    sealed: bool = False
    canonical: str | None = None
    sketch: bytes = b""
    shape: bytes = b""
    hops: int = 0


class TargetOutcome(NamedTuple):
    """What becomes of a target: its outcome in the receipt, and whether its links count."""

    outcome: str
    detail: str = ""
    leads: bool = False

    @property
    def is_row(self) -> bool:
        """Whether it is charged to `max_pages`."""
        return self.outcome == "fetched" or self.outcome.startswith("failed:")


@dataclass(frozen=True, slots=True)
class SettledTarget:
    """What became final: the target, its row's position if it is one, and URLs accounted for."""

    target: CrawlTarget
    position: int | None
    seen: tuple[UrlOutcome, ...]


def _collected(every: Iterable[UrlOutcome | None]) -> Steps[list[UrlOutcome]]:
    """Collect what URLs come to, with a step wherever there is a None between them."""
    found: list[UrlOutcome] = []
    for each in every:
        if each is None:
            yield
        else:
            found.append(each)
    return found


class CrawlPlan:
    """Decides the order, the budget, the duplicates and the receipt of one crawl."""

    def __init__(
        self,
        start: str,
        limits: CrawlLimits,
        scope: CrawlScope,
        frontier: Frontier,
        key: Callable[[str], str],
        *,
        obey_nofollow: bool = False,
        facets: FacetDetector | None = None,
    ) -> None:
        self._obey_nofollow, self._facets, self._traps = obey_nofollow, facets, TrapDetector()
        # URLs of which it is not yet known whether they are variants of others.
        self._held: dict[str, Candidate] = {}
        self._limits, self._scope, self._frontier, self._key = limits, scope, frontier, key
        self._known: set[str] = {key(start)}
        # Links met before, as written: most links of a site, told without computing their key,
        # which is noted where the strategy asks for it again.
        self._met: dict[str, str] = {start: key(start)}
        self._bodies: dict[str, str] = {}
        # Left out for now: a shorter way, or a link that may be followed, can yet turn up.
        self._too_deep: dict[str, str] = {}
        self._unfollowed: dict[str, tuple[str, str]] = {}
        # Whether the crawl keeps track of as many URLs as it may.
        self._full = False
        self._outstanding: dict[int, CrawlTarget] = {}
        self._results: dict[int, CrawlResult] = {}
        self._drawn: deque[CrawlTarget] = deque()
        self._popped = 0
        self._settled = 0
        self._settling = False
        # Requests that the results took which have come, settled or not.
        self._requests = 0
        self._seeds: tuple[str, ...] = ()
        self._learnt = False
        self.rows = 0
        if facets is not None:
            facets.admit(key(start))
        frontier.offer([Candidate(start, 0, key(start))])

    @property
    def scope(self) -> CrawlScope:
        """The bounds, which the start page's redirects may have widened."""
        return self._scope

    @property
    def expected(self) -> int:
        """Rows that the crawl will have as far as it can tell now."""
        ahead = self.rows + len(self._outstanding) + len(self._frontier)
        return min(ahead, self._limits.max_pages)

    @property
    def over(self) -> bool:
        """Whether nothing is in flight and nothing more may be asked for."""
        return not self._settling and not self._outstanding and not self._may_draw()

    def next(self) -> CrawlTarget | None:
        """Reserve budget for the next URL; None when there is none at present."""
        if not self._drawn and not self._settling:
            self._draw()
        return self._drawn.popleft() if self._drawn else None

    def seed(self, urls: Iterable[str]) -> None:
        """Name pages to offer behind the start page's own links; to be called before it settles."""
        self._seeds = tuple(urls)

    def likely(self, most: int) -> Iterator[Candidate]:
        """Name the URLs that come next if no result adds one: at most what the budget holds."""
        rows = self._limits.max_pages - self.rows - len(self._outstanding)
        fetches = self._requests_left() // MAX_REQUESTS_PER_PAGE
        return islice(self._frontier, max(0, min(most, rows, fetches)))

    def settle(self, ordinal: int, result: CrawlResult) -> list[SettledTarget]:
        """Take a result; return what became final by it, in order."""
        return at_once(self.settling(ordinal, result))

    def settling(self, ordinal: int, result: CrawlResult) -> Steps[list[SettledTarget]]:
        """Do the same in steps, for pages of many links.

        Until the last step nothing is drawn. A result that comes meanwhile is settled by the call
        that is under way.
        """
        self._results[ordinal] = result
        self._requests += self._cost(self._outstanding[ordinal], result)
        final: list[SettledTarget] = []
        if self._settling:
            return final
        self._settling = True
        try:
            while self._settled in self._results:
                target = self._outstanding.pop(self._settled)
                settled = yield from self._conclude(target, self._results.pop(self._settled))
                final.append(settled)
                self._settled += 1
            if final and not self._outstanding and not len(self._frontier) and self._held:
                released = yield from _collected(self._release())
                final[-1] = replace(final[-1], seen=(*final[-1].seen, *released))
        finally:
            self._settling = False
        return final

    def leftovers(self) -> Iterator[UrlOutcome]:
        """Account for the URLs that the crawl knows of and did not ask for."""
        return filter(None, self._leftovers())

    def _leftovers(self) -> Iterator[UrlOutcome | None]:
        outcome = "over_requests" if self.rows < self._limits.max_pages else "over_budget"
        for candidate in self._frontier:
            yield UrlOutcome(candidate.url, outcome)
        yield from self._weigh_again()
        for candidate in self._held.values():
            yield UrlOutcome(candidate.url, outcome)
        for url in self._too_deep.values():
            yield UrlOutcome(url, "depth")
        for key, (url, detail) in self._unfollowed.items():
            if key not in self._too_deep and key not in self._held:
                yield UrlOutcome(url, "nofollow", detail)

    def _draw(self) -> None:
        """Pop what may be popped without knowing more: one URL, or a strategy's whole round.

        A round is drawn at once and only when the one before is settled, so that its members do
        not depend on how many of them are fetched at a time.
        """
        ahead = self._frontier.ahead
        if ahead is not None and self._outstanding:
            return
        while len(self._drawn) < (ahead or 1) and self._may_draw():
            candidate = self._frontier.pop()
            target = CrawlTarget(self._popped, candidate.url, candidate.depth, candidate.score)
            self._outstanding[target.ordinal] = target
            self._drawn.append(target)
            self._popped += 1

    def _may_draw(self) -> bool:
        return (
            len(self._frontier) > 0
            and self.rows + len(self._outstanding) < self._limits.max_pages
            and self._requests_left() >= MAX_REQUESTS_PER_PAGE
            and self._popped < self._limits.max_targets
            and not self._start_is_open()
        )

    def _requests_left(self) -> int:
        """Return the requests that remain if every page on its way takes the most that it may.

        A page is drawn only where those before it leave enough for it whatever they come to. So
        which pages are drawn does not depend on how many are on their way.
        """
        under_way = len(self._outstanding) - len(self._results)
        return self._limits.max_requests - self._requests - MAX_REQUESTS_PER_PAGE * under_way

    def _cost(self, target: CrawlTarget, result: CrawlResult) -> int:
        """Count the requests of a result; another site's robots.txt was asked for its refusal."""
        if result.ending == "robots" and site_of(target.url) in self._scope.sites:
            return 0
        return min(1 + result.hops, MAX_REQUESTS_PER_PAGE)

    def _start_is_open(self) -> bool:
        """Whether the start page, which fixes the scope, is still being fetched."""
        return 0 in self._outstanding

    def _conclude(self, target: CrawlTarget, result: CrawlResult) -> Steps[SettledTarget]:
        if target.ordinal == 0:
            self._widen(result.final_url)
        fate = self._fate(target, result)
        seen = [UrlOutcome(target.url, fate.outcome, fate.detail)]
        position = None
        if fate.is_row:
            position, self.rows = self.rows, self.rows + 1
        seen += yield from _collected(self._lead_on(target, result if fate.leads else None))
        if self._learnt:
            self._learnt = False
            fresh: list[Candidate] = []
            seen += yield from _collected(self._weigh_again(fresh))
            self._frontier.offer(fresh)
        return SettledTarget(target, position, tuple(seen))

    def _lead_on(
        self, target: CrawlTarget, result: CrawlResult | None
    ) -> Iterator[UrlOutcome | None]:
        """Offer the links of a page, and behind those of the start page the seeds."""
        fresh: list[Candidate] = []
        if result is not None:
            links = self._followed(target, result)
            if self._full:
                yield from self._unfollowed_when_full(target, result)
            if self._facets is not None:
                keys: list[str] = []
                for number, url in enumerate(self._unmet(links)):
                    keys.append(self._key(url))
                    if number % URLS_PER_STEP == 0:
                        yield None
                self._facets.meet(keys)
            yield from self._gather(links, target, fresh, MAX_LINKS_PER_PAGE)
        if target.ordinal == 0:
            yield from self._gather(
                self._seeds, target, fresh, MAX_LINKS_PER_PAGE + len(self._seeds)
            )
        self._frontier.offer(fresh)
        if result is not None and self._frontier.weighs:
            self._frontier.cite(self._key(target.url), self._cited(result))

    def _fate(self, target: CrawlTarget, result: CrawlResult) -> TargetOutcome:
        if result.ending == "robots":
            return TargetOutcome("robots", result.reason)
        if result.ending == "stopped":
            return TargetOutcome(result.reason, f"redirects to {result.final_url}")
        if self._redirected_to_known(target, result.final_url):
            return TargetOutcome("redirect", result.final_url)
        if result.ending == "failed":
            return TargetOutcome(f"failed:{result.reason}", result.detail)
        return self._fate_of_page(target, result)

    def _fate_of_page(self, target: CrawlTarget, result: CrawlResult) -> TargetOutcome:
        same = self._learn(target, result)
        if result.content_hash is not None:
            first = self._bodies.setdefault(result.content_hash, target.url)
            if first != target.url:
                return TargetOutcome("duplicate", first)
        if same is not None:
            # The links of a variant count: it may lead to what the page itself does not.
            return TargetOutcome(*same, leads=True)
        trap = self._traps.read(target.url, result.shape, lambda: self._unmet(result.links))
        return TargetOutcome("fetched", leads=True) if trap is None else TargetOutcome("trap", trap)

    def _learn(self, target: CrawlTarget, result: CrawlResult) -> tuple[str, str] | None:
        """Learn of the site's parameters; return the outcome of a page that is a variant."""
        if self._facets is None:
            return None
        version = self._facets.version
        body = PageFingerprint(self._key(target.url), result.sketch, self._own_url(result))
        same = self._facets.learn(body)
        self._learnt |= self._facets.version != version
        return same

    def _own_url(self, result: CrawlResult) -> str | None:
        """Return the key of the URL that a page calls its own, if it is of this crawl's sites."""
        own = result.canonical
        return None if own is None or site_of(own) not in self._scope.sites else self._key(own)

    def _unmet(self, links: Iterable[str]) -> Iterator[str]:
        return (url for url in links if url not in self._met and self._key(url) not in self._known)

    def _redirected_to_known(self, target: CrawlTarget, final_url: str) -> bool:
        key = self._key(final_url)
        if key == self._key(target.url):
            return False
        known = key in self._known
        self._known.add(key)
        return known

    def _widen(self, final_url: str) -> None:
        """Let a start page that moves to another host take the crawl with it."""
        old = self._scope
        self._scope = CrawlScope(
            old.sites | {site_of(final_url)}, old.external, old.include, old.exclude
        )

    def _followed(self, target: CrawlTarget, result: CrawlResult) -> Iterable[str]:
        """Return the links that may be followed; note those that ask not to be."""
        if not self._obey_nofollow or not (result.sealed or result.nofollow):
            return result.links
        if not self._full:
            for url in self._nofollow_links(result):
                if (key := self._key(url)) not in self._known:
                    self._unfollowed.setdefault(key, (url, self._nofollow_detail(target, result)))
        left = frozenset(range(len(result.links)) if result.sealed else result.nofollow)
        return [url for index, url in enumerate(result.links) if index not in left]

    def _unfollowed_when_full(
        self, target: CrawlTarget, result: CrawlResult
    ) -> Iterator[UrlOutcome]:
        """Account at once for nofollow links that the crawl does not keep track of."""
        if self._obey_nofollow:
            for url in self._nofollow_links(result):
                if not self._is_tracked(self._key(url)):
                    yield UrlOutcome(url, "nofollow", self._nofollow_detail(target, result))

    @staticmethod
    def _nofollow_links(result: CrawlResult) -> Iterable[str]:
        return result.links if result.sealed else (result.links[n] for n in result.nofollow)

    @staticmethod
    def _nofollow_detail(target: CrawlTarget, result: CrawlResult) -> str:
        return f"{'robots directive' if result.sealed else 'rel'} of {target.url}"

    def _is_tracked(self, key: str) -> bool:
        return (
            key in self._known
            or key in self._held
            or key in self._too_deep
            or key in self._unfollowed
        )

    def _note_size(self) -> None:
        """Stop keeping track of new URLs for good when the limit is reached."""
        tracked = len(self._known) + len(self._held) + len(self._too_deep) + len(self._unfollowed)
        self._full = self._full or tracked >= self._limits.max_known_urls

    def _cited(self, result: CrawlResult) -> list[tuple[str, float]]:
        """Return the pages of the crawl that a page links to; a nofollow link vouches for none."""
        left = frozenset(range(len(result.links)) if result.sealed else result.nofollow)
        return [
            (key, WEIGHTS[grade])
            for index, (url, grade) in enumerate(zip(result.links, result.grades, strict=True))
            if index not in left and (key := self._key(url)) in self._known
        ]

    def _gather(
        self, links: Iterable[str], source: CrawlTarget, fresh: list[Candidate], most: int
    ) -> Iterator[UrlOutcome | None]:
        """Add what a page links to and may be read to `fresh`; account for the rest.

        Where a new link moves a URL that waits, `fresh` has that URL too, at the link's place.
        """
        met, moved = self._met, 0
        promotes = self._frontier.promotes
        unmet = links if promotes else [link for link in links if link not in met]
        for number, url in enumerate(unmet):
            if number % URLS_PER_STEP == 0:
                self._note_size()
                yield None
            key = met.get(url) or self._key(url)
            if key in self._known:
                met[url] = key if promotes else ""
                if self._frontier.movable(key):
                    fresh.append(Candidate(url, source.depth + 1, key))
                    moved += 1
                continue
            if self._full and not self._is_tracked(key):
                yield UrlOutcome(url, "over_urls")
                continue
            candidate = Candidate(url, source.depth + 1, key)
            if (reason := self._scope.verdict(url)) is not None:
                yield self._account(candidate, reason)
            elif candidate.depth > self._limits.max_depth:
                if key not in self._held:
                    self._too_deep.setdefault(key, url)
            elif len(fresh) - moved >= most:
                yield self._account(candidate, "trap", f"link {most} and on of {source.url}")
            else:
                yield from self._admit(candidate, fresh)

    def _admit(self, candidate: Candidate, fresh: list[Candidate]) -> Iterator[UrlOutcome]:
        """Add a URL to `fresh`, account for it, or hold it until more is known."""
        variant = None if self._facets is None else self._facets.judge(candidate.key)
        if isinstance(variant, UrlVariant):
            yield self._account(candidate, "facet", variant.detail)
        elif (trap := self._traps.verdict(candidate.url, self._known.__contains__)) is not None:
            yield self._account(candidate, "trap", trap)
        elif variant is not None:
            self._too_deep.pop(candidate.key, None)
            self._held.setdefault(candidate.key, candidate)
        else:
            self._settle_late(candidate.key)
            fresh.append(candidate)

    def _weigh_again(self, fresh: list[Candidate] | None = None) -> Iterator[UrlOutcome | None]:
        """Judge what is held by what was learnt; add what turns out to be a page to `fresh`."""
        if self._facets is None:
            return
        for number, candidate in enumerate(list(self._held.values())):
            if number % URLS_PER_STEP == 0:
                yield None
            found = self._facets.judge(candidate.key)
            if isinstance(found, UrlVariant):
                yield self._account(candidate, "facet", found.detail)
            elif found is None and fresh is not None:
                self._settle_late(candidate.key)
                fresh.append(candidate)

    def _release(self) -> Iterator[UrlOutcome | None]:
        """Nothing else is left: visit what waits, one at a time where nothing tells more."""
        fresh: list[Candidate] = []
        yield from self._weigh_again(fresh)
        if not fresh and self._held and self._facets is not None:
            candidate = next(iter(self._held.values()))
            self._facets.admit(candidate.key)
            self._settle_late(candidate.key)
            fresh.append(candidate)
        self._frontier.offer(fresh)

    def _account(self, candidate: Candidate, outcome: str, detail: str = "") -> UrlOutcome:
        self._settle_late(candidate.key)
        return UrlOutcome(candidate.url, outcome, detail)

    def _settle_late(self, key: str) -> None:
        """Mark a URL as accounted for, whatever kept it out so far."""
        self._known.add(key)
        self._too_deep.pop(key, None)
        self._unfollowed.pop(key, None)
        self._held.pop(key, None)
