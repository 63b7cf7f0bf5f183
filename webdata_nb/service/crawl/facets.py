"""Which URLs are one page under another sort, filter, session or tracking parameter. Pure.

A name alone proves little: `color` may be a filter or a page of its own. So names only say what is
to be found out, and the site's own pages answer. Some names are made for one purpose (`utm_source`,
`phpsessid`) and are believed; others (`sort`, `color`) are believed unless the pages fetched under
them name themselves as canonical; and any name becomes a facet when page after page under it
turns out to be the same one.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from webdata_nb.service.crawl.query_string import QueryParameter, normalized_url, split_query
from webdata_nb.service.crawl.similarity import HASH_BYTES, similarity

# Pages of one text: all but a few of their word pairs are the same.
DUPLICATE_SIMILARITY: Final = 0.95
# Pages fetched under a suspected name before the others are judged by them.
PROBES_PER_PARAMETER: Final = 2
# Pages that call another page their own are believed where at least this much is the same.
CANONICAL_SIMILARITY: Final = 0.5
# Pages of one path that a text is compared with; more would make long lists slow.
PAGES_COMPARED: Final = 16
# Hashes of a text that is long enough to be found again at another path.
_MIN_HASHES: Final = 20
# Variants in a row that came out the same before an innocent name is taken for a facet.
MATCHES_REQUIRED: Final = 3

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
    """What a parameter is taken for."""

    UNKNOWN = auto()
    SUSPECTED = auto()
    FACET = auto()
    OWN = auto()


@dataclass(slots=True)
class ParameterEvidence:
    """What is known of a name, and from how many pages."""

    nature: ParameterKind
    probes: int = 0
    answers: int = 0
    own: int = 0
    same: int = 0


@dataclass(frozen=True, slots=True)
class PageFingerprint:
    """What a page is compared by; `canonical` is the key of the URL that it calls its own."""

    url: str
    sketch: bytes
    canonical: str | None


@dataclass(frozen=True, slots=True)
class UrlVariant:
    """A URL that needs no visit: the page it shows is, or will be, that of `of`."""

    url: str
    of: str

    @property
    def detail(self) -> str:
        """What the receipt says of it: whose variant, and by which parameters."""
        here, there = split_query(self.url)[1], split_query(self.of)[1]
        apart = [each for each in (*here, *there) if (each in here) is not (each in there)]
        names = dict.fromkeys(each.name for each in apart)
        return f"{self.of} by {', '.join(names) or 'the order of parameters'}"


class Undecided:
    """The answer for a URL that is judged later, when more is known."""


UNDECIDED: Final = Undecided()


class FacetDetector:
    """What the crawl has learnt of a site's parameters.

    Everything is asked and told in the order of the crawl, so that the answers are a function of
    the site.
    """

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], ParameterEvidence] = {}
        self._shown: dict[str, str] = {}
        self._references: dict[tuple[str, str], PageFingerprint] = {}
        self._paths: dict[str, deque[PageFingerprint]] = {}
        self._texts: dict[bytes, PageFingerprint] = {}
        self._read: dict[str, PageFingerprint] = {}
        self.version = 0

    def judge(self, url: str) -> UrlVariant | Undecided | None:
        """Say whether a URL is a variant; None is a page, which counts as known from now on."""
        if "?" not in url:
            return self._of(url, url)
        path, every = split_query(url)
        rest = [each for each in every if not self._is_carried(each)]
        plain = normalized_url(path, rest)
        if (known := self._shown.get(plain)) is not None:
            return UrlVariant(url, known)
        shown = [(each, self._record(path, each.name)) for each in rest]
        facets = [each for each, record in shown if record.nature is ParameterKind.FACET]
        doubted = [record for _, record in shown if record.nature is ParameterKind.SUSPECTED]
        if doubted:
            return self._probe(plain, url, doubted, alone=not facets)
        if not facets:
            return self._of(plain, url)
        base = normalized_url(path, [each for each in rest if each not in facets])
        if (known := self._shown.get(base)) is not None:
            return UrlVariant(url, known)
        return UNDECIDED

    def meet(self, urls: Iterable[str]) -> None:
        """Hear of the links of one page before they are judged, each in its turn.

        Where a page links to a tracked URL and, further down, to the plain one, the plain one is
        the page. (Learnt later it may be too late: the tracked one is being read already.)
        """
        every = list(urls)
        tracked = {plain for url in every if (plain := self._plain(url)) is not None}
        for url in tracked.intersection(every):
            self._shown.setdefault(url, url)

    def admit(self, url: str) -> None:
        """Take a URL for a page because nothing else is left to ask."""
        path, every = split_query(url)
        rest = [each for each in every if not self._is_carried(each)]
        self._shown.setdefault(normalized_url(path, rest), url)
        base = [
            each for each in rest if self._record(path, each.name).nature is not ParameterKind.FACET
        ]
        self._shown.setdefault(normalized_url(path, base), url)

    def learn(self, body: PageFingerprint) -> tuple[str, str] | None:
        """Take note of a page that was read.

        Returns its outcome and the URL of the page it is the same as, None when it is its own.
        """
        path, every = split_query(body.url)
        rest = [each for each in every if not self._is_carried(each)]
        for each in rest:
            base = normalized_url(path, [other for other in rest if other is not each])
            self._compare(path, each.name, base, body)
        self._references.setdefault((normalized_url(path, rest), ""), body)
        if (own := self._named(path, body)) is not None:
            return "canonical", own.url
        if (same := self._same_text(path, body)) is not None:
            return "duplicate", f"the text of {same.url}"
        self._read[body.url] = body
        return None

    def _named(self, path: str, body: PageFingerprint) -> PageFingerprint | None:
        """Return the page read before that a page calls its own."""
        own = None if body.canonical == body.url else self._read.get(body.canonical or "")
        if own is None:
            return None
        there, wanted = split_query(own.url)
        extra = set(split_query(body.url)[1]).symmetric_difference(wanted)
        if there == path and not any(_PAGING_NAMES.fullmatch(each.name) for each in extra):
            return own
        return own if similarity(own.sketch, body.sketch) >= CANONICAL_SIMILARITY else None

    def _compare(self, path: str, name: str, base: str, body: PageFingerprint) -> None:
        record = self._record(path, name)
        first = self._references.get((base, "")) or self._references.setdefault((base, name), body)
        if record.nature is ParameterKind.SUSPECTED:
            record.answers += 1
            record.own += body.canonical == body.url
            if record.answers >= PROBES_PER_PARAMETER:
                own = record.own == record.answers
                self._decide(record, ParameterKind.OWN if own else ParameterKind.FACET)
        elif record.nature is ParameterKind.UNKNOWN and first is not body:
            if not _PAGING_NAMES.fullmatch(name) and self._alike(first, body):
                record.same += 1
                if record.same >= MATCHES_REQUIRED:
                    self._decide(record, ParameterKind.FACET)
            else:
                self._decide(record, ParameterKind.OWN)

    def _decide(self, record: ParameterEvidence, nature: ParameterKind) -> None:
        record.nature = nature
        self.version += 1

    @staticmethod
    def _alike(one: PageFingerprint, other: PageFingerprint) -> bool:
        common = similarity(one.sketch, other.sketch)
        if one.canonical is not None and other.canonical is not None:
            return one.canonical == other.canonical and common >= CANONICAL_SIMILARITY
        return common >= DUPLICATE_SIMILARITY

    def _same_text(self, path: str, body: PageFingerprint) -> PageFingerprint | None:
        """Find an earlier page with the same text: almost so at the same path, else exactly."""
        telling = len(body.sketch) >= _MIN_HASHES * HASH_BYTES
        exact = self._texts.setdefault(body.sketch, body) if telling else body
        others = self._paths.setdefault(path, deque(maxlen=PAGES_COMPARED))
        for other in (exact, *others):
            if other is not body and _is_copy(other, body):
                return other
        others.append(body)
        return None

    def _of(self, plain: str, url: str) -> UrlVariant | None:
        known = self._shown.setdefault(plain, url)
        return None if known == url else UrlVariant(url, known)

    def _probe(
        self, plain: str, url: str, doubted: list[ParameterEvidence], *, alone: bool
    ) -> Undecided | None:
        """Let a URL through that tells of one doubted name; the others wait for it."""
        [record, *more] = doubted
        if more or not alone or record.probes >= PROBES_PER_PARAMETER:
            return UNDECIDED
        record.probes += 1
        self._shown.setdefault(plain, url)
        return None

    def _plain(self, url: str) -> str | None:
        """Return what is left of a URL whose every parameter is carried, None of any other."""
        path, every = split_query(url) if "?" in url else (url, ())
        return path if every and all(map(self._is_carried, every)) else None

    @staticmethod
    def _is_carried(each: QueryParameter) -> bool:
        return _TRACKING_NAMES.fullmatch(each.name) is not None

    def _record(self, path: str, name: str) -> ParameterEvidence:
        site = path.split("/", 3)[2]
        known = self._records.get((site, name))
        if known is None:
            suspected = _SUSPECTED_NAMES.fullmatch(name) is not None
            nature = ParameterKind.SUSPECTED if suspected else ParameterKind.UNKNOWN
            known = self._records[(site, name)] = ParameterEvidence(nature)
        return known


def _is_copy(one: PageFingerprint, other: PageFingerprint) -> bool:
    """Whether two pages have one text and do not say that they are two."""
    named = one.canonical is not None and other.canonical is not None
    if named and one.canonical != other.canonical:
        return False
    return similarity(one.sketch, other.sketch) >= DUPLICATE_SIMILARITY
