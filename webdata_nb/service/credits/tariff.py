"""What a job may cost at most, and what it did cost."""

from __future__ import annotations

from collections.abc import Mapping

from webdata_nb.contract.requests import CrawlRequest, SearchRequest
from webdata_nb.contract.states import JobKind, JobStatus
from webdata_nb.service.credits.weights import Charge


def most(request: SearchRequest | CrawlRequest) -> tuple[Charge, ...]:
    """Return what a request costs if every page succeeds: its reservation."""
    return _crawl(request) if isinstance(request, CrawlRequest) else _search(request)


def _search(request: SearchRequest) -> tuple[Charge, ...]:
    pages = request.num_results if request.formats else 0
    extracted = pages if request.extract is not None else 0
    return (
        Charge("search", "discovery", 1),
        Charge("search", "scrape", pages),
        Charge("search", "extract", extracted),
    )


def _crawl(request: CrawlRequest) -> tuple[Charge, ...]:
    pages, options = request.max_pages, request.scrape_options
    return (
        Charge("crawl", "page", pages),
        Charge("crawl", "extract", pages if options.extract is not None else 0),
        Charge("crawl", "render", pages if options.may_render else 0),
    )


def of_page(*, rendered: bool, extracted: bool) -> tuple[str, ...]:
    """Return the operations that a crawled page is charged for."""
    return ("page", *["extract"] * extracted, *["render"] * rendered)


def of_result(*, extracted: bool) -> tuple[str, ...]:
    """Return the operations that a scraped search result is charged for."""
    return ("scrape", *["extract"] * extracted)


def spent(
    kind: JobKind, state: JobStatus, rows: Mapping[str, int], *, any_row: bool
) -> list[Charge]:
    """Return what a job that ended in `state` is charged for.

    `rows` counts the visible successful rows by their operations, joined by commas. A search's
    discovery is charged where it led somewhere: to rows, or to the certainty that there are none.
    """
    units: dict[str, int] = {}
    if kind == "search" and (any_row or state is JobStatus.COMPLETED):
        units["discovery"] = 1
    for operations, count in rows.items():
        for operation in filter(None, operations.split(",")):
            units[operation] = units.get(operation, 0) + count
    return [Charge(kind, operation, count) for operation, count in units.items()]
