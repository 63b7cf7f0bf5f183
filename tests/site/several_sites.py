"""Sites that link to each other, and what a crawl of all of them should find."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from tests.site.document import document, prose
from tests.site.server import Site

Links = Mapping[str, Sequence[str]]
"""The links of each page, by URL."""


@dataclass(frozen=True, slots=True)
class SeveralSites:
    """Running sites, their start pages, and the links of all pages."""

    sites: Sequence[Site]
    starts: Sequence[str]
    links: Links

    def hits(self) -> list[str]:
        """Return the URLs of all requests for pages, in no particular order."""
        return [
            f"{site.url.rstrip('/')}{hit.path}"
            for site in self.sites
            for hit in site.requests
            if hit.path != "/robots.txt"
        ]


@contextmanager
def linked_sites(
    count: int, *, pages: int, seed: int, foreign: float = 0.15, latency: float = 0.0
) -> Iterator[SeveralSites]:
    """Serve sites of `pages` pages each; a share `foreign` of the links leads to other sites.

    About half of the pages of a site cannot be reached from its own start page.
    """
    rng = random.Random(seed)
    with ExitStack() as stack:
        sites = [stack.enter_context(Site(latency=latency)) for _ in range(count)]
        urls = [[site.at(f"/p{number}") for number in range(pages)] for site in sites]
        links = {
            url: _links(rng, urls, number, page, foreign)
            for number, own in enumerate(urls)
            for page, url in enumerate(own)
        }
        for number, site in enumerate(sites):
            for page, url in enumerate(urls[number]):
                text = prose(f"{seed} {number} {page}", 60)
                site.page(f"/p{page}", document(f"Page {page}", text=text, links=links[url]))
        yield SeveralSites(sites, [own[0] for own in urls], links)


def _links(
    rng: random.Random, urls: Sequence[Sequence[str]], number: int, page: int, foreign: float
) -> list[str]:
    """Return the links of a page: down a tree of its half of the site, and to pages of others."""
    own, half = urls[number], len(urls[number]) // 2
    first = 0 if page < half else half
    children = [first + 3 * (page - first) + step for step in (1, 2, 3)]
    end = half if page < half else len(own)
    links = [own[child] for child in children if child < end]
    links += [own[rng.randrange(first, page + 1)]]
    others = [other for index, other in enumerate(urls) if index != number]
    links += [rng.choice(rng.choice(others)) for _ in range(4) if rng.random() < foreign]
    return links


@dataclass(slots=True)
class _Crawl:
    """What a breadth-first crawl of one site has found so far."""

    start: str
    max_pages: int
    rows: list[str] = field(default_factory=list)
    queue: deque[tuple[str, int]] = field(default_factory=deque)
    known: set[str] = field(default_factory=set)
    received: set[str] = field(default_factory=set)

    def add(self, url: str, depth: int, max_depth: int) -> None:
        if url not in self.known and depth <= max_depth:
            self.known.add(url)
            self.queue.append((url, depth))


def expected_rows(
    links: Links, starts: Sequence[str], *, max_pages: int, max_depth: int = 10
) -> list[list[str]]:
    """Return the rows of each site's crawl, in order.

    In each round every crawl reads all that it can reach; then it receives what the others found.
    """
    crawls = {_origin(start): _Crawl(start, max_pages) for start in starts}
    for crawl in crawls.values():
        crawl.add(crawl.start, 0, max_depth)
    while any(crawl.queue and len(crawl.rows) < max_pages for crawl in crawls.values()):
        for crawl in crawls.values():
            while crawl.queue and len(crawl.rows) < max_pages:
                url, depth = crawl.queue.popleft()
                crawl.rows.append(url)
                for link in links[url]:
                    receiver = crawls.get(_origin(link))
                    if receiver is crawl:
                        crawl.add(link, depth + 1, max_depth)
                    elif receiver is not None:
                        receiver.received.add(link)
        for crawl in crawls.values():
            for url in sorted(crawl.received):
                crawl.add(url, 1, max_depth)
            crawl.received.clear()
    return [crawl.rows for crawl in crawls.values()]


def _origin(url: str) -> str:
    return "/".join(url.split("/", 3)[:3])
