"""The frames of `records_df`: columns, sources, pages of a listing, templates, hostile pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest

from tests.local_service import stop
from webdata_nb import connect, records_df, settings
from webdata_nb.demo.server import SampleSite
from webdata_nb.errors import InvalidArgument
from webdata_nb.page.extract.records import MAX_CHARACTERS, MAX_PARTS, MAX_RECORDS
from webdata_nb.toolkit.api.frame_views import compact_html

DASH: Final = "\u2013"
CARD: Final = (
    '<div class="card"><a href="/p/{n}"><img src="/i/{n}.jpg"></a><h3>Thing {n}</h3>'
    '<span class="price">{n},50 €</span>{extra}<button>Buy</button></div>'
)


def frame(*pages: str, url: str = "https://shop.test/list?page={}") -> pd.DataFrame:
    urls = [url.format(number) for number in range(1, len(pages) + 1)]
    return pd.DataFrame({"url": urls, "html": list(pages)})


def cards(first: int, count: int, *, lang: str = "de") -> str:
    texts = [
        CARD.format(n=n, extra=f"<p><b>Marke:</b> Acme {n % 3}</p>" if n % 2 else "")
        for n in range(first, first + count)
    ]
    menu = "".join(f'<li><a href="/m/{n}">Menu item number {n}</a></li>' for n in range(40))
    return (
        f'<html lang="{lang}"><body><nav><ul>{menu}</ul></nav>'
        f'<main><div class="row">{"".join(texts)}</div></main></body></html>'
    )


def test_columns_are_named_and_typed() -> None:
    records = records_df(frame(cards(1, 6)))
    assert list(records.columns) == [
        *("url", "record", "group", "link", "image", "title", "price", "price_currency"),
        *("Marke", "_source"),
    ]
    assert records["price"].tolist() == [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    assert set(records["price_currency"]) == {"EUR"}
    assert records["link"][0] == "https://shop.test/p/1"
    assert records["Marke"].isna().tolist() == [False, True] * 3
    assert records.attrs["webdata"]["counts"] == {"records": 6, "pages": 1, "groups": 2}


def test_source_leads_to_the_value() -> None:
    from webdata_nb.page.content.parser import parse  # noqa: PLC0415 - the toolkit loads no parser

    page = cards(1, 6)
    document = parse(page)
    for row in records_df(frame(page)).to_dict("records"):
        for column, source in row["_source"].items():
            selector, _, attribute = source.partition("@")
            element: Any = document.select_one(selector)
            shown = element.attr(attribute) if attribute else element.text
            assert str(row[column]).removeprefix("https://shop.test").replace(".", ",") in (
                shown.replace(".", ","),
                shown.removesuffix("0 €"),
                shown.removeprefix("Marke: "),
            )


def test_pages_of_a_listing_are_joined_and_the_last_may_have_one_record() -> None:
    records = records_df(frame(cards(1, 5), cards(6, 5), cards(11, 1)))
    assert records["title"].tolist() == [f"Thing {n}" for n in range(1, 12)]
    assert records["record"].tolist() == [1, 2, 3, 4, 5] * 2 + [1]
    assert records["url"].nunique() == 3


def test_every_page_of_a_template_is_a_record() -> None:
    page = (
        '<html lang="en"><body><header><p>The shop of all shops</p></header><main><h1>{name}</h1>'
        "<dl><dt>Price</dt><dd>${price}</dd>{more}</dl></main></body></html>"
    )
    other = "<html><body><article><p>About us</p><ul><li>One</li></ul></article></body></html>"
    pages = [
        page.format(name="Hat", price="34.00", more="<dt>Color</dt><dd>red</dd>"),
        other,
        page.format(name="Cap", price="12.50", more=""),
        page.format(name="Bag", price="99.95", more="<dt>Color</dt><dd>blue</dd>"),
    ]
    records = records_df(frame(*pages), by="page")
    assert records["title"].tolist() == ["Hat", "Cap", "Bag"]
    assert records["Price"].tolist() == [34.0, 12.5, 99.95]
    assert records["Price_currency"].isna().all()  # nothing says which dollar it is
    assert records["Color"].tolist()[::2] == ["red", "blue"]
    assert "The shop of all shops" not in records.to_csv()


def test_groups_are_listed_and_chosen() -> None:
    pages = frame(cards(1, 6))
    groups = records_df(pages, groups=True)
    assert groups["records"].tolist() == [6, 40]
    assert groups["columns"][0][:3] == ["link", "image", "title"]
    menu = records_df(pages, group=2)
    assert menu["text"][0] == "Menu item number 0"
    with pytest.raises(InvalidArgument, match="group must be from 1 to 2; it is 3"):
        records_df(pages, group=3)
    with pytest.raises(InvalidArgument, match='by must be "record" or "page"; it is \'row\''):
        records_df(pages, by="row")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="without group"):
        records_df(pages, groups=True, group=1)
    with pytest.raises(InvalidArgument, match="no column records or raw_html or html"):
        records_df(pages.drop(columns="html").assign(title="T"))


@pytest.mark.parametrize("html", ["", "<p>Only a text.</p>", "<ul><li>one</li></ul>", "\0"])
def test_page_without_records_gives_an_empty_frame(html: str) -> None:
    records = records_df(frame(html))
    assert records.empty
    assert list(records.columns) == ["url", "record", "group", "_source"]
    assert records_df(frame(html), groups=True).empty


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 20_000 + "x",
        "<ul>" + "<li><a href=/x>word</a><b>other</b>" * 30_000,
        "<table>" + "<tr><td>a<td>b" * 20_000,
        "<p>" + "<span>a</span>" * 50_000,
        "".join(f"<div class=c{n}><i>{n}</i><b>{n * 7}</b></div>" for n in range(20_000)),
        "<ul><li>" * 3_000 + "text",
        "<li><b>" + "9" * 100_000 + "</b><i>" + "1," * 50_000 + "</i>" * 3,
        "<dl>" + "<dt>Price:<dd>-" * 10_000,
        "".join(f"<p>{'a' * n}<a>{n}</a>b</p>" for n in range(2_000)),
    ],
)
@pytest.mark.slow
def test_hostile_pages_stay_within_the_limits(html: str) -> None:
    records = records_df(frame(html))
    assert len(records) <= MAX_RECORDS
    rows = records.drop(columns=["url", "_source"]).to_dict("records")
    texts = [cell for row in rows for cell in row.values() if isinstance(cell, str)]
    assert len(texts) <= MAX_PARTS
    assert max(map(len, texts), default=0) <= MAX_CHARACTERS
    records_df(frame(html, html), by="page")


def test_values_that_stand_for_none_are_null_in_typed_columns() -> None:
    rows = "".join(f"<tr><td>Row {n}</td><td>{n if n % 3 else DASH}</td></tr>" for n in range(9))
    table = f"<table><tr><th>Name</th><th>Count</th></tr>{rows}</table>"
    records = records_df(frame(table))
    assert records["Count"].dtype == "Int64"
    assert records["Count"].isna().tolist() == [n % 3 == 0 for n in range(9)]
    missing = table.replace(">1<", f">{DASH}<")
    assert len(records_df(frame(missing.translate(str.maketrans("24578", 5 * DASH))))) == 9


def test_the_service_reads_records_in_its_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path))
    with SampleSite() as sample, connect() as session:
        url = f"{sample.url}articles/"
        one = session.records_df(url)
        pages = session.crawl_df(url, formats=["records"], only_main_content=False)
        here = session.crawl_df(url, formats=["raw_html"])
        stop(settings.current())
    of_crawl = pages.webdata.records()
    pd.testing.assert_frame_equal(
        of_crawl.drop(columns="_source"), records_df(here).drop(columns="_source")
    )
    assert len(one) > 2
    assert set(one["url"]) == {url}
    assert of_crawl.attrs["webdata"]["line"].startswith(f"{len(of_crawl)} records of ")


def test_an_entry_with_entries_below_it_keeps_its_brackets_and_has_a_list() -> None:
    below = "<ul>{}</ul>".format(
        "".join(f"<li><a href=/e/{n}>({n}.part)</a></li>" for n in "abcdef")
    )
    terms = [
        f"<li>{word}()<ul><li><a href=/{word}>(built-in)</a></li></ul></li>"
        for word in ("abs", "zip", "round", "sorted")
    ]
    other = f"<li>map()<ul><li><a href=/m>module</a>, <a href=/n>[1]</a></li></ul>{below}</li>"
    records = records_df(frame(f"<ul>{''.join(terms)}{other}</ul>"))
    assert records["text"].tolist() == ["abs()", "zip()", "round()", "sorted()", "map()"]
    (lists,) = [records[name] for name in records if "(f.part)" in str(records[name].tolist())]
    assert set(map(type, lists)) == {list}


def test_a_table_of_records_shows_their_values() -> None:
    records = records_df(frame(cards(1, 6)))
    wide = records.assign(**{f"badge_{n}_url": "https://shop.test/badges" for n in range(12)})
    head = compact_html(wide).partition("</tr>")[0]
    assert [name for name in ("title", "price", "Marke") if f">{name}<" not in head] == []
