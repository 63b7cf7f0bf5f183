"""A schema is filled from what a page says for machines, and from nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from webdata_nb.page.errors import BadInput
from webdata_nb.page.extract.results import Extraction
from webdata_nb.page.extract.structured import extract_structured

TEXT = {"type": "string"}
NUMBER = {"type": "number"}
COUNT = {"type": "integer"}
FLAG = {"type": "boolean"}
SHOE = {
    "@context": "https://schema.org",
    "@graph": [
        {"@type": "Organization", "@id": "#shop", "name": "The Shop", "url": "https://shop.example/"},
        {"@type": "BreadcrumbList", "itemListElement": [
            {"@type": "ListItem", "position": 1, "name": "Home", "item": "https://shop.example/"},
            {"@type": "ListItem", "position": 2,
             "item": {"@id": "https://shop.example/shoes", "name": "Shoes"}},
        ]},
        {
            "@type": "Product",
            "name": "Pegasus &amp; Co 42",
            "sku": "P42",
            "brand": {"@type": "Brand", "name": "Acme"},
            "image": [{"@type": "ImageObject", "url": "/p.jpg"}, "https://shop.example/q.jpg"],
            "aggregateRating": {"ratingValue": "4.6", "reviewCount": "213", "bestRating": 5},
            "offers": {
                "@type": "Offer", "price": "1.129,90", "priceCurrency": "EUR",
                "availability": "https://schema.org/InStock", "seller": {"@id": "#shop"},
            },
            "review": {"@type": "Review", "author": "Ann", "datePublished": "2026-01-02"},
            "additionalProperty": [
                {"@type": "PropertyValue", "name": "Heel drop", "value": "10 mm"}
            ],
        },
    ],
}  # fmt: skip


def extract(fields: dict[str, Any], *blocks: Any, title: str = "", **more: Any) -> Extraction:
    schema = {"type": "object", "properties": fields} | ({"title": title} if title else {})
    tables, metadata = more.pop("tables", ()), more.pop("metadata", {})
    structured = {"json_ld": list(blocks), **more}
    return extract_structured(structured, schema=schema, tables=tables, metadata=metadata)


def test_a_product_is_filled_with_its_provenance() -> None:
    found = extract(
        {
            "product_name": TEXT,
            "price": NUMBER,
            "currency": TEXT,
            "rating": NUMBER,
            "review_count": COUNT,
            "in_stock": FLAG,
            "availability": {"enum": ["out_of_stock", "in_stock"]},
            "brand": TEXT,
            "images": {"type": "array", "items": TEXT},
            "heel_drop": NUMBER,
            "seller": {"type": "object", "properties": {"name": TEXT, "url": TEXT}},
            "color": TEXT,
        },
        SHOE,
    )
    assert found.data == {
        "product_name": "Pegasus & Co 42",
        "price": 1129.9,
        "currency": "EUR",
        "rating": 4.6,
        "review_count": 213,
        "in_stock": True,
        "availability": "in_stock",
        "brand": "Acme",
        "images": ["/p.jpg", "https://shop.example/q.jpg"],
        "heel_drop": 10,
        "seller": {"name": "The Shop", "url": "https://shop.example/"},
        "color": None,
    }
    assert found.missing == ("/color",)
    assert found.provenance["/price"] == "json_ld:Product/offers/price"
    assert found.provenance["/seller/name"] == "json_ld:Product/offers/seller/name"
    assert found.provenance["/heel_drop"] == "json_ld:Product/additionalProperty/Heel drop"
    assert "/color" not in found.provenance


def test_nothing_is_taken_from_what_merely_stands_nearby() -> None:
    found = extract({"sku": TEXT, "author": TEXT, "published": TEXT, "manufacturer": TEXT}, SHOE)
    assert found.data == {"sku": "P42", "author": None, "published": None, "manufacturer": None}


def test_a_publisher_is_not_what_the_page_is_about() -> None:
    organization = {"@type": "Organization", "name": "The Shop", "url": "https://shop.example"}
    assert extract({"name": TEXT, "price": NUMBER}, organization).data["name"] is None
    extracted = extract({"name": TEXT}, organization, title="Company")
    assert extracted.data["name"] == "The Shop"


def test_the_kind_that_a_field_names_is_found_beside_the_main_thing() -> None:
    site = {"@type": "WebSite", "name": "The Site"}
    found = extract({"website_name": TEXT, "sku": TEXT}, site, SHOE)
    assert found.data == {"website_name": "The Site", "sku": "P42"}


def test_the_title_of_a_schema_chooses_the_node() -> None:
    article = {"@type": "NewsArticle", "headline": "A", "author": {"name": "Ann"}, "image": "i"}
    movie = {"@type": "Movie", "name": "M", "author": {"name": "Bob"}, "image": "j"}
    fields = {"name": TEXT, "author": TEXT}
    assert extract(fields, article, movie, title="MovieInfo").data == {"name": "M", "author": "Bob"}
    assert extract(fields, movie, article, title="Article").data == {"name": "A", "author": "Ann"}


def test_of_things_alike_the_one_in_the_title_wins_else_the_first() -> None:
    products = [{"@type": "Product", "name": f"Kettle {n}", "sku": str(n)} for n in "ab"]
    assert extract({"sku": TEXT}, products).data["sku"] == "a"
    named = extract({"sku": TEXT}, products, metadata={"title": "Kettle b | Shop"})
    assert named.data["sku"] == "b"
    assert named.provenance["/sku"] == "json_ld:Product[2]/sku"


def test_an_article_with_references_by_identifier() -> None:
    found = extract(
        {
            "title": TEXT,
            "authors": {"type": "array", "items": TEXT},
            "author": {"type": "object", "properties": {"name": TEXT, "url": TEXT}},
            "publisher_name": TEXT,
            "published_at": {"type": "string", "format": "date"},
            "tags": {"type": "array", "items": TEXT},
            "logo_url": {"type": "string", "format": "uri"},
        },
        {"@graph": [
            {"@type": "Article", "headline": "Elm", "author": [{"@id": "#ann"}, "Bob"],
             "datePublished": "2026-01-31T10:00:00Z", "publisher": {"@id": "#o"},
             "keywords": "trees, harbour , "},
            {"@type": "Person", "@id": "#ann", "name": "Ann", "url": "https://ann.example/"},
            {"@type": "Organization", "@id": "#o", "name": "Elm Daily", "logo": "/logo.png"},
        ]},
        metadata={"final_url": "https://elm.example/a/b"},
    )  # fmt: skip
    assert found.data == {
        "title": "Elm",
        "authors": ["Ann", "Bob"],
        "author": {"name": "Ann", "url": "https://ann.example/"},
        "publisher_name": "Elm Daily",
        "published_at": "2026-01-31",
        "tags": ["trees", "harbour"],
        "logo_url": None,
    }
    assert found.provenance["/publisher_name"] == "json_ld:Article/publisher/name"


def test_a_recipe() -> None:
    found = extract(
        {
            "recipe_title": TEXT,
            "ingredients": {"type": "array", "items": TEXT},
            "steps": {"type": "array", "items": TEXT},
            "servings": COUNT,
            "cook_time": TEXT,
            "calories": NUMBER,
            "author_name": TEXT,
        },
        [
            {
                "@type": ["Recipe", "NewsArticle"],
                "name": "Soup",
                "recipeIngredient": ["1 onion", "2 carrots"],
                "recipeInstructions": [
                    {"@type": "HowToSection", "itemListElement": [
                        {"@type": "HowToStep", "text": "Chop."},
                        {"@type": "HowToStep", "text": "Boil."},
                    ]},
                    "Serve.",
                ],
                "recipeYield": ["4", "4 servings"],
                "cookTime": "PT30M",
                "nutrition": {"@type": "NutritionInformation", "calories": "120 kcal"},
                "author": "Ann",
            }
        ],
    )  # fmt: skip
    assert found.data == {
        "recipe_title": "Soup",
        "ingredients": ["1 onion", "2 carrots"],
        "steps": ["Chop.", "Boil.", "Serve."],
        "servings": 4,
        "cook_time": "PT30M",
        "calories": 120,
        "author_name": "Ann",
    }


def test_an_event() -> None:
    place = {"@type": "Place", "name": "Elm Hall", "address": {"addressLocality": "Elm"}}
    event = {
        "@type": "MusicEvent",
        "name": "Night",
        "startDate": "2026-05-01T20:00",
        "location": place,
        "offers": [{"price": 20, "priceCurrency": "GBP"}, {"price": 30}],
        "performer": [{"name": "A"}, {"name": "B"}],
    }
    offer = {"type": "object", "properties": {"price": NUMBER, "currency": TEXT}}
    found = extract(
        {
            "event_name": TEXT,
            "starts_at": {"type": "string", "format": "date-time"},
            "ends_at": TEXT,
            "venue": TEXT,
            "city": TEXT,
            "performers": {"type": "array", "items": TEXT},
            "offers": {"type": "array", "items": offer},
        },
        event,
    )
    assert found.data == {
        "event_name": "Night",
        "starts_at": "2026-05-01T20:00:00",
        "ends_at": None,
        "venue": "Elm Hall",
        "city": "Elm",
        "performers": ["A", "B"],
        "offers": [{"price": 20, "currency": "GBP"}, {"price": 30, "currency": None}],
    }
    assert found.missing == ("/ends_at", "/offers/1/currency")


def test_an_event_without_a_name_is_not_called_like_its_place() -> None:
    event = {"@type": "Event", "startDate": "2026-05-01", "location": {"name": "Elm Hall"}}
    assert extract({"name": TEXT, "start_date": TEXT}, event).data["name"] is None


def test_microdata_and_rdfa_are_read_alike() -> None:
    offer = {"type": "https://schema.org/Offer", "id": None, "properties": {"price": ["9.50"]}}
    product = {
        "type": "https://schema.org/Product",
        "id": None,
        "properties": {"name": ["Mug"], "offers": [offer]},
    }
    fields = {"name": TEXT, "price": NUMBER}
    found = extract(fields, microdata=[product])
    assert found.data == {"name": "Mug", "price": 9.5}
    assert found.provenance["/price"] == "microdata:Product/offers/price"
    recast = {
        "vocab": "https://schema.org/",
        "type": "schema:Product",
        "resource": None,
        "properties": {"http://schema.org/name": ["Mug"], "schema:price": ["9.50"]},
    }
    assert extract(fields, rdfa=[recast]).provenance["/name"] == "rdfa:Product/name"


def test_two_blocks_about_one_thing_complete_each_other() -> None:
    offer = {"@type": "Product", "name": "Mug", "offers": {"price": 9}}
    rated = {"@type": "Product", "name": "mug", "aggregateRating": {"ratingValue": 4}}
    other = {"@type": "Product", "name": "Jug", "color": "blue"}
    fields = {"price": NUMBER, "rating": NUMBER, "color": TEXT}
    assert extract(fields, offer, rated, other).data == {"price": 9, "rating": 4, "color": None}


def test_labels_in_tables_come_before_meta_tags() -> None:
    found = extract(
        {"title": TEXT, "description": TEXT, "price": NUMBER, "published": TEXT, "weight": TEXT},
        opengraph={"og:title": "Mug", "og:description": "For tea"},
        meta={
            "og:title": "Mug",
            "description": "For coffee",
            "product:price:amount": "9.50",
            "article:published_time": "2026-01-31",
        },
        metadata={"title": "Mug | Shop"},
        tables=[{"header": [], "rows": [["Weight:", "300 g"], ["Price", "11"]]}],
    )
    assert found.data == {
        "title": "Mug",
        "description": "For tea",
        "price": 11,
        "published": "2026-01-31",
        "weight": "300 g",
    }
    assert found.provenance["/description"] == "opengraph:og:description"
    assert found.provenance["/price"] == "table:1/Price"
    assert found.provenance["/weight"] == "table:1/Weight"


def test_a_table_is_read_in_the_language_of_its_page() -> None:
    rows = [["Gewicht", "1.234 g"], ["Länge (cm)", "12,5"]]
    found = extract(
        {"gewicht": NUMBER, "länge": NUMBER, "breite": NUMBER},
        tables=[{"header": ["Eigenschaft", "Wert"], "rows": rows}],
        metadata={"language": "de-DE"},
    )
    assert found.data == {"gewicht": 1234, "länge": 12.5, "breite": None}


def test_a_table_with_a_header_fills_a_list() -> None:
    item = {"type": "object", "properties": {"name": TEXT, "price": NUMBER, "colour": TEXT}}
    found = extract(
        {"products": {"type": "array", "items": item}},
        tables=[
            {"header": ["When", "Where"], "rows": [["now", "here"]]},
            {"header": ["Name", "Price"], "rows": [["Mug", "€ 9,50"], ["Jug", "on request"]]},
        ],
    )
    assert found.data["products"] == [
        {"name": "Mug", "price": 9.5, "colour": None},
        {"name": "Jug", "price": None, "colour": None},
    ]
    assert found.provenance["/products/0/price"] == "table:2/1/price"


def test_lists_of_things() -> None:
    listing = {"@type": "ItemList", "itemListElement": [
        {"@type": "ListItem", "position": n,
         "item": {"@type": "Product", "name": name, "offers": {"price": n}}}
        for n, name in enumerate(("Mug", "Jug"), 1)
    ]}  # fmt: skip
    item = {"type": "object", "properties": {"name": TEXT, "price": NUMBER}}
    expected = [{"name": "Mug", "price": 1}, {"name": "Jug", "price": 2}]
    for name in ("products", "items"):
        found = extract({name: {"type": "array", "items": item}}, listing)
        assert found.data[name] == expected
    assert found.provenance["/items/1/price"] == "json_ld:Product[2]/offers/price"


def test_the_names_of_things_listed() -> None:
    products = [{"@type": "Product", "name": "Mug"}, {"@type": "Product", "name": "Jug"}]
    found = extract({"products": {"type": "array", "items": TEXT}}, products)
    assert found.data["products"] == ["Mug", "Jug"]
    assert found.provenance == {"/products": "json_ld:Product"}


def test_breadcrumbs() -> None:
    item = {"type": "object", "properties": {"name": TEXT, "url": TEXT}}
    found = extract({"breadcrumbs": {"type": "array", "items": item}}, SHOE)
    assert found.data["breadcrumbs"] == [
        {"name": "Home", "url": "https://shop.example/"},
        {"name": "Shoes", "url": "https://shop.example/shoes"},
    ]


def test_a_group_is_filled_from_the_thing_itself_but_only_under_a_name_that_says_so() -> None:
    group = {"type": "object", "properties": {"name": TEXT, "sku": TEXT}}
    found = extract({"product": group, "details": group, "supplier": group}, SHOE, title="Product")
    expected = {"name": "Pegasus & Co 42", "sku": "P42"}
    assert found.data["product"] == found.data["details"] == expected
    assert found.data["supplier"] is None
    assert found.missing == ("/supplier/name", "/supplier/sku")


def test_a_rating_as_an_object() -> None:
    rating = {"type": "object", "properties": {"value": NUMBER, "count": COUNT, "scale": NUMBER}}
    found = extract({"rating": rating, "sku": TEXT}, SHOE)
    assert found.data["rating"] == {"value": 4.6, "count": 213, "scale": 5}


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (FLAG, "https://schema.org/OutOfStock", False),
        (FLAG, "InStock", True),
        (FLAG, "https://schema.org/PreOrder", None),
        (FLAG, "maybe", None),
        (TEXT, "https://schema.org/InStock", "https://schema.org/InStock"),
        ({"enum": ["yes"]}, "InStock", None),
        (NUMBER, "InStock", None),
    ],
)
def test_availability(field: dict[str, Any], value: str, expected: Any) -> None:
    product = {"@type": "Product", "name": "x", "sku": "y", "offers": {"availability": value}}
    assert extract({"in_stock": field, "sku": TEXT}, product).data["in_stock"] == expected


def test_a_value_outside_the_limits_is_no_value() -> None:
    product = {"@type": "Product", "sku": "x", "offers": {"price": -1}, "gtin13": "12"}
    found = extract(
        {"price": {"type": "number", "minimum": 0}, "ean": {"type": "string", "minLength": 8}},
        product,
    )
    assert found.data == {"price": None, "ean": None}


def test_a_link_is_no_name_and_a_name_no_link() -> None:
    article = {"@type": "Article", "headline": "A", "author": "Ann Smith"}
    fields = {"author": TEXT, "author_url": TEXT}
    assert extract(fields, article).data == {"author": "Ann Smith", "author_url": None}
    linked = article | {"author": "https://ann.example/"}
    assert extract(fields, linked).data == {"author": None, "author_url": "https://ann.example/"}


def test_numbers_that_json_writes_stay_as_they_are() -> None:
    product = {"@type": "Product", "sku": 42, "offers": {"price": 9.5}, "weight": True}
    found = extract({"sku": TEXT, "price": TEXT, "weight": NUMBER}, product)
    assert found.data == {"sku": "42", "price": "9.5", "weight": None}


def test_the_title_of_a_field_is_another_name_of_it() -> None:
    field = {"type": "string", "title": "Brand Name"}
    assert extract({"marque": field, "sku": TEXT}, SHOE).data["marque"] == "Acme"


def test_a_page_without_data_gives_nulls_in_the_schemas_order() -> None:
    found = extract({"b": TEXT, "a": {"type": "object", "properties": {"c": TEXT}}})
    assert list(found.data.items()) == [("b", None), ("a", None)]
    assert found.provenance == {}
    assert found.missing == ("/b", "/a/c")


def test_a_prompt_alone_is_not_enough() -> None:
    with pytest.raises(BadInput, match="is required: without a language model"):
        extract_structured({}, schema=None)


def test_the_same_page_gives_the_same_answer() -> None:
    fields = {"name": TEXT, "price": NUMBER, "images": {"type": "array"}}
    assert extract(fields, SHOE) == extract(fields, SHOE)
