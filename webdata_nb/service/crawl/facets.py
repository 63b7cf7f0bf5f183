"""Detects query parameters that only produce variants of a page, such as sort or session. Pure.

A name alone proves little: `color` may be a filter or select a page of its own. Tracking names
(`utm_source`, `phpsessid`) are always ignored. Suspected names (`sort`, `color`) are facets unless
the first pages fetched with them declare themselves canonical. Any other name becomes a facet when
several pages with it turn out equal to their siblings without it.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from hashlib import blake2b
from typing import Final, NamedTuple
from urllib.parse import unquote

from msgspec import Struct

from webdata_nb.service.crawl.journal import Packed, StateReader, StateWriter
from webdata_nb.service.runtime.steps import Steps

# Hashes of URLs and texts, and how similar two texts are by their sketches. Pure.


HASH_BYTES: Final = 4
"""Bytes of each hash in the sketch of a text (`content.minhash`)."""
# Arrays by the first bits of a hash: to insert one moves some kilobytes at most.
_ARRAYS: Final = 256
_SHIFT: Final = 56


def hash64(data: bytes) -> int:
    """Return a hash of 8 bytes."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


class UrlHashes:
    """Keys of URLs, of which only hashes are stored: about 9 bytes for each, in sorted arrays.

    Two of a million URLs have the same hash with a probability of 3e-8. The second of them then
    counts as known, in a crawl that runs without a stop as in one that was continued.
    """

    def __init__(self) -> None:
        self._arrays = [array("Q") for _ in range(_ARRAYS)]
        self._count = 0
        # A key is added after it was looked for.
        self._last = "", hash64(b"")

    def _number(self, key: str) -> int:
        if key is not self._last[0]:
            self._last = key, hash64(key.encode())
        return self._last[1]

    def add(self, key: str) -> None:
        """Add a key, unless it is there."""
        number = self._number(key)
        numbers = self._arrays[number >> _SHIFT]
        at = bisect_left(numbers, number)
        if at == len(numbers) or numbers[at] != number:
            numbers.insert(at, number)
            self._count += 1

    def __contains__(self, key: str) -> bool:
        number = self._number(key)
        numbers = self._arrays[number >> _SHIFT]
        at = bisect_left(numbers, number)
        return at < len(numbers) and numbers[at] == number

    def __len__(self) -> int:
        return self._count

    def state(self) -> list[bytes]:
        """Return the arrays as bytes, in the byte order of this machine."""
        return [numbers.tobytes() for numbers in self._arrays]

    def restore(self, state: Sequence[bytes]) -> None:
        """Continue with the keys of `state`."""
        self._arrays = [array("Q", numbers) for numbers in state]
        self._count = sum(map(len, self._arrays))


def similarity(first: bytes, second: bytes) -> float:
    """Estimate the Jaccard similarity of the word pairs of two texts from their sketches, 0 to 1.

    The estimate is exact while both texts are shorter than a sketch. An empty sketch is similar
    to none.
    """
    if not first or not second:
        return 0.0
    if first == second:
        return 1.0
    first_hashes, second_hashes = _hashes(first), _hashes(second)
    size = max(len(first_hashes), len(second_hashes))
    smallest = set(sorted(first_hashes | second_hashes)[:size])
    return len(smallest & first_hashes & second_hashes) / len(smallest)


def _hashes(sketch: bytes) -> set[bytes]:
    return {sketch[start : start + HASH_BYTES] for start in range(0, len(sketch), HASH_BYTES)}


class QueryParameter(NamedTuple):
    """One `name=value` of a query.

    `name` is in lower case and decoded, `text` is the parameter as written in the URL.
    """

    name: str
    text: str


def split_query(url: str) -> tuple[str, tuple[QueryParameter, ...]]:
    """Return a URL up to its query, and the parameters of the query."""
    path, mark, query = url.partition("?")
    if not mark:
        return path, ()
    return path, tuple(
        QueryParameter(unquote(part.partition("=")[0]).lower(), part)
        for part in query.replace(";", "&").split("&")
        if part
    )


def normalized_url(path: str, parameters: Iterable[QueryParameter]) -> str:
    """Return the URL with these parameters in sorted order."""
    query = "&".join(sorted(parameter.text for parameter in parameters))
    return f"{path}?{query}" if query else path


# Texts at least this similar are one text.
DUPLICATE_SIMILARITY: Final = 0.95
# A page's canonical URL is believed where the texts are at least this similar.
CANONICAL_SIMILARITY: Final = 0.5
# Pages fetched with a suspected name before it is decided.
PROBES_PER_PARAMETER: Final = 2
# Equal siblings in a row that make an unknown name a facet.
MATCHES_REQUIRED: Final = 3
# Earlier pages of the same path that a text is compared with, to bound the time.
PAGES_COMPARED: Final = 16
# Texts with fewer hashes are too short to be matched across paths.
_MIN_HASHES: Final = 20

_TRACKING_NAMES: Final = re.compile(
    r"utm_\w+|mtm_\w+|pk_\w+|piwik_\w+|hsa_\w+|vero_\w+|_hs\w+|"
    r"gclid|gclsrc|dclid|fbclid|msclkid|yclid|ttclid|twclid|gbraid|wbraid|igshid|srsltid|"
    r"mc_cid|mc_eid|_ga|_gl|s_cid|cmpid|"
    r"phpsessid|jsessionid|aspsessionid\w*|sessionid|session_id|sessid|oscsid|zenid|"
    r"cfid|cftoken",
)
_SUSPECTED_NAMES: Final = re.compile(
    r"(?:product_list_)?(?:sort|order|dir|limit|mode)|"
    r"sort_?(?:by|order|dir)?|order_?(?:by|dir)?|direction|asc|desc|"
    r"view(?:_?(?:as|mode|type))?|display|layout|per_?page|page_?size|items_per_page|show|"
    r"colou?r|size|brand|material|style|gender|fit|pattern|rating|availability|in_?stock|sale|"
    r"price|(?:min|max)_?price|price_?(?:min|max|from|to|range)|"
    r"filters?|facets?|refine|filter[_.\-\[].*|facet[_.\-\[].*|f\[.*|attr(?:ibute)?[_.\-\[].*|"
    r"session|sess|sid|ref|referrer|source|campaign",
)
_PAGING_NAMES: Final = re.compile(
    r"p|pg|page|paged|page_?(?:no|num|number)|offset|start|cursor|after"
)


class ParameterKind(Enum):
    """The effect of a parameter, as observed so far."""

    UNKNOWN = auto()
    SUSPECTED = auto()
    FACET = auto()
    CONTENT = auto()


class ParameterEvidence(Struct, array_like=True):
    """What the pages read so far show about one parameter name of one site.

    `probes` counts the URLs let through to decide a suspected name, `probe_pages` those read, and
    `own_canonicals` how many of them declare themselves canonical. `matches` counts the pages that
    equal their sibling without the parameter.
    """

    kind: ParameterKind
    probes: int = 0
    probe_pages: int = 0
    own_canonicals: int = 0
    matches: int = 0


class PageFingerprint(Struct, frozen=True, array_like=True):
    """What a page is compared by; `canonical` is the key of the URL that it declares canonical."""

    url: str
    sketch: bytes
    canonical: str | None


class LearntPage(Struct, array_like=True):
    """A page that was learnt, and by what the detector finds it again.

    `siblings` has the places of its keys there, among those of `_sibling_keys`.
    """

    page: PageFingerprint
    siblings: list[int]
    by_path: bool
    by_text: bool
    is_read: bool


class FacetState(Struct, array_like=True):
    """The state of a `FacetDetector`.

    `originals` are the items of its dictionary; an empty URL stands for the key.
    """

    version: int
    evidence: Packed
    originals: Packed
    pages: Packed


@dataclass(frozen=True, slots=True)
class UrlVariant:
    """A URL that need not be fetched, because `original` shows the same page."""

    url: str
    original: str

    @property
    def detail(self) -> str:
        """The receipt's explanation: the original URL and the parameters that differ."""
        parameters, original_parameters = split_query(self.url)[1], split_query(self.original)[1]
        differing = [
            p
            for p in (*parameters, *original_parameters)
            if (p in parameters) is not (p in original_parameters)
        ]
        names = dict.fromkeys(parameter.name for parameter in differing)
        return f"{self.original} by {', '.join(names) or 'the order of parameters'}"


class Undecided(Enum):
    """The result for a URL that can only be classified when more pages were read."""

    UNDECIDED = auto()


UNDECIDED: Final = Undecided.UNDECIDED


class FacetDetector:
    """Learns the parameters of a crawl's sites.

    All methods are called in the order of the crawl, so the results are a function of the site.
    """

    def __init__(self) -> None:
        self._evidence = dict[tuple[str, str], ParameterEvidence]()
        # The URL that represents each page, by its URL without ignored parameters.
        self._originals = dict[str, str]()
        # Pages that siblings are compared with, by URL without one parameter and that name.
        self._siblings: dict[tuple[str, str], PageFingerprint] = {}
        self._pages_by_path: dict[str, tuple[PageFingerprint, ...]] = {}
        self._pages_by_text: dict[bytes, PageFingerprint] = {}
        self._pages_read: dict[str, PageFingerprint] = {}
        self.version: int = 0
        """Incremented whenever a parameter is decided: undecided URLs are then classified anew."""

    def state(self, writer: StateWriter) -> Steps[FacetState]:
        """Return the state."""
        originals = ((key, "" if url == key else url) for key, url in self._originals.items())
        return FacetState(
            self.version,
            (yield from writer.pack(self._evidence.items())),
            (yield from writer.pack(originals)),
            (yield from writer.pack(self._learnt_pages())),
        )

    def restore(self, reader: StateReader, state: FacetState) -> Steps[None]:
        """Continue from an earlier state."""
        self.version = state.version
        yield from reader.unpack(
            state.evidence, tuple[tuple[str, str], ParameterEvidence], self._evidence.update
        )
        yield from reader.unpack(
            state.originals,
            tuple[str, str],
            lambda chunk: self._originals.update((key, url or key) for key, url in chunk),
        )
        yield from reader.unpack(state.pages, LearntPage, self._restore_pages)

    def _restore_pages(self, pages: list[LearntPage]) -> None:
        for learnt in pages:
            page, keys = learnt.page, _sibling_keys(learnt.page.url)
            self._siblings.update((keys[place], page) for place in learnt.siblings)
            if learnt.by_path:
                self._append_to_path(_relevant(page.url)[0], page)
            if learnt.by_text:
                self._pages_by_text[page.sketch] = page
            if learnt.is_read:
                self._pages_read[page.url] = page

    def _learnt_pages(self) -> Iterator[LearntPage]:
        """Yield each page that is found anywhere, those of one path in their order.

        A page is described where it is found first, so that nothing is kept for all pages.
        """
        for same_path in self._pages_by_path.values():
            yield from map(self._describe, same_path)
        for page in self._pages_read.values():
            if not self._is_by_path(page):
                yield self._describe(page)
        for page in self._pages_by_text.values():
            if not self._is_by_path(page) and self._pages_read.get(page.url) is not page:
                yield self._describe(page)
        for key, page in self._siblings.items():
            if not self._is_by_path(page):
                learnt = self._describe(page)
                is_first = _sibling_keys(page.url)[learnt.siblings[0]] == key
                if is_first and not learnt.is_read and not learnt.by_text:
                    yield learnt

    def _describe(self, page: PageFingerprint) -> LearntPage:
        return LearntPage(
            page,
            [
                place
                for place, key in enumerate(_sibling_keys(page.url))
                if self._siblings.get(key) is page
            ],
            by_path=self._is_by_path(page),
            by_text=self._pages_by_text.get(page.sketch) is page,
            is_read=self._pages_read.get(page.url) is page,
        )

    def _is_by_path(self, page: PageFingerprint) -> bool:
        same_path = self._pages_by_path.get(page.url.partition("?")[0], ())
        return any(each is page for each in same_path)

    def classify(self, url: str) -> UrlVariant | Undecided | None:
        """Classify a URL; None means a page of its own, which then represents its variants."""
        if "?" not in url:
            return self._register(url, url)
        path, parameters = _relevant(url)
        normalized = normalized_url(path, parameters)
        if (original := self._originals.get(normalized)) is not None:
            return UrlVariant(url, original)
        evidence = [self._evidence_of(path, parameter.name) for parameter in parameters]
        facets = [
            parameter
            for parameter, item in zip(parameters, evidence, strict=True)
            if item.kind is ParameterKind.FACET
        ]
        suspected = [item for item in evidence if item.kind is ParameterKind.SUSPECTED]
        if suspected:
            # The first URLs that differ by one suspected name only are pages for now.
            [probed, *others] = suspected
            if others or facets or probed.probes >= PROBES_PER_PARAMETER:
                return UNDECIDED
            probed.probes += 1
            self._originals.setdefault(normalized, url)
            return None
        if not facets:
            return self._register(normalized, url)
        base = normalized_url(
            path, [parameter for parameter in parameters if parameter not in facets]
        )
        if (original := self._originals.get(base)) is not None:
            return UrlVariant(url, original)
        return UNDECIDED

    def prefer_plain_urls(self, urls: Iterable[str]) -> None:
        """Register the plain URLs of a page's links before its links are classified in order.

        If a page links to a tracked URL and, further down, to the plain one, the plain one
        represents the page. On a later page it may be too late, because the tracked one may
        already be in flight.
        """
        urls = list(urls)
        untracked: set[str] = set()
        for url in urls:
            if "?" in url:
                path, parameters = split_query(url)
                if parameters and all(map(_is_tracking, parameters)):
                    untracked.add(path)
        for url in untracked.intersection(urls):
            self._originals.setdefault(url, url)

    def accept(self, url: str) -> None:
        """Treat an undecided URL as a page, because no other page is left to decide it."""
        path, parameters = _relevant(url)
        self._originals.setdefault(normalized_url(path, parameters), url)
        base = [
            parameter
            for parameter in parameters
            if self._evidence_of(path, parameter.name).kind is not ParameterKind.FACET
        ]
        self._originals.setdefault(normalized_url(path, base), url)

    def learn(self, page: PageFingerprint) -> tuple[str, str] | None:
        """Record a page that was read.

        Returns the outcome and the detail for the receipt when the page equals an earlier one,
        None when it is a page of its own.
        """
        path = page.url.partition("?")[0]
        *keys, own_key = _sibling_keys(page.url)
        for base, name in keys:
            self._compare_with_sibling(path, name, base, page)
        self._siblings.setdefault(own_key, page)
        if (canonical := self._canonical_page(path, page)) is not None:
            return "canonical", canonical.url
        # An earlier page with the same text is similar at the same path, and equal at any.
        is_long = len(page.sketch) >= _MIN_HASHES * HASH_BYTES
        same_sketch = self._pages_by_text.setdefault(page.sketch, page) if is_long else page
        for earlier in (same_sketch, *self._pages_by_path.get(path, ())):
            both_declared = earlier.canonical is not None and page.canonical is not None
            if earlier is page or (both_declared and earlier.canonical != page.canonical):
                continue
            if similarity(earlier.sketch, page.sketch) >= DUPLICATE_SIMILARITY:
                return "duplicate", f"the text of {earlier.url}"
        self._append_to_path(path, page)
        self._pages_read[page.url] = page
        return None

    def _canonical_page(self, path: str, page: PageFingerprint) -> PageFingerprint | None:
        """Return the page already read that a page declares canonical, if that is credible."""
        if page.canonical is None or page.canonical == page.url:
            return None
        canonical = self._pages_read.get(page.canonical)
        if canonical is None:
            return None
        canonical_path, canonical_parameters = split_query(canonical.url)
        differing = set(split_query(page.url)[1]).symmetric_difference(canonical_parameters)
        paginated = any(_PAGING_NAMES.fullmatch(parameter.name) for parameter in differing)
        if canonical_path == path and not paginated:
            return canonical
        # Many sites declare the first page of a list canonical on all of its pages.
        similar = similarity(canonical.sketch, page.sketch) >= CANONICAL_SIMILARITY
        return canonical if similar else None

    def _compare_with_sibling(self, path: str, name: str, base: str, page: PageFingerprint) -> None:
        """Update the evidence for one parameter of a page; `base` is the URL without it."""
        evidence = self._evidence_of(path, name)
        sibling = self._siblings.get((base, "")) or self._siblings.setdefault((base, name), page)
        if evidence.kind is ParameterKind.SUSPECTED:
            evidence.probe_pages += 1
            evidence.own_canonicals += page.canonical == page.url
            if evidence.probe_pages >= PROBES_PER_PARAMETER:
                has_content = evidence.own_canonicals == evidence.probe_pages
                self._decide(
                    evidence, ParameterKind.CONTENT if has_content else ParameterKind.FACET
                )
        elif evidence.kind is ParameterKind.UNKNOWN and sibling is not page:
            if not _PAGING_NAMES.fullmatch(name) and _is_same_page(sibling, page):
                evidence.matches += 1
                if evidence.matches >= MATCHES_REQUIRED:
                    self._decide(evidence, ParameterKind.FACET)
            else:
                self._decide(evidence, ParameterKind.CONTENT)

    def _decide(self, evidence: ParameterEvidence, kind: ParameterKind) -> None:
        evidence.kind = kind
        self.version += 1

    def _append_to_path(self, path: str, page: PageFingerprint) -> None:
        same_path = self._pages_by_path.get(path, ())
        self._pages_by_path[path] = (*same_path[1 - PAGES_COMPARED :], page)

    def _register(self, normalized: str, url: str) -> UrlVariant | None:
        original = self._originals.setdefault(normalized, url)
        return None if original == url else UrlVariant(url, original)

    def _evidence_of(self, path: str, name: str) -> ParameterEvidence:
        """Return the evidence on a name, which the caller may change."""
        key = path.split("/", 3)[2], name
        evidence = self._evidence.get(key)
        if evidence is None:
            suspected = _SUSPECTED_NAMES.fullmatch(name) is not None
            kind = ParameterKind.SUSPECTED if suspected else ParameterKind.UNKNOWN
            evidence = self._evidence[key] = ParameterEvidence(kind)
        return evidence


def _is_tracking(parameter: QueryParameter) -> bool:
    return _TRACKING_NAMES.fullmatch(parameter.name) is not None


def _relevant(url: str) -> tuple[str, list[QueryParameter]]:
    """Return a URL up to its query, and its parameters except those for tracking."""
    path, parameters = split_query(url)
    return path, [parameter for parameter in parameters if not _is_tracking(parameter)]


def _sibling_keys(url: str) -> list[tuple[str, str]]:
    """Return by what siblings of a page are found: its URL without each name, and with all."""
    if "?" not in url:
        return [(url, "")]
    path, parameters = _relevant(url)
    keys = [
        (normalized_url(path, [other for other in parameters if other is not each]), each.name)
        for each in parameters
    ]
    return [*keys, (normalized_url(path, parameters), "")]


def _is_same_page(first: PageFingerprint, second: PageFingerprint) -> bool:
    """Return whether two siblings are one page, by their canonical URLs and texts."""
    similar = similarity(first.sketch, second.sketch)
    if first.canonical is not None and second.canonical is not None:
        return first.canonical == second.canonical and similar >= CANONICAL_SIMILARITY
    return similar >= DUPLICATE_SIMILARITY
