"""Converts generated pages into crawl results with the code of the page workers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.scrape.page import scrape
from webdata_nb.page.scrape.scraped import Scraped
from webdata_nb.service.crawl.frontier import anchor_grades
from webdata_nb.service.crawl.journal import CrawlResult

_OPTIONS: Final = ConversionOptions(facts=frozenset({"metadata", "sketch", "shape"}))
_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)


def read_page(url: str, html: str | None) -> CrawlResult:
    """Return the result of a page; None is a missing page."""
    if html is None:
        return CrawlResult("failed", url, reason="http_404")
    source = FetchedResponse(url, url, 200, "text/html; charset=utf-8", html.encode(), (), _AT)
    return scraped_result(url, scrape(source, _OPTIONS))


def scraped_result(url: str, scraped: Scraped) -> CrawlResult:
    """Return the crawl result of a scraped page."""
    return CrawlResult(
        "page",
        url,
        content_hash=scraped.content_hash,
        links=tuple(link.url for link in scraped.outlinks),
        anchor_grades=anchor_grades(link.anchor for link in scraped.outlinks),
        nofollow_links=tuple(n for n, link in enumerate(scraped.outlinks) if link.nofollow),
        nofollow_page="nofollow" in scraped.robots,
        canonical=scraped.canonical,
        sketch=scraped.sketch,
        shape=scraped.shape,
    )


def page_reader(html: Callable[[str], str | None]) -> Callable[[str], CrawlResult]:
    """Return a function that reads each page of a site once."""
    known: dict[str, CrawlResult] = {}

    def result(url: str) -> CrawlResult:
        if url not in known:
            known[url] = read_page(url, html(url))
        return known[url]

    return result
