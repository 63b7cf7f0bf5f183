"""Builds the plan of a crawl from its request."""

from __future__ import annotations

from webdata_nb.contract.requests import ExtendedCrawlRequest
from webdata_nb.contract.url_keys import canonical_key, site_of
from webdata_nb.page.urls import canonical_url
from webdata_nb.service.crawl.facets import FacetDetector
from webdata_nb.service.crawl.frontier import Frontier
from webdata_nb.service.crawl.plan import CrawlLimits, CrawlPlan
from webdata_nb.service.crawl.scope import CrawlScope


def new_plan(request: ExtendedCrawlRequest, frontier: Frontier) -> CrawlPlan:
    """Return the plan of a request."""
    by_key: dict[str, str] = {}  # two spellings of a URL are one page
    for url in map(canonical_url, request.urls):
        by_key.setdefault(canonical_key(url), url)
    pages = list(by_key.values())
    start = pages[0] if pages else canonical_url(request.url)
    scope = CrawlScope(
        frozenset(map(site_of, pages or [start])),
        request.allow_external_links,
        request.include_paths,
        request.exclude_paths,
    )
    return CrawlPlan(
        start,
        CrawlLimits(request.row_limit, request.max_depth),
        scope,
        frontier,
        canonical_key,
        obey_nofollow=request.respect_nofollow,
        facets=FacetDetector() if request.filter_faceted_urls else None,
        pages=pages,
    )
