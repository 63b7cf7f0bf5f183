"""Crawls of the link graph of Debian's Python documentation: its order best first, and traps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest

from tests.requirements import require
from tests.service.crawl.page_reading import scraped_result
from tests.service.crawl.simulated_crawl import simulate_crawl
from tests.site.link_graph import BASE, LinkGraph, link_graph
from webdata_nb.service.crawl.facets import FacetDetector
from webdata_nb.service.crawl.frontier import BestFirst, BreadthFirst, Frontier, anchor_grades
from webdata_nb.service.crawl.journal import CrawlResult
from webdata_nb.service.crawl.plan import CrawlLimits

pytestmark = pytest.mark.slow

# Where people enter this documentation: its front, its table of contents, its index, its parts.
STARTS = (
    "index.html",
    "contents.html",
    "genindex.html",
    "library/index.html",
    "whatsnew/index.html",
    "tutorial/index.html",
    "library/json.html",
)


@pytest.fixture(scope="module")
def docs() -> LinkGraph:
    return link_graph(require("python-docs"))


def results(graph: LinkGraph) -> dict[str, CrawlResult]:
    return {
        url: CrawlResult(
            "page",
            url,
            links=tuple(link.url for link in each.outlinks),
            anchor_grades=anchor_grades(link.anchor for link in each.outlinks),
        )
        for url, each in graph.pages.items()
    }


def gains(graph: LinkGraph, share: float = 0.1) -> Iterator[tuple[str, float, float]]:
    """Give, for each start, the mass against breadth first, and the most there could be."""
    rank, site = graph.pagerank(), results(graph)
    pages = round(len(rank) * share)
    best = sum(sorted(rank.values(), reverse=True)[:pages])

    def mass(start: str, frontier: Callable[[], Frontier]) -> float:
        done = simulate_crawl(site, BASE + start, frontier=frontier, limits=CrawlLimits(pages, 10))
        return sum(rank.get(url, 0.0) for url in done.rows)

    for start in STARTS:
        base = mass(start, BreadthFirst)
        yield start, mass(start, BestFirst) / base, best / base


def test_best_first_finds_more_pagerank_than_breadth_first(docs: LinkGraph) -> None:
    found = list(gains(docs))
    mean = math.exp(sum(math.log(gain) for _, gain, _ in found) / len(found))
    assert mean >= 1.3, found
    for start, gain, most in found:
        # From its front page, a perfect choice of the same size gains no more than 1.24.
        assert gain >= min(1.3, 0.9 * most), (start, gain, most)


@pytest.mark.parametrize("filtered", [False, True])
def test_no_page_of_the_documentation_is_a_trap(docs: LinkGraph, *, filtered: bool) -> None:
    site = {url: scraped_result(url, each) for url, each in docs.pages.items()}
    done = simulate_crawl(
        site,
        BASE + "index.html",
        limits=CrawlLimits(1000, 100),
        facets=FacetDetector() if filtered else None,
    )
    assert set(docs.pages) <= set(done.rows)
    assert not {"trap", "facet", "canonical"} & set(done.receipt.values())
