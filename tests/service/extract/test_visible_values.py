"""Price, availability and codes are read from what a product page shows, after what it declares."""

from __future__ import annotations

import pytest

from tests.cpu_deadline import cpu_deadline
from tests.service.extract.product_pages import extract_page, json_ld, product_page
from webdata_nb.page.extract.prices import parse_amount
from webdata_nb.page.extract.structured import source_formats
from webdata_nb.page.extract.visible_values import VISIBLE

RELATED = (
    "<h2>Customers also bought</h2><ul>"
    + "".join(
        f'<li class="tile"><a href="/p/{n}">Pan {n}</a> <span class="price">${n}.50</span>'
        f"<span>Item number: {n}0001</span> <button>Add to cart</button></li>"
        for n in range(10, 16)
    )
    + "</ul>"
)


@pytest.mark.parametrize(
    ("markup", "price", "currency"),
    [
        ('<span class="price">US$34.98</span>', 34.98, "USD"),
        ('<p class="preis"><b>€ <i>20,-</i></b> Verhandlungsbasis</p>', 20, "EUR"),
        ('<div class="price">1.299,00 €</div>', 1299, "EUR"),
        ('<div class="price">1,299.00 GBP</div>', 1299, "GBP"),
        ('<div class="product-price">44 890 тг.</div>', 44890, "KZT"),
        ('<div class="price">2 499 Kč</div>', 2499, "CZK"),
        ('<div class="price">12,800円</div>', 12800, "JPY"),
        ('<div class="price">R$ 1.234,56</div>', 1234.56, "BRL"),
        ('<div class="price">₹1,23,456</div>', 123456, "INR"),
        ('<div class="price">CHF 2.25</div>', 2.25, "CHF"),
        ('<div class="price">KWD 12.345</div>', 12.345, "KWD"),
        ('<div class="price">$<span>249</span><sup>99</sup></div>', 249.99, None),
        ('<div class="price"><span>34</span><span>.98</span> USD</div>', 34.98, "USD"),
        ("<td><span>294</span><span> 元 </span></td>", 294, None),
    ],
)
def test_the_price_is_read_in_any_notation(markup: str, price: float, currency: str | None) -> None:
    found = extract_page(product_page(f"{markup}<p>Made of copper.</p>"))
    assert found.data["price"] == price
    assert found.data["currency"] == currency
    assert found.provenance["/price"] == "visible:price"


@pytest.mark.parametrize(
    ("symbol", "html", "host", "extra", "currency"),
    [
        # Nothing settles it.
        ("$", "", "shop.example", "", None),
        ("$", ' lang="en"', "shop.example", "", None),
        ("kr", ' lang="en-US"', "shop.example", "", None),
        ("¥", ' lang="en"', "shop.example", "", None),
        ("Rs.", ' lang="en"', "shop.example", "", None),
        ("$", "", "shop.co", "", None),
        ("$", "", "shop.example", "<p>Prices in USD or CAD</p>", None),
        ("$", "", "shop.example", "<p>The CAD drawings of the kettle</p>", None),
        # A text of the page names the currency.
        ("$", ' lang="en-US"', "shop.ca", "<p>All prices in AUD</p>", "AUD"),
        ("$", "", "shop.example", "<p>Shipping: 5.00 CAD</p>", "CAD"),
        ("$", "", "shop.example", "<p>Shipping: C$ 5.00</p>", "CAD"),
        ("kr", "", "shop.example", "<p>Frakt 49 NOK</p>", "NOK"),
        # The country of the host, then that of the language.
        ("$", ' lang="en-US"', "shop.ca", "", "CAD"),
        ("$", "", "shop.com.au", "", "AUD"),
        ("$", ' lang="en-NZ"', "shop.example", "", "NZD"),
        ("$", ' lang="en-US"', "shop.example", "", "USD"),
        ("$", ' lang="en"', "shop.example", "og:en_CA", "CAD"),
        ("kr", ' lang="sv-SE"', "shop.example", "", "SEK"),
        ("kr.", ' lang="da"', "shop.example", "", "DKK"),
        ("kr", "", "shop.no", "", "NOK"),
        ("¥", ' lang="ja"', "shop.example", "", "JPY"),
        ("¥", ' lang="zh-CN"', "shop.example", "", "CNY"),
        ("元", ' lang="zh-TW"', "shop.example", "", "TWD"),
        ("元", ' lang="zh-Hant"', "shop.example", "", None),
        ("Rs.", "", "shop.in", "", "INR"),
        ("\u0440.", "", "shop.by", "", "BYN"),
    ],
)
@pytest.mark.parametrize("declared", [False, True])
def test_a_symbol_of_several_currencies_is_a_code_only_if_the_page_settles_it(
    symbol: str, html: str, host: str, extra: str, currency: str | None, *, declared: bool
) -> None:
    head = ""
    if extra.startswith("og:"):
        head, extra = f'<meta property="og:locale" content="{extra[3:]}">', ""
    if declared:
        head += json_ld(name="Copper kettle 2 l", offers={"price": 9, "priceCurrency": symbol})
    page = product_page(f'<div class="price">500 {symbol}</div>{extra}', head=head)
    page = page.replace("<html>", f"<html{html}>")
    found = extract_page(page, {"currency": str}, url=f"https://{host}/p/kettle")
    assert found.data["currency"] == currency
    listed = {"products": [{"name": str, "currency": str}]}
    if declared:
        products = extract_page(page, listed, url=f"https://{host}/p/kettle").data["products"]
        assert products == [{"name": "Copper kettle 2 l", "currency": currency}]


def test_a_declared_code_or_symbol_of_one_currency() -> None:
    for declared, code in (("CAD", "CAD"), ("€", "EUR"), ("US$", "USD"), ("zł", "PLN")):
        head = json_ld(name="Copper kettle 2 l", offers={"price": 9, "priceCurrency": declared})
        page = product_page("<p>$9</p>", head=head)
        assert extract_page(page, {"currency": str}).data["currency"] == code


@pytest.mark.parametrize(
    "old",
    [
        '<del>$60.00</del> <span class="price">$45.00</span>',
        '<span class="price-old">$60.00</span> <span class="price">$45.00</span>',
        '<span style="text-decoration: line-through">$60.00</span> <span>$45.00</span>',
        '<i>RRP</i> <b class="price">$60.00</b> <i>Now</i> <b class="price">$45.00</b>',
        '<span>statt</span> <span class="price">$60.00</span> <span class="price">$45.00</span>',
        '<span class="price">$45.00</span> <span>You save</span> <span class="price">$15.00</span>',
        '<span class="price">$45.00</span> <span>Shipping</span> <span class="price">$4.90</span>',
        '<span class="price">$45.00</span> <span>or 12 x</span> <span class="price">$3.75</span>',
    ],
)
def test_another_amount_beside_the_price_does_not_win(old: str) -> None:
    assert extract_page(product_page(old)).data["price"] == 45


def test_the_prices_of_other_products_do_not_win() -> None:
    page = product_page(f'<span class="price">$45.00</span><button>Add to cart</button>{RELATED}')
    found = extract_page(page)
    assert found.data["price"] == 45
    assert extract_page(product_page(f"<p>Ask us for an offer.</p>{RELATED}")).data["price"] is None


def test_a_list_of_products_has_no_price() -> None:
    cards = "".join(
        f'<li class="card"><h3><a href="/p/{n}">Pan {n}</a></h3><p class="price">${n}.50</p></li>'
        for n in range(10, 30)
    )
    found = extract_page(product_page(f"<ul>{cards}</ul>", title="Pans"))
    assert found.data["price"] is None


def test_a_list_with_one_product_has_no_price() -> None:
    card = (
        '<li class="card"><h2><a href="/p/hat">Wool hat</a></h2><p>Fits under a hood.</p>'
        '<p class="price">€ 34.00</p></li>'
    )
    found = extract_page(product_page(f"<ul>{card}</ul>"))
    assert found.data["price"] is None
    unlinked = card.replace('<a href="/p/hat">Wool hat</a>', "Price and shipping")
    assert extract_page(product_page(f"<ul>{unlinked}</ul>")).data["price"] == 34


def test_an_article_has_no_price() -> None:
    body = "<p>The city spends € 5,000,000 on trees.</p><p>A tree costs</p><p>€ 300</p>"
    found = extract_page(product_page(body, title="Budget raised"), {"title": str, "price": float})
    assert found.data["price"] is None or found.provenance["/price"] == "visible:price"


def test_a_range_is_its_lower_end_and_both_ends_by_name() -> None:
    page = product_page('<div class="price">€12.50 \u2013 €50.00</div>')
    found = extract_page(page, {"price": float, "min_price": float, "max_price": float})
    assert found.data == {"price": 12.5, "min_price": 12.5, "max_price": 50}


def test_a_text_field_has_the_price_as_shown() -> None:
    assert extract_page(product_page('<p class="price">€ 12,50</p>'), {"price": str}).data == {
        "price": "€ 12,50"
    }


@pytest.mark.parametrize("text", ["-5 %", "5%", "", "12 kg", "1/2", "10.10.2026", "a", "$"])
def test_other_texts_are_no_amounts(text: str) -> None:
    assert parse_amount(text) is None


@pytest.mark.parametrize(
    "markup",
    [
        "<p>Sold out</p>",
        "<p>Momentan nicht verfügbar</p>",
        "<p>En rupture de stock</p>",
        "<p>Agotado</p>",
        "<p>Nessuna consegna: prodotto esaurito</p>",
        "<p>Esgotado</p>",
        "<p>Uitverkocht</p>",
        "<p>Нет в наличии</p>",
        "<p>Vyprodáno</p>",
        "<p>Produkt niedostępny</p>",
        "<p>Elfogyott</p>",
        "<p>Tükendi</p>",
        "<p>המוצר אינו במלאי</p>",
        "<p>نفدت الكمية</p>",
        "<p>已售完</p>",
        "<p>在庫切れ</p>",
        "<p>품절</p>",
        "<button>Notify me when available</button>",
        "<button>Benachrichtigen Sie mich</button>",
        "<button disabled>Add to cart</button>",
    ],
)
def test_a_product_that_cannot_be_bought(markup: str) -> None:
    found = extract_page(product_page(f'<p class="price">$45</p>{markup}'))
    assert found.data["availability"] == "OutOfStock"
    assert found.provenance["/availability"].startswith("visible:")
    in_stock = extract_page(product_page(markup), {"in_stock": bool})
    assert in_stock.data["in_stock"] is False


def test_a_table_about_the_availability_is_declared() -> None:
    page = product_page("<table><tr><td>Availability:</td><td>out of stock</td></tr></table>")
    assert extract_page(page).provenance["/availability"] == "table:1/Availability"
    assert extract_page(page, {"in_stock": bool}).data["in_stock"] is False


@pytest.mark.parametrize(
    "markup",
    [
        "<button>Add to cart</button>",
        '<input type="submit" value="In den Warenkorb">',
        '<a class="btn" href="#">Ajouter au panier</a>',
        '<button title="Добавить в корзину"></button>',
        "<button>カートに入れる</button>",
        "<p>Auf Lager</p>",
        "<p>Skladem > 5 ks</p>",
        '<ul class="sizes"><li>S <span>Sold out</span></li></ul><button>Add to bag</button>',
        '<button disabled>Add to bag</button><ul class="options"><li>S</li></ul><p>In stock</p>',
        "<table><tr><td>Timer</td><td>not available</td></tr></table><button>Buy now</button>",
    ],
)
def test_a_product_that_can_be_bought(markup: str) -> None:
    found = extract_page(product_page(f'<p class="price">$45</p>{markup}'))
    assert found.data["availability"] == "InStock"


def test_nothing_is_known_of_the_stock_without_button_or_label() -> None:
    page = product_page(f"<p>Copper, 2 litres. Not suitable for induction.</p>{RELATED}")
    assert extract_page(page).data["availability"] is None


def test_a_button_outweighs_the_declared_availability() -> None:
    declared = {"name": "Copper kettle", "offers": {"availability": "https://schema.org/InStock"}}
    gone = product_page("<button disabled>Add to cart</button>", head=json_ld(**declared))
    found = extract_page(gone)
    assert found.data["availability"] == "OutOfStock"
    assert found.provenance["/availability"] == "visible:button/Add to cart"
    assert found.conflicts == {"/availability": ["https://schema.org/InStock"]}

    there = product_page("<button>Add to cart</button>", head=json_ld(**declared))
    found = extract_page(there)
    assert found.provenance["/availability"] == "json_ld:Product/offers/availability"
    assert found.conflicts == {}


def test_a_label_alone_does_not_outweigh_the_declared_availability() -> None:
    declared = {"name": "Copper kettle", "offers": {"availability": "https://schema.org/InStock"}}
    page = product_page("<p>Currently unavailable for pickup</p>", head=json_ld(**declared))
    assert extract_page(page).data["availability"] == "https://schema.org/InStock"


@pytest.mark.parametrize(
    "markup",
    [
        "<p>Item number: 123-456</p>",
        "<p>SKU 123-456</p>",
        "<p><b>Artikel-Nr.:</b> <span>123-456</span></p>",
        "<p>Réf. : 123-456</p>",
        "<p>Código de producto 123-456</p>",
        "<p>Артикул: 123-456</p>",
        "<p>〈商品編號\uff1a123-456〉</p>",
        "<p>Kód produktu: 123-456</p>",
        "<p>eShop item number: 123-456</p>",
        "<table><tr><th>Product code</th><td>123-456</td></tr></table>",
        "<dl><dt>ASIN</dt><dd>123-456</dd></dl>",
        '<span class="product-number">123-456</span>',
    ],
)
def test_the_code_of_the_product_is_read_beside_its_label(markup: str) -> None:
    found = extract_page(product_page(f"{markup}{RELATED}"))
    assert found.data["sku"] == "123-456"
    assert found.provenance["/sku"].startswith(("visible:", "table:"))


@pytest.mark.parametrize(
    "markup",
    [
        "<p>Item number: on request</p>",
        "<p>Reference: see the manual of 12.10.2026</p>",
        "<p>Code 10</p>",
        "<p>Style: rustic</p>",
    ],
)
def test_a_label_without_a_code_is_no_code(markup: str) -> None:
    assert extract_page(product_page(markup)).data["sku"] is None


def test_a_hidden_field_with_the_code_of_the_url() -> None:
    page = product_page('<form><input type="hidden" name="product_id" value="4711"></form>')
    found = extract_page(page)
    assert found.data["sku"] == "4711"
    assert found.provenance["/sku"] == "visible:field/product_id"
    other = extract_page(page, url="https://shop.example/p/copper-kettle")
    assert other.data["sku"] is None


def test_other_codes_and_the_brand() -> None:
    codes = "<p>EAN: 4 006381 333931</p><p>Model number: CK 2000</p><p>SKU: 4711-2</p>"
    found = extract_page(product_page(f"<p>Brand: Acme</p>{codes}"))
    assert {name: found.data[name] for name in ("brand", "gtin", "mpn", "sku")} == {
        "brand": "Acme",
        "gtin": "4006381333931",
        "mpn": "CK 2000",
        "sku": "4711-2",
    }


def test_a_declared_code_wins_if_the_page_shows_it() -> None:
    head = json_ld(name="Copper kettle", sku="4711-2")
    extracted = extract_page(product_page("<p>Ref: A-1</p><p>No. 4711-2</p>", head=head))
    assert extracted.data["sku"] == "4711-2"
    assert extracted.conflicts == {}
    internal = extract_page(product_page("<p>Item number: A-1</p>", head=head))
    assert internal.data["sku"] == "A-1"
    assert internal.conflicts == {"/sku": ["4711-2"]}


def test_a_declared_price_wins_if_the_page_shows_it() -> None:
    head = json_ld(name="Copper kettle", offers={"price": "45.00", "priceCurrency": "USD"})
    body = '<p class="price">$45.00</p><p>With filter:</p><p class="price">$49.00</p>'
    found = extract_page(product_page(body, head=head))
    assert found.data["price"] == 45
    assert found.provenance["/price"] == "json_ld:Product/offers/price"
    crossed_out = '<del>$45.00</del> <p class="price">$39.00</p>'
    found = extract_page(product_page(crossed_out, head=head))
    assert found.data["price"] == 39
    assert found.conflicts == {"/price": [45.0]}
    unclear = extract_page(product_page("<p>Add the set for</p><a href='/s'>$99.00</a>", head=head))
    assert unclear.data["price"] == 45


def test_visible_values_belong_to_the_subject_of_the_page_only() -> None:
    page = product_page('<p class="price">$45.00</p><p>SKU: 4711-2</p>')
    fields = {"id": str, "model": str, "products": [{"name": str, "price": float}]}
    found = extract_page(page, fields)
    assert found.data == {"id": None, "model": None, "products": None}
    grouped = extract_page(page, {"product": {"price": float, "sku": str}})
    assert grouped.data == {"product": None}


def test_only_fields_of_a_product_are_looked_for_on_the_page() -> None:
    def formats(*names: str) -> tuple[str, ...]:
        fields = ",".join(f'"{name}":{{"type":"string"}}' for name in names)
        return source_formats(f'{{"type":"object","properties":{{{fields}}}}}')

    assert VISIBLE in formats("title", "price")
    assert VISIBLE in formats("in_stock")
    assert VISIBLE in formats("product_brand")
    assert VISIBLE not in formats("title", "author", "published", "name", "description", "id")


def test_a_choice_of_states_accepts_each_word_for_them() -> None:
    declared = json_ld(name="Kettle", offers={"availability": "https://schema.org/SoldOut"})
    choices = {"enum": ["InStock", "OutOfStock"]}
    found = extract_page(product_page("", head=declared), {"availability": choices})
    assert found.data["availability"] == "OutOfStock"


@pytest.mark.parametrize(
    "body",
    [
        "<span class='price'>$1.50</span>" * 40_000,
        "<div class='price'>" * 20_000 + "$5",
        "<h1>" + "<b>Copper kettle</b>" * 30_000 + "</h1>",
        "<button>Add to cart</button>" * 30_000,
        "<p>SKU:</p>" * 40_000,
        "<p>" + "1 " * 500_000 + "</p>",
        f"<p class='{'price-' * 100_000}'>$5</p>",
        "<input type=hidden name=sku value=4711>" * 40_000,
        "<p>" + "€" * 300_000 + "</p>",
    ],
)
def test_hostile_pages_cost_little(body: str) -> None:
    page = product_page(body)
    with cpu_deadline():
        extract_page(page)
