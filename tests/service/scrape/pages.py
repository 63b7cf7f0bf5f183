"""Pages for the tests of scraping: a fetched page made of markup, and its scrape."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from webdata_nb.service.scrape.page import ConversionOptions, PageSource, Scraped, scrape

URL = "http://site.test/dir/page.html"
FETCHED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WHOLE = ConversionOptions(only_main_content=False)


def fetched(
    body: str | bytes,
    *,
    url: str = URL,
    content_type: str | None = "text/html; charset=utf-8",
    headers: tuple[tuple[str, str], ...] = (),
) -> PageSource:
    """Return the page as if it had been fetched."""
    raw = body if isinstance(body, bytes) else body.encode()
    return PageSource(url, url, 200, content_type, raw, (), FETCHED, headers)


def scraped(body: str | bytes, *formats: str, **options: Any) -> Scraped:
    """Scrape a page as a whole."""
    wanted = ConversionOptions(formats or ("markdown",), **{"only_main_content": False} | options)
    return scrape(fetched(body), wanted)


def made(body: str | bytes, name: str, **options: Any) -> Any:
    """Return one format of a page as a whole."""
    return scraped(body, name, **options).formats[name]


def markdown(body: str | bytes, **options: Any) -> str:
    """Return the Markdown of a page as a whole."""
    written = made(body, "markdown", **options)
    assert isinstance(written, str)
    return written
