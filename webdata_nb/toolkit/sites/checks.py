"""The checks of an audit: links and redirects, texts and contents, and what engines may index."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from webdata_nb.contract.countries import CODES
from webdata_nb.contract.outcomes import LINK_OUTCOMES
from webdata_nb.contract.url_keys import canonical_key, site_of
from webdata_nb.toolkit.sites.audit_columns import MAX_FOUND_ON
from webdata_nb.toolkit.sites.issues import (
    DESCRIPTION_LENGTH,
    H1_LENGTH,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_LINKS,
    MAX_SECONDS,
    MIN_WORDS,
    TITLE_LENGTH,
    language_codes,
)
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
)

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
        yield from _check_row(page)
        if page.success:
            yield from _check_links_of(page)
            yield from _check_place(page)
    yield from _check_targets(site)


def _check_row(page: AuditPage) -> Iterator[AuditFinding]:
    if page.success:
        if page.redirects and page.inlinks:
            yield from _redirects(page.url, page.redirects, page.final_url, page)
    elif page.reason not in FILE_FAILURES:
        yield finding_of_page(_failure(page), page, page.error, count=page.inlinks)


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
    yield AuditFinding(issue, url, path, page.found_on, page.inlinks)
    if any(status in _TEMPORARY for _, status in hops):
        yield AuditFinding("temporary_redirect", url, path, page.found_on, page.inlinks)


def _check_links_of(page: AuditPage) -> Iterator[AuditFinding]:
    nofollow = [link for link in page.links if link.internal and link.is_nofollow]
    if nofollow:
        yield finding_of_page("nofollow_internal_link", page, nofollow[0].url, count=len(nofollow))
    empty = [link for link in page.links if link.text == ""]
    if empty:
        yield finding_of_page("empty_link_text", page, empty[0].url, count=len(empty))
    if len(page.links) > MAX_LINKS:
        yield finding_of_page(
            "many_links", page, f"{len(page.links):,} links", count=len(page.links)
        )


def _check_place(page: AuditPage) -> Iterator[AuditFinding]:
    if page.is_html and not page.links:
        yield finding_of_page("dead_end", page)
    if page.depth is not None and page.depth > MAX_DEPTH:
        yield finding_of_page("deep_page", page, f"{page.depth} links from the start")
    if page.in_sitemap and not page.inlinks and page.depth != 0:
        yield finding_of_page("orphan_page", page, "in the sitemap")


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


def _check_targets(site: AuditSite) -> Iterator[AuditFinding]:
    """Yield findings about links to URLs without a row."""
    linked: dict[str, _Linked] = {}
    for page in site.pages:
        for link in page.links:
            if (target := site.target(link.url)) is not None:
                linked.setdefault(link.url, _Linked(target)).add(page, link)
    for url, sources in linked.items():
        target = sources.target
        if target.result not in LINK_OUTCOMES:
            yield from _check_target(url, target, sources, site)
        elif sources.is_internal:
            yield from _check_unvisited(url, target, sources)
        else:
            yield from _check_external(url, target, sources)


def _check_target(
    url: str, target: LinkTarget, linked: _Linked, site: AuditSite
) -> Iterator[AuditFinding]:
    if target.result == "robots":
        reason = target.reason or "robots.txt disallows it"
        yield AuditFinding("blocked_link", url, reason, linked.found_on, linked.inlinks)
    elif target.result == "stopped" and (error := _error_behind(target, site)):
        evidence = f"redirects to {target.final_url}: {error}"
        yield AuditFinding("redirect_to_error", url, evidence, linked.found_on, linked.inlinks)
    elif target.result == "stopped":
        issue = "blocked_link" if target.reason == "robots" else "redirect_to_other_site"
        evidence = f"redirects to {target.final_url}"
        yield AuditFinding(issue, url, evidence, linked.found_on, linked.inlinks)
    elif target.result == "failed":
        evidence = f"redirects to {target.final_url}: {target.reason}"
        yield AuditFinding("redirect_to_error", url, evidence, linked.found_on, linked.inlinks)
    elif target.redirects:
        yield from _redirects(url, target.redirects, target.final_url, linked)
    elif target.same_as is not None:
        evidence = f"the same as {target.same_as}"
        yield AuditFinding("duplicate_page", url, evidence, linked.found_on, linked.inlinks)


def _error_behind(target: LinkTarget, site: AuditSite) -> str:
    """Return what is wrong with the page of another site that a URL redirects to, if checked."""
    behind = site.target(target.final_url)
    return behind.error if behind is not None and behind.result == "link_broken" else ""


def _check_unvisited(url: str, target: LinkTarget, linked: _Linked) -> Iterator[AuditFinding]:
    """Yield findings about a page of the site that the crawl did not get to, as about a row."""
    if target.result == "link_ok":
        if target.redirects:
            yield from _redirects(url, target.redirects, target.final_url, linked)
        return
    is_blocked = target.result == "link_unchecked"
    if not is_blocked or target.reason == "robots":
        issue = "blocked_link" if is_blocked else _failure(target)
        yield AuditFinding(issue, url, target.error, linked.found_on, linked.inlinks)


def _check_external(url: str, target: LinkTarget, linked: _Linked) -> Iterator[AuditFinding]:
    """Yield findings about a link to another site."""
    path = _path(target.redirects, target.final_url) if target.redirects else ""
    if target.result == "link_ok":
        if any(status in _PERMANENT for _, status in target.redirects[:1]):
            yield AuditFinding("moved_external_link", url, path, linked.found_on, linked.inlinks)
    elif (issue := _EXTERNAL_ISSUES.get(target.result)) is not None:
        evidence = ": ".join(filter(None, [path, target.error]))
        yield AuditFinding(issue, url, evidence, linked.found_on, linked.inlinks)


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
        for page in site.html_pages():
            yield from _check_text(page, text)
        yield from _duplicates(site, text)


def _check_text(page: AuditPage, text: _Text) -> Iterator[AuditFinding]:
    found = page.texts(text.fact)
    if len(found) > 1:
        yield finding_of_page(
            f"multiple_{text.name}{_plural(text)}", page, found[1], count=len(found)
        )
    first = found[0] if found else ""
    shortest, longest = text.length
    if not first:
        yield finding_of_page(f"missing_{text.name}", page)
    elif len(first) < shortest:
        yield finding_of_page(f"short_{text.name}", page, f"{len(first)} characters: {first}")
    elif len(first) > longest:
        yield finding_of_page(f"long_{text.name}", page, f"{len(first)} characters: {first}")


def _plural(text: _Text) -> str:
    return "" if text.name == "h1" else "s"


def _duplicates(site: AuditSite, text: _Text) -> Iterator[AuditFinding]:
    """Yield the indexable pages that share a text; case does not matter."""
    pages_by_text: defaultdict[str, list[AuditPage]] = defaultdict(list)
    for page in site.html_pages():
        first = next(iter(page.texts(text.fact)), "")
        if first and page.indexable:
            pages_by_text[first.casefold()].append(page)
    for pages in pages_by_text.values():
        if len(pages) > 1:
            for page in pages:
                evidence = page.texts(text.fact)[0]
                yield finding_of_page(f"duplicate_{text.name}", page, evidence, count=len(pages))


def check_contents(site: AuditSite) -> Findings:
    """Return findings about the contents of pages, and their speed and size."""
    for page in site.html_pages():
        yield from _check_content(page)
        yield from _check_elements(page)
    yield from _near_duplicates(site)


def _check_content(page: AuditPage) -> Iterator[AuditFinding]:
    if page.words is not None and page.words < MIN_WORDS:
        yield finding_of_page("thin_page", page, f"{page.words} words")
    if page.seconds is not None and page.seconds > MAX_SECONDS:
        yield finding_of_page("slow_page", page, f"{page.seconds:.1f} s")
    size = page.declared.get("bytes", 0)
    if size > MAX_BYTES:
        yield finding_of_page("heavy_page", page, f"{size:,} bytes")


def _check_elements(page: AuditPage) -> Iterator[AuditFinding]:
    if bare := page.declared.get("images_without_alt", 0):
        examples = page.texts("examples_without_alt")
        yield finding_of_page("image_without_alt", page, next(iter(examples), ""), count=bare)
    if insecure := page.texts("insecure"):
        yield finding_of_page("mixed_content", page, insecure[0], count=len(insecure))
    if errors := page.texts("structured_data_errors"):
        yield finding_of_page("invalid_structured_data", page, errors[0], count=len(errors))
    if not page.declared.get("language"):
        yield finding_of_page("missing_language", page)
    if page.declared.get("viewport") is None:
        yield finding_of_page("missing_viewport", page)
    if (refresh := page.declared.get("refresh")) is not None:
        yield finding_of_page("meta_refresh", page, refresh)


def _near_duplicates(site: AuditSite) -> Iterator[AuditFinding]:
    # Each crawl of several numbers its own clusters.
    pages_by_cluster: defaultdict[tuple[str, int], list[AuditPage]] = defaultdict(list)
    for page in site.html_pages():
        if page.cluster is not None and page.indexable:
            pages_by_cluster[page.start_url, page.cluster].append(page)
    for (_, cluster), pages in pages_by_cluster.items():
        if len(pages) > 1:
            for page in pages:
                other = pages[0] if page is not pages[0] else pages[1]
                evidence = f"cluster {cluster}, with {other.url}"
                yield finding_of_page("near_duplicate", page, evidence, count=len(pages))


_OPPOSITES: Final = (("noindex", "index"), ("nofollow", "follow"))
# A language of ISO 639-1, a script, and a region of ISO 3166-1.
_LANGUAGE: Final = re.compile(r"([a-z]{2})(?:-[a-z]{4})?(?:-([a-z]{2}))?")
_DEFAULT_LANGUAGE: Final = "x-default"


def check_indexing(site: AuditSite) -> Findings:
    """Return findings about conflicting signals to search engines."""
    for page in site.html_pages():
        yield from _check_canonicals(page, site)
        yield from _check_robots(page)
        yield from _check_languages(page, site)
    for page in site.pages:
        yield from _check_sitemap(page)
    for url, target in site.targets.items():
        if target.in_sitemap:
            yield from _check_target_in_sitemap(url, target)


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
        yield finding_of_page("canonicalized", page, page.canonical)
        if NOINDEX in page.directives:
            yield finding_of_page("noindex_with_canonical", page, page.canonical)
        if (issue := _canonical_issue(page.canonical, page, site)) is not None:
            yield finding_of_page(issue, page, page.canonical)


def _canonical_issue(url: str, page: AuditPage, site: AuditSite) -> str | None:
    """Return what is wrong with the page that another one declares canonical."""
    target = site.page(url)
    if target is not None:
        return _canonical_page_issue(url, target)
    other = site.target(url)
    if other is not None and other.is_blocked:
        return "canonical_to_blocked"
    if other is not None and other.is_error:
        return "canonical_to_error"
    if other is not None and (other.redirects or other.result == "stopped"):
        return "canonical_to_redirect"
    return "canonical_to_other_site" if site_of(url) != site_of(page.final_url) else None


def _canonical_page_issue(url: str, target: AuditPage) -> str | None:
    if not target.success:
        return "canonical_to_error"
    if target.redirects and canonical_key(target.url) == canonical_key(url):
        return "canonical_to_redirect"
    if NOINDEX in target.directives:
        return "canonical_to_noindex"
    return None if target.names_itself else "canonical_chain"


def _check_robots(page: AuditPage) -> Iterator[AuditFinding]:
    directives = page.directives
    evidence = "; ".join([*page.texts("robots"), *page.texts("x_robots")])
    if any(set(pair) <= directives for pair in _OPPOSITES):
        yield finding_of_page("conflicting_robots", page, evidence)
    if NOINDEX in directives:
        yield finding_of_page(NOINDEX, page, evidence)
    if "nofollow" in directives:
        yield finding_of_page("nofollow_page", page, evidence)


def _check_sitemap(page: AuditPage) -> Iterator[AuditFinding]:
    if page.in_sitemap and not page.indexable:
        yield finding_of_page(_sitemap_issue(page), page, page.error or page.indexable_reason)
    elif page.is_html and page.indexable and page.in_sitemap is False:
        yield finding_of_page("missing_from_sitemap", page)


def _check_target_in_sitemap(url: str, target: LinkTarget) -> Iterator[AuditFinding]:
    if target.is_blocked:
        yield AuditFinding("blocked_in_sitemap", url, target.reason)
    elif target.is_error:
        yield AuditFinding("error_in_sitemap", url, target.error)
    elif target.redirects:
        yield AuditFinding("redirect_in_sitemap", url, f"redirects to {target.final_url}")


def _sitemap_issue(page: AuditPage) -> str:
    if not page.success:
        return "error_in_sitemap"
    issues = {"redirects": "redirect_in_sitemap", NOINDEX: "noindex_in_sitemap"}
    return issues.get(page.indexable_reason, "canonicalized_in_sitemap")


def _check_languages(page: AuditPage, site: AuditSite) -> Iterator[AuditFinding]:
    languages, own_keys = page.alternates, page.own_keys
    for language, urls in languages.items():
        if not _is_language(language):
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
            yield finding_of_page(issue, page, url)


def _is_language(code: str) -> bool:
    match = _LANGUAGE.fullmatch(code)
    if match is None:
        return code == _DEFAULT_LANGUAGE
    language, region = match.groups()
    return language in language_codes() and (region is None or region in CODES)


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
