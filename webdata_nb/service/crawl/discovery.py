"""Decides whether each discovered URL is fetched, deferred or excluded. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec import Struct

from webdata_nb.contract.url_keys import site_of
from webdata_nb.service.crawl.checkpoint import Packed, StateReader, StateWriter
from webdata_nb.service.crawl.facets import (
    FacetDetector,
    FacetState,
    PageFingerprint,
    UrlVariant,
)
from webdata_nb.service.crawl.fingerprints import UrlHashes
from webdata_nb.service.crawl.frontier import LINK_WEIGHTS, Candidate, Frontier
from webdata_nb.service.crawl.journal import CrawlResult, CrawlTarget
from webdata_nb.service.crawl.scope import CrawlScope
from webdata_nb.service.crawl.traps import MAX_LINKS_PER_PAGE, TrapDetector, TrapState
from webdata_nb.service.runtime.steps import Steps
from webdata_nb.service.store.records import UrlOutcome

# URLs that are classified in one step: some milliseconds.
URLS_PER_STEP: Final = 100


class DiscoveryState(Struct, array_like=True):
    """The state of a `UrlDiscovery`: all but the cache of links, which fills again."""

    sites: list[str]
    is_full: bool
    facets_version: int
    known: list[bytes]
    too_deep: Packed
    nofollow: Packed
    undecided: Packed
    traps: TrapState
    facets: FacetState | None


@dataclass(slots=True)
class DiscoveredUrls:
    """URLs to add to the frontier, and URLs whose outcome is final.

    `requeued` counts the candidates that wait in the frontier already.
    """

    candidates: list[Candidate] = field(default_factory=list)
    outcomes: list[UrlOutcome] = field(default_factory=list)
    requeued: int = 0


class UrlDiscovery:
    """The URLs that one crawl has met, and why some of them are not fetched.

    Parameters
    ----------
    scope
        The bounds of the crawl.
    frontier
        The queue that the candidates go to; read, but never changed.
    key_of
        Returns the key of a URL: spellings with equal keys are one URL.
    max_depth
        The maximum link depth.
    max_known_urls
        The number of URLs to keep track of. URLs discovered later are only accounted for.
    obey_nofollow
        Whether links marked nofollow are excluded.
    facets
        Detects variants of pages; None where variants are fetched.
    """

    def __init__(
        self,
        scope: CrawlScope,
        frontier: Frontier,
        key_of: Callable[[str], str],
        *,
        max_depth: int,
        max_known_urls: int,
        obey_nofollow: bool = False,
        facets: FacetDetector | None = None,
    ) -> None:
        self.scope = scope
        self._frontier, self._key_of = frontier, key_of
        self._max_depth, self._max_known_urls = max_depth, max_known_urls
        self._obey_nofollow = obey_nofollow
        self._facets, self._traps = facets, TrapDetector()
        # Keys of the URLs that are queued, fetched or accounted for.
        self._known = UrlHashes()
        # Links as written that lead to known URLs: most links of a site. The key is only stored
        # where the frontier needs it again.
        self._key_by_link: dict[str, str] = {}
        # Not final, by key: a shorter path, or a link without nofollow, may still be discovered.
        self._too_deep = dict[str, str]()
        self._nofollow = dict[str, tuple[str, str]]()
        # Possible variants of pages, by key, until the site's parameters are known.
        self._undecided = dict[str, Candidate]()
        self._facets_version = 0
        # Set for good when `max_known_urls` is reached.
        self._is_full = False

    def start(self, url: str) -> Candidate:
        """Return the candidate of the start page."""
        key = self._key_of(url)
        self._known.add(key)
        self._key_by_link[url] = key
        if self._facets is not None:
            self._facets.accept(key)
        return Candidate(url, 0, None if key == url else key)

    def widen_scope(self, final_url: str) -> None:
        """Add the site that the start page redirects to."""
        self.scope = replace(self.scope, sites=self.scope.sites | {site_of(final_url)})

    def redirects_to_known(self, url: str, final_url: str) -> bool:
        """Return whether a URL redirects to a known one; mark the target as known."""
        key = self._key_of(final_url)
        if key == self._key_of(url):
            return False
        was_known = key in self._known
        self._known.add(key)
        return was_known

    def variant_of(self, target: CrawlTarget, result: CrawlResult) -> tuple[str, str] | None:
        """Return outcome and detail of a page that is a variant of an earlier one."""
        if self._facets is None:
            return None
        canonical = result.canonical
        if canonical is not None:
            in_scope = site_of(canonical) in self.scope.sites
            canonical = self._key_of(canonical) if in_scope else None
        page = PageFingerprint(self._key_of(target.url), result.sketch, canonical)
        return self._facets.learn(page)

    def trap_of(self, target: CrawlTarget, result: CrawlResult) -> str | None:
        """Describe the trap that a page belongs to, if any."""
        return self._traps.trap_of_page(
            target.url, result.shape, lambda: self._unknown(result.links)
        )

    def add_page_links(
        self, page: CrawlTarget, result: CrawlResult, discovered: DiscoveredUrls
    ) -> Steps[None]:
        """Classify the links of a page."""
        links = self._links_to_follow(page, result, discovered)
        if self._facets is not None:
            keys: list[str] = []
            for number, url in enumerate(self._unknown(links)):
                keys.append(self._key_of(url))
                if number % URLS_PER_STEP == 0:
                    yield
            self._facets.prefer_plain_urls(keys)
        yield from self.add_links(links, page, discovered)

    def add_links(
        self,
        links: Iterable[str],
        page: CrawlTarget,
        discovered: DiscoveredUrls,
        max_candidates: int = MAX_LINKS_PER_PAGE,
    ) -> Steps[None]:
        """Classify URLs that were discovered on a page.

        A known URL in the frontier becomes a candidate again if that moves it.
        """
        requeues = self._frontier.requeues
        if not requeues:
            links = [link for link in links if link not in self._key_by_link]
        for number, url in enumerate(links):
            if number % URLS_PER_STEP == 0:
                yield
            key = self._key_by_link.get(url) or self._key_of(url)
            candidate = Candidate(url, page.depth + 1, None if key == url else key)
            if key in self._known:
                self._key_by_link[url] = candidate.key if requeues else ""
                if self._frontier.can_move(key):
                    discovered.candidates.append(candidate)
                    discovered.requeued += 1
            elif self._check_size() and not self._is_tracked(key):
                discovered.outcomes.append(UrlOutcome(url, "over_urls"))
            else:
                self._add_link(candidate, page, discovered, max_candidates)

    @property
    def must_reclassify(self) -> bool:
        """Whether the facet detector has decided a parameter since `reclassify`."""
        return self._facets is not None and self._facets.version != self._facets_version

    @property
    def has_undecided(self) -> bool:
        """Whether the classification of some URLs is undecided."""
        return bool(self._undecided)

    def reclassify(self, discovered: DiscoveredUrls) -> Steps[None]:
        """Classify the undecided URLs anew."""
        if self._facets is None:
            return
        self._facets_version = self._facets.version
        for number, candidate in enumerate(list(self._undecided.values())):
            if number % URLS_PER_STEP == 0:
                yield
            variant = self._facets.classify(candidate.key)
            if isinstance(variant, UrlVariant):
                self._exclude(candidate, discovered, "facet", variant.detail)
            elif variant is None:
                self._add(candidate, discovered)

    def release_undecided(self, discovered: DiscoveredUrls) -> Steps[None]:
        """Make candidates of undecided URLs when no other URL is left to fetch.

        Where all of them stay undecided, the first one is fetched to learn more.
        """
        yield from self.reclassify(discovered)
        if not discovered.candidates and self._undecided and self._facets is not None:
            candidate = next(iter(self._undecided.values()))
            self._facets.accept(candidate.key)
            self._add(candidate, discovered)

    def leftovers(self, outcome: str) -> Iterator[UrlOutcome]:
        """Return the outcomes of the deferred URLs at the end of the crawl."""
        for candidate in list(self._undecided.values()):
            variant = None if self._facets is None else self._facets.classify(candidate.key)
            if isinstance(variant, UrlVariant):
                self._mark_known(candidate.key)
                yield UrlOutcome(candidate.url, "facet", variant.detail)
        for candidate in self._undecided.values():
            yield UrlOutcome(candidate.url, outcome)
        for url in self._too_deep.values():
            yield UrlOutcome(url, "depth")
        for key, (url, detail) in self._nofollow.items():
            if key not in self._too_deep and key not in self._undecided:
                yield UrlOutcome(url, "nofollow", detail)

    def link_weights(self, result: CrawlResult) -> list[tuple[str, float]]:
        """Return the known pages that a page links to, by key; nofollow links have no weight."""
        nofollow = frozenset(_nofollow_indices(result))
        return [
            (key, LINK_WEIGHTS[grade])
            for index, (url, grade) in enumerate(
                zip(result.links, result.anchor_grades, strict=True)
            )
            if index not in nofollow and (key := self._key_of(url)) in self._known
        ]

    def state(self, writer: StateWriter) -> Steps[DiscoveryState]:
        """Return the state."""
        return DiscoveryState(
            sorted(self.scope.sites),
            self._is_full,
            self._facets_version,
            self._known.state(),
            (yield from writer.pack(self._too_deep.items())),
            (yield from writer.pack(self._nofollow.items())),
            (yield from writer.pack(self._undecided.values())),
            (yield from self._traps.state(writer)),
            None if self._facets is None else (yield from self._facets.state(writer)),
        )

    def restore(self, reader: StateReader, state: DiscoveryState) -> Steps[None]:
        """Continue from an earlier state instead of `start`."""
        self.scope = replace(self.scope, sites=frozenset(state.sites))
        self._is_full, self._facets_version = state.is_full, state.facets_version
        self._known.restore(state.known)
        yield from reader.unpack(state.too_deep, tuple[str, str], self._too_deep.update)
        yield from reader.unpack(state.nofollow, tuple[str, tuple[str, str]], self._nofollow.update)
        yield from reader.unpack(
            state.undecided,
            Candidate,
            lambda chunk: self._undecided.update((one.key, one) for one in chunk),
        )
        yield from self._traps.restore(reader, state.traps)
        if self._facets is not None and state.facets is not None:
            yield from self._facets.restore(reader, state.facets)

    def forget_links(self) -> None:
        """Empty the cache of links, to bound its memory."""
        self._key_by_link.clear()

    def _unknown(self, links: Iterable[str]) -> Iterator[str]:
        return (
            url
            for url in links
            if url not in self._key_by_link and self._key_of(url) not in self._known
        )

    def _links_to_follow(
        self, page: CrawlTarget, result: CrawlResult, discovered: DiscoveredUrls
    ) -> Iterable[str]:
        """Return the links that may be followed; account for those marked nofollow."""
        nofollow = _nofollow_indices(result) if self._obey_nofollow else ()
        if not nofollow:
            return result.links
        source = "robots directive" if result.nofollow_page else "rel"
        detail = f"{source} of {page.url}"
        for index in nofollow:
            url = result.links[index]
            key = self._key_of(url)
            if self._is_full and not self._is_tracked(key):
                discovered.outcomes.append(UrlOutcome(url, "nofollow", detail))
            elif not self._is_full and key not in self._known:
                self._nofollow.setdefault(key, (url, detail))
        excluded = frozenset(nofollow)
        return [url for index, url in enumerate(result.links) if index not in excluded]

    def _is_tracked(self, key: str) -> bool:
        return (
            key in self._known
            or key in self._undecided
            or key in self._too_deep
            or key in self._nofollow
        )

    def _check_size(self) -> bool:
        """Return whether the crawl tracks as many URLs as it may."""
        if not self._is_full:
            deferred = len(self._undecided) + len(self._too_deep) + len(self._nofollow)
            self._is_full = len(self._known) + deferred >= self._max_known_urls
        return self._is_full

    def _add_link(
        self,
        candidate: Candidate,
        page: CrawlTarget,
        discovered: DiscoveredUrls,
        max_candidates: int,
    ) -> None:
        if (reason := self.scope.exclusion_reason(candidate.url)) is not None:
            self._exclude(candidate, discovered, reason)
        elif candidate.depth > self._max_depth:
            if candidate.key not in self._undecided:
                self._too_deep.setdefault(candidate.key, candidate.url)
        elif len(discovered.candidates) - discovered.requeued >= max_candidates:
            detail = f"link {max_candidates} and on of {page.url}"
            self._exclude(candidate, discovered, "trap", detail)
        else:
            self._classify(candidate, discovered)

    def _classify(self, candidate: Candidate, discovered: DiscoveredUrls) -> None:
        variant = None if self._facets is None else self._facets.classify(candidate.key)
        if isinstance(variant, UrlVariant):
            self._exclude(candidate, discovered, "facet", variant.detail)
        elif (trap := self._traps.trap_of_url(candidate.url, self._known.__contains__)) is not None:
            self._exclude(candidate, discovered, "trap", trap)
        elif variant is not None:
            self._too_deep.pop(candidate.key, None)
            self._undecided.setdefault(candidate.key, candidate)
        else:
            self._add(candidate, discovered)

    def _add(self, candidate: Candidate, discovered: DiscoveredUrls) -> None:
        self._mark_known(candidate.key)
        discovered.candidates.append(candidate)

    def _exclude(
        self, candidate: Candidate, discovered: DiscoveredUrls, outcome: str, detail: str = ""
    ) -> None:
        self._mark_known(candidate.key)
        discovered.outcomes.append(UrlOutcome(candidate.url, outcome, detail))

    def _mark_known(self, key: str) -> None:
        self._known.add(key)
        self._too_deep.pop(key, None)
        self._nofollow.pop(key, None)
        self._undecided.pop(key, None)


def _nofollow_indices(result: CrawlResult) -> range | tuple[int, ...]:
    return range(len(result.links)) if result.nofollow_page else result.nofollow_links
