"""The web that the recipes run against: a site with a shop, and two search providers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
_URLS: Final = [f"https://r.test/{n}" for n in range(8)]
# What each search provider knows, best first.
RESULTS: Final = {"searxng": _URLS, "brave": _URLS[::-1][:5]}
# More than a crawl has by default.
SHOP_ITEMS: Final = 110
# Pages and their links; what is not here, or set below, is missing.
IRREGULAR: Final = {
    "/": [
        *("docs/", "/docs/#top", "docs/#end", "docs/index.html", "#own", "mailto:a@b.test"),
        *("/old", "/old-missing", "/old-twice#x", "/only-redirect", "/loop", "/leaves"),
        *("/fault", "/forbidden", "/gone#1", "/gone#2", "/gone", "/hangs-up", "/drawing.svg"),
        *("/folder", "/folder/", "outside:/absent", "?view=1", "shop/", "/outlet/", "articles/"),
    ],
    "/docs/": [
        *("../", "./a.html", "a.html#part", "based.html", "sub/deep/", "missing.html#part"),
        *("../missing.html", "/docs/../missing.html", "//site/docs/missing.html"),
        *(
            "/caf%c3%a9",
            "/caf%C3%A9#x",
            "/caf%c3%a9-missing",
            "/caf%C3%A9-missing",
            "/café-missing",
        ),
    ],
    "/docs/a.html": ["based.html#1", "nothing?of=it&a=1#x", "missing.html", "/forbidden#login"],
    "/docs/based.html": ["x.html", "none.html#y", "../docs/a.html", "/gone"],
    "/docs/sub/deep/": ["../../a.html", "../../../only-redirect", "../none/", "page.html"],
    "/docs/sub/deep/page.html": ["#x", "page.html#y", "./", "/old-missing", "/a b.html"],
    "/base/x.html": ["/", "/base/none.html"],
    "/folder/": ["none.html", "/folder/none.html#1"],
    "/?view=1": ["/view-missing"],
    "/articles/": ["rain.html#top", "rain.html", "gone.html", "/docs/a.html"],
    "/articles/rain.html": ["/articles/#rain", "/shop/tea/"],
    "/shop/": [
        *(f"item-{n}.html#reviews" for n in range(SHOP_ITEMS)),
        *("sold-out.html", "item-3.html", "tea/", "/outlet/item.html", "/docs/"),
    ],
    "/shop/tea/": ["green.html", "../item-1.html", "none.html#price", "/shop"],
    "/outlet/": ["item.html", "/shop/item-2.html"],
}


def build(site: Site) -> None:
    """Set the pages of the site, one of whose links is broken."""
    for path, links in PAGES.items():
        site.page(path, _html(path, links))
    for name, price in PRICES.items():
        set_price(site, name, price)


def build_irregular(site: Site, outside: Site) -> None:
    """Set the pages of a site like those that people wrote by hand, and many broken links.

    It has several folders and no sitemap, fragments, a base, redirects to pages that fail, copies,
    relative links, percent-encodings in two spellings, and failures of several kinds.
    """
    own, other = f"//127.0.0.1:{site.port}", outside.url.rstrip("/")
    for path, links in IRREGULAR.items():
        head = '<base href="/base/">' if path == "/docs/based.html" else ""
        hrefs = [link.replace("outside:", other).replace("//site", own) for link in links]
        site.page(path, _html(path, hrefs, head))
    site.page("/docs/index.html", _html("/docs/index.html", IRREGULAR["/docs/"][:9]))
    for path, status in (("/fault", 500), ("/forbidden", 403), ("/gone", 410)):
        site.page(path, "<title>x</title>no", status=status)
    site.page("/folder", "", status=301, headers={"Location": "/folder/"})
    for path, target in (
        ("/old", "/docs/a.html"),
        ("/old-missing", "/docs/missing.html"),
        ("/old-twice", "/old-missing"),
        ("/only-redirect", "/nowhere#part"),
        ("/loop", "/loop-back"),
        ("/loop-back", "/loop"),
        ("/leaves", outside.at("/other-missing")),
    ):
        site.redirect(path, target)
    site.page("/drawing.svg", "<svg></svg>", headers={"Content-Type": "image/svg+xml"})
    site.page("/hangs-up", _hang_up)
    for n in range(SHOP_ITEMS):
        set_product(site, f"/shop/item-{n}.html", f"Item {n}", n + 0.5)
    set_product(site, "/shop/tea/green.html", "Green tea", 4.2)
    set_product(site, "/outlet/item.html", "Outlet item", 1.0)
    for path in ("/caf%C3%A9", "/caf%c3%a9"):
        site.page(path, _html("Café", ["/"]))


def spelled(links: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return pages and links with percent-encodings in upper case, which are the same URLs."""

    def upper(url: str) -> str:
        return re.sub("%[0-9a-f]{2}", lambda code: code.group().upper(), url, flags=re.IGNORECASE)

    return {(upper(page), upper(link)) for page, link in links}


def _hang_up(request: web.BaseRequest) -> web.Response:
    if request.transport is not None:
        request.transport.close()
    return web.Response()


def set_price(site: Site, name: str, price: float) -> None:
    """Set the page of a product, which declares its price in JSON-LD."""
    set_product(site, f"/shop/{name}.html", name, price)


def set_product(site: Site, path: str, name: str, price: float) -> None:
    """Set a page that declares the name and the price of a product."""
    product = (
        '<script type="application/ld+json">{"@context": "https://schema.org", "@type": "Product",'
        f' "name": "{name}", "offers": {{"@type": "Offer", "price": "{price}",'
        ' "priceCurrency": "EUR"}}</script>'
    )
    site.page(path, _html(name, ["/shop/"], product))


def _html(title: str, links: list[str], head: str = "") -> str:
    items = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    text = f"The page {title} has a paragraph of its own about {title}. " * 5
    return (
        f"<!DOCTYPE html><html lang=en><head><title>{title}</title>{head}</head><body>"
        f"<nav><ul>{items}</ul></nav><main><h1>{title}</h1><p>{text}</p></main></body></html>"
    )


def serve_providers(
    site: Site, failing: Collection[str], results: Mapping[str, Sequence[str]] = RESULTS
) -> dict[str, str]:
    """Serve SearXNG and Brave, which know the same pages in another order; return their settings.

    They answer queries in `failing` with an error, and others with the URLs in `results`, both as
    they are then.
    """
    variables: dict[str, str] = {}
    for name, urls in results.items():
        stub = stubs()[name]
        stub.path = f"/{name}{stub.path}"
        stub.answer = _answering(stub.answer, failing, urls)
        variables[f"WEBDATA_{name.upper()}_URL"] = stub.on(site)
    return variables | {"WEBDATA_BRAVE_KEY": KEY}


def _answering(answer: Answer, failing: Collection[str], urls: Sequence[str]) -> Answer:
    def respond(request: StubRequest, _served: list[Result]) -> object:
        if request.parameters.get("q") in failing:
            return web.Response(status=500)
        return answer(request, [Result(url, f"Result {url[-1]}", "Text") for url in urls])

    return respond
