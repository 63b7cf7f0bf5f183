"""Lists the outcomes of URLs in a crawl's receipt, and their meanings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import exp, log, log1p
from typing import Final, Literal, get_args

FETCHED: Final = "fetched"
# Of an incremental crawl: the site called the page unchanged. The row is the earlier page, or the
# page was fetched in full to check that, and was the same or another.
UNCHANGED: Final = "unchanged"
VERIFIED: Final = "verified"
CONTRADICTED: Final = "contradicted"
READ: Final = frozenset({FETCHED, UNCHANGED, VERIFIED, CONTRADICTED})
FAILED: Final = "failed:"
ROBOTS: Final = "robots"
# The site could not be reached, or answered with an error: nobody has disallowed anything.
ROBOTS_UNREACHABLE: Final = "robots_unreachable"
OVER_MAX_PAGES: Final = "over_max_pages"
NOT_ARCHIVED: Final = "not_archived"
DAMAGED_ARCHIVE: Final = "damaged_archive"
# Of a crawl with `check_links`: whether a link works that leads where the crawl does not go.
LinkOutcome = Literal[
    "link_ok", "link_broken", "link_unreachable", "link_refused", "link_unchecked", "over_links"
]
LINK_OUTCOMES: Final[tuple[LinkOutcome, ...]] = get_args(LinkOutcome)

# Routes, frames and `why` read this table; a new outcome needs only an entry here.
MEANINGS: Final[dict[str, str]] = {
    FETCHED: "it is a row",
    UNCHANGED: "it is a row, taken from the earlier crawl: the site calls it unchanged",
    VERIFIED: "it is a row: the site calls it unchanged, and a full request showed that it is",
    CONTRADICTED: "it is a row: the site calls it unchanged, and a full request showed a change",
    ROBOTS: "robots.txt disallows it",
    ROBOTS_UNREACHABLE: "its robots.txt could not be read, and may disallow it",
    "rights": "its owner refuses the purpose of the call",
    "scope": "it is on another site",
    "folder": "it is not below the folder of the start page, to which the crawl keeps",
    "filtered": "include_paths or exclude_paths exclude it",
    "depth": "it is more than max_depth links from the start page",
    "facet": "it is a variant of a page that the crawl already has",
    "duplicate": "it has the content of an earlier page",
    "canonical": "its canonical URL is a page that the crawl already has",
    "nofollow": "every link to it is marked nofollow",
    "redirect": "it redirects to a page that the crawl already has",
    "trap": "it is in a part of the site with endless URLs",
    "sitemap": "it is a sitemap that could not be read, or only in part",
    "llms_txt": "it is an llms.txt that could not be read",
    NOT_ARCHIVED: "the archive has no capture of it",
    DAMAGED_ARCHIVE: "it is an archive that could be read only in part",
    "link_ok": "it is a link to another site, and works",
    "link_broken": "it is a link to another site, which says that there is no such page",
    "link_unreachable": "it is a link to another site, which could not be reached or failed",
    "link_refused": "it is a link to another site, which answers only to a login or a browser",
    "link_unchecked": "it is a link to another site, which may not be asked",
    "over_links": "it is a link to another site, beyond the limit of links to check: "
    "10 x max_pages + 1,000, of which 500 of one host, in an hour",
    OVER_MAX_PAGES: "the crawl reached max_pages before it",
    "over_requests": "the crawl reached its limit of requests, 3 x max_pages + 50, before it",
    "over_urls": "the crawl had reached its limit of known URLs: 100 x max_pages + 50,000, and at "
    "most 500,000",
}


# How a line of a receipt counts URLs that are no rows, by their outcome.
_COUNTED: Final[dict[str, str]] = {
    ROBOTS: "disallowed by robots.txt",
    ROBOTS_UNREACHABLE: "whose robots.txt could not be read",
    "rights": "refused for the purpose of the call",
    "scope": "on other sites",
    "folder": "elsewhere on the site",
    "filtered": "excluded by paths",
    "depth": "beyond max_depth",
    "facet": "other views of a page",
    "duplicate": "duplicate",
    "canonical": "with another canonical address",
    "nofollow": "nofollow",
    "redirect": "redirected to other pages",
    "trap": "in endless parts of the site",
    "sitemap": "unreadable sitemaps",
    "llms_txt": "unreadable llms.txt",
    NOT_ARCHIVED: "not in the archive",
    DAMAGED_ARCHIVE: "damaged archives",
}
_CHECKED: Final[dict[str, str]] = {
    "link_ok": "work",
    "link_broken": "broken",
    "link_unreachable": "unreachable",
    "link_refused": "refuse to answer",
    "link_unchecked": "may not be asked",
}
_BEYOND: Final[dict[str, str]] = {
    OVER_MAX_PAGES: "max_pages",
    "over_requests": "the limit of requests",
    "over_urls": "the limit of URLs",
    "over_links": "the limit of links to check",
}


def skipped_text(counts: Mapping[str, int]) -> list[str]:
    """Return clauses that count the URLs without a row, by outcome.

    Examples
    --------
    >>> skipped_text({"fetched": 300, "over_max_pages": 224, "scope": 1442})
    ['224 more found beyond max_pages', 'not crawled: 1,442 on other sites']
    >>> skipped_text({"fetched": 9, "link_broken": 2, "link_ok": 40, "robots": 1})
    ['links to other sites: 40 work, 2 broken', 'not crawled: 1 disallowed by robots.txt']
    """
    left_out = {name: count for name, count in counts.items() if count and not is_row(name)}
    over_limits = [
        f"{left_out[name]:,} more found beyond {limit}"
        for name, limit in _BEYOND.items()
        if name in left_out
    ]
    checked = [
        f"{left_out[name]:,} {words}" for name, words in _CHECKED.items() if name in left_out
    ]
    others = [
        f"{count:,} {_COUNTED.get(name, name)}"
        for name, count in left_out.items()
        if name not in _BEYOND and name not in _CHECKED
    ]
    return [
        *over_limits,
        *([f"links to other sites: {', '.join(checked)}"] if checked else []),
        *([f"not crawled: {', '.join(others)}"] if others else []),
    ]


def low_confidence_kind(reason: str | None) -> str:
    """Return the reason of a low confidence without the details of one page; "" without one.

    Examples
    --------
    >>> low_confidence_kind("refreshes to https://example.com/")
    'refreshes'
    """
    return "refreshes" if (reason or "").startswith("refreshes to ") else reason or ""


def low_confidence_text(counts: Mapping[str, int]) -> str:
    """Return a clause that counts the rows of low confidence, by reason; "" without any.

    Examples
    --------
    >>> low_confidence_text({"no text layer": 13, "refreshes": 1})
    'low confidence: 14 rows (no text layer: 13, refreshes: 1)'
    >>> low_confidence_text({"no text layer": 1})
    'low confidence: 1 row (no text layer)'
    """
    total = sum(counts.values())
    each = (f"{reason}: {count:,}" for reason, count in counts.items())
    counted = ", ".join(each) if len(counts) > 1 else "".join(counts)
    rows = "1 row" if total == 1 else f"{total:,} rows"
    return f"low confidence: {rows} ({counted})" if total else ""


def links_checked(counts: Mapping[str, int]) -> int:
    """Return how many links to other sites were checked."""
    return sum(counts.get(name, 0) for name in _CHECKED)


def is_row(outcome: str) -> bool:
    """Whether URLs of this outcome are rows of the crawl."""
    return outcome in READ or outcome.startswith(FAILED)


# Outcomes of URLs that were not part of the request.
_OUTSIDE_REQUEST: Final = frozenset(
    {"scope", "folder", "filtered", "sitemap", "llms_txt", DAMAGED_ARCHIVE, *LINK_OUTCOMES}
)


def completion_warning(counts: Mapping[str, int]) -> str:
    """Return a warning about the result of a completed crawl; "" if there is none.

    Parameters
    ----------
    counts
        URLs by outcome.

    Examples
    --------
    >>> completion_warning({"failed:http_404": 1})
    'no page could be read (1 http_404)'
    >>> completion_warning({"fetched": 1, "filtered": 7})
    'include_paths and exclude_paths leave nothing but the start page (7 URLs filtered)'
    >>> completion_warning({"fetched": 1, "folder": 7})
    'no other page is in the folder of the start page (7 URLs elsewhere on the site): scope="site" \
crawls the whole site'
    >>> completion_warning({"unchanged": 90, "verified": 9, "contradicted": 1})
    '1 of 10 pages that were checked had changed, although the site called them unchanged: others \
may have changed as well'
    >>> completion_warning({"fetched": 3, "failed:timeout": 1})
    ''
    """
    nonzero = {name: count for name, count in counts.items() if count}
    rows = {name: count for name, count in nonzero.items() if is_row(name)}
    if rows and READ.isdisjoint(rows):
        kinds = (f"{count} {name.removeprefix(FAILED)}" for name, count in rows.items())
        return f"no page could be read ({', '.join(kinds)})"
    if contradicted := nonzero.get(CONTRADICTED, 0):
        checked = contradicted + nonzero.get(VERIFIED, 0)
        return (
            f"{contradicted:,} of {checked:,} pages that were checked had changed, although the "
            "site called them unchanged: others may have changed as well"
        )
    is_start_alone = sum(rows.values()) == 1 and set(nonzero) <= READ | _OUTSIDE_REQUEST
    if (elsewhere := nonzero.get("folder", 0)) and is_start_alone:
        urls = "1 URL" if elsewhere == 1 else f"{elsewhere:,} URLs"
        return (
            f"no other page is in the folder of the start page ({urls} elsewhere on the site): "
            'scope="site" crawls the whole site'
        )
    filtered = nonzero.get("filtered", 0)
    if filtered and is_start_alone:
        urls = "1 URL" if filtered == 1 else f"{filtered} URLs"
        sentence = "include_paths and exclude_paths leave nothing but the start page"
        return f"{sentence} ({urls} filtered)"
    return ""


def meaning(outcome: str) -> str:
    """Return the meaning of an outcome as a clause; "" if it is unknown.

    Examples
    --------
    >>> meaning("failed:http_404")
    'it is a row that failed (http_404)'
    """
    if outcome.startswith(FAILED):
        return f"it is a row that failed ({outcome.removeprefix(FAILED)})"
    return MEANINGS.get(outcome, "")


# A bound on pages that changed although their site called them unchanged


CONFIDENCE: Final = 0.95
_BISECTIONS: Final = 60


@dataclass(frozen=True, slots=True)
class ClaimChecks:
    """The rows of an incremental crawl that their site called unchanged, by their outcome.

    Attributes
    ----------
    trusted
        Rows that were taken from the earlier crawl.
    verified, contradicted
        Rows of a random sample that were fetched in full, and had not changed, or had.
    """

    trusted: int
    verified: int
    contradicted: int

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> ClaimChecks | None:
        """Return the rows of a receipt by its counts; None if no row was called unchanged."""
        names = UNCHANGED, VERIFIED, CONTRADICTED
        checks = cls(*(counts.get(name, 0) for name in names))
        return checks if checks.claimed else None

    @property
    def checked(self) -> int:
        """The size of the sample."""
        return self.verified + self.contradicted

    @property
    def claimed(self) -> int:
        """All rows that the site called unchanged."""
        return self.trusted + self.checked

    @property
    def bound(self) -> float | None:
        """The upper bound, with 95 % confidence, of the share of the claimed rows that are wrong.

        It is the exact bound of Clopper and Pearson, and None without a sample. The sample is drawn
        without replacement, so the bound is cautious.
        """
        return upper_bound(self.contradicted, self.checked) if self.checked else None

    def text(self) -> str:
        """Return what was trusted, what was checked, and the bound, as a clause.

        Examples
        --------
        >>> ClaimChecks(trusted=897, verified=9, contradicted=0).text()
        '906 unchanged since the earlier crawl, 9 of them checked, 0 wrong: at most 28.3 % of the \
unchanged pages may have changed (95 % confidence)'
        """
        claim = f"{self.claimed:,} unchanged since the earlier crawl"
        if self.bound is None:
            return f"{claim}, none of them checked"
        share = 100 * self.bound
        return (
            f"{claim}, {self.checked:,} of them checked, {self.contradicted:,} wrong: at most "
            f"{share:.3g} % of the unchanged pages may have changed (95 % confidence)"
        )


def upper_bound(hits: int, size: int) -> float:
    """Return the one-sided 95 % bound of Clopper and Pearson for the share behind a sample.

    With no hits it is 1 - 0.05 ** (1 / size), about 3 / size.

    Examples
    --------
    >>> round(upper_bound(0, 149), 4)
    0.0199
    >>> round(upper_bound(1, 10), 4)
    0.3942
    """
    if hits >= size:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        share = (low + high) / 2
        # The binomial probability of at most so many hits.
        term = size * log1p(-share)
        total = exp(term)
        for count in range(1, hits + 1):
            term += log((size - count + 1) / count) + log(share) - log1p(-share)
            total += exp(term)
        if total > 1 - CONFIDENCE:
            low = share
        else:
            high = share
    return high


# Job states and their transitions (contract, part 3).


JobKind = Literal["search", "crawl"]


class JobStatus(StrEnum):
    """The six values of `status`; the reply to a start says `started`, its job is `pending`."""

    STARTED = "started"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether the job has ended."""
        return self in TERMINAL


TERMINAL: Final = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED})
RETRYABLE: Final = frozenset({JobStatus.FAILED, JobStatus.CANCELLED})
