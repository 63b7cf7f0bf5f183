"""Extracted values as typed columns with their sources."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pandas as pd
import pytest
from pydantic import BaseModel

from webdata_nb import extract_df
from webdata_nb.errors import InvalidArgument
from webdata_nb.toolkit.frames import frame, rows
from webdata_nb.toolkit.requests.inputs import extract_request


class Maker(BaseModel):
    """Who made it."""

    name: str | None = None


class Product(BaseModel):
    """A product."""

    name: str
    price: float | None = None
    stock: int | None = None
    sold: bool | None = None
    released: dt.date | None = None
    seen: dt.datetime | None = None
    tags: list[str] = []
    maker: Maker | None = None


HAT = {
    "name": "Hat",
    "price": 34,
    "stock": 3,
    "sold": True,
    "released": "2026-01-02",
    "seen": "2026-01-02T10:00:00+01:00",
    "tags": ["wool", "warm"],
    "maker": {"name": "Ada"},
}
PROVENANCE = {
    "/name": "json_ld:Product/name",
    "/tags/0": "table:1/1/tag",
    "/tags/1": "table:1/2/tag",
    "/maker/name": "model",
}
DTYPES = {
    "url": "str",
    "name": "str",
    "price": "Float64",
    "stock": "Int64",
    "sold": "boolean",
    "released": "datetime64[us]",
    "seen": "datetime64[us, UTC]",
    "tags": "object",
    "maker.name": "str",
}


def crawled(
    *values: Any, extract: Any = Product, backend: frame.DtypeBackend = "pandas"
) -> pd.DataFrame:
    pages = [
        {
            "url": f"https://a.test/{number}",
            "extract": value,
            "metadata": {"extract": {"provenance": PROVENANCE}} if value else {},
        }
        for number, value in enumerate(values)
    ]
    attrs = {"kind": "crawl", "request": {"scrape_options": {"extract": extract_request(extract)}}}
    return frame.build(rows.to_table("crawl", pages), attrs=attrs, dtype_backend=backend)


def dtypes_of_values(df: pd.DataFrame) -> dict[str, str]:
    dtypes = {str(name): str(dtype) for name, dtype in df.dtypes.items()}
    return {name: text for name, text in dtypes.items() if not name.endswith("_source")}


@pytest.mark.parametrize("values", [[], [None], [HAT, None], [{"name": "x"}]])
def test_types_follow_from_the_schema(values: list[Any]) -> None:
    assert dtypes_of_values(extract_df(crawled(*values))) == DTYPES


@pytest.mark.parametrize("backend", ["pandas", "pyarrow"])
def test_values_have_their_sources_beside_them(backend: frame.DtypeBackend) -> None:
    fields = extract_df(crawled(HAT, None, backend=backend))
    assert list(fields.columns)[:5] == ["url", "name", "name_source", "price", "price_source"]
    assert fields.attrs["webdata"]["kind"] == "extract"  # it is displayed as a compact table
    assert fields["name"].tolist()[0] == "Hat"
    assert fields["price"].tolist() == [34.0, pd.NA]
    assert fields["released"].tolist() == [pd.Timestamp("2026-01-02"), pd.NaT]
    assert fields["seen"].tolist()[0] == pd.Timestamp("2026-01-02T09:00:00Z")
    assert fields["tags"].tolist() == [["wool", "warm"], None]
    assert fields["maker.name"].tolist()[0] == "Ada"
    assert fields["name_source"].tolist()[0] == "json_ld:Product/name"
    assert fields["tags_source"].tolist()[0] == "table:1/1/tag, table:1/2/tag"
    assert fields["maker.name_source"].tolist()[0] == "model"
    assert fields["price_source"].isna().all()
    assert fields["name_source"].isna().tolist() == [False, True]


def test_rows_keep_their_index() -> None:
    pages = crawled(HAT, None, {**HAT, "price": 5})
    dear = extract_df(pages[pages["extract"].notna()])
    assert dear.index.tolist() == [0, 2]
    assert pages.join(dear.drop(columns="url"))["price"].tolist() == [34.0, pd.NA, 5.0]


def test_without_a_schema_types_follow_from_the_values() -> None:
    values = [{"name": "Hat", "price": 1, "any": [1]}, {"price": 2.5, "sold": False}]
    fields = extract_df(crawled(*values, extract={"prompt": "the product"}))
    assert dtypes_of_values(fields) == {
        "url": "str",
        "name": "str",
        "price": "Float64",
        "any": "object",
        "sold": "boolean",
    }


def test_values_of_another_type_than_the_schema_keep_their_own() -> None:
    fields = extract_df(crawled({"name": 5, "price": "cheap"}))
    assert fields["name"].tolist() == [5]
    assert fields["price"].tolist() == ["cheap"]


def test_a_field_with_the_name_of_another_column_gets_a_number() -> None:
    fields = extract_df(crawled({"url": "u"}, extract={"url": str, "url_source": str}))
    assert list(fields.columns)[:3] == ["url", "url (2)", "url (2)_source"]


def test_frame_without_extractions_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="extract="):
        extract_df(pd.DataFrame({"url": ["u"]}))
