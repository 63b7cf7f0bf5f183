"""Which fields a call watches, and their values."""

from __future__ import annotations

from typing import Any

import pytest

from webdata_nb.contract.requests import Extract
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.frames.compare import text_of
from webdata_nb.toolkit.sites.watched_pages import WatchedFields

SHOP = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "price": {"type": "number"},
        "brand": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}


def choose(
    names: list[str] | None, formats: list[str], schema: dict[str, Any] | None = None
) -> tuple[str, ...]:
    extract = None if schema is None else Extract.model_validate({"schema": schema})
    return WatchedFields.choose(names, formats, extract).names


@pytest.mark.parametrize(
    ("formats", "fields"),
    [
        (["markdown"], ("title", "description", "markdown")),
        (["links", "raw_html", "html"], ("title", "description", "html", "links")),
        (["raw_html", "screenshot"], ("title", "description", "content_hash")),
        ([], ("title", "description", "content_hash")),
    ],
)
def test_fields_by_default(formats: list[str], fields: tuple[str, ...]) -> None:
    assert choose(None, formats) == fields


def test_extracted_fields_have_the_names_of_extract_df() -> None:
    names = choose(None, ["markdown"], SHOP)
    assert names[3:] == ("extract.title", "price", "brand.name")
    assert choose(["price", "title", "price"], [], SHOP) == ("title", "price")
    prompt = WatchedFields.choose(None, [], Extract.model_validate({"prompt": "the price"}))
    assert prompt.names[3:] == ("extract",)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["prise"], "'prise' is not: did you mean 'price'"),
        (["html"], "markdown, .*'html' is not"),
        (["status_code"], "'status_code' is not"),
        ([7], "7 is not"),
    ],
)
def test_other_names_are_refused(names: list[Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        choose(names, ["markdown"], SHOP)


def test_values_and_quotes_of_a_row() -> None:
    extract = Extract.model_validate({"schema": SHOP})
    fields = WatchedFields.choose(["description", "price", "brand.name"], [], extract)
    row = {
        "title": "Kettle",
        "extract": {"price": 29.0, "brand": None},
        "metadata": {
            "description": "A kettle",
            "extract": {
                "provenance": {"/price": "json_ld:Product/offers/price", "/brand/name": "model"},
                "evidence": {"values": {"/price": {"quote": "EUR 29.00"}}},
            },
        },
    }
    assert fields.values(row) == {"description": "A kettle", "price": "29", "brand.name": None}
    assert fields.quotes(row) == {"price": "EUR 29.00", "brand.name": "model"}
    failed = {"title": None, "extract": None, "metadata": None}
    assert set(fields.values(failed).values()) == {None}
    assert fields.quotes(failed) == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("", ""),
        (3.0, "3"),
        (2.5, "2.5"),
        (True, "true"),
        (2**70, str(2**70)),
        ([], "[]"),
        ({"b": 1, "a": "ä"}, '{"a":"ä","b":1}'),
        ([{"b": 1, "a": 2}], '[\n{"a":2,"b":1}\n]'),
    ],
)
def test_values_as_text(value: Any, text: str | None) -> None:
    assert text_of(value) == text
