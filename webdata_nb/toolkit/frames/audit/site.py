"""The pages of an audit by URL, which several checks look up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.toolkit.frames.audit.pages import AuditPage, LinkTarget


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
    """

    issue: str
    url: str
    evidence: str = ""
    found_on: tuple[str, ...] = ()
    count: int = 1


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


def of_page(issue: str, page: AuditPage, evidence: str = "", *, count: int = 1) -> AuditFinding:
    """Return a finding about a page."""
    return AuditFinding(issue, page.url, evidence, page.found_on, count)
