"""Finds conflicts of canonical URLs, robots directives, sitemaps and languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from webdata_nb.contract.countries import CODES
from webdata_nb.contract.url_keys import canonical_key, site_of
from webdata_nb.toolkit.frames.audit.languages import LANGUAGE_CODES
from webdata_nb.toolkit.frames.audit.pages import NOINDEX, AuditPage, LinkTarget
from webdata_nb.toolkit.frames.audit.site import AuditFinding, AuditSite, Findings, of_page

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
        yield of_page("missing_canonical", page)
    elif len(urls) > 1:
        evidence = " and ".join(sorted(map(str, urls)))
        yield of_page("multiple_canonicals", page, evidence, count=len(urls))
    elif page.canonical is None:
        yield of_page("invalid_canonical", page, ", ".join(page.texts("malformed_canonicals")))
    elif not page.names_itself:
        yield of_page("canonicalized", page, page.canonical)
        if NOINDEX in page.directives:
            yield of_page("noindex_with_canonical", page, page.canonical)
        if (issue := _canonical_issue(page.canonical, page, site)) is not None:
            yield of_page(issue, page, page.canonical)


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
        yield of_page("conflicting_robots", page, evidence)
    if NOINDEX in directives:
        yield of_page(NOINDEX, page, evidence)
    if "nofollow" in directives:
        yield of_page("nofollow_page", page, evidence)


def _check_sitemap(page: AuditPage) -> Iterator[AuditFinding]:
    if page.in_sitemap and not page.indexable:
        yield of_page(_sitemap_issue(page), page, page.error or page.indexable_reason)
    elif page.is_html and page.indexable and page.in_sitemap is False:
        yield of_page("missing_from_sitemap", page)


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
            yield of_page("hreflang_invalid_code", page, language)
        if len(urls) > 1:
            evidence = f"{language}: {' and '.join(sorted(map(str, urls)))}"
            yield of_page("hreflang_conflict", page, evidence, count=len(urls))
    if languages and not site.alternate_keys(page) & own_keys:
        yield of_page("hreflang_without_self", page)
    targets = {url for urls in languages.values() for url in urls if url is not None}
    for url in sorted(targets):
        if canonical_key(url) in own_keys:
            continue
        if (issue := _language_issue(page, url, site)) is not None:
            yield of_page(issue, page, url)


def _is_language(code: str) -> bool:
    match = _LANGUAGE.fullmatch(code)
    if match is None:
        return code == _DEFAULT_LANGUAGE
    language, region = match.groups()
    return language in LANGUAGE_CODES and (region is None or region in CODES)


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
