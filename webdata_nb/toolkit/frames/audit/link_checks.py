"""Finds broken, redirected and blocked links, and pages that are linked badly or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Final

from webdata_nb.contract.outcomes import LINK_OUTCOMES
from webdata_nb.toolkit.frames.audit.kinds import MAX_DEPTH, MAX_LINKS
from webdata_nb.toolkit.frames.audit.link_graph import MAX_FOUND_ON
from webdata_nb.toolkit.frames.audit.pages import FILE_FAILURES, AuditLink, AuditPage, LinkTarget
from webdata_nb.toolkit.frames.audit.site import AuditFinding, AuditSite, Findings, of_page

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
        yield of_page(_failure(page), page, page.error, count=page.inlinks)


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
        yield of_page("nofollow_internal_link", page, nofollow[0].url, count=len(nofollow))
    empty = [link for link in page.links if link.text == ""]
    if empty:
        yield of_page("empty_link_text", page, empty[0].url, count=len(empty))
    if len(page.links) > MAX_LINKS:
        yield of_page("many_links", page, f"{len(page.links):,} links", count=len(page.links))


def _check_place(page: AuditPage) -> Iterator[AuditFinding]:
    if page.is_html and not page.links:
        yield of_page("dead_end", page)
    if page.depth is not None and page.depth > MAX_DEPTH:
        yield of_page("deep_page", page, f"{page.depth} links from the start")
    if page.in_sitemap and not page.inlinks and page.depth != 0:
        yield of_page("orphan_page", page, "in the sitemap")


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
