"""A visited page as the plan takes it, and why a crawl was kept out altogether."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webdata_nb.service.crawl.anchor_grading import anchor_grades
from webdata_nb.service.crawl.plan import CrawlResult

if TYPE_CHECKING:
    from webdata_nb.service.crawl.robots import RobotsReply
    from webdata_nb.service.errors import PageError
    from webdata_nb.service.pages.page_pipeline import Visit

# The most of an error's text that the receipt holds.
RECEIPT_TEXT: Final = 500


def refusal(answer: RobotsReply) -> str:
    """Say why robots.txt keeps the whole crawl out."""
    if answer.status == 0:
        return f"the site could not be reached: {answer.problem}"
    if answer.unreachable:
        return (
            f"robots.txt answered HTTP {answer.status}, which means that the site must not be "
            "crawled now; respect_robots_txt=false overrides this"
        )
    return "robots.txt does not allow the start page; respect_robots_txt=false overrides this"


def _said(error: PageError) -> str:
    """Return an error's text for the receipt, where it may quote whatever a page is called."""
    return str(error)[:RECEIPT_TEXT]


def to_crawl_result(visit: Visit, *, graded: bool) -> CrawlResult:
    """Return a visit as the plan takes it; `graded` where link texts matter to the strategy."""
    if visit.stopped is not None:
        return CrawlResult("stopped", visit.final_url, reason=visit.stopped, hops=visit.hops)
    if visit.error is not None:
        return CrawlResult(
            "failed",
            visit.final_url,
            reason=visit.error.kind,
            detail=_said(visit.error),
            hops=visit.hops,
        )
    scraped = visit.scraped
    if scraped is None:
        return CrawlResult("page", visit.final_url, hops=visit.hops)
    links = scraped.outlinks
    return CrawlResult(
        "page",
        visit.final_url,
        content_hash=scraped.content_hash,
        links=tuple(link.url for link in links),
        grades=anchor_grades(link.anchor for link in links) if graded else "",
        nofollow=tuple(index for index, link in enumerate(links) if link.nofollow),
        sealed="nofollow" in scraped.robots,
        canonical=scraped.canonical,
        sketch=scraped.sketch,
        shape=scraped.shape,
        hops=visit.hops,
    )
