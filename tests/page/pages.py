"""Builds page sources from markup and scrapes them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from webdata_nb.page.errors import ScrapeError
from webdata_nb.page.scrape.page import ConversionOptions, FetchedResponse, Scraped, scrape
from webdata_nb.service.workers.pool import PagePool

URL = "http://site.test/dir/page.html"
FETCHED_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WHOLE_PAGE = ConversionOptions(only_main_content=False)


def page_source(
    body: str | bytes,
    *,
    url: str = URL,
    content_type: str | None = "text/html; charset=utf-8",
    headers: tuple[tuple[str, str], ...] = (),
) -> FetchedResponse:
    """Build a page source."""
    data = body if isinstance(body, bytes) else body.encode()
    return FetchedResponse(url, url, 200, content_type, data, (), FETCHED_AT, headers)


async def scrape_in_worker(
    sources: Mapping[str, FetchedResponse], options: ConversionOptions
) -> dict[str, Scraped]:
    """Scrape pages in a page worker, which ends those that exceed its limits.

    Raises
    ------
    ScrapeError
        For the first page that exceeds them, with its name as a note.
    """
    scraped = {}
    async with PagePool(1) as pool:
        for name, source in sources.items():
            try:
                scraped[name] = await pool.scrape(source, options)
            except ScrapeError as error:
                error.add_note(name)
                raise
    return scraped


def scrape_page(body: str | bytes, *formats: str, **options: Any) -> Scraped:
    """Scrape the whole page."""
    conversion = ConversionOptions(
        formats or ("markdown",), **{"only_main_content": False} | options
    )
    return scrape(page_source(body), conversion)


def scrape_format(body: str | bytes, name: str, **options: Any) -> Any:
    """Return one format of the whole page."""
    return scrape_page(body, name, **options).formats[name]


def scrape_markdown(body: str | bytes, **options: Any) -> str:
    """Return the Markdown of the whole page."""
    text = scrape_format(body, "markdown", **options)
    assert isinstance(text, str)
    return text
