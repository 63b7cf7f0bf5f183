"""From HTML to filled fields: what the scraper reads is what the extractor expects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.extract.results import Extraction
from webdata_nb.page.extract.structured import extract_structured
from webdata_nb.page.scrape.page import scrape

SCHEMA: dict[str, Any] = {
    "title": "Product",
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "price": {"type": "number"},
        "currency": {"type": "string"},
        "in_stock": {"type": "boolean"},
        "image": {"type": "string"},
        "colour": {"type": "string"},
    },
}
MICRODATA = """<!doctype html><html lang="en"><title>Mug</title>
<div itemscope itemtype="https://schema.org/Product"><h1 itemprop="name"> Blue
 Mug </h1><img itemprop="image" src="/mug.jpg">
<div itemprop="offers" itemscope itemtype="https://schema.org/Offer">
<span itemprop="price" content="9.50">£9.50</span><meta itemprop="priceCurrency" content="GBP">
<link itemprop="availability" href="https://schema.org/OutOfStock"></div></div>"""
RDFA = """<!doctype html><html lang="en"><title>Mug</title>
<div vocab="https://schema.org/" typeof="Product"><h1 property="name">Blue Mug</h1>
<div property="offers" typeof="Offer"><span property="price" content="9.50">£9.50</span>
<meta property="priceCurrency" content="GBP"></div></div>"""


def extracted(html: str) -> Extraction:
    url = "https://shop.example/mugs/blue"
    source = FetchedResponse(url, url, 200, "text/html", html.encode(), (), datetime.now(UTC))
    made = scrape(source, ConversionOptions(formats=("structured_data",)), outlinks=False)
    structured = made.formats["structured_data"]
    return extract_structured(structured, schema=SCHEMA, metadata=made.metadata)


def test_microdata() -> None:
    found = extracted(MICRODATA)
    assert " ".join(found.data["name"].split()) == "Blue Mug"
    assert found.data["image"] == "https://shop.example/mug.jpg"
    rest = {name: found.data[name] for name in ("price", "currency", "in_stock", "colour")}
    assert rest == {"price": 9.5, "currency": "GBP", "in_stock": False, "colour": None}
    assert found.provenance["/price"] == "microdata:Product/offers/price"


def test_rdfa() -> None:
    found = extracted(RDFA)
    assert found.data["name"] == "Blue Mug"
    assert (found.data["price"], found.data["currency"]) == (9.5, "GBP")
    assert found.provenance["/price"] == "rdfa:Product/offers/price"
    assert found.missing == ("/in_stock", "/image", "/colour")


def test_broken_json_ld_leaves_the_rest() -> None:
    script = '<script type="application/ld+json">{"@type": "Product", "name": </script>'
    meta = '<meta property="og:title" content="Mug"><meta property="og:image" content="m.jpg">'
    found = extracted(f"<!doctype html><head>{script}{meta}</head>")
    assert (found.data["name"], found.data["image"]) == ("Mug", "m.jpg")
