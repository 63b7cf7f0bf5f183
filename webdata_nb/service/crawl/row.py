"""A visited page as the row that clients read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from webdata_nb.service.crawl.plan import CrawlTarget
from webdata_nb.service.pages.page_pipeline import Visit


def row(visit: Visit, target: CrawlTarget, content: Mapping[str, Any]) -> bytes:
    """Return the JSON of one crawled page (contract, 2.4, with our extra columns).

    `content` is what was made of the page: its formats and metadata, by their names, and `error`
    where its extraction failed. Where the
    strategy weighs pages, the metadata tells the page's weight as `crawl_score`.
    """
    scraped = visit.scraped
    failed = str(visit.error) if visit.error else content.get("error")
    page: dict[str, Any] = {
        "url": visit.url,
        "title": None if scraped is None else scraped.title,
        "status": "failed" if failed else "completed",
        "status_code": visit.status,
        "success": failed is None,
        "error": failed,
        "depth": target.depth,
        "time_taken": round(visit.elapsed_s, 6),
        "quality": None if scraped is None else scraped.quality,
        "content_hash": None if scraped is None else scraped.content_hash,
        "fetched_at": visit.fetched_at,
    }
    content = content or {"metadata": _failed_metadata(visit)}
    if target.score is not None:
        content = {**content, "metadata": {**content["metadata"], "crawl_score": target.score}}
    return orjson.dumps({**page, **content})


def _failed_metadata(visit: Visit) -> dict[str, Any]:
    """Return what is known of a page that gave no data."""
    kind = visit.error.kind if visit.error else None
    return {"final_url": visit.final_url, "status_code": visit.status, "error_kind": kind}


def as_pieces(formats: Mapping[str, Any]) -> dict[str, Any]:
    """Return formats for `row`, those that are JSON already to be put in as they are."""
    return {
        name: orjson.Fragment(value) if isinstance(value, bytes) else value
        for name, value in formats.items()
    }
