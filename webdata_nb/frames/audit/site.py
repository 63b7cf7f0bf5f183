"""The pages of an audit by URL, which several checks look up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from webdata_nb.frames.audit.pages import AuditPage, LinkTarget


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
        What URLs without a row led to.
    has_sitemap
        Whether the crawl read a sitemap.
    """

    def __init__(self, pages: Sequence[AuditPage]) -> None:
        self.pages = pages
        self.has_sitemap = any(page.in_sitemap is not None for page in pages)
        self._by_url: dict[str, AuditPage] = {page.url: page for page in pages}
        for page in pages:
            self._by_url.setdefault(page.final_url, page)
        self.targets: dict[str, LinkTarget] = {}
        for page in pages:
            self.targets.update(page.targets)

    def page(self, url: str | None) -> AuditPage | None:
        """Return the page of a URL, before or after redirects; None if no row is one."""
        return None if url is None else self._by_url.get(url)

    def html_pages(self) -> Iterable[AuditPage]:
        """Return the web pages that were read."""
        return (page for page in self.pages if page.is_html)


def of_page(issue: str, page: AuditPage, evidence: str = "", *, count: int = 1) -> AuditFinding:
    """Return a finding about a page."""
    return AuditFinding(issue, page.url, evidence, page.found_on, count)
