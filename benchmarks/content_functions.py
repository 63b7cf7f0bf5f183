"""Functions with the service's results for one page, as the scorers of the corpora expect them.

Each takes the bytes of a page and its URL::

    python .../content/score.py benchmarks.content_functions:markdown .../content/aeb.tar.gz
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.extract.results import Extraction
from webdata_nb.page.extract.structured import SOURCES, extract_from_formats
from webdata_nb.page.scrape.page import scrape

if TYPE_CHECKING:
    from webdata_nb.page.scrape.scraped import Scraped

__all__ = ["PRODUCT_SCHEMA", "markdown", "product", "published", "row"]

TEXT: Final = {"type": "string"}
PRODUCT_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "price": {"type": "number"},
        "sku": TEXT,
        "availability": {"type": "string", "enum": ["InStock", "OutOfStock"]},
        "brand": TEXT,
        "gtin": TEXT,
        "mpn": TEXT,
        "currency": TEXT,
    },
}


def row(html: bytes, url: str, options: ConversionOptions | None = None) -> Scraped:
    """Return everything that a row of a crawl is made from; by default its main content."""
    source = FetchedResponse(url, url, 200, "text/html", html, (), datetime.now(UTC))
    return scrape(source, options or ConversionOptions())


def markdown(html: bytes, url: str) -> str:
    """Return the Markdown of the main content."""
    return str(row(html, url).formats["markdown"])


def published(html: bytes, url: str) -> str | None:
    """Return the date of publication in the metadata."""
    return row(html, url).metadata.get("published")


def product(html: bytes, url: str) -> dict[str, Any]:
    """Return the product data that extraction without a model fills in."""
    page = row(html, url, ConversionOptions(SOURCES))
    values = extract_from_formats(page.formats, page.metadata, json.dumps(PRODUCT_SCHEMA))
    return dict(msgspec.convert(values, Extraction).data)
