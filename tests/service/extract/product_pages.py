"""Extraction from HTML pages without a model, through the same steps as in a page worker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.extract.results import Extraction
from webdata_nb.page.extract.structured import extract_from_formats, source_formats
from webdata_nb.page.scrape.page import scrape
from webdata_nb.toolkit.requests.inputs import extract_request

URL = "https://shop.example/p/copper-kettle-4711"
PRODUCT = {
    "price": float,
    "currency": str,
    "availability": str,
    "sku": str,
    "gtin": str,
    "mpn": str,
    "brand": str,
}


def extract_page(html: str, fields: Mapping[str, Any] = PRODUCT, *, url: str = URL) -> Extraction:
    """Extract fields from a page, as a job does."""
    schema = json.dumps(extract_request(dict(fields))["schema"])
    source = FetchedResponse(
        url, url, 200, "text/html; charset=utf-8", html.encode(), (), datetime.now(UTC)
    )
    options = ConversionOptions(formats=source_formats(schema))
    scraped = scrape(source, options, outlinks=False)
    values = extract_from_formats(scraped.formats, scraped.metadata, schema)
    extraction = msgspec.convert(values, Extraction)
    assert not extraction.error
    return extraction


def product_page(body: str, *, title: str = "Copper kettle 2 l", head: str = "") -> str:
    """Return a shop's page with navigation, the product's heading and its body."""
    return (
        f"<html><head><title>{title} | Shop</title>{head}</head><body>"
        '<header><nav><a href="/">Home</a> <a href="/cart">Cart (3) $99.00</a></nav></header>'
        f"<main><h1>{title}</h1>{body}</main>"
        "<footer><p>Free shipping over $50. Item number: 99999-footer</p></footer>"
        "</body></html>"
    )


def json_ld(**data: Any) -> str:
    """Return a script with a JSON-LD product."""
    block = {"@context": "https://schema.org", "@type": "Product", **data}
    return f'<script type="application/ld+json">{json.dumps(block)}</script>'
