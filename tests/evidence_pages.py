"""Product pages in many forms with the truth about each, and a model that gets things wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from random import Random
from typing import Any, Final

from webdata_nb.page.extract.evidence.evidence import find_evidence
from webdata_nb.page.extract.results import ValueEvidence

Product = dict[str, Any]

FIELDS: Final = (
    "name",
    "price",
    "currency",
    "sku",
    "gtin",
    "brand",
    "color",
    "weight_kg",
    "rating",
)
_MATERIALS: Final = ("Copper", "Walnut", "Linen", "Steel", "Bamboo", "Marble", "Cotton", "Velvet")
_THINGS: Final = ("Kettle", "Desk lamp", "Café table", "Rain jacket", "Bücherregal", "Théière")
_BRANDS: Final = ("Norrlund", "Fjäll & Söhne", "Tamsin Oak", "O\u2019Hara", "Müller+Co", "Ostara")
_COLORS: Final = ("midnight blue", "forest green", "chalk white", "brick red", "sand", "ochre")
_CURRENCIES: Final = (("EUR", "€"), ("USD", "$"), ("GBP", "£"), ("PLN", "zł"))
WRONG: Final = ("invented", "shifted", "merged")


@dataclass(frozen=True, slots=True)
class LabelledPage:
    """A page, and its product or products."""

    html: str
    products: tuple[Product, ...]
    neighbours: tuple[Product, ...]
    is_list: bool

    @property
    def truth(self) -> dict[str, Any]:
        """What an extraction without errors returns."""
        return {"products": list(self.products)} if self.is_list else dict(self.products[0])


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model returns about a page, and what is wrong with it, by JSON pointer."""

    data: dict[str, Any]
    wrong: Mapping[str, str]


async def find_evidence_in_process(
    page: str, url: str, data: Mapping[str, Any]
) -> list[ValueEvidence]:
    """Find evidence in this process instead of a page worker."""
    return find_evidence(page, data, url=url or "http://page.invalid/")


def make_product(random: Random) -> Product:
    """Return a product with values of its own."""
    name = f"{random.choice(_MATERIALS)} {random.choice(_THINGS)} {random.randrange(100, 999)}"
    return {
        "name": name,
        "price": random.randrange(500, 250_000) / 100,
        "currency": random.choice(_CURRENCIES)[0],
        "sku": f"{random.choice('ABCDEF')}{random.randrange(10**4, 10**5)}-{random.randrange(99)}",
        "gtin": str(random.randrange(10**12, 10**13)),
        "brand": random.choice(_BRANDS),
        "color": random.choice(_COLORS),
        "weight_kg": random.randrange(11, 990) / 10,
        "rating": random.randrange(11, 50) / 10,
    }


def make_pages(count: int, seed: int = 7) -> list[LabelledPage]:
    """Return pages in all forms in turn."""
    random = Random(seed)
    return [_make_page(random, number) for number in range(count)]


def _make_page(random: Random, number: int) -> LabelledPage:
    form = _FORMS[number % len(_FORMS)]
    is_list = form in _LIST_FORMS
    products = [make_product(random) for _ in range(random.randrange(4, 9) if is_list else 6)]
    currency = random.choice(_CURRENCIES)[0]
    for product in products:
        product["currency"] = currency
    return form(random, products)


def money(random: Random, product: Product) -> str:
    """Write a price as a shop of some country does."""
    symbol = dict(_CURRENCIES)[product["currency"]]
    text = f"{product['price']:,.2f}"
    swapped = text.replace(",", " ").replace(".", ",").replace(" ", ".")
    forms = [f"{symbol}{text}", f"{swapped} {symbol}", f"{symbol} {text.replace(',', ' ')}"]
    forms += [f"{swapped}&nbsp;{symbol}", f"{product['currency']} {text}"]
    return random.choice(forms)


def _decimal(random: Random, value: float) -> str:
    return random.choice((f"{value}", f"{value}".replace(".", ",")))


def _cards(random: Random, products: list[Product], *, tag: str = "li") -> str:
    style = random.choice(("card", "tile", "x7f", "grid-cell"))
    return "".join(
        f'<{tag} class="{style}"><a href="/p/{p["sku"].lower()}"><img src="/i.jpg" alt=""></a>'
        f'<h3 class="t">{escape(p["name"])}</h3><div>{escape(p["brand"])}</div>'
        f'<div class="amount">{money(random, p)}</div><div>{p["rating"]} / 5</div>'
        f"<small>{p['sku']}</small><p>{p['color']}, {p['weight_kg']} kg</p></{tag}>"
        for p in products
    )


def _shell(random: Random, title: str, body: str, head: str = "") -> str:
    return (
        f"<!doctype html><html><head><title>{escape(title)} | Shop</title>{head}</head><body>"
        '<header><nav><a href="/">Home</a><a href="/sale">Sale</a><a href="/c">Cart (0)</a></nav>'
        f"</header><main>{body}</main><footer><p>Free shipping over 900. Call 555 0199.</p>"
        f"<script>var t={random.randrange(10**9)};track({{id:{random.randrange(10**6)}}});</script>"
        "</footer></body></html>"
    )


def _related(random: Random, products: list[Product]) -> str:
    heading = random.choice(
        ("You may also like", "Ähnliche Produkte", "Customers also bought", "More")
    )
    return f'<section><h2>{heading}</h2><ul class="row">{_cards(random, products)}</ul></section>'


def _old_price(random: Random, product: Product) -> str:
    if random.random() < 0.5:
        return ""
    return f"<del>{money(random, {**product, 'price': round(product['price'] * 1.37, 2)})}</del> "


def _declared(product: Product, others: list[Product]) -> str:
    def node(each: Product) -> dict[str, Any]:
        offer = {"@type": "Offer", "price": each["price"], "priceCurrency": each["currency"]}
        return {
            "@context": "https://schema.org", "@type": "Product", "name": each["name"],
            "sku": each["sku"], "gtin13": each["gtin"], "color": each["color"],
            "brand": {"@type": "Brand", "name": each["brand"]}, "offers": offer,
            "weight": {"@type": "QuantitativeValue", "value": each["weight_kg"], "unitCode": "KGM"},
            "aggregateRating": {"@type": "AggregateRating", "ratingValue": str(each["rating"])},
        }  # fmt: skip

    main = node(product)
    main["isRelatedTo"] = [node(each) for each in others]
    text = json.dumps(main, ensure_ascii=len(others) % 2 == 0).replace("</", "<\\/")
    return f'<script type="application/ld+json">{text}</script>'


def _json_ld_page(random: Random, products: list[Product]) -> LabelledPage:
    product, *others = products
    body = f"<h1>{escape(product['name'])}</h1><p>{money(random, product)}</p><p>Nice thing.</p>"
    body += _related(random, others)
    html = _shell(random, product["name"], body, _declared(product, others[:3]))
    return LabelledPage(html, (product,), tuple(others), is_list=False)


def _microdata_page(random: Random, products: list[Product]) -> LabelledPage:
    product, *others = products
    body = (
        '<div itemscope itemtype="https://schema.org/Product">'
        f'<h1 itemprop="name">{escape(product["name"])}</h1>'
        f'<span itemprop="brand">{escape(product["brand"])}</span>'
        f'<meta itemprop="sku" content="{product["sku"]}">'
        f'<meta itemprop="gtin13" content="{product["gtin"]}">'
        '<div itemprop="offers" itemscope itemtype="https://schema.org/Offer">'
        f'{_old_price(random, product)}<span itemprop="price" content="{product["price"]}">'
        f"{money(random, product)}</span>"
        f'<meta itemprop="priceCurrency" content="{product["currency"]}"></div>'
        f'<p>Color: <b itemprop="color">{product["color"]}</b></p>'
        f"<p>Weight: {_decimal(random, product['weight_kg'])} kg</p>"
        f'<span itemprop="ratingValue">{product["rating"]}</span></div>'
    )
    html = _shell(random, product["name"], body + _related(random, others))
    return LabelledPage(html, (product,), tuple(others), is_list=False)


def _specification(random: Random, product: Product) -> list[tuple[str, str]]:
    rows = [
        (random.choice(("SKU", "Item number", "Artikelnummer")), product["sku"]),
        (random.choice(("EAN", "GTIN", "Barcode")), product["gtin"]),
        (random.choice(("Brand", "Marke", "Manufacturer")), escape(product["brand"])),
        (random.choice(("Color", "Colour")), product["color"]),
        ("Weight", f"{_decimal(random, product['weight_kg'])} kg"),
        ("Rating", f"{_decimal(random, product['rating'])} / 5"),
    ]
    random.shuffle(rows)
    return rows


def _table_page(random: Random, products: list[Product]) -> LabelledPage:
    product, *others = products
    rows = "".join(f"<tr><th>{k}</th><td>{v}</td></tr>" for k, v in _specification(random, product))
    body = (
        f"<h1>{escape(product['name'])}</h1><div class='price'>{_old_price(random, product)}"
        f"<span>{money(random, product)}</span></div><table>{rows}</table>"
    )
    html = _shell(random, product["name"], body + _related(random, others))
    return LabelledPage(html, (product,), tuple(others), is_list=False)


def _definition_page(random: Random, products: list[Product]) -> LabelledPage:
    product, *others = products
    rows = "".join(f"<dt>{k}:</dt><dd>{v}</dd>" for k, v in _specification(random, product))
    body = (
        f"<article><h1>{escape(product['name'])}</h1><p>Now only <strong>{money(random, product)}"
        f"</strong> plus shipping {money(random, {**product, 'price': 4.95})}</p><dl>{rows}</dl>"
        f"</article><aside class='recommendations'>{_cards(random, others[:1], tag='div')}</aside>"
    )
    html = _shell(random, product["name"], body)
    return LabelledPage(html, (product,), tuple(others[:1]), is_list=False)


def _prose_page(random: Random, products: list[Product]) -> LabelledPage:
    product, *others = products
    first, rest = product["name"].split(" ", 1)
    body = (
        f"<h1><span>{first}</span> <em>{escape(rest)}</em></h1>"
        f"<div class=p-price>{money(random, product)}</div>"
        f"<p>by {escape(product['brand'])}</p><p>SKU: {product['sku']} | EAN: {product['gtin']}</p>"
        f"<p>Colour: {product['color'].upper()}. "
        f"Weight: {_decimal(random, product['weight_kg'])} kg.</p>"
        f"<p class=rating>Rated {product['rating']} by our customers</p>"
    )
    html = _shell(random, product["name"], body + _related(random, others))
    return LabelledPage(html, (product,), tuple(others), is_list=False)


def _div_specification_page(random: Random, products: list[Product]) -> LabelledPage:
    product, *others = products
    rows = "".join(
        f'<div class="spec-row"><div class="k">{k}</div><div class="v">{v}</div></div>'
        for k, v in _specification(random, product)
    )
    head = f'<meta property="product:price:amount" content="{product["price"]}">'
    body = (
        f'<div class="pdp"><h1>{escape(product["name"])}</h1><b>{money(random, product)}</b>'
        f"<div class=specs>{rows}</div></div>{_related(random, others)}"
    )
    html = _shell(random, product["name"], body, head)
    return LabelledPage(html, (product,), tuple(others), is_list=False)


def _card_list(random: Random, products: list[Product]) -> LabelledPage:
    html = "".join(
        f'<div class="product"><a href="/{n}"><h2>{escape(p["name"])}</h2></a>'
        f'<span class="brand">{escape(p["brand"])}</span>'
        f'<span class="price">{money(random, p)}</span>'
        f'<span class="sku">{p["sku"]}</span><span class="gtin">{p["gtin"]}</span>'
        f'<span class="color">{p["color"]}</span><span class="weight">{p["weight_kg"]} kg</span>'
        f'<span class="rating">{p["rating"]}</span></div>'
        for n, p in enumerate(products)
    )
    page = _shell(random, "All products", f"<h1>All products</h1><div class=list>{html}</div>")
    return LabelledPage(page, tuple(products), (), is_list=True)


def _table_list(random: Random, products: list[Product]) -> LabelledPage:
    names = ["Name", "Price", "SKU", "EAN", "Brand", "Color", "Weight", "Rating"]
    head = "".join(f"<th>{name}</th>" for name in names)
    rows = "".join(
        f"<tr><td>{escape(p['name'])}</td><td>{money(random, p)}</td><td>{p['sku']}</td>"
        f"<td>{p['gtin']}</td><td>{escape(p['brand'])}</td><td>{p['color']}</td>"
        f"<td>{_decimal(random, p['weight_kg'])} kg</td><td>{p['rating']}</td></tr>"
        for p in products
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    page = _shell(random, "Price list", f"<h1>Price list</h1>{table}")
    return LabelledPage(page, tuple(products), (), is_list=True)


def _json_list(random: Random, products: list[Product]) -> LabelledPage:
    items = [
        {"@type": "ListItem", "position": n, "item": json.loads(_declared(p, [])[35:-9])}
        for n, p in enumerate(products, 1)
    ]
    data = json.dumps({"@type": "ItemList", "itemListElement": items}, indent=1)
    head = f'<script type="application/ld+json">{data}</script>'
    page = _shell(random, "Shop", f"<h1>Shop</h1><ul>{_cards(random, products)}</ul>", head)
    return LabelledPage(page, tuple(products), (), is_list=True)


_LIST_FORMS: Final = (_card_list, _table_list, _json_list)
_FORMS: Final[tuple[Callable[[Random, list[Product]], LabelledPage], ...]] = (
    *(_json_ld_page, _microdata_page, _table_page, _definition_page, _prose_page),
    *(_div_specification_page, _card_list, _table_list, _json_list),
)


# A model with errors


def answer(page: LabelledPage, random: Random, *, share: float = 0.2) -> Answer:
    """Return the truth about a page, with a share of its values replaced by wrong ones."""
    data: dict[str, Any] = json.loads(json.dumps(page.truth))
    records = data["products"] if page.is_list else [data]
    wrong: dict[str, str] = {}
    for number, record in enumerate(records):
        prefix = f"/products/{number}" if page.is_list else ""
        others = [*page.neighbours, *(p for p in page.products if p is not page.products[number])]
        for field in FIELDS:
            if random.random() < share:
                kind = random.choice(WRONG)
                value = _wrong_value(random, kind, field, page.products[number], others)
                if not _is_same(value, page.products[number][field]):
                    record[field], wrong[f"{prefix}/{field}"] = value, kind
    return Answer(data, wrong)


def _is_same(first: Any, second: Any) -> bool:
    return str(first).casefold() == str(second).casefold()


def _wrong_value(
    random: Random, kind: str, field: str, product: Product, others: list[Product]
) -> Any:
    if kind == "invented":
        return _invented(random, field, product, others)
    other = random.choice(others)
    if kind == "shifted":
        if random.random() < 0.5:
            return other[field]
        names = [n for n in FIELDS if n != field and type(product[n]) is type(product[field])]
        return product[random.choice(names)]
    return _merged(product[field], other[field])


def _invented(random: Random, field: str, product: Product, others: list[Product]) -> Any:
    taken = {str(each[field]) for each in (product, *others)}
    while True:
        value = make_product(random)[field]
        if field in {"brand", "color", "currency"}:
            value = {"brand": "Halcyon Forge", "color": "lavender", "currency": "JPY"}[field]
        if str(value) not in taken:
            return value


def _merged(own: Any, other: Any) -> Any:
    """Return the first half of one value and the second half of another."""
    if isinstance(own, float):
        decimals = f"{other:.2f}".split(".")[1]
        return float(f"{int(own)}.{decimals}")
    words = (own.split(" "), other.split(" "))
    if min(map(len, words)) > 1:
        return " ".join((*words[0][: len(words[0]) // 2], *words[1][len(words[1]) // 2 :]))
    return own[: len(own) // 2] + other[len(other) // 2 :]
