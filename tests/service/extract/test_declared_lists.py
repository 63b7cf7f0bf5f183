"""Lists that a page declares are read whole and in order, wherever they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.quality.truth_pages import microdata, rdfa
from tests.service.extract.declared_pages import declared_page
from webdata_nb.page.content.page_source import ConversionOptions, FetchedResponse
from webdata_nb.page.extract.evidence.evidence import find_evidence
from webdata_nb.page.extract.results import Extraction
from webdata_nb.page.extract.structured import extract_structured
from webdata_nb.page.scrape.page import scrape

PAGES = 240
TEXT = {"type": "string"}
NUMBER = {"type": "number"}
Row = dict[str, Any]


def read(html: str, schema: Row) -> Extraction:
    url = "https://site.example/page"
    source = FetchedResponse(url, url, 200, "text/html", html.encode(), (), datetime.now(UTC))
    options = ConversionOptions(formats=("structured_data", "tables"))
    made = scrape(source, options, outlinks=False)
    return extract_structured(
        made.formats["structured_data"],
        schema=schema,
        tables=made.formats["tables"],
        metadata=made.metadata,
    )


def _repeats(row: Row) -> Iterator[Any]:
    values = [value for value in row.values() if value is not None]
    yield from (value for value in values if values.count(value) > 1)


@pytest.mark.parametrize("number", range(PAGES))
def test_all_rows_of_a_declared_list_in_order(number: int) -> None:
    page = declared_page(number)
    found = read(page.html, page.schema)
    rows = found.data[page.name]
    if page.limit:
        assert rows is None
        assert any(note.startswith(f"{page.name}: ") for note in found.notes), page.about
        return
    assert rows == page.rows, page.about
    assert not [value for row in rows for value in _repeats(row)]
    assert not found.notes


# ------------------------------------------------------------------------ other shapes of lists


def list_of(**fields: Row) -> Row:
    return {"type": "array", "items": {"type": "object", "properties": fields}}


def object_of(**fields: Row) -> Row:
    return {"type": "object", "properties": fields}


def extract(*blocks: Any, **fields: Row) -> Extraction:
    return extract_structured({"json_ld": list(blocks)}, schema=object_of(**fields))


def product(number: int, **more: Any) -> Row:
    offer = {"@type": "Offer", "price": number}
    return {"@type": "Product", "name": f"P{number}", "sku": f"S{number}", "offers": offer, **more}


def rows(*numbers: int, **more: Any) -> list[Row]:
    return [{"name": f"P{at}", "sku": f"S{at}", "price": at, **more} for at in numbers]


def item_list(*entries: Any, **more: Any) -> Row:
    return {"@type": "ItemList", "itemListElement": list(entries), **more}


def list_item(position: Any, **more: Any) -> Row:
    return {"@type": "ListItem", "position": position, **more}


PRODUCTS = list_of(name=TEXT, sku=TEXT, price=NUMBER)


@pytest.mark.parametrize("name", ["items", "products"])
def test_a_list_of_several_types_gives_those_that_fit_in_order(name: str) -> None:
    movie = {"@type": "Movie", "name": "M", "director": "D"}
    vehicle = product(3) | {"@type": "Vehicle"}
    found = extract(item_list(product(1), movie, vehicle, product(2)), **{name: PRODUCTS})
    assert found.data[name] == rows(1, 3, 2)


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ([2, 3, 1], [3, 1, 2]),
        (["2", "3", "1"], [3, 1, 2]),
        ([3, 2, 1], [1, 2, 3]),  # a countdown
        ([2, 2, 1], [1, 2, 3]),
        ([2, None, 1], [1, 2, 3]),
    ],
)
def test_positions_decide_the_order_unless_they_count_down_or_are_not_clear(
    positions: list[Any], expected: list[int]
) -> None:
    entries = [list_item(at, item=product(n)) for n, at in enumerate(positions, 1)]
    assert extract(item_list(*entries), products=PRODUCTS).data["products"] == rows(*expected)


def test_list_items_that_are_all_that_the_page_declares() -> None:
    entries = [list_item(n, name=f"M{n}", url=f"https://m.example/{n}") for n in (1, 2)]
    fields = {"name": TEXT, "url": TEXT, "position": NUMBER}
    expected = [{"name": f"M{n}", "url": f"https://m.example/{n}", "position": n} for n in (1, 2)]
    for name in ("movies", "items", "cities"):
        found = extract(item_list(*entries), **{name: list_of(**fields)})
        assert found.data[name] == expected
    texts = extract(item_list("A", "B"), items=list_of(name=TEXT))
    assert texts.data["items"] == [{"name": "A"}, {"name": "B"}]


def test_a_list_item_says_what_its_object_does_not() -> None:
    movies = [
        list_item(n, name=f"M{n}", item={"@type": "Movie", "director": {"name": f"D{n}"}})
        for n in (1, 2)
    ]
    found = extract(item_list(*movies), movies=list_of(title=TEXT, rank=NUMBER, director=TEXT))
    assert found.data["movies"] == [
        {"title": "M1", "rank": 1, "director": "D1"},
        {"title": "M2", "rank": 2, "director": "D2"},
    ]
    assert found.provenance["/movies/1/rank"] == "json_ld:ListItem[2]/position"
    assert found.provenance["/movies/1/director"] == "json_ld:Movie[2]/director"


def test_list_items_with_the_urls_of_things_elsewhere() -> None:
    entries = [list_item(at, url=f"https://p.example/{n}") for at, n in enumerate((2, 1, 3), 1)]
    things = [product(n, url=f"https://p.example/{n}") for n in (1, 2, 3)]
    found = extract(item_list(*entries), *things, items=PRODUCTS)
    assert found.data["items"] == rows(2, 1, 3)


def test_variants_have_what_their_group_has() -> None:
    group = {"@type": "ProductGroup", "@id": "#g", "name": "G", "sku": "S", "brand": "B"}
    fields = list_of(name=TEXT, sku=TEXT, price=NUMBER, brand=TEXT)
    held = extract(group | {"hasVariant": [product(1), product(2)]}, products=fields)
    naming = [product(n, isVariantOf={"@id": "#g"}) for n in (1, 2)]
    named = extract({"@graph": [group, *naming]}, products=fields)
    assert held.data["products"] == named.data["products"] == rows(1, 2, brand="B")


def test_other_products_are_no_products_of_the_page() -> None:
    fields = {"products": PRODUCTS, "related_products": PRODUCTS}
    others = [product(7), product(8)]
    found = extract(product(1, isRelatedTo=others), **fields)
    assert found.data == {"products": rows(1), "related_products": rows(7, 8)}
    found = extract(product(1), item_list(*others, name="You may also like"), **fields)
    assert found.data == {"products": rows(1), "related_products": None}


def test_lists_in_parts_are_one_list() -> None:
    parts = [item_list(product(1), product(2)), item_list(product(3))]
    assert extract(*parts, products=PRODUCTS).data["products"] == rows(1, 2, 3)
    answers = [{"@type": "Answer", "text": f"A{n}", "upvoteCount": n} for n in (1, 2, 3)]
    question = {"@type": "Question", "name": "Q", "acceptedAnswer": answers[0]}
    found = extract(
        question | {"suggestedAnswer": answers[1:]}, answers=list_of(text=TEXT, votes=NUMBER)
    )
    assert found.data["answers"] == [{"text": f"A{n}", "votes": n} for n in (1, 2, 3)]


def test_catalogs_of_catalogs_of_what_is_offered() -> None:
    def offer(number: int) -> Row:
        return {
            "@type": "Offer",
            "price": number,
            "itemOffered": {"@type": "Service", "name": f"{number}"},
        }

    catalogs = [
        {"@type": "OfferCatalog", "name": "C", "itemListElement": [offer(at), offer(at + 1)]}
        for at in (1, 3)
    ]
    shop = {
        "@type": "LocalBusiness",
        "hasOfferCatalog": {"@type": "OfferCatalog", "itemListElement": catalogs},
    }
    for name in ("services", "items"):
        found = extract(shop, **{name: list_of(name=TEXT, price=NUMBER)})
        assert found.data[name] == [{"name": f"{n}", "price": n} for n in (1, 2, 3, 4)]


def test_rows_with_rows_of_their_own() -> None:
    def course(number: int) -> Row:
        dates = [f"2030-0{number}-0{at}" for at in range(1, number + 1)]
        instances = [{"@type": "CourseInstance", "startDate": each} for each in dates]
        return {"@type": "Course", "name": f"C{number}", "hasCourseInstance": instances}

    graph = {"@graph": [course(1), course(2)]}
    dates = ["2030-01-01", "2030-02-01", "2030-02-02"]
    starts = list_of(start_date=TEXT)
    found = extract(graph, courses=list_of(name=TEXT, instances=starts))
    assert [[each["start_date"] for each in row["instances"]] for row in found.data["courses"]] == [
        dates[:1],
        dates[1:],
    ]
    found = extract(graph, instances=starts)
    assert found.data["instances"] == [{"start_date": each} for each in dates]


def test_a_thing_with_several_offers_is_one_row_of_things() -> None:
    offers = [{"@type": "Offer", "price": n, "seller": {"name": f"X{n}"}} for n in (1, 2)]
    products = [product(n) | {"offers": offers} for n in (1, 2)]
    found = extract(item_list(*products), items=list_of(name=TEXT, price=NUMBER))
    assert found.data["items"] == [{"name": "P1", "price": 1}, {"name": "P2", "price": 1}]
    found = extract(product(1) | {"offers": offers}, items=list_of(seller=TEXT, price=NUMBER))
    assert found.data["items"] == [{"seller": "X1", "price": 1}, {"seller": "X2", "price": 2}]


def test_texts_of_things_in_a_list() -> None:
    texts = {"type": "array", "items": TEXT}
    group = {"@type": "ProductGroup", "name": "G", "hasVariant": [product(1), product(2)]}
    movies = item_list(*({"@type": "Movie", "name": f"M{n}"} for n in (1, 2)))
    found = extract(group, movies, variants=texts, movies=texts)
    assert found.data == {"variants": ["P1", "P2"], "movies": ["M1", "M2"]}


def test_null_has_a_reason_where_lists_are_declared() -> None:
    found = extract(
        item_list(product(1), product(2)),
        flights=list_of(gate=TEXT, airline=TEXT),
        products=PRODUCTS | {"maxItems": 1},
    )
    assert found.data == {"flights": None, "products": None}
    flights, products = found.notes
    assert flights.startswith("flights: none of the lists that the page declares (2 Product, ")
    assert products == "products: 2 rows are declared, which its schema does not allow"


# ------------------------------------------------------------------------- one value, one field


def test_a_question_is_not_its_answer() -> None:
    questions = [{"@type": "Question", "name": f"Q{n}?", "text": f"Q{n}?"} for n in (1, 2)]
    fields = {"question": TEXT, "answer": TEXT}
    for name in ("questions", "faq", "items"):
        found = extract({"@type": "FAQPage", "mainEntity": questions}, **{name: list_of(**fields)})
        assert found.data[name] is None or found.data[name] == [
            {"question": f"Q{n}?", "answer": None} for n in (1, 2)
        ]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"name": "X"}, {"title": None, "name": "X", "product_name": None}),
        ({"sku": "5", "mpn": "5"}, {"sku": "5", "mpn": "5", "product_id": None}),
        ({"author": {"name": "Ann"}}, {"author": "Ann", "author_name": None}),
        (
            {"offers": {"lowPrice": 5, "highPrice": 9}},
            {"price": None, "min_price": 5, "max_price": 9},
        ),
        ({"offers": {"price": 5, "lowPrice": 5}}, {"price": 5, "min_price": 5}),
        ({"offers": {"availability": "InStock"}}, {"availability": "InStock", "stock": None}),
    ],
)
def test_a_value_fills_the_field_with_the_nearest_name(node: Row, expected: Row) -> None:
    prices = dict.fromkeys(("price", "min_price", "max_price"), NUMBER)
    fields = {name: prices.get(name, TEXT) for name in expected}
    found = extract({"@type": "Product", "color": "red", **node}, color=TEXT, **fields)
    assert found.data == {"color": "red", **expected}
    assert not {f"/{name}" for name, value in expected.items() if value is None} - {*found.missing}


def test_a_value_of_another_type_is_another_value() -> None:
    offers = {"availability": "https://schema.org/InStock"}
    fields = {"in_stock": {"type": "boolean"}, "availability": TEXT}
    found = extract({"@type": "Product", "name": "X", "offers": offers}, **fields)
    assert found.data == {"in_stock": True, "availability": "https://schema.org/InStock"}


# ------------------------------------------------------------------------------ their evidence


@pytest.mark.parametrize("write", [microdata, rdfa])
def test_the_name_of_a_nested_thing_is_no_name_of_the_row(write: Callable[[Row], str]) -> None:
    movies = [
        {"@type": "Movie", "name": title, "director": {"@type": "Person", "name": director}}
        for title, director in (("Harbour", "Ann Lee"), ("Winter", "Bob Ray"))
    ]
    html = f'<div vocab="https://schema.org/">{"".join(map(write, movies))}</div>'
    right = read(html, object_of(movies=list_of(title=TEXT, director=TEXT))).data
    assert [row["director"] for row in right["movies"]] == ["Ann Lee", "Bob Ray"]
    swapped = [{"title": row["director"], "director": row["title"]} for row in right["movies"]]
    wrong = {"movies": swapped}
    assert {each.verdict for each in find_evidence(html, right)} == {"verbatim"}
    assert {each.verdict for each in find_evidence(html, wrong)} == {"unsupported"}
