"""Decides whether each discovered URL is fetched, deferred or excluded. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec import Struct

from webdata_nb.contract.url_keys import canonical_key, site_of
from webdata_nb.service.crawl.facets import (
    FacetDetector,
    FacetState,
    PageFingerprint,
    UrlHashes,
    UrlVariant,
    hash64,
    similarity,
    split_query,
)
from webdata_nb.service.crawl.frontier import LINK_WEIGHTS, Frontier
from webdata_nb.service.crawl.journal import (
    CrawlResult,
    CrawlTarget,
    Packed,
    StateReader,
    StateWriter,
)
from webdata_nb.service.crawl.scope import CrawlScope, folder_after_redirects
from webdata_nb.service.runtime.steps import Steps
from webdata_nb.service.store.records import UrlOutcome

# Detects crawler traps: URLs without end, and endless series of similar pages. Pure.
#
# Some traps show in the URL: it repeats segments or carries a session id. Others show in the pages:
# page after page with the same URL pattern and the same text, each with links to new URLs. Both
# conditions are needed: a catalogue has many similar pages that link to nothing new, and a long
# thread links on but has new text on each page.


MAX_URL_CHARACTERS: Final = 2000
MAX_SEGMENTS: Final = 30
MAX_PARAMETERS: Final = 30
# New URLs taken from one page: more than ten times what a crawl can fetch.
MAX_LINKS_PER_PAGE: Final = 10_000
# Similar pages in a row before their URL pattern is closed.
MAX_SIMILAR_PAGES: Final = 32
TRAP_SIMILARITY: Final = 0.9
# Similar pages in a row before their links are looked at.
_SUSPICIOUS_PAGES: Final = 4
# Repetitions in a path that make a trap: of one segment, and of a group of segments.
_MAX_SEGMENT_REPEATS: Final = 4
_MAX_GROUP_REPEATS: Final = 3
_MAX_GROUP_SEGMENTS: Final = 4
_NUMBER_OR_ID: Final = re.compile(r"[0-9a-f]{8}(?:[0-9a-f-]*[0-9a-f])?|\d+", re.IGNORECASE)
_SESSION_ID: Final = re.compile(
    r";jsessionid=[^/?#]*|/\([A-Z]\([^()/]*\)\)|"
    r"(?<=[?&])(?:phpsessid|jsessionid|aspsessionid\w*|sessionid|session_id|sessid|oscsid|zenid|"
    r"cfid|cftoken)=[^&]*&?",
    re.IGNORECASE,
)


def url_pattern(url: str) -> str:
    """Return a URL with numbers and hexadecimal ids masked as `#`, and its query by names only.

    Consecutive masked folders count as one, however deep they go.
    """
    path, parameters = split_query(url)
    scheme, _, host_and_path = path.partition("://")
    host, *segments = host_and_path.split("/")
    masked: list[str] = []
    for segment in segments:
        mask = _NUMBER_OR_ID.sub("#", segment)
        if mask != "#" or masked[-1:] != ["#"]:
            masked.append(mask)
    names = "&".join(sorted({parameter.name for parameter in parameters}))
    return f"{scheme}://{host}/{'/'.join(masked)}{'?' if names else ''}{names}"


def without_session(url: str) -> str:
    """Return a URL without the session ids that common servers put there."""
    return _SESSION_ID.sub("", url).rstrip("?&")


class SimilarPages(Struct, array_like=True):
    """A series of similar pages: the first, their number, and how many linked to new URLs.

    `shape` is that of the first page, where later pages are compared with it.
    """

    url: str
    shape: bytes = b""
    count: int = 0
    with_new_links: int = 0

    @property
    def is_endless(self) -> bool:
        """Whether the series is long and most of its pages linked to new URLs."""
        suspicious = self.count - _SUSPICIOUS_PAGES
        return self.count >= MAX_SIMILAR_PAGES and 2 * self.with_new_links >= suspicious


class TrapState(Struct, array_like=True):
    """The state of a `TrapDetector`: the items of its dictionaries."""

    sessions: Packed
    patterns: Packed
    shapes: Packed
    closed: Packed


class TrapDetector:
    """Learns the traps of a crawl's sites, in the order of the crawl."""

    def __init__(self) -> None:
        self._urls_by_session = dict[str, str]()
        self._series_by_pattern = dict[str, SimilarPages]()
        # By the hash of the shape: most pages of a large site begin a series of their own.
        self._series_by_shape = dict[int, SimilarPages]()
        self._closed_patterns = dict[str, str]()

    def state(self, writer: StateWriter) -> Steps[TrapState]:
        """Return the state."""
        return TrapState(
            (yield from writer.pack(self._urls_by_session.items())),
            (yield from writer.pack(self._series_by_pattern.items())),
            (yield from writer.pack(self._series_by_shape.items())),
            (yield from writer.pack(self._closed_patterns.items())),
        )

    def restore(self, reader: StateReader, state: TrapState) -> Steps[None]:
        """Continue from an earlier state."""
        yield from reader.unpack(state.sessions, tuple[str, str], self._urls_by_session.update)
        yield from reader.unpack(
            state.patterns, tuple[str, SimilarPages], self._series_by_pattern.update
        )
        yield from reader.unpack(
            state.shapes, tuple[int, SimilarPages], self._series_by_shape.update
        )
        yield from reader.unpack(state.closed, tuple[str, str], self._closed_patterns.update)

    def trap_of_url(self, url: str, is_known: Callable[[str], bool]) -> str | None:
        """Describe the trap that a new URL belongs to, or return None.

        `is_known` returns whether the crawl has discovered a URL before.
        """
        if len(url) > MAX_URL_CHARACTERS:
            return f"a URL of {len(url)} characters"
        if "jsessionid" in url or "(" in url or "?" in url:
            sessionless = without_session(url)
            if sessionless != url:
                first_url = (
                    sessionless
                    if is_known(sessionless)
                    else self._urls_by_session.setdefault(sessionless, url)
                )
                if first_url != url:
                    return f"session id: the page is {first_url}"
        if url.count("/") >= _MAX_SEGMENT_REPEATS + 2 and (trap := _trap_in_path(url)) is not None:
            return trap
        if url.count("&") >= MAX_PARAMETERS:
            return f"a query of {url.count('&') + 1} parameters"
        return self._closed_patterns.get(url_pattern(url)) if self._closed_patterns else None

    def trap_of_page(
        self, url: str, shape: bytes, new_links: Callable[[], Iterable[str]]
    ) -> str | None:
        """Record a page, and describe the trap that it belongs to, or return None.

        `new_links` returns its links to URLs that are not known yet. It is only called for pages
        that are similar to earlier ones.
        """
        if not shape:
            return None
        pattern = url_pattern(url)
        same_pattern = self._series_by_pattern.get(pattern)
        if same_pattern is None or similarity(same_pattern.shape, shape) < TRAP_SIMILARITY:
            same_pattern = self._series_by_pattern[pattern] = SimilarPages(url, shape)
        same_shape = self._series_by_shape.setdefault(hash64(shape), SimilarPages(url))
        trapped = same_pattern.is_endless or same_shape.is_endless
        suspicious = max(same_pattern.count, same_shape.count) >= _SUSPICIOUS_PAGES
        links = list(new_links()) if suspicious else []
        for series in (same_pattern, same_shape):
            series.count += 1
            series.with_new_links += bool(links)
        if same_pattern.is_endless and any(url_pattern(link) == pattern for link in links):
            self._closed_patterns.setdefault(
                pattern,
                f"{pattern}: {MAX_SIMILAR_PAGES} pages in a row say the same as {same_pattern.url}",
            )
        if not trapped:
            return None
        return self._closed_patterns.get(pattern) or f"soft 404: the text of {same_shape.url}"


def _trap_in_path(url: str) -> str | None:
    """Describe a path that is too long or repeats a group of segments."""
    segments = url.partition("?")[0].split("/")[3:]
    if len(segments) > MAX_SEGMENTS:
        return f"a path of {len(segments)} segments"
    for width in range(1, _MAX_GROUP_SEGMENTS + 1):
        repeats = _MAX_SEGMENT_REPEATS if width == 1 else _MAX_GROUP_REPEATS
        for start in range(len(segments) - width * repeats + 1):
            group = segments[start : start + width]
            if group[0] and segments[start : start + width * repeats] == group * repeats:
                return f"{'/'.join(group)} {repeats} times in one path"
    return None


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
    folder: str = ""


@dataclass(slots=True)
class DiscoveredUrls:
    """URLs to add to the frontier, and URLs whose outcome is final.

    `requeued` counts the candidates that wait in the frontier already.
    """

    candidates: list[CrawlTarget] = field(default_factory=list)
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
        *,
        max_depth: int,
        max_known_urls: int,
        obey_nofollow: bool = False,
        facets: FacetDetector | None = None,
    ) -> None:
        self.scope: CrawlScope = scope
        self._frontier = frontier
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
        self._undecided = dict[str, CrawlTarget]()
        self._facets_version = 0
        # Set for good when `max_known_urls` is reached.
        self._is_full = False

    def start(self, url: str) -> CrawlTarget:
        """Return the candidate of the start page."""
        key = canonical_key(url)
        self._known.add(key)
        self._key_by_link[url] = key
        if self._facets is not None:
            self._facets.accept(key)
        return CrawlTarget(url, 0, None if key == url else key)

    def widen_scope(self, start: str, final_url: str) -> None:
        """Add the site that the start page redirects to, and move the folder with it."""
        self.scope = replace(
            self.scope,
            sites=self.scope.sites | {site_of(final_url)},
            folder=self.scope.folder
            and folder_after_redirects(self.scope.folder, start, final_url),
        )

    def redirects_to_known(self, url: str, final_url: str) -> bool:
        """Return whether a URL redirects to a known one; mark the target as known."""
        key = canonical_key(final_url)
        if key == canonical_key(url):
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
            canonical = canonical_key(canonical) if in_scope else None
        page = PageFingerprint(canonical_key(target.url), result.sketch, canonical)
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
        links: Iterable[str] = result.links
        nofollow = _nofollow_indices(result) if self._obey_nofollow else ()
        if nofollow:
            source = "robots directive" if result.nofollow_page else "rel"
            detail = f"{source} of {page.url}"
            for index in nofollow:
                url = result.links[index]
                key = canonical_key(url)
                if self._is_full and not self._is_tracked(key):
                    discovered.outcomes.append(UrlOutcome(url, "nofollow", detail))
                elif not self._is_full and key not in self._known:
                    self._nofollow.setdefault(key, (url, detail))
            excluded = frozenset(nofollow)
            links = [url for index, url in enumerate(links) if index not in excluded]
        if self._facets is not None:
            keys: list[str] = []
            for number, url in enumerate(self._unknown(links)):
                keys.append(canonical_key(url))
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
            key = self._key_by_link.get(url) or canonical_key(url)
            candidate = CrawlTarget(url, page.depth + 1, None if key == url else key)
            if key in self._known:
                self._key_by_link[url] = candidate.key if requeues else ""
                if self._frontier.can_move(key):
                    discovered.candidates.append(candidate)
                    discovered.requeued += 1
                continue
            if not self._is_full:
                deferred = len(self._undecided) + len(self._too_deep) + len(self._nofollow)
                self._is_full = len(self._known) + deferred >= self._max_known_urls
            if self._is_full and not self._is_tracked(key):
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
            if index not in nofollow and (key := canonical_key(url)) in self._known
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
            self.scope.folder,
        )

    def restore(self, reader: StateReader, state: DiscoveryState) -> Steps[None]:
        """Continue from an earlier state instead of `start`."""
        self.scope = replace(self.scope, sites=frozenset(state.sites), folder=state.folder)
        self._is_full, self._facets_version = state.is_full, state.facets_version
        self._known.restore(state.known)
        yield from reader.unpack(state.too_deep, tuple[str, str], self._too_deep.update)
        yield from reader.unpack(state.nofollow, tuple[str, tuple[str, str]], self._nofollow.update)
        yield from reader.unpack(
            state.undecided,
            CrawlTarget,
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
            if url not in self._key_by_link and canonical_key(url) not in self._known
        )

    def _is_tracked(self, key: str) -> bool:
        return (
            key in self._known
            or key in self._undecided
            or key in self._too_deep
            or key in self._nofollow
        )

    def _add_link(
        self,
        candidate: CrawlTarget,
        page: CrawlTarget,
        discovered: DiscoveredUrls,
        max_candidates: int,
    ) -> None:
        if (reason := self.scope.exclusion_reason(candidate.url)) is not None:
            self._exclude(candidate, discovered, reason)
            return
        if candidate.depth > self._max_depth:
            if candidate.key not in self._undecided:
                self._too_deep.setdefault(candidate.key, candidate.url)
            return
        if len(discovered.candidates) - discovered.requeued >= max_candidates:
            detail = f"link {max_candidates} and on of {page.url}"
            self._exclude(candidate, discovered, "trap", detail)
            return
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

    def _add(self, candidate: CrawlTarget, discovered: DiscoveredUrls) -> None:
        self._mark_known(candidate.key)
        discovered.candidates.append(candidate)

    def _exclude(
        self, candidate: CrawlTarget, discovered: DiscoveredUrls, outcome: str, detail: str = ""
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
