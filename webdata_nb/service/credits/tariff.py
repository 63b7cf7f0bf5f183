"""The maximal and the final charges of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from webdata_nb.contract import limits
from webdata_nb.contract.replies import Weight
from webdata_nb.contract.requests import CrawlRequest, SearchRequest
from webdata_nb.contract.states import JobKind, JobStatus

CREATIVES: Final = "partner_ads_transparency"
WEIGHTS: Final[dict[tuple[str, str], int]] = {
    ("search", "discovery"): 1,
    ("search", "scrape"): 1,
    ("search", "extract"): 4,
    ("crawl", "page"): 1,
    ("crawl", "extract"): 4,
    ("crawl", "render"): 2,
    (CREATIVES, "creatives"): 1,
    (CREATIVES, "details"): 1,
    (CREATIVES, "assets"): 1,
    (CREATIVES, "ocr"): 2,
}
CATALOG: Final = tuple(
    Weight(platform=platform, operation=operation, weight=weight)
    for (platform, operation), weight in WEIGHTS.items()
)


@dataclass(frozen=True, slots=True)
class Charge:
    """Units of one operation of the catalog."""

    platform: str
    operation: str
    units: int

    @property
    def credits(self) -> int:
        """The credits that they cost."""
        return self.units * WEIGHTS[self.platform, self.operation]


def max_charges(request: SearchRequest | CrawlRequest) -> tuple[Charge, ...]:
    """Return what a request costs if every page succeeds; this is reserved at the start.

    A long crawl reserves the credits to the next checkpoint.
    """
    if isinstance(request, CrawlRequest):
        return checkpoint_charges(request, request.row_limit)
    pages = request.num_results if request.formats else 0
    extracted_pages = pages if request.extract is not None else 0
    return (
        Charge("search", "discovery", 1),
        Charge("search", "scrape", pages),
        Charge("search", "extract", extracted_pages),
    )


def checkpoint_charges(request: CrawlRequest, pages_left: int) -> tuple[Charge, ...]:
    """Return what a crawl costs at most until its next checkpoint."""
    pages, options = min(pages_left, limits.CHECKPOINT_PAGES), request.scrape_options
    return (
        Charge("crawl", "page", pages),
        Charge("crawl", "extract", pages if options.extract is not None else 0),
        Charge("crawl", "render", pages if options.may_render else 0),
    )


def page_operations(*, rendered: bool, extracted: bool) -> tuple[str, ...]:
    """Return the operations that a crawled page is charged for."""
    return ("page", *["extract"] * extracted, *["render"] * rendered)


def result_operations(*, extracted: bool) -> tuple[str, ...]:
    """Return the operations that a scraped search result is charged for."""
    return ("scrape", *["extract"] * extracted)


def final_charges(
    kind: JobKind, state: JobStatus, rows: Mapping[str, int], *, any_row: bool
) -> list[Charge]:
    """Return the charges of a job that ended in `state`.

    `rows` counts the visible successful rows by their operations, joined by commas. The discovery
    of a search is charged if it has rows or is completed.
    """
    units: dict[str, int] = {}
    if kind == "search" and (any_row or state is JobStatus.COMPLETED):
        units["discovery"] = 1
    for operations, count in rows.items():
        for operation in filter(None, operations.split(",")):
            units[operation] = units.get(operation, 0) + count
    return [Charge(kind, operation, count) for operation, count in units.items()]
