"""Decides the order, the budget and the receipt of a crawl, independent of timing. Pure.

The plan names the next URL to fetch and receives the results in any order. Results take effect in
the order in which their URLs were popped from the frontier. The rows, their order and the receipt
are therefore a function of the site and the request, and a plan that replays the stored journal
reaches the same state again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, NamedTuple

from msgspec import Struct, structs

from webdata_nb.contract.outcomes import FETCHED, OVER_MAX_PAGES, ROBOTS, ROBOTS_UNREACHABLE, is_row
from webdata_nb.contract.url_keys import canonical_key, site_of
from webdata_nb.service.crawl.discovery import (
    MAX_LINKS_PER_PAGE,
    DiscoveredUrls,
    DiscoveryState,
    UrlDiscovery,
)
from webdata_nb.service.crawl.facets import FacetDetector, hash64
from webdata_nb.service.crawl.frontier import Frontier, FrontierState
from webdata_nb.service.crawl.journal import (
    CrawlResult,
    CrawlTarget,
    Packed,
    StateReader,
    StateWriter,
)
from webdata_nb.service.crawl.scope import CrawlScope
from webdata_nb.service.runtime.steps import Steps
from webdata_nb.service.store.records import UrlOutcome

# Requests without a row (redirects, duplicates) do not count towards `max_pages`. This bounds
# them on sites that consist of little else.
REQUESTS_PER_ROW: Final = 3
EXTRA_REQUESTS: Final = 50
# The most that one page may take: its own request and its redirects (`web.request.Limits`).
MAX_REQUESTS_PER_PAGE: Final = 11
# URLs that robots.txt disallows, or that an archive lacks, take no request. This bounds them, but
# for those that the index of an archive rejects, which costs nothing.
TARGETS_PER_ROW: Final = 10
EXTRA_TARGETS: Final = 100
# URLs that a crawl keeps in memory; those discovered later are in the receipt alone.
KNOWN_URLS_PER_ROW: Final = 100
EXTRA_KNOWN_URLS: Final = 50_000
MAX_KNOWN_URLS: Final = 500_000


@dataclass(frozen=True, slots=True)
class CrawlLimits:
    """The budget of a crawl."""

    max_pages: int
    max_depth: int
    requests_per_row: int = REQUESTS_PER_ROW

    @property
    def max_requests(self) -> int:
        """The number of requests for pages and redirects."""
        return self.requests_per_row * self.max_pages + EXTRA_REQUESTS

    @property
    def max_targets(self) -> int:
        """The number of URLs popped from the frontier, also of those that robots.txt disallows.

        URLs that the index of an archive rejects do not count.
        """
        return TARGETS_PER_ROW * self.max_pages + EXTRA_TARGETS

    @property
    def max_known_urls(self) -> int:
        """The number of URLs that the crawl keeps track of."""
        return min(MAX_KNOWN_URLS, KNOWN_URLS_PER_ROW * self.max_pages + EXTRA_KNOWN_URLS)


class TargetOutcome(NamedTuple):
    """The outcome and detail of a target in the receipt, and whether its links are followed."""

    outcome: str
    detail: str = ""
    follow_links: bool = False

    @property
    def is_row(self) -> bool:
        """Whether the target becomes a row, which counts towards `max_pages`."""
        return is_row(self.outcome)


@dataclass(slots=True)
class PlanEffects:
    """What changes with the results that take effect.

    `rows` are the targets that become rows, with their positions, and `outcomes` the URLs whose
    place in the receipt is final.
    """

    rows: list[tuple[CrawlTarget, int]] = field(default_factory=list)
    outcomes: list[UrlOutcome] = field(default_factory=list)


class PlanState(Struct, array_like=True):
    """All from which a plan continues when no page is in flight."""

    next_ordinal: int
    requests: int
    rows: int
    not_indexed: int
    low_confidence: dict[str, int]
    url_by_content: Packed
    discovery: DiscoveryState
    frontier: FrontierState


class CrawlPlan:
    """Decides the order, the budget and the receipt of one crawl.

    Parameters
    ----------
    start
        The canonical URL of the start page.
    limits
        The budget.
    scope
        The bounds.
    frontier
        The empty queue of the crawl's strategy.
    obey_nofollow
        Whether links marked nofollow are excluded.
    facets
        Detects variants of pages; None where variants are fetched.
    """

    # Whether nothing else is fetched until the start page is committed: it determines the scope.
    _waits_for_start = True

    def __init__(
        self,
        start: str,
        limits: CrawlLimits,
        scope: CrawlScope,
        frontier: Frontier,
        *,
        obey_nofollow: bool = False,
        facets: FacetDetector | None = None,
    ) -> None:
        self._limits, self._frontier = limits, frontier
        self._discovery = UrlDiscovery(
            scope,
            frontier,
            max_depth=limits.max_depth,
            max_known_urls=limits.max_known_urls,
            obey_nofollow=obey_nofollow,
            facets=facets,
        )
        # The current round: popped, but not yet returned by `next_target`.
        self._round: deque[CrawlTarget] = deque()
        # Popped, and not yet committed; and the results of some of them.
        self._outstanding: dict[int, CrawlTarget] = {}
        self._results: dict[int, CrawlResult] = {}
        # Of the next URL; no earlier one is in flight at a checkpoint.
        self.next_ordinal: int = 0
        self._next_to_commit = 0
        self._is_committing = False
        # Requests of all results received, committed or not.
        self._requests = 0
        # Results of URLs that the index of an archive rejected.
        self._not_indexed = 0
        # By a hash of 8 bytes of the content's hash, to save memory.
        self._url_by_content = dict[int, str]()
        self._seeds: tuple[str, ...] = ()
        # The rows at the last checkpoint, and at the next one.
        self._last_checkpoint, self._next_checkpoint = 0, limits.max_pages
        self.rows: int = 0
        # Rows whose content may be wrong or missing, by reason.
        self.low_confidence: Counter[str] = Counter()
        frontier.add([self._discovery.start(start)])

    @property
    def scope(self) -> CrawlScope:
        """The bounds, including the site and folder that the start page redirects to."""
        return self._discovery.scope

    @property
    def uses_link_weights(self) -> bool:
        """Whether the order depends on the links of the pages read."""
        return self._frontier.uses_link_weights

    @property
    def expected_rows(self) -> int:
        """The number of rows that the crawl will have, as far as it is known now."""
        expected = self.rows + len(self._outstanding) + len(self._frontier)
        return min(expected, self._limits.max_pages)

    @property
    def is_over(self) -> bool:
        """Whether nothing is in flight and nothing more may be fetched before the checkpoint."""
        may_pop = self._has_budget() and not self._is_checkpoint_due()
        return not self._is_committing and not self._outstanding and not may_pop

    @property
    def is_at_checkpoint(self) -> bool:
        """Whether nothing is in flight, and more is to be fetched behind the checkpoint."""
        return self.is_over and self._has_budget()

    def set_checkpoint(self, end: int) -> None:
        """Fetch on until there are about `end` rows: not more, unless a round has more.

        A checkpoint has no effect on the order: it falls between two rounds.
        """
        self._last_checkpoint, self._next_checkpoint = self.rows, end
        self._discovery.forget_links()

    def encode_state(self) -> Steps[bytearray]:
        """Return the state as a record; only while no page is in flight."""
        if self._outstanding or self._round or self._results:
            raise RuntimeError("pages are in flight")
        writer = StateWriter()
        state = PlanState(
            self.next_ordinal,
            self._requests,
            self.rows,
            self._not_indexed,
            self.low_confidence,
            (yield from writer.pack(self._url_by_content.items())),
            (yield from self._discovery.state(writer)),
            (yield from self._frontier.state(writer)),
        )
        return writer.end(state)

    def restore(self, reader: StateReader) -> Steps[None]:
        """Continue from an earlier state; called before anything else, and once.

        Raises `UnusableState` before anything has changed.
        """
        state = reader.state(PlanState)
        while len(self._frontier):  # what the constructor added
            self._frontier.pop()
        self.next_ordinal = self._next_to_commit = state.next_ordinal
        self._requests, self.rows = state.requests, state.rows
        self._not_indexed, self.low_confidence = state.not_indexed, Counter(state.low_confidence)
        yield from reader.unpack(state.url_by_content, tuple[int, str], self._url_by_content.update)
        yield from self._discovery.restore(reader, state.discovery)
        yield from self._frontier.restore(reader, state.frontier)

    def set_seeds(self, urls: Iterable[str]) -> None:
        """Set pages to add behind the start page's links; called before its result is committed."""
        self._seeds = tuple(urls)

    def next_target(self) -> CrawlTarget | None:
        """Reserve budget for the next URL; None when no URL may be fetched at present."""
        if not self._round and not self._is_committing:
            # Pop as many URLs as can be chosen without further results. A round is popped at once,
            # and only when the previous one is committed, so that its members do not depend on the
            # concurrency.
            round_size = self._frontier.round_size
            is_committed = round_size is None or not self._outstanding
            if is_committed and not self._is_checkpoint_due():
                while len(self._round) < (round_size or 1) and self._has_budget():
                    target = structs.replace(self._frontier.pop(), ordinal=self.next_ordinal)
                    self.next_ordinal += 1
                    self._outstanding[target.ordinal] = target
                    self._round.append(target)
        return self._round.popleft() if self._round else None

    def upcoming(self, limit: int) -> Iterator[CrawlTarget]:
        """Return the URLs that come next if no result adds one, within the budget."""
        last_row = min(self._next_checkpoint, self._limits.max_pages)
        rows_left = last_row - self.rows - len(self._outstanding)
        pages_left = self._requests_left() // MAX_REQUESTS_PER_PAGE
        return islice(self._frontier, max(0, min(limit, rows_left, pages_left)))

    def commit_in_steps(self, ordinal: int, result: CrawlResult) -> Steps[PlanEffects]:
        """Receive a result; return what the results that take effect now change, in order.

        No URL is popped until the last step. A result that is received meanwhile is committed by
        the call in progress.
        """
        self._results[ordinal] = result
        self._requests += self._requests_of(self._outstanding[ordinal], result)
        self._not_indexed += result.kind == "not_archived" and not result.was_requested
        effects = PlanEffects()
        if self._is_committing:
            return effects
        self._is_committing = True
        try:
            while self._next_to_commit in self._results:
                target = self._outstanding.pop(self._next_to_commit)
                result = self._results.pop(self._next_to_commit)
                outcome, discovered = yield from self._take_effect(target, result)
                if outcome.is_row:
                    effects.rows.append((target, self.rows))
                    self.rows += 1
                    if result.low_confidence:
                        self.low_confidence[result.low_confidence] += 1
                effects.outcomes.append(UrlOutcome(target.url, outcome.outcome, outcome.detail))
                effects.outcomes += discovered
                self._next_to_commit += 1
            is_done = effects.outcomes and not self._outstanding and not len(self._frontier)
            if is_done and self._discovery.has_undecided:
                released = DiscoveredUrls()
                yield from self._discovery.release_undecided(released)
                self._frontier.add(released.candidates)
                effects.outcomes += released.outcomes
        finally:
            self._is_committing = False
        return effects

    def leftovers(self) -> Iterator[UrlOutcome]:
        """Account for the URLs that the crawl discovered and did not fetch."""
        outcome = "over_requests" if self.rows < self._limits.max_pages else OVER_MAX_PAGES
        for candidate in self._frontier:
            yield UrlOutcome(candidate.url, outcome)
        yield from self._discovery.leftovers(outcome)

    # Budget

    def _is_checkpoint_due(self) -> bool:
        """Return whether another round could exceed the checkpoint; not before the first row."""
        if self._next_checkpoint >= self._limits.max_pages:
            return False
        rows = self.rows + len(self._outstanding)
        round_size = self._frontier.round_size or 1
        return rows > self._last_checkpoint and rows + round_size > self._next_checkpoint

    def _has_budget(self) -> bool:
        start_is_outstanding = self._waits_for_start and 0 in self._outstanding
        return (
            len(self._frontier) > 0
            and not start_is_outstanding
            and self.rows + len(self._outstanding) < self._limits.max_pages
            and self._requests_left() >= MAX_REQUESTS_PER_PAGE
            and self.next_ordinal - self._not_indexed < self._limits.max_targets
        )

    def _requests_left(self) -> int:
        """Return the requests that are left if each page in flight takes the maximum.

        A URL is popped only where a maximum is left for it. So which URLs are popped does not
        depend on how many are in flight.
        """
        in_flight = len(self._outstanding) - len(self._results)
        return self._limits.max_requests - self._requests - MAX_REQUESTS_PER_PAGE * in_flight

    def _requests_of(self, target: CrawlTarget, result: CrawlResult) -> int:
        """Count the requests of a result.

        A refusal before the request takes none on the crawl's own sites; on another site it took
        a request for its robots.txt. What an archive lacks takes none.
        """
        if result.kind == "not_archived":
            return 0
        is_own = site_of(target.url) in self.scope.sites
        if is_own and (result.kind == "robots" or not result.was_requested):
            return 0
        return min(1 + result.hops, MAX_REQUESTS_PER_PAGE)

    # Results

    def _take_effect(
        self, target: CrawlTarget, result: CrawlResult
    ) -> Steps[tuple[TargetOutcome, list[UrlOutcome]]]:
        """Return the outcome of a target, and those of the URLs that it links to."""
        if target.ordinal == 0:
            self._discovery.widen_scope(target.url, result.final_url)
        outcome = _outcome_without_page(result)
        if outcome is None and self._discovery.redirects_to_known(target.url, result.final_url):
            outcome = TargetOutcome("redirect", result.final_url)
        outcome = outcome or _outcome_of_failure(result) or self._outcome_of_page(target, result)
        discovered = DiscoveredUrls()
        if outcome.follow_links:
            yield from self._discovery.add_page_links(target, result, discovered)
        if target.ordinal == 0:  # the seeds follow the links of the start page
            limit = MAX_LINKS_PER_PAGE + len(self._seeds)
            yield from self._discovery.add_links(self._seeds, target, discovered, limit)
        self._frontier.add(discovered.candidates)
        if outcome.follow_links and self._frontier.uses_link_weights:
            weights = self._discovery.link_weights(result)
            self._frontier.record_links(canonical_key(target.url), weights)
        outcomes = discovered.outcomes
        if self._discovery.must_reclassify:
            discovered = DiscoveredUrls()
            yield from self._discovery.reclassify(discovered)
            self._frontier.add(discovered.candidates)
            outcomes += discovered.outcomes
        return outcome, outcomes

    def _outcome_of_page(self, target: CrawlTarget, result: CrawlResult) -> TargetOutcome:
        variant = self._discovery.variant_of(target, result)
        if result.content_hash is not None:
            content = hash64(result.content_hash.encode())
            first_url = self._url_by_content.setdefault(content, target.url)
            if first_url != target.url:
                return TargetOutcome("duplicate", first_url)
        if variant is not None:
            # The links of a variant are followed: the original may not have all of them.
            return TargetOutcome(*variant, follow_links=True)
        trap = self._discovery.trap_of(target, result)
        if trap is not None:
            return TargetOutcome("trap", trap)
        return TargetOutcome(result.check or FETCHED, result.detail, follow_links=True)


class ListPlan(CrawlPlan):
    """The plan of a list of pages: each of them is a row, and no link is followed.

    Parameters
    ----------
    pages
        The canonical URLs, each once.
    limits, scope, frontier
        As of any plan.
    """

    _waits_for_start = False

    def __init__(
        self,
        pages: Sequence[str],
        limits: CrawlLimits,
        scope: CrawlScope,
        frontier: Frontier,
    ) -> None:
        # Each page may take as many requests as any.
        limits = replace(limits, requests_per_row=MAX_REQUESTS_PER_PAGE)
        super().__init__(pages[0], limits, scope, frontier)
        frontier.add([self._discovery.start(url) for url in pages[1:]])

    def _take_effect(
        self,
        target: CrawlTarget,  # noqa: ARG002 - of any plan
        result: CrawlResult,
    ) -> Steps[tuple[TargetOutcome, list[UrlOutcome]]]:
        yield
        outcome = _outcome_without_page(result) or _outcome_of_failure(result)
        return outcome or TargetOutcome(result.check or FETCHED, result.detail), []


def _outcome_without_page(result: CrawlResult) -> TargetOutcome | None:
    """Return the outcome of a target that was refused, stopped or is not archived."""
    if result.kind in {ROBOTS, "rights"}:
        # Without a reason, the rules disallow it.
        could_not_be_read = result.kind == ROBOTS and result.reason
        return TargetOutcome(
            ROBOTS_UNREACHABLE if could_not_be_read else result.kind, result.reason
        )
    if result.kind == "stopped":
        return TargetOutcome(result.reason, f"redirects to {result.final_url}")
    return TargetOutcome(result.kind, result.detail) if result.kind == "not_archived" else None


def _outcome_of_failure(result: CrawlResult) -> TargetOutcome | None:
    if result.kind != "failed":
        return None
    return TargetOutcome(f"failed:{result.reason}", result.detail)
