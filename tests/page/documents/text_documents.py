"""Scrapes text documents of a type or a URL."""

from __future__ import annotations

from tests.page.pages import page_source
from webdata_nb.page.scrape.page import ConversionOptions, Scraped, scrape

FORMATS = ("markdown", "html", "raw_html", "links", "images", "headings")


def scrape_text(
    body: str | bytes,
    content_type: str | None = "text/markdown; charset=utf-8",
    *,
    url: str = "http://site.test/dir/page",
    formats: tuple[str, ...] = FORMATS,
    exclude_tags: tuple[str, ...] = (),
) -> Scraped:
    """Scrape a document."""
    options = ConversionOptions(formats, exclude_tags=exclude_tags)
    return scrape(page_source(body, content_type=content_type, url=url), options)


def links_of(scraped: Scraped) -> list[str]:
    """Return the links below the folder of the page, without their common start."""
    return [link.removeprefix("http://site.test/dir/") for link in scraped.formats["links"]]
