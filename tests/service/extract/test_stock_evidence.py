"""What pages show of an availability: buttons, labels, and what they declare against it."""

from __future__ import annotations

import pytest

from webdata_nb.page.extract.evidence.evidence import find_evidence
from webdata_nb.page.extract.results import ValueEvidence

TITLE = "<title>Tea pot Omega | Shop</title>"
MENU = "<nav><a class='cart' href='/c'>Checkout now</a><a href='/b'>Fjord</a></nav>"
HEADING = "<main><h1>Tea pot Omega</h1><p class='price'>79.00 €</p>"
CARDS = "".join(
    f'<li class="card"><a href="/{n}"><img src="{n}.jpg" alt=""><h3>Kettle {n}</h3></a>'
    f"<p>{n}0.00 €</p><button>Add to cart</button><p>Sold out</p></li>"
    for n in (1, 2, 3)
)
RELATED = f"<h2>You may also like</h2><ul>{CARDS}</ul>"
DECLARED = (
    '<script type="application/ld+json">{"@type": "Product", "name": "Tea pot Omega",'
    '"offers": {"price": 79, "availability": "https://schema.org/%s"}}</script>'
)
BUTTON = "<button class='btn'><span>In den Warenkorb</span></button>"
PAGES = {
    "button": HEADING + BUTTON + RELATED,
    "input": HEADING + "<input type=submit value='Add to basket'>" + RELATED,
    "link": HEADING + "<a class='btn btn-buy' href='/c'>Koupit</a>",
    "Korean button": HEADING + "<button>장바구니 담기</button>",
    "label": HEADING + "<p>Auf Lager</p>" + RELATED,
    "choices": HEADING + "<select><option>S: sold out<option>M</select>" + BUTTON,
    "offer": HEADING + "<p>A pot for tea, by its owner.</p>" + RELATED,
    "declared, no sign": DECLARED % "InStock" + HEADING,
    "declared out, but a button": DECLARED % "OutOfStock" + HEADING + BUTTON,
    "far label": HEADING + BUTTON + "<p>x</p>" * 150 + "<p>Sold out</p>",
    "sold out": HEADING + "<p>Ausverkauft</p>" + RELATED,
    "notify": HEADING + "<button>Notify me when available</button>" + RELATED,
    "disabled": HEADING + "<button disabled>Add to cart</button>",
    "declared in, but sold out": DECLARED % "InStock"
    + HEADING
    + "<p>Sold out</p><button disabled>Add to cart</button>",
    "in a menu": MENU + HEADING + "<p>Rupture de stock</p>",
    "script": "<script>var p = {availability: 'out_of_stock'}</script>" + HEADING,
}
SOLD_OUT = {"sold out", "notify", "disabled", "declared in, but sold out", "in a menu", "script"}


def evidence_of(page: str, name: str, value: object) -> ValueEvidence:
    found = find_evidence(TITLE + page, {"name": "Tea pot Omega", name: value})
    return next(each for each in found if each.pointer == f"/{name}")


@pytest.mark.parametrize("name", PAGES)
def test_buttons_and_labels_of_the_product_decide(name: str) -> None:
    page, states = PAGES[name], ("InStock", "OutOfStock")
    right, wrong = states[::-1] if name in SOLD_OUT else states
    assert evidence_of(page, "availability", right).verdict == "derived"
    assert evidence_of(page, "availability", wrong).verdict == "unsupported"
    assert evidence_of(page, "in_stock", right == "InStock").verdict == "derived"


def test_a_sign_is_quoted_and_a_contradiction_named() -> None:
    found = evidence_of(PAGES["input"], "availability", "InStock")
    assert found.quote == "Add to basket"
    assert found.start is not None
    page = TITLE + PAGES["input"]
    assert page[found.start : found.end] == found.quote
    offered = evidence_of(PAGES["offer"], "availability", "InStock")
    assert offered.quote == "79.00 €"
    assert offered.reason == "as an offer with a price that nothing on the page says is sold out"
    against = evidence_of(PAGES["declared in, but sold out"], "availability", "InStock")
    assert against.reason == "the page shows 'Sold out'"


@pytest.mark.parametrize(
    ("field", "value", "is_supported"),
    [
        ("availability", "Fjord", False),  # no state
        ("brand", "Fjord", False),  # in a menu alone
        ("category", "Tea ware", True),  # in a breadcrumb
        ("currency", "$", False),  # in a URL alone
        ("currency", "€", True),
    ],
)
def test_menus_and_urls_are_no_evidence(field: str, value: str, is_supported: bool) -> None:
    crumbs = "<nav class='breadcrumb'><a href='/t'>Tea ware</a></nav>"
    image = "<meta property='og:image' content='//media.example/p?$9main$&amp;w=620'>"
    found = evidence_of(image + MENU + crumbs + PAGES["button"], field, value)
    assert (found.verdict != "unsupported") is is_supported, found
