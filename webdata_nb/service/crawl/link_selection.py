"""Selects the links that a crawl checks: those to URLs that it does not fetch. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from webdata_nb.contract.url_keys import canonical_key
from webdata_nb.page.urls import host_and_port
from webdata_nb.service.crawl.fingerprints import UrlHashes
from webdata_nb.service.crawl.journal import decode_entry
from webdata_nb.service.crawl.scope import OUT_OF_SCOPE, CrawlScope
from webdata_nb.service.store.records import StoredEntry, UrlOutcome

# Links that a crawl checks, and those of one host: a page may list any number of them.
LINKS_PER_ROW: Final = 10
EXTRA_LINKS: Final = 1000
MAX_LINKS: Final = 20_000
MAX_LINKS_PER_HOST: Final = 500
# Outcomes of pages of the crawl's own to which it only did not get.
UNVISITED: Final = frozenset({"over_max_pages", "over_requests", "depth"})


def max_links(max_pages: int) -> int:
    """Return how many links a crawl checks at most."""
    return min(MAX_LINKS, LINKS_PER_ROW * max_pages + EXTRA_LINKS)


@dataclass(frozen=True, slots=True)
class SelectedLink:
    """A link to check; `is_external` if the receipt has no other outcome of it."""

    url: str
    is_external: bool


class LinkSelection:
    """The links to check by host, each once.

    Examples
    --------
    >>> selection = LinkSelection(2)
    >>> selection.add("http://a.test/x"), selection.add("http://a.test/x?")
    (None, None)
    >>> selection.add("http://b.test/"), selection.add("http://c.test/").outcome
    (None, 'over_links')
    >>> list(selection.by_host)
    ['a.test:80', 'b.test:80']
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known = UrlHashes()
        self._count = 0
        self.by_host: dict[str, list[SelectedLink]] = {}

    def add(self, url: str, *, is_external: bool = True) -> UrlOutcome | None:
        """Add a canonical URL; return its outcome if it is new, and beyond a limit."""
        key = canonical_key(url)
        if key in self._known:
            return None
        self._known.add(key)
        host = host_and_port(url)
        links = self.by_host.get(host, [])
        if self._count >= self._limit:
            return UrlOutcome(url, "over_links", f"more than {self._limit:,} links")
        if len(links) >= MAX_LINKS_PER_HOST:
            return UrlOutcome(url, "over_links", f"more than {MAX_LINKS_PER_HOST:,} of {host}")
        links.append(SelectedLink(url, is_external))
        self.by_host[host] = links
        self._count += 1
        return None


def external_links(
    entries: Iterable[StoredEntry], scope: CrawlScope, *, obey_nofollow: bool
) -> Iterator[str]:
    """Yield the links of pages to other sites, and where redirects to other sites lead."""
    for entry in entries:
        result = decode_entry(entry.journal).result
        if result.kind == "stopped" and result.reason == OUT_OF_SCOPE:
            yield result.final_url
        elif result.kind == "page" and not (obey_nofollow and result.nofollow_page):
            left_out = frozenset(result.nofollow_links if obey_nofollow else ())
            for index, url in enumerate(result.links):
                if index not in left_out and scope.exclusion_reason(url) == OUT_OF_SCOPE:
                    yield url
