"""Converts a visited page into its crawl result and into the row that clients read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
import orjson

from webdata_nb.contract import outcomes
from webdata_nb.contract.archives import distance_text
from webdata_nb.service.crawl.earlier_pages import UnchangedPage
from webdata_nb.service.crawl.frontier import anchor_grades
from webdata_nb.service.crawl.journal import ClaimCheck, CrawlResult, CrawlTarget
from webdata_nb.service.errors import NotIndexed
from webdata_nb.service.pages.page_pipeline import PageVisit

# Error messages may quote the page, so the receipt stores only their beginning.
MAX_DETAIL_CHARACTERS: Final = 500
# The fields at the begin of a row, and those of its page's measures.
_BEGIN: Final = ("url", "title", "status", "status_code", "success", "error", "depth")
_MEASURES: Final = ("quality", "content_hash")
# The members that belong to a visit: its times, what was declared then, and the distance of a
# capture from the date of the crawl.
OF_VISIT: Final = ("time_taken", "fetched_at", "rights", "capture_distance_s")
_SCORE: Final = "crawl_score"


def to_crawl_result(visit: PageVisit, *, grade_anchors: bool) -> CrawlResult:
    """Convert a visit for the plan; `grade_anchors` where the strategy weighs links."""
    if visit.stopped is not None:
        return CrawlResult("stopped", visit.final_url, reason=visit.stopped, hops=visit.hops)
    if visit.error is not None:
        is_archived = visit.error.kind != outcomes.NOT_ARCHIVED
        return CrawlResult(
            "failed" if is_archived else "not_archived",
            visit.final_url,
            reason=visit.error.kind,
            detail=str(visit.error)[:MAX_DETAIL_CHARACTERS],
            hops=visit.hops,
            was_requested=not isinstance(visit.error, NotIndexed),
        )
    scraped = visit.scraped
    if scraped is None:
        return CrawlResult("page", visit.final_url, hops=visit.hops)
    check: ClaimCheck = ""
    if visit.claimed_hash is not None:
        check = "verified" if scraped.content_hash == visit.claimed_hash else "contradicted"
    links = scraped.outlinks
    return CrawlResult(
        "page",
        visit.final_url,
        content_hash=scraped.content_hash,
        links=tuple(link.url for link in links),
        anchor_grades=anchor_grades(link.anchor for link in links) if grade_anchors else "",
        nofollow_links=tuple(index for index, link in enumerate(links) if link.nofollow),
        nofollow_page="nofollow" in scraped.robots,
        canonical=scraped.canonical,
        sketch=scraped.sketch,
        shape=scraped.shape,
        hops=visit.hops,
        check=check,
        low_confidence=outcomes.low_confidence_kind(scraped.quality.get("reason")),
    )


def unchanged_result(page: UnchangedPage) -> CrawlResult:
    """Return the result of a page that the site calls unchanged."""
    hops = page.visit.hops
    return msgspec.structs.replace(page.earlier.result, hops=hops, check="unchanged")


def with_distance(result: CrawlResult, captured_at: datetime, distance_s: float) -> CrawlResult:
    """Add the time of a capture, and its distance from the date of the crawl, to the detail.

    Examples
    --------
    >>> page = CrawlResult("page", "http://a.test/")
    >>> with_distance(page, datetime(2024, 5, 30, 12), -129_600.0).detail
    'captured 2024-05-30 12:00, 1.5 days before'
    """
    if result.kind not in {"page", "failed"}:
        return result
    capture_text = f"captured {captured_at:%Y-%m-%d %H:%M}, {distance_text(distance_s)}"
    detail = f"{result.detail}; {capture_text}" if result.detail else capture_text
    return msgspec.structs.replace(result, detail=detail)


def row_of_visit(
    visit: PageVisit,
    target: CrawlTarget,
    content: Mapping[str, Any],
    *,
    capture_distance_s: float | None = None,
) -> dict[str, Any]:
    """Return the row of one crawled page (contract, 2.4, with our extra columns).

    `content` has the page's formats and its metadata, and `error` where the extraction failed. It
    is empty for a page without data. The metadata of best first has the page's score as
    `crawl_score`.
    """
    scraped = visit.scraped
    error = str(visit.error) if visit.error else content.get("error")
    page = {
        "url": visit.url,
        "title": None if scraped is None else scraped.title,
        "status": "failed" if error else "completed",
        "status_code": visit.status,
        "success": error is None,
        "error": error,
        "depth": target.depth,
    }
    measures = {
        "quality": None if scraped is None else scraped.quality,
        "content_hash": None if scraped is None else scraped.content_hash,
    }
    content = content or {"metadata": _metadata_of_failure(visit)}
    return _row(visit, target, page, measures, content, capture_distance_s=capture_distance_s)


def unchanged_row(page: UnchangedPage, target: CrawlTarget) -> dict[str, Any]:
    """Return the row of a page that the site calls unchanged: the earlier one, at its new place."""
    row, visit = dict(page.earlier.row), page.visit
    begin = {name: row.pop(name) for name in _BEGIN} | {"depth": target.depth}
    measures = {name: row.pop(name) for name in _MEASURES}
    metadata = {name: value for name, value in row["metadata"].items() if name != _SCORE}
    transfer = {
        "redirects": [{"url": url, "status_code": status} for url, status in visit.redirects],
        "fetched_at": visit.fetched_at.isoformat(),
    }
    content = {name: value for name, value in row.items() if name not in OF_VISIT}
    content["metadata"] = metadata | transfer
    return _row(visit, target, begin, measures, content)


def _row(
    visit: PageVisit,
    target: CrawlTarget,
    page: Mapping[str, Any],
    measures: Mapping[str, Any],
    content: Mapping[str, Any],
    *,
    capture_distance_s: float | None = None,
) -> dict[str, Any]:
    if target.score is not None:
        content = {**content, "metadata": {**content["metadata"], _SCORE: target.score}}
    row = {
        **page,
        "time_taken": round(visit.elapsed_s, 6),
        **measures,
        "fetched_at": visit.fetched_at,
    }
    if visit.rights is not None:
        row["rights"] = visit.rights
    if capture_distance_s is not None:
        row["capture_distance_s"] = capture_distance_s
    return row | {name: value for name, value in content.items() if name not in page}


def _metadata_of_failure(visit: PageVisit) -> dict[str, Any]:
    error_kind = visit.error.kind if visit.error else None
    return {"final_url": visit.final_url, "status_code": visit.status, "error_kind": error_kind}


def embed_json(formats: Mapping[str, Any]) -> dict[str, Any]:
    """Mark formats that are encoded as JSON already, so that they are copied unchanged."""
    return {
        name: orjson.Fragment(value) if isinstance(value, bytes) else value
        for name, value in formats.items()
    }
