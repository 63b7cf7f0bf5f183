"""The web that the recipes run against: a site with a shop, and two search providers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, TypeAlias

from aiohttp import web

from tests.service.search.stubs import KEY, Result, StubRequest, stubs
from tests.site.server import Site

Answer: TypeAlias = Callable[[StubRequest, list[Result]], Any]
# The address of the site in the recipes.
ADDRESS: Final = "https://example.com/"
PRICES: Final = {"kettle": 29.5, "lamp": 12.0, "mug": 4.25}
BROKEN: Final = "/docs/removed.html"
PAGES: Final = {
    "/": ["/docs/", "/articles/", "/shop/"],
    "/docs/": ["/docs/a.html", "/docs/b.html", BROKEN],
    "/docs/a.html": ["/docs/b.html"],
    "/docs/b.html": ["/docs/", BROKEN],
    "/articles/": ["/articles/rain.html"],
    "/articles/rain.html": ["/articles/"],
    "/shop/": [f"/shop/{name}.html" for name in PRICES],
}


def build(site: Site) -> None:
    """Set the pages of the site, one of whose links is broken."""
    for path, links in PAGES.items():
        site.page(path, _html(path, links))
    for name, price in PRICES.items():
        set_price(site, name, price)


def set_price(site: Site, name: str, price: float) -> None:
    """Set the page of a product, which declares its price in JSON-LD."""
    product = (
        '<script type="application/ld+json">{"@context": "https://schema.org", "@type": "Product",'
        f' "name": "{name}", "offers": {{"@type": "Offer", "price": "{price}",'
        ' "priceCurrency": "EUR"}}</script>'
    )
    site.page(f"/shop/{name}.html", _html(name, ["/shop/"], product))


def _html(title: str, links: list[str], head: str = "") -> str:
    items = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    text = f"The page {title} has a paragraph of its own about {title}. " * 5
    return (
        f"<!DOCTYPE html><html lang=en><head><title>{title}</title>{head}</head><body>"
        f"<nav><ul>{items}</ul></nav><main><h1>{title}</h1><p>{text}</p></main></body></html>"
    )


def serve_providers(site: Site, failing: Collection[str]) -> dict[str, str]:
    """Serve SearXNG and Brave, which know the same pages in another order; return their settings.

    They answer queries in `failing` with an error.
    """
    results = [Result(f"https://r.test/{n}", f"Result {n}", "Text") for n in range(8)]
    variables: dict[str, str] = {}
    for name, served in (("searxng", results), ("brave", results[::-1][:5])):
        stub = stubs()[name]
        stub.path = f"/{name}{stub.path}"
        stub.served = served
        stub.answer = _unless_failing(stub.answer, failing)
        variables[f"WEBDATA_{name.upper()}_URL"] = stub.on(site)
    return variables | {"WEBDATA_BRAVE_KEY": KEY}


def _unless_failing(answer: Answer, failing: Collection[str]) -> Answer:
    def respond(request: StubRequest, served: list[Result]) -> object:
        if request.parameters.get("q") in failing:
            return web.Response(status=500)
        return answer(request, served)

    return respond
