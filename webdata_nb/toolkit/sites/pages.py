"""The pages of an audited crawl, as its checks read them from a frame, and by URL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import pandas as pd
import pyarrow as pa

from webdata_nb.contract.url_keys import canonical_key, site_of
from webdata_nb.errors import InvalidArgument
from webdata_nb.suggestions import format_value
from webdata_nb.toolkit.frames import frame, schemas
from webdata_nb.toolkit.frames.derive import page_lists, page_urls, to_frame
from webdata_nb.toolkit.frames.rows import decoded

PAGE_FACTS: Final = "page_facts"
NOINDEX: Final = "noindex"
_NEEDED: Final = (
    "url",
    "success",
    PAGE_FACTS,
    "found_on",
    "inlinks",
    "indexable",
    "indexable_reason",
)
# Directives of `X-Robots-Tag` that contain a colon; before any other, it names a crawler.
_WITH_VALUE: Final = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
# Failures of pages that a browser shows or saves, such as pictures and archives.
FILE_FAILURES: Final = frozenset({"unsupported_type", "too_large"})
_SHORT_FORMS: Final = {"none": ("noindex", "nofollow"), "all": ("index", "follow")}


@dataclass(frozen=True, slots=True)
class AuditLink:
    """A link of a page; `text` and `rel` are None where nothing is known or there is none."""

    url: str
    text: str | None
    rel: str | None
    internal: bool

    @property
    def is_nofollow(self) -> bool:
        """Whether it says `rel=nofollow`."""
        return self.rel is not None and "nofollow" in self.rel.split()


@dataclass(frozen=True, slots=True)
class LinkTarget:
    """What a request for a URL without a row led to.

    Attributes
    ----------
    result
        `page`, `failed`, `robots` or `stopped`, as in the facts of a page, or the outcome of a link
        that was checked.
    reason, error
        Why it failed or was stopped, as a short name and in words.
    final_url, status_code, redirects
        Where it led, the HTTP status, and URL and status of each redirect.
    same_as
        The page of the crawl with the same content.
    in_sitemap
        Whether a sitemap lists it.
    """

    result: str
    final_url: str
    reason: str = ""
    status_code: int | None = None
    redirects: tuple[tuple[str, int], ...] = ()
    same_as: str | None = None
    in_sitemap: bool = False
    error: str = ""

    @property
    def is_blocked(self) -> bool:
        """Whether robots.txt disallows it, or what it redirects to."""
        return "robots" in (self.result, self.reason)

    @property
    def is_error(self) -> bool:
        """Whether it fails, or redirects to a page that does."""
        return self.result in {"failed", "link_broken", "link_unreachable"}


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A row of a crawl with its facts; those of a page that was not read are empty.

    `start_url` says which crawl of several has the row, where the frame does.
    """

    url: str
    success: bool
    status_code: int | None
    error: str
    depth: int | None
    seconds: float | None
    words: int | None
    found_on: tuple[str, ...]
    inlinks: int
    indexable: bool
    indexable_reason: str
    cluster: int | None
    final_url: str
    reason: str = ""
    redirects: tuple[tuple[str, int], ...] = ()
    in_sitemap: bool | None = None
    links: tuple[AuditLink, ...] = ()
    targets: Mapping[str, LinkTarget] = field(default_factory=dict)
    declared: Mapping[str, Any] = field(default_factory=dict)
    start_url: str = ""

    @property
    def is_html(self) -> bool:
        """Whether it is a web page that was read."""
        return self.success and bool(self.declared.get("is_html"))

    @property
    def own_keys(self) -> frozenset[str]:
        """The keys of its URL, before and after redirects."""
        return frozenset(map(canonical_key, (self.url, self.final_url)))

    def texts(self, name: str) -> list[str]:
        """Return a list of texts that it declares, such as `titles`."""
        return [text for text in self.declared.get(name, ()) if isinstance(text, str)]

    @property
    def canonicals(self) -> list[str | None]:
        """The canonical URLs that it declares, each once; None for malformed ones."""
        urls = self.declared.get("canonicals", ())
        return list({url and canonical_key(url): url for url in urls}.values())

    @property
    def canonical(self) -> str | None:
        """The only canonical URL that it declares."""
        urls = self.canonicals
        return urls[0] if len(urls) == 1 else None

    @property
    def names_itself(self) -> bool:
        """Whether its canonical URL is its own, or it declares none."""
        return self.canonical is None or canonical_key(self.canonical) in self.own_keys

    @property
    def alternates(self) -> dict[str, set[str | None]]:
        """The URLs of each language that it refers to; None for malformed ones."""
        languages: dict[str, set[str | None]] = {}
        for each in self.declared.get("hreflang", ()):
            languages.setdefault(each["language"].lower(), set()).add(each.get("url"))
        return languages

    @property
    def directives(self) -> frozenset[str]:
        """The robots directives for all crawlers, of the page and of its headers."""
        return robots_directives([*self.texts("robots"), *self.texts("x_robots")])


def robots_directives(values: Sequence[str]) -> frozenset[str]:
    """Return the directives for all crawlers; `none` and `all` stand for those they mean.

    Examples
    --------
    >>> sorted(robots_directives(["NOINDEX, max-snippet:5", "otherbot: nofollow"]))
    ['max-snippet:5', 'noindex']
    """
    words: set[str] = set()
    for value in values:
        for part in value.lower().split(","):
            word = part.strip()
            if ":" in word and not word.startswith(_WITH_VALUE):
                break  # the rest is for the crawler that it names
            words.update(_SHORT_FORMS.get(word, (word,)))
    return frozenset(words - {""})


def pages_of(df: pd.DataFrame) -> list[AuditPage]:
    """Return the pages of a frame, each once, without rows of inputs that failed as a whole.

    Raises
    ------
    InvalidArgument
        The frame has no facts of its pages, or such that cannot be read.
    """
    for name in _NEEDED:
        frame.require_column(df, name, ": an audit needs a frame of crawl_df with audit=True")
    optional = ("status_code", "error", "depth", "quality", "cluster", "start_url")
    names = [*_NEEDED, *(name for name in optional if name in df.columns)]
    columns = [frame.column_values(df[name]) for name in names]
    rows = (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
    by_url: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row["url"] is not None and row[PAGE_FACTS] is not None:
            by_url.setdefault(str(row["url"]), row)
    return [_page_of_row(url, row) for url, row in by_url.items()]


def _page_of_row(url: str, row: Mapping[str, Any]) -> AuditPage:
    try:
        facts = facts_object(row[PAGE_FACTS])
        quality = facts_object(row.get("quality"), "quality")
        return AuditPage(
            url=url,
            # The row of a page from which an extraction failed is a failed one.
            success=bool(row["success"]) or facts.get("result") == "page",
            status_code=row.get("status_code"),
            error=row.get("error") or "",
            depth=row.get("depth"),
            seconds=facts.get("fetch_seconds"),
            words=quality.get("word_count"),
            found_on=listed_urls(row["found_on"]),
            inlinks=row["inlinks"] or 0,
            indexable=bool(row["indexable"]),
            indexable_reason=row["indexable_reason"] or "",
            cluster=row.get("cluster"),
            final_url=facts.get("final_url") or url,
            reason=facts.get("reason") or "",
            redirects=_redirects(facts),
            in_sitemap=facts.get("in_sitemap"),
            links=tuple(links_of(facts)),
            targets={each: target_of(target) for each, target in facts.get("targets", {}).items()},
            declared=facts.get("audit") or {},
            start_url=row.get("start_url") or "",
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise InvalidArgument(
            f"{PAGE_FACTS} of {url} must be as crawl_df returned it ({error!r}); "
            f"it is {format_value(row[PAGE_FACTS])}"
        ) from None


def facts_object(value: Any, column: str = PAGE_FACTS) -> Mapping[str, Any]:
    """Return a value of a JSON column, which is text in an Arrow-backed frame.

    Raises
    ------
    InvalidArgument
        It is other text.
    """
    facts = decoded(value, column)
    return facts if isinstance(facts, Mapping) else {}


def listed_urls(value: Any) -> tuple[str, ...]:
    """Return a value of the column `found_on`, which is JSON text in a CSV export.

    Raises
    ------
    InvalidArgument
        It is other text.
    """
    urls = decoded(value, "found_on")
    return tuple(map(str, urls)) if isinstance(urls, Iterable) else ()


def links_of(facts: Mapping[str, Any]) -> Iterator[AuditLink]:
    """Yield the links of a page from its facts."""
    for link in facts.get("links", ()):
        yield AuditLink(link["url"], link.get("text"), link.get("rel"), bool(link.get("internal")))


def target_of(facts: Mapping[str, Any]) -> LinkTarget:
    """Return what the facts of a URL say about links to it."""
    result = facts.get("result") or ""
    return LinkTarget(
        result=result,
        final_url=facts.get("final_url") or "",
        reason=facts.get("reason") or "",
        status_code=facts.get("status_code"),
        redirects=_redirects(facts),
        same_as=facts.get("same_as"),
        in_sitemap=bool(facts.get("in_sitemap")),
        # Of a page that was read, it is a remark about its capture.
        error="" if result == "page" else facts.get("error") or "",
    )


def target_behind(targets: Mapping[str, LinkTarget], url: str) -> LinkTarget | None:
    """Return what a link leads to; None if that is not known.

    A crawl stops at a redirect to another site, so that what is there is in the facts of that URL,
    if the crawl checked links. `targets` are by their keys.
    """
    target = targets.get(canonical_key(url.partition("#")[0]))
    if target is None or target.result != "stopped":
        return target
    behind = targets.get(canonical_key(target.final_url))
    if behind is None:
        return target
    error = f"redirects to {target.final_url}: {behind.error}" if behind.error else ""
    # A link to the same site is none to what it redirects to, which may refuse a program.
    result = target.result if behind.result == "link_refused" else behind.result
    return replace(behind, result=result, error=error, redirects=target.redirects)


def is_broken(target: LinkTarget, *, internal: bool) -> bool:
    """Return whether a link leads to a page that failed; `internal` if it is on the same site.

    A browser shows or saves some files that a crawl cannot read. A refusal by another site, such as
    to a program or without a login, does not say that a link is broken.
    """
    if target.result == "failed":
        if target.reason:
            return target.reason not in FILE_FAILURES
        # A row that stands alone has no reason: what was sent with 200 could not be read.
        return target.status_code is None or target.status_code >= HTTPStatus.MULTIPLE_CHOICES
    if target.result == "link_refused":
        return internal
    return target.result in {"link_broken", "link_unreachable"}


def _redirects(facts: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    hops = facts.get("redirects") or ()
    return tuple((hop["url"], hop["status_code"]) for hop in hops)


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A finding of an audit.

    Attributes
    ----------
    issue
        The name of its kind.
    url
        The page to repair, or the URL that links lead to.
    evidence
        What was found there.
    found_on
        Pages that link to `url`.
    count
        How many times: pages that link to it, pages in a group, or elements on the page.
    cause
        What several findings of the kind may have in common and be repaired by, such as a link in
        a template; empty if each has a cause of its own.
    scope
        Whether it is one of a `page`, of a `group` with one cause, or of the whole `site`.
    reach
        Pages of the crawl that it concerns.
    """

    issue: str
    url: str
    evidence: str = ""
    found_on: tuple[str, ...] = ()
    count: int = 1
    cause: str = ""
    scope: str = "page"
    reach: int = 1


Findings: TypeAlias = Iterable[AuditFinding]


class AuditSite:
    """The pages of an audit, and what is known about each URL.

    Attributes
    ----------
    pages
        The rows of the crawl.
    targets
        What URLs without a row led to, in the first spelling of each.
    """

    def __init__(self, pages: Sequence[AuditPage]) -> None:
        self.pages = pages
        self._by_key: dict[str, AuditPage] = {canonical_key(page.url): page for page in pages}
        for page in pages:
            self._by_key.setdefault(canonical_key(page.final_url), page)
        self.targets: dict[str, LinkTarget] = {}
        self._targets_by_key: dict[str, LinkTarget] = {}
        for page in pages:
            for url, target in page.targets.items():
                if self._targets_by_key.setdefault(canonical_key(url), target) is target:
                    self.targets[url] = target
        self._alternate_keys: dict[str, frozenset[str]] = {}

    def page(self, url: str) -> AuditPage | None:
        """Return the page of a URL, before or after redirects; None if no row is one."""
        return self._by_key.get(canonical_key(url))

    def target(self, url: str) -> LinkTarget | None:
        """Return what a URL without a row led to; None if that is not known."""
        return self._targets_by_key.get(canonical_key(url))

    def alternate_keys(self, page: AuditPage) -> frozenset[str]:
        """Return the keys of the URLs in other languages that a page refers to."""
        if page.url not in self._alternate_keys:
            urls = (url for urls in page.alternates.values() for url in urls if url is not None)
            self._alternate_keys[page.url] = frozenset(map(canonical_key, urls))
        return self._alternate_keys[page.url]

    def html_pages(self) -> Iterable[AuditPage]:
        """Return the web pages that were read."""
        return (page for page in self.pages if page.is_html)


def finding_of_page(
    issue: str, page: AuditPage, evidence: str = "", *, count: int = 1, cause: str = ""
) -> AuditFinding:
    """Return a finding about a page."""
    return AuditFinding(issue, page.url, evidence, page.found_on, count, cause)


# Links, and what they lead to


_FIELDS: Final[list[tuple[str, pa.DataType]]] = [
    ("url", schemas.TEXT),
    ("position", pa.int32()),
    ("link", schemas.TEXT),
    ("internal", pa.bool_()),
    ("text", schemas.TEXT),
    ("rel", schemas.TEXT),
    ("status_code", pa.int32()),
    ("error", schemas.TEXT),
]
_LINKS: Final = pa.schema(_FIELDS)


def links_df(df: pd.DataFrame, *, broken: bool = False) -> pd.DataFrame:
    """Return the links of the pages, from the column `page_facts` or `links`.

    Raises
    ------
    InvalidArgument
        The frame has neither.
    """
    if PAGE_FACTS in df.columns:
        rows = enumerate(zip(page_urls(df), df[PAGE_FACTS], strict=True))
        facts = ({**facts_object(of_row), "url": url, "position": n} for n, (url, of_row) in rows)
        return links_of_facts(facts, df, broken=broken)
    links = (
        (url, position, AuditLink(link, None, None, _site(link) == _site(url)))
        for url, page_links in page_lists(df, "links")
        for position, link in enumerate(page_links, 1)
        if isinstance(link, str)
    )
    return _links_frame(links, _targets((), df), df, broken=broken)


def links_of_facts(
    facts: Iterable[Mapping[str, Any]], df: pd.DataFrame | None = None, *, broken: bool = False
) -> pd.DataFrame:
    """Return the links of pages from their facts; `df` is the frame that they belong to.

    The facts of other URLs say what links to them lead to. If there is a frame, links of other
    pages are left out.
    """
    facts = list(facts)
    pages = None if df is None else set(page_urls(df))
    links = (
        (page["url"], position, link)
        for page in facts
        if page.get("position") is not None and (pages is None or page["url"] in pages)
        for position, link in enumerate(links_of(page), 1)
    )
    df = pd.DataFrame() if df is None else df
    return _links_frame(links, _targets(facts, df), df, broken=broken)


def _links_frame(
    links: Iterable[tuple[str, int, AuditLink]],
    targets: Mapping[str, LinkTarget],
    df: pd.DataFrame,
    *,
    broken: bool,
) -> pd.DataFrame:
    """Return links, with the URL of their page and their place on it, and what they lead to."""
    rows = []
    for url, position, link in links:
        target = target_behind(targets, link.url)
        if broken and not (target is not None and is_broken(target, internal=link.internal)):
            continue
        row = {"url": url, "position": position, "link": link.url, "internal": link.internal}
        row |= {"text": link.text, "rel": link.rel}
        if target is not None:
            row |= {"status_code": target.status_code, "error": target.error or None}
        rows.append(row)
    return to_frame("links", rows, _LINKS, df)


def _targets(facts: Iterable[Mapping[str, Any]], df: pd.DataFrame) -> dict[str, LinkTarget]:
    """Return what is known about each URL, by its key: from facts, and from the rows of a frame."""
    targets: dict[str, LinkTarget] = {}
    for each in facts:
        for url, of_url in ((each["url"], each), *each.get("targets", {}).items()):
            targets[canonical_key(url)] = target_of(of_url)
    if {"url", "status_code", "error"} <= set(df.columns):
        columns = [frame.column_values(df[name]) for name in ("status_code", "error")]
        for url, status_code, error in zip(page_urls(df), *columns, strict=True):
            key = canonical_key(url)
            target = targets.get(key) or LinkTarget("failed" if error else "page", url)
            targets[key] = replace(target, status_code=status_code, error=error or "")
    return targets


def _site(url: str) -> str:
    """Return what identifies the site of a URL; a foreign service may not have normalized it."""
    try:
        return site_of(urlsplit(url)._replace(netloc=urlsplit(url).netloc.lower()).geturl())
    except ValueError:
        return url
