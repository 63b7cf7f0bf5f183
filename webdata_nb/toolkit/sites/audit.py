"""Audits the pages of a crawl: `audit_df`."""

from __future__ import annotations

import re
import tomllib
from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from http import HTTPStatus
from itertools import chain
from math import log1p
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

import pyarrow as pa

from webdata_nb.contract.fields import CODES
from webdata_nb.contract.outcomes import LINK_OUTCOMES
from webdata_nb.contract.url_keys import canonical_key, site_of
from webdata_nb.errors import IncompleteResult, InvalidArgument
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.frames import frame, schemas
from webdata_nb.toolkit.frames.rows import dumps
from webdata_nb.toolkit.sites.pages import (
    FILE_FAILURES,
    NOINDEX,
    AuditFinding,
    AuditLink,
    AuditPage,
    AuditSite,
    Findings,
    LinkTarget,
    finding_of_page,
    links_of,
    pages_of,
    robots_directives,
)

if TYPE_CHECKING:
    import pandas as pd

# Every kind of finding of an audit: name, severity, meaning, threshold, source.
#
# The kinds are in `issues.toml`, which is read when an audit needs them. The guide's table follows
# from it (`website/` generates it), and so do the order and the severity of findings.


Severity = Literal["error", "warning", "notice"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "notice")

# Characters of titles, descriptions and headings, and words of the content.
TITLE_LENGTH: Final = (30, 60)
DESCRIPTION_LENGTH: Final = (70, 155)
H1_LENGTH: Final = (5, 70)
MIN_WORDS: Final = 200
# Estimated share of common pairs of words.
MIN_SIMILARITY: Final = 0.9
# What web.dev calls a poor time to the first byte; ours has the whole page, and its redirects.
MAX_SECONDS: Final = 1.8
MAX_BYTES: Final = 2 * 1024 * 1024
MAX_DEPTH: Final = 3
MAX_LINKS: Final = 3000
_THRESHOLDS: Final = {
    "title_length": TITLE_LENGTH,
    "description_length": DESCRIPTION_LENGTH,
    "h1_length": H1_LENGTH,
    "min_words": MIN_WORDS,
    "min_similarity": MIN_SIMILARITY,
    "max_seconds": MAX_SECONDS,
    "max_depth": MAX_DEPTH,
    "max_links": MAX_LINKS,
}


@dataclass(frozen=True, slots=True)
class IssueKind:
    """A kind of finding.

    Attributes
    ----------
    name
        The value of the column `issue`.
    severity
        What it costs: visitors or indexing (`error`), quality (`warning`), or nothing for sure.
    meaning
        What is wrong, as a clause.
    source
        Where the rule or its threshold comes from.
    subject
        What it could hold for, such as `indexable pages`: a key of `subjects_of`.
    """

    name: str
    severity: Severity
    meaning: str
    source: str
    subject: str


@cache
def issue_kinds() -> Mapping[str, IssueKind]:
    """Return every kind of finding by its name, in the order of findings."""
    kinds: dict[str, IssueKind] = {}
    for severity in SEVERITIES:
        for name, (meaning, source, subject) in _data()[severity].items():
            meaning = meaning.format(**_THRESHOLDS)  # noqa: PLW2901 - the same text, completed
            kinds[name] = IssueKind(name, severity, meaning, source, subject)
    return kinds


@cache
def language_codes() -> frozenset[str]:
    """Return the language codes of ISO 639-1, which `hreflang` allows."""
    return frozenset(_data()["language_codes"].split())


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("issues.toml").read_text("utf-8"))


# Columns of an audit: the graph of links, clusters, indexability
#
# The graph says who links to a page, and how important that makes it. Clusters are pages whose
# texts are nearly the same, by the sketches of their pairs of words.


_HASH_BYTES: Final = 4
# Rare hashes by which candidates are found. Of two texts that share 90 %, each of the rarest is
# common with that probability.
_KEYS: Final = 8
# Groups that a page is compared with for each of its keys, which bounds the work.
_MAX_GROUPS: Final = 50

Sketch = frozenset[bytes]


def clusters(encoded: Sequence[str]) -> list[int | None]:
    """Return the number of each page's cluster, from 1 in their order; None for a page alone.

    `encoded` are the sketches of the pages in Base64, empty without a text.
    """
    sketches = [
        frozenset(data[start : start + _HASH_BYTES] for start in range(0, len(data), _HASH_BYTES))
        for data in map(b64decode, encoded)
    ]
    frequencies = Counter(each for sketch in sketches for each in sketch)
    # The leader of a page is the first one of its group, which is nearly the same, or itself.
    groups: defaultdict[bytes, list[int]] = defaultdict(list)
    leaders: list[int] = []
    for page, sketch in enumerate(sketches):
        shared = (each for each in sketch if frequencies[each] > 1)
        keys = sorted(shared, key=lambda each: (frequencies[each], each))[:_KEYS]
        candidates = dict.fromkeys(leader for key in keys for leader in groups[key])
        similar = (each for each in candidates if _are_similar(sketches[each], sketch))
        leader = next(similar, page)
        leaders.append(leader)
        for key in keys:
            if leader not in groups[key] and len(groups[key]) < _MAX_GROUPS:
                groups[key].append(leader)
    sizes = Counter(leaders)
    numbers: dict[int, int] = {}
    for leader in leaders:
        if sizes[leader] > 1:
            numbers.setdefault(leader, len(numbers) + 1)
    return [numbers.get(leader) for leader in leaders]


def _are_similar(first: Sketch, second: Sketch) -> bool:
    """Return whether two texts share enough pairs of words, estimated from the smallest hashes."""
    size = max(len(first), len(second))
    smallest = set(sorted(first | second)[:size])
    return len(smallest & first & second) >= MIN_SIMILARITY * len(smallest) > 0


# Share of visitors who follow a link, as in the paper (Brin and Page, 1998).
DAMPING: Final = 0.85
_MAX_ROUNDS: Final = 100
_TOLERANCE: Final = 1e-9
# Pages that link to a page and are listed one by one, so that a frame stays linear in its links.
MAX_FOUND_ON: Final = 20

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LinkGraph:
    """The links between rows; a page is the position of its row.

    Attributes
    ----------
    sources
        For each page, those that link to it, in their order, each once.
    outlinks
        For each page, the pages that it links to, of any site.
    targets
        For each page, those that its links pass importance to.
    """

    sources: tuple[tuple[int, ...], ...]
    outlinks: tuple[int, ...]
    targets: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, rows: Sequence[Facts], positions: Mapping[str, int]) -> LinkGraph:
        """Return the links of the rows; `positions` is what `row_positions` returned."""
        sources: list[list[int]] = [[] for _ in rows]
        targets: list[tuple[int, ...]] = []
        outlinks = []
        for source, facts in enumerate(rows):
            links = list(links_of(facts))
            outlinks.append(len(links))
            led = [
                (positions.get(canonical_key(link.url), source), link.is_nofollow) for link in links
            ]
            for target in dict.fromkeys(target for target, _ in led if target != source):
                sources[target].append(source)
            followed = (target for target, nofollow in led if target != source and not nofollow)
            targets.append(tuple(dict.fromkeys(followed)))
        return cls(tuple(map(tuple, sources)), tuple(outlinks), tuple(targets))

    def pagerank(self) -> list[float]:
        """Return the share of each page in the visits of a random surfer; the sum is 1.

        Links with `rel=nofollow` pass nothing. A page without links passes its share to all.
        """
        if not self.targets:
            return []
        count = len(self.targets)
        ranks = [1 / count] * count
        for _ in range(_MAX_ROUNDS):
            dangling = sum(rank for rank, to in zip(ranks, self.targets, strict=True) if not to)
            fresh = [(1 - DAMPING + DAMPING * dangling) / count] * count
            for rank, to in zip(ranks, self.targets, strict=True):
                share = DAMPING * rank / len(to) if to else 0.0
                for target in to:
                    fresh[target] += share
            change = sum(abs(new - old) for new, old in zip(fresh, ranks, strict=True))
            ranks = fresh
            if change < _TOLERANCE * count:
                break
        return ranks


def row_positions(facts: Sequence[Facts], rows: Sequence[Facts]) -> dict[str, int]:
    """Return the row that each URL of a crawl leads to, directly or through redirects, by its key.

    `facts` are those of all URLs, `rows` those of the rows, in their order.
    """
    positions = {canonical_key(each["url"]): position for position, each in enumerate(rows)}
    by_hash: dict[str, int] = {}
    for position, each in enumerate(rows):
        if each["result"] == "page":
            positions.setdefault(canonical_key(each["final_url"]), position)
            by_hash.setdefault(each.get("content_hash") or "", position)
    for each in facts:
        key = canonical_key(each["url"])
        if key not in positions and each["result"] == "page":
            duplicate = by_hash.get(each.get("content_hash") or "", -1)
            declared = positions.get(canonical_key(each["canonical"] or ""), duplicate)
            position = positions.get(canonical_key(each["final_url"]), declared)
            if position >= 0:
                positions[key] = position
    return positions


# What the column has of the facts of a row; the others are columns of their own.
_COMMON: Final = ("result", "reason", "final_url", "status_code", "redirects", "in_sitemap")
_OF_TARGETS: Final = (*_COMMON, "error")
_OF_ROWS: Final = (*_COMMON, "fetch_seconds")


def with_audit_columns(table: pa.Table, facts: Sequence[Facts]) -> pa.Table:
    """Return a crawl's rows with the columns of an audit.

    Parameters
    ----------
    table
        The rows in the schema of crawls, all of them, in their order.
    facts
        The facts of all URLs that the crawl decided on.

    Raises
    ------
    IncompleteResult
        Rows have no facts.
    """
    rows = sorted(
        (each for each in facts if each.get("position") is not None),
        key=lambda each: int(each["position"]),
    )
    if [each["position"] for each in rows] != list(range(table.num_rows)):
        raise IncompleteResult(table.num_rows, len(rows), why="the facts of pages are incomplete")
    positions = row_positions(facts, rows)
    graph = LinkGraph.of(rows, positions)
    urls = [each["url"] for each in rows]
    # What the URLs without a row led to.
    targets: dict[str, Facts] = {}
    for each in facts:
        if each.get("position") is None:
            target = {name: each[name] for name in _OF_TARGETS if each.get(name)}
            position = positions.get(canonical_key(each["url"]))
            if position is not None and not each["redirects"]:
                target["same_as"] = urls[position]
            targets[each["url"]] = target
    linked = {canonical_key(link["url"]) for each in rows for link in each.get("links", ())}
    by_key = {canonical_key(url): target for url, target in targets.items()}
    unlinked = {url: target for url, target in targets.items() if canonical_key(url) not in linked}
    page_facts = []
    for number, each in enumerate(rows):
        links = each.get("links") or []
        led = {link["url"]: by_key.get(canonical_key(link["url"])) for link in links}
        # Those that no page links to, such as URLs of a sitemap, are in the first row.
        led |= unlinked if number == 0 else {}
        of_row = {name: each[name] for name in _OF_ROWS if each.get(name) is not None}
        of_row |= {"audit": each.get("audit"), "links": links}
        found = {url: target for url, target in led.items() if target}
        page_facts.append(dumps({**of_row, "targets": found}))
    reasons = [_not_indexable(each) for each in rows]
    columns: dict[str, list[Any]] = {
        "found_on": [
            [urls[source] for source in sources[:MAX_FOUND_ON]] for sources in graph.sources
        ],
        "inlinks": list(map(len, graph.sources)),
        "outlinks": list(graph.outlinks),
        "indexable": [not reason for reason in reasons],
        "indexable_reason": [reason or None for reason in reasons],
        "redirect_chain": [dumps(each.get("redirects") or []) for each in rows],
        "cluster": clusters([each.get("sketch") or "" for each in rows]),
        "pagerank": graph.pagerank(),
        "page_facts": page_facts,
    }
    for name, values in columns.items():
        field = schemas.SCHEMAS["crawl"].field(name)
        table = table.set_column(
            table.schema.get_field_index(name), field, pa.array(values, field.type)
        )
    return table


def _not_indexable(facts: Facts) -> str:
    """Return why a search engine would not list a page under its URL; "" if it may."""
    if facts["result"] != "page":
        return f"failed: {facts.get('reason') or facts['result']}"
    if facts.get("redirects"):
        return "redirects"
    audit = facts.get("audit") or {}
    values = [*audit.get("robots", ()), *audit.get("x_robots", ())]
    if NOINDEX in robots_directives(values):
        return NOINDEX
    canonicals = {url and canonical_key(url) for url in audit.get("canonicals", ())}
    is_elsewhere = len(canonicals) == 1 and not canonicals & {canonical_key(facts["url"]), None}
    return "canonical" if is_elsewhere else ""


# The checks of an audit: links and redirects, texts and contents, and what engines may index.


_TEMPORARY: Final = frozenset({302, 303, 307})
_PERMANENT: Final = frozenset({301, 308})
_EXTERNAL_ISSUES: Final = {
    "link_broken": "broken_external_link",
    "link_unreachable": "unreachable_external_link",
    "link_refused": "refused_external_link",
}

Hops = Sequence[tuple[str, int]]


def check_links(site: AuditSite) -> Findings:
    """Return findings about links and what they lead to."""
    for page in site.pages:
        if not page.success:
            if page.reason not in FILE_FAILURES:
                yield finding_of_page(_failure(page), page, page.error, count=page.inlinks)
            continue
        if page.redirects and page.inlinks:
            yield from _redirects(page.url, page.redirects, page.final_url, page)
        for issue, links in (
            ("nofollow_internal_link", [n for n in page.links if n.internal and n.is_nofollow]),
            ("empty_link_text", [link for link in page.links if link.text == ""]),
        ):
            if links:
                url = links[0].url
                yield finding_of_page(issue, page, url, count=len(links), cause=url)
        if len(page.links) > MAX_LINKS:
            yield finding_of_page(
                "many_links", page, f"{len(page.links):,} links", count=len(page.links)
            )
        if page.is_html and not page.links:
            yield finding_of_page("dead_end", page)
        if page.depth is not None and page.depth > MAX_DEPTH:
            yield finding_of_page("deep_page", page, f"{page.depth} links from the start")
        if page.in_sitemap and not page.inlinks and page.depth != 0:
            yield finding_of_page("orphan_page", page, "in the sitemap")
    # Links to URLs without a row.
    linked: dict[str, _Linked] = {}
    for page in site.pages:
        for link in page.links:
            if (target := site.target(link.url)) is not None:
                linked.setdefault(link.url, _Linked(target)).add(page, link)
    for url, sources in linked.items():
        yield from _check_target(url, sources, site)


def _failure(page: AuditPage | LinkTarget) -> str:
    if page.reason == "redirects":
        return "redirect_loop"
    if page.redirects:
        return "redirect_to_error"
    if page.status_code is None or page.status_code < HTTPStatus.BAD_REQUEST:
        return "unreachable_page"
    is_fault = page.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
    return "server_error" if is_fault else "broken_page"


def _redirects(
    url: str, hops: Hops, final_url: str, page: AuditPage | _Linked
) -> Iterator[AuditFinding]:
    """Yield the findings about a URL that redirects, and that pages link to."""
    path = _path(hops, final_url)
    issue = "redirected_link" if len(hops) == 1 else "redirect_chain"
    old, new = urlsplit(url), urlsplit(final_url)
    # A host that has moved, or pages that redirect to one, such as that for a login.
    is_move = old[:2] != new[:2] and old[2:4] == new[2:4]
    cause = f"{_origin(url)} → {_origin(final_url)}" if is_move else f"→ {final_url}"
    yield AuditFinding(issue, url, path, page.found_on, page.inlinks, cause)
    if any(status in _TEMPORARY for _, status in hops):
        yield AuditFinding("temporary_redirect", url, path, page.found_on, page.inlinks, cause)


class _Linked:
    """The pages that link to a URL without a row, and whether it is on their site."""

    def __init__(self, target: LinkTarget) -> None:
        self.target = target
        self.inlinks = 0
        self.is_internal = False
        self._sources: list[str] = []

    def add(self, page: AuditPage, link: AuditLink) -> None:
        self.inlinks += 1
        self.is_internal |= link.internal
        if len(self._sources) < MAX_FOUND_ON:
            self._sources.append(page.url)

    @property
    def found_on(self) -> tuple[str, ...]:
        return tuple(self._sources)


def _check_target(url: str, linked: _Linked, site: AuditSite) -> Iterator[AuditFinding]:
    """Yield findings about a URL without a row, and that pages link to."""
    target = linked.target
    if target.result == "robots":
        reason = target.reason or "robots.txt disallows it"
        yield AuditFinding("blocked_link", url, reason, linked.found_on, linked.inlinks)
    elif target.result == "stopped":
        issue = "blocked_link" if target.reason == "robots" else "redirect_to_other_site"
        evidence = f"redirects to {target.final_url}"
        # The page of another site that it redirects to may have been checked.
        behind = site.target(target.final_url)
        if behind is not None and behind.result == "link_broken" and behind.error:
            issue, evidence = "redirect_to_error", f"{evidence}: {behind.error}"
        yield AuditFinding(issue, url, evidence, linked.found_on, linked.inlinks)
    elif target.result == "failed":
        evidence = f"redirects to {target.final_url}: {target.reason}"
        yield AuditFinding("redirect_to_error", url, evidence, linked.found_on, linked.inlinks)
    elif linked.is_internal and target.result == "link_ok":
        if target.redirects:
            yield from _redirects(url, target.redirects, target.final_url, linked)
    elif target.result not in LINK_OUTCOMES:
        if target.redirects:
            yield from _redirects(url, target.redirects, target.final_url, linked)
        elif target.same_as is not None:
            evidence = f"the same as {target.same_as}"
            yield AuditFinding("duplicate_page", url, evidence, linked.found_on, linked.inlinks)
    elif linked.is_internal:
        # The crawl did not get to this page of the site.
        is_blocked = target.result == "link_unchecked"
        if not is_blocked or target.reason == "robots":
            issue = "blocked_link" if is_blocked else _failure(target)
            yield AuditFinding(issue, url, target.error, linked.found_on, linked.inlinks)
    else:
        path = _path(target.redirects, target.final_url) if target.redirects else ""
        if target.result == "link_ok":
            if any(status in _PERMANENT for _, status in target.redirects[:1]):
                issue = "moved_external_link"
                yield AuditFinding(issue, url, path, linked.found_on, linked.inlinks)
        elif target.result in _EXTERNAL_ISSUES:
            issue = _EXTERNAL_ISSUES[target.result]
            evidence = ": ".join(filter(None, [path, target.error]))
            # A host that is down or refuses programs does so for all links to it.
            cause = "" if issue == "broken_external_link" else _origin(url)
            yield AuditFinding(issue, url, evidence, linked.found_on, linked.inlinks, cause)


def _origin(url: str) -> str:
    return url[: -len(url.partition("://")[2].partition("/")[2]) or None]


def _path(hops: Hops, final_url: str) -> str:
    return " → ".join([*(f"{hop} ({status})" for hop, status in hops), final_url])


@dataclass(frozen=True, slots=True)
class _Text:
    """A text that each page should have once: its name in issues and facts, and its length."""

    name: str
    fact: str
    length: tuple[int, int]


_CHECKED_TEXTS: Final = (
    _Text("title", "titles", TITLE_LENGTH),
    _Text("description", "descriptions", DESCRIPTION_LENGTH),
    _Text("h1", "h1s", H1_LENGTH),
)


def check_texts(site: AuditSite) -> Findings:
    """Return findings about titles, descriptions and headings."""
    for text in _CHECKED_TEXTS:
        shortest, longest = text.length
        # The indexable pages that share a text; case does not matter.
        pages_by_text: defaultdict[str, list[AuditPage]] = defaultdict(list)
        for page in site.html_pages():
            found = page.texts(text.fact)
            if len(found) > 1:
                name = text.name if text.name == "h1" else f"{text.name}s"
                yield finding_of_page(f"multiple_{name}", page, found[1], count=len(found))
            first = found[0] if found else ""
            if not first:
                yield finding_of_page(f"missing_{text.name}", page)
            elif len(first) < shortest:
                evidence = f"{len(first)} characters: {first}"
                yield finding_of_page(f"short_{text.name}", page, evidence)
            elif len(first) > longest:
                evidence = f"{len(first)} characters: {first}"
                yield finding_of_page(f"long_{text.name}", page, evidence)
            if first and page.indexable:
                pages_by_text[first.casefold()].append(page)
        for pages in pages_by_text.values():
            cause = pages[0].texts(text.fact)[0]
            for page in pages if len(pages) > 1 else ():
                evidence = page.texts(text.fact)[0]
                yield finding_of_page(
                    f"duplicate_{text.name}", page, evidence, count=len(pages), cause=cause
                )


def check_contents(site: AuditSite) -> Findings:
    """Return findings about the contents of pages, and their speed and size."""
    for page in site.html_pages():
        if page.words is not None and page.words < MIN_WORDS:
            yield finding_of_page("thin_page", page, f"{page.words} words")
        if page.seconds is not None and page.seconds > MAX_SECONDS:
            yield finding_of_page("slow_page", page, f"{page.seconds:.1f} s")
        size = page.declared.get("bytes", 0)
        if size > MAX_BYTES:
            yield finding_of_page("heavy_page", page, f"{size:,} bytes")
        if bare := page.declared.get("images_without_alt", 0):
            url = next(iter(page.texts("examples_without_alt")), "")
            yield finding_of_page("image_without_alt", page, url, count=bare, cause=url)
        for issue, fact in (
            ("mixed_content", "insecure"),
            ("invalid_structured_data", "structured_data_errors"),
        ):
            if found := page.texts(fact):
                yield finding_of_page(issue, page, found[0], count=len(found), cause=found[0])
        if not page.declared.get("language"):
            yield finding_of_page("missing_language", page)
        if page.declared.get("viewport") is None:
            yield finding_of_page("missing_viewport", page)
        if (refresh := page.declared.get("refresh")) is not None:
            yield finding_of_page("meta_refresh", page, refresh)
    # Each crawl of several numbers its own clusters.
    pages_by_cluster: defaultdict[tuple[str, int], list[AuditPage]] = defaultdict(list)
    for page in site.html_pages():
        if page.cluster is not None and page.indexable:
            pages_by_cluster[page.start_url, page.cluster].append(page)
    for (_, cluster), pages in pages_by_cluster.items():
        for page in pages if len(pages) > 1 else ():
            other = pages[0] if page is not pages[0] else pages[1]
            cause = f"cluster {cluster}"
            evidence = f"{cause}, with {other.url}"
            yield finding_of_page("near_duplicate", page, evidence, count=len(pages), cause=cause)


_OPPOSITES: Final = (("noindex", "index"), ("nofollow", "follow"))
_SITEMAP_ISSUES: Final = {"redirects": "redirect_in_sitemap", NOINDEX: "noindex_in_sitemap"}
# A language of ISO 639-1, a script, and a region of ISO 3166-1.
_LANGUAGE: Final = re.compile(r"([a-z]{2})(?:-[a-z]{4})?(?:-([a-z]{2}))?")
_DEFAULT_LANGUAGE: Final = "x-default"


def check_indexing(site: AuditSite) -> Findings:
    """Return findings about conflicting signals to search engines."""
    for page in site.html_pages():
        yield from _check_canonicals(page, site)
        directives = page.directives
        evidence = "; ".join([*page.texts("robots"), *page.texts("x_robots")])
        if any(set(pair) <= directives for pair in _OPPOSITES):
            yield finding_of_page("conflicting_robots", page, evidence)
        if NOINDEX in directives:
            yield finding_of_page(NOINDEX, page, evidence)
        if "nofollow" in directives:
            yield finding_of_page("nofollow_page", page, evidence)
        yield from _check_languages(page, site)
    has_sitemap = any(page.in_sitemap for page in site.pages)
    cause = "" if has_sitemap else "no sitemap lists any page"
    for page in site.pages:
        if page.in_sitemap and not page.indexable:
            issue = _SITEMAP_ISSUES.get(page.indexable_reason, "canonicalized_in_sitemap")
            issue = issue if page.success else "error_in_sitemap"
            yield finding_of_page(issue, page, page.error or page.indexable_reason)
        elif page.is_html and page.indexable and page.in_sitemap is False:
            yield finding_of_page("missing_from_sitemap", page, cause=cause)
    for url, target in site.targets.items():
        if not target.in_sitemap:
            continue
        if target.is_blocked:
            yield AuditFinding("blocked_in_sitemap", url, target.reason)
        elif target.is_error:
            yield AuditFinding("error_in_sitemap", url, target.error)
        elif target.redirects:
            yield AuditFinding("redirect_in_sitemap", url, f"redirects to {target.final_url}")


def _check_canonicals(page: AuditPage, site: AuditSite) -> Iterator[AuditFinding]:
    urls = page.canonicals
    if not urls:
        yield finding_of_page("missing_canonical", page)
    elif len(urls) > 1:
        evidence = " and ".join(sorted(map(str, urls)))
        yield finding_of_page("multiple_canonicals", page, evidence, count=len(urls))
    elif page.canonical is None:
        yield finding_of_page(
            "invalid_canonical", page, ", ".join(page.texts("malformed_canonicals"))
        )
    elif not page.names_itself:
        yield finding_of_page("canonicalized", page, page.canonical, cause=page.canonical)
        if NOINDEX in page.directives:
            yield finding_of_page("noindex_with_canonical", page, page.canonical)
        if (issue := _canonical_issue(page.canonical, page, site)) is not None:
            yield finding_of_page(issue, page, page.canonical, cause=page.canonical)


def _canonical_issue(url: str, page: AuditPage, site: AuditSite) -> str | None:
    """Return what is wrong with the page that another one declares canonical."""
    target = site.page(url)
    if target is not None:
        if not target.success:
            return "canonical_to_error"
        if target.redirects and canonical_key(target.url) == canonical_key(url):
            return "canonical_to_redirect"
        if NOINDEX in target.directives:
            return "canonical_to_noindex"
        return None if target.names_itself else "canonical_chain"
    other = site.target(url)
    if other is not None and other.is_blocked:
        return "canonical_to_blocked"
    if other is not None and other.is_error:
        return "canonical_to_error"
    if other is not None and (other.redirects or other.result == "stopped"):
        return "canonical_to_redirect"
    return "canonical_to_other_site" if site_of(url) != site_of(page.final_url) else None


def _check_languages(page: AuditPage, site: AuditSite) -> Iterator[AuditFinding]:
    languages, own_keys = page.alternates, page.own_keys
    for language, urls in languages.items():
        match = _LANGUAGE.fullmatch(language)
        if match is None:
            is_valid = language == _DEFAULT_LANGUAGE
        else:
            is_valid = match[1] in language_codes() and (match[2] is None or match[2] in CODES)
        if not is_valid:
            yield finding_of_page("hreflang_invalid_code", page, language)
        if len(urls) > 1:
            evidence = f"{language}: {' and '.join(sorted(map(str, urls)))}"
            yield finding_of_page("hreflang_conflict", page, evidence, count=len(urls))
    if languages and not site.alternate_keys(page) & own_keys:
        yield finding_of_page("hreflang_without_self", page)
    targets = {url for urls in languages.values() for url in urls if url is not None}
    for url in sorted(targets):
        if canonical_key(url) in own_keys:
            continue
        if (issue := _language_issue(page, url, site)) is not None:
            yield finding_of_page(issue, page, url, cause=url)


def _language_issue(page: AuditPage, url: str, site: AuditSite) -> str | None:
    """Return what is wrong with the page of another language that a page refers to."""
    other = site.page(url)
    if other is None:
        target = site.target(url)
        return "hreflang_to_error" if target is not None and target.is_error else None
    if not other.success:
        return "hreflang_to_error"
    if NOINDEX in other.directives:
        return "hreflang_to_noindex"
    refers_back = bool(site.alternate_keys(other) & page.own_keys)
    return None if refers_back or not other.is_html else "hreflang_without_return"


# Findings of a whole site, and priorities


# A kind that holds for a larger share of what it could hold for is one finding of the site.
SITE_SHARE: Final = 0.9
# Fewer findings are listed one by one: on a small site, any fault is one of all its pages.
MIN_FOLDED: Final = 10
# Pages that do not have what all others have, and are named.
_MAX_EXCEPTIONS: Final = 3
HARM: Final[Mapping[str, int]] = {"error": 60, "warning": 30, "notice": 10}
REACH_POINTS: Final = 40
_SITE_URLS: Final = "URLs of the site"
_EXTERNAL_URLS: Final = "links to other sites"


def subjects_of(site: AuditSite) -> Iterator[tuple[str, str]]:
    """Yield what findings could be about: the subject of kinds, such as `pages`, and a URL."""
    own = {site_of(page.url) for page in site.pages}
    for page in site.pages:
        yield _SITE_URLS, page.url
        if page.in_sitemap:
            yield "URLs in sitemaps", page.url
    for page in site.html_pages():
        yield "pages", page.url
        if page.indexable:
            yield "indexable pages", page.url
        if not page.names_itself:
            yield "pages with another canonical URL", page.url
        if page.alternates:
            yield "pages with languages", page.url
    for url, target in site.targets.items():
        yield _SITE_URLS if site_of(url) in own else _EXTERNAL_URLS, url
        if target.in_sitemap:
            yield "URLs in sitemaps", url


def folded(findings: Sequence[AuditFinding], site: AuditSite) -> Iterator[AuditFinding]:
    """Yield the findings, those of a kind as one where they are of a whole site or have one cause.

    Of several sites each is judged by itself; links to others belong to all.
    """
    kinds, most = issue_kinds(), len(site.pages)
    own = {site_of(page.url) for page in site.pages}

    def key(subject: str, url: str) -> tuple[str, str]:
        return subject, "" if subject == _EXTERNAL_URLS else site_of(url)

    urls: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for subject, url in subjects_of(site):
        urls[key(subject, url)].append(url)
    by_kind: defaultdict[tuple[str, tuple[str, str]], list[AuditFinding]] = defaultdict(list)
    for finding in findings:
        by_kind[finding.issue, key(kinds[finding.issue].subject, finding.url)].append(finding)

    def folders(url: str) -> Iterator[str]:
        """Yield the folders of a URL, the topmost first; of another site, the host is one."""
        path = url.partition("?")[0]
        ends = [match.end() for match in re.finditer("/", path)]
        yield from (path[:end] for end in ends[3 if site_of(url) in own else 2 :])

    def fold(members: Sequence[AuditFinding], scope: str, of: str, url: str) -> AuditFinding:
        causes = {member.cause or member.evidence for member in members}
        cause = next(iter(causes)) if len(causes) == 1 else ""
        places = tuple(member.url for member in members[:MAX_FOUND_ON])
        reach = min(most, sum(member.reach for member in members))
        evidence = f"{of}: {cause}" if cause else of
        return AuditFinding(
            members[0].issue, url, evidence, places, len(members), cause, scope, reach
        )

    for (_, subject_key), members in by_kind.items():
        possible, (name, part) = urls[subject_key], subject_key
        if len(members) >= MIN_FOLDED and len(members) > SITE_SHARE * len(possible):
            found = {member.url for member in members}
            rest = [url for url in possible if url not in found]
            of = f"{len(members):,} of {len(members) + len(rest):,} {name}"
            if 0 < len(rest) <= _MAX_EXCEPTIONS:
                of += f" (not {', '.join(rest)})"
            starts = (page.url for page in site.pages if part in ("", site_of(page.url)))
            yield fold(members, "site", of, next(starts, members[0].url))
            continue
        by_cause: defaultdict[str, list[AuditFinding]] = defaultdict(list)
        for member in members:
            by_cause[member.cause].append(member)
        alone = []
        for cause, group in by_cause.items():
            if cause and len(group) >= MIN_FOLDED:
                yield fold(group, "group", f"{len(group):,} {name}", group[0].url)
            else:
                alone += group
        # The same as for sites, of the topmost folders.
        totals = Counter(folder for url in possible for folder in folders(url))
        counts = Counter(folder for member in alone for folder in folders(member.url))
        by_folder: defaultdict[str, list[AuditFinding]] = defaultdict(list)
        for member in alone:
            whole = (
                each
                for each in folders(member.url)
                if counts[each] >= MIN_FOLDED and counts[each] > SITE_SHARE * totals[each]
            )
            by_folder[next(whole, "")].append(member)
        for folder, group in by_folder.items():
            if not folder:
                yield from group
                continue
            same = (totals[folder], counts[folder])
            narrow = [
                each for each in folders(group[0].url) if (totals[each], counts[each]) == same
            ]
            of = f"{len(group):,} of {totals[folder]:,} {name} below {narrow[-1]}"
            yield fold(group, "group", of, group[0].url)


def priority(severity: str, reach: int, pages: int) -> int:
    """Return how much a finding matters, from 10 to 100: by its harm, and by the pages it reaches.

    The share of reach is logarithmic, so that an error on one page stays above a notice on all.

    Examples
    --------
    >>> [priority(each, 1, 700) for each in ("error", "warning", "notice")]
    [64, 34, 14]
    >>> [priority(each, 700, 700) for each in ("error", "warning", "notice")]
    [100, 70, 50]
    """
    share = log1p(min(reach, pages)) / log1p(pages) if pages else 0.0
    return HARM.get(severity, 0) + round(REACH_POINTS * share)


_CHECKS: Final = (check_links, check_texts, check_contents, check_indexing)
_FIELDS: Final[list[tuple[str, pa.DataType]]] = [
    ("issue", schemas.TEXT),
    ("severity", schemas.TEXT),
    ("priority", pa.int16()),
    ("scope", schemas.TEXT),
    ("url", schemas.TEXT),
    ("evidence", schemas.TEXT),
    ("found_on", schemas.TEXTS),
    ("count", pa.int32()),
    ("reach", pa.int32()),
]
_SCHEMA: Final = pa.schema(_FIELDS)
FINDING_COLUMNS: Final = tuple(_SCHEMA.names)


def audit_df(df: pd.DataFrame, *, fold: bool = True) -> pd.DataFrame:
    """Find what is wrong with a site: broken links, doubled titles, conflicting directives.

    What holds for more than 90 % of the pages that it could hold for is one finding of the site,
    such as a missing sitemap; ten or more findings with one cause, such as a link of a template,
    are one of their group. The guide lists all kinds of findings with their thresholds and sources.

    Parameters
    ----------
    df
        A frame of `crawl_df` with `audit=True`.
    fold
        False for a row for each page, whatever it has in common with others.

    Returns
    -------
    pandas.DataFrame
        One row for each finding, those that matter most first. Without findings it is empty, with
        these types.

        ======== ====== ==========================================================
        column   dtype  meaning
        ======== ====== ==========================================================
        issue    str    the kind, such as `broken_page`
        severity str    `error`, `warning` or `notice`
        priority Int16  from 10 to 100, by severity and `reach`
        scope    str    `page`, `group` (of one cause) or `site`
        url      str    the page to repair, or where the links lead to; of a group
                        its first page, of a site its first page in the crawl
        evidence str    what was found: an error, a text, another URL; how many
        found_on object list of the first 20 pages that link to `url`; of a group
                        or a site, the first 20 that the finding is about
        count    Int32  pages that link to it, pages of a group of equal ones, or
                        elements; of a group or a site, the findings it stands for
        reach    Int32  pages of the crawl that it concerns
        ======== ====== ==========================================================

    Raises
    ------
    InvalidArgument
        The frame was not crawled with `audit=True`, or a file has changed its values.

    Notes
    -----
    `priority` is 60 for an error, 30 for a warning and 10 for a notice, and up to 40 more for
    reach: 40 ln(1 + reach) / ln(1 + pages). An error on one page is above a notice on all; of more
    than 15 pages, a warning on all is above both.

    Examples
    --------
    >>> findings = audit_df(crawl_df(start_url, max_pages=5, audit=True))
    >>> sorted(set(findings["severity"]) - {"error", "warning", "notice"})
    []
    """
    if not isinstance(fold, bool):
        raise InvalidArgument(f"fold must be True or False; it is {format_value(fold)}")
    site = AuditSite(pages_of(df))
    kinds, pages = issue_kinds(), len(site.pages)
    order = {name: place for place, name in enumerate(kinds)}
    findings = [
        replace(finding, reach=min(pages, max(1, finding.count)))
        if kinds[finding.issue].subject in (_SITE_URLS, _EXTERNAL_URLS)
        else finding
        for finding in chain.from_iterable(check(site) for check in _CHECKS)
    ]
    ranked = sorted(
        (
            (priority(kinds[each.issue].severity, each.reach, pages), each)
            for each in (folded(findings, site) if fold else findings)
        ),
        key=lambda pair: (-pair[0], order[pair[1].issue]),
    )
    attrs = {
        "kind": "audit",
        "subject": frame.receipt_text(df, "subject"),
        "pages": len(df),
        "line": frame.receipt_text(df, "line"),
    }
    columns: dict[str, list[Any]] = {
        "issue": [each.issue for _, each in ranked],
        "severity": [kinds[each.issue].severity for _, each in ranked],
        "priority": [points for points, _ in ranked],
        "scope": [each.scope for _, each in ranked],
        "url": [each.url for _, each in ranked],
        "evidence": [each.evidence for _, each in ranked],
        "found_on": [list(each.found_on) for _, each in ranked],
        "count": [each.count for _, each in ranked],
        "reach": [each.reach for _, each in ranked],
    }
    table = pa.table(columns, schema=_SCHEMA)
    return frame.build(table, attrs=attrs, dtype_backend=frame.backend_of(df))
