"""Values of a frame against the stored pages: from a service on this machine, after all changes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest

from tests.evidence_pages import FIELDS, Answer, answer, make_pages
from tests.local_service import stop
from tests.service.extract.stub_model import KEY, Question, StubModel, reply_with
from tests.site.server import Site
from tests.wire_service import WireService
from webdata_nb import settings
from webdata_nb.contract.replies import VerifiedPage, VerifiedValue
from webdata_nb.errors import InvalidArgument, NotSupported
from webdata_nb.settings import LanguageModel
from webdata_nb.toolkit.api import Session, connect, crawl_df, scrape_df, show, to_parquet, verify
from webdata_nb.toolkit.frames import extracted

DTYPES = {
    **dict.fromkeys(("url", "field", "value", "verdict", "reason", "quote", "digest"), "str"),
    **dict.fromkeys(("start", "end"), "Int64"),
}
NUMBERS = {"price", "weight_kg", "rating"}
SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "number" if name in NUMBERS else "string"} for name in FIELDS},
}


@pytest.fixture
def on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Give a session on a local service with a data directory of its own."""
    monkeypatch.setenv("WEBDATA_HOME", str(tmp_path))
    with connect() as made:
        yield made
    stop(settings.current())


def len_of(number: int) -> str:
    return f"{number.bit_length()} bits"


def page(name: str, price: str, sku: str, link: str) -> str:
    return (
        f"<title>{name} | Shop</title><main><h1>{name}</h1><p class='price'>{price}</p>"
        f"<p>SKU: {sku}</p><p>Words about it. <a href='{link}'>next</a></p></main>"
    )


@pytest.mark.usefixtures("on_this_machine")
def test_every_value_has_a_verdict_with_its_place(tmp_path: Path, site: Site) -> None:
    site.page("/b", page("Tin &amp; Bat", "2,50 €", "B-2", "/"))
    url = site.page("/", page("Ant", "€ 1,299.00", "A-1", "/b"))
    fields = {"name": str, "price": float, "sku": str}
    pages = crawl_df(url, extract=fields, formats=["raw_html"])
    found = verify(pages)
    assert found.dtypes.astype(str).to_dict() == DTYPES
    # The name of the second page has an entity in its source.
    first, second = ["verbatim", "derived", "verbatim"], ["derived", "derived", "verbatim"]
    assert list(found["verdict"]) == first + second
    sources = dict(zip(pages["url"], pages["raw_html"], strict=True))
    for row in found.itertuples():
        assert sources[row.url][row.start : row.end] == row.quote
    assert found.attrs["webdata"]["line"] == "verify: 6 values of 2 pages: 3 verbatim, 3 derived"
    evidence = pages["metadata"].iloc[0]["extract"]["evidence"]
    assert evidence["values"]["/name"]["quote"] == "Ant | Shop"
    assert set(found.loc[found["url"] == url, "digest"]) == {evidence["digest"]}

    changed = pages.copy()
    data = {"name": "Tin & Bat", "price": 1299, "sku": None}
    changed["extract"] = pd.Series([data, None], dtype=object)
    assert list(verify(changed)["verdict"]) == ["unsupported", "derived"]

    to_parquet(pages, tmp_path / "pages.parquet")
    again = pd.read_parquet(tmp_path / "pages.parquet")
    pd.testing.assert_frame_equal(verify(again), found)
    arrow = crawl_df(url, extract=fields, formats=["raw_html"], dtype_backend="pyarrow")
    assert list(verify(arrow)["verdict"]) == list(found["verdict"])
    assert "6 values" in show(found)._repr_html_()

    empty = verify(pages.iloc[:0])
    assert empty.dtypes.astype(str).to_dict() == DTYPES


@pytest.mark.usefixtures("on_this_machine")
def test_pages_that_are_gone_changed_or_damaged_are_never_supported(
    tmp_path: Path, site: Site
) -> None:
    url = site.page("/", page("Ant", "1.50 €", "A-1", "/") + "<p>More of it.</p>" * 500)
    pages = crawl_df(url, extract={"name": str, "sku": str})
    forged = pages.copy()
    metadata = json.loads(json.dumps(pages["metadata"].iloc[0], default=str))
    metadata["extract"]["evidence"]["digest"] = "0" * 32
    forged["metadata"] = [metadata]
    assert set(verify(forged)["verdict"]) == {"changed"}

    other = pages.copy()
    other["url"] = url + "elsewhere"
    gone = verify(other)
    assert set(gone["verdict"]) == {"gone"}
    assert list(gone["value"]) == ["Ant | Shop", "A-1"]
    assert gone["quote"].isna().all()

    unknown = pages.copy()
    unknown.attrs = {"webdata": {**pages.attrs["webdata"], "job_id": "no-such-job"}}
    assert set(verify(unknown)["verdict"]) == {"gone"}

    [database] = tmp_path.rglob("jobs.sqlite")
    with closing(sqlite3.connect(database)) as connection, connection:
        assert connection.execute("UPDATE content SET body = x'00'").rowcount == 1
    damaged = verify(pages)
    assert list(damaged["verdict"]) == ["failed", "failed"]
    assert damaged["reason"].str.startswith("the stored page is damaged: ").all()


@pytest.mark.usefixtures("on_this_machine")
def test_data_that_the_service_refuses_fails_alone(site: Site) -> None:
    url = site.page("/", page("Ant", "1.50 €", "A-1", "/"))
    pages = crawl_df(url, extract={"name": str})
    two = pd.concat([pages, pages], ignore_index=True)
    two.attrs = pages.attrs
    data = pages["extract"].iloc[0]
    for odd in ("x" * 300_000, "a\0b", "\ud800"):
        two["extract"] = pd.Series([{**data, "odd": odd}, data], dtype=object)
        assert list(verify(two)["verdict"]) == ["failed", "failed", "verbatim"]


@pytest.mark.slow
@pytest.mark.usefixtures("on_this_machine")
def test_values_of_other_columns_are_compared(site: Site) -> None:
    url = site.page("/", page("Ant", "1.50 €", "A-1", "/"))
    pages = crawl_df(url, extract={"name": str, "price": float})
    columns = pd.DataFrame({"price": [1.5], "stock": [3]})
    data = {"price": columns["price"].max(), "stock": columns["stock"].max(), "more": np.inf}
    pages["extract"] = pd.Series([data], dtype=object)
    assert list(verify(pages)["verdict"]) == ["derived", "unsupported"]


@pytest.mark.slow
@pytest.mark.usefixtures("on_this_machine")
def test_the_errors_of_a_model_are_found(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    model = StubModel(site, "/llm/v1")
    pages = [each for each in make_pages(27, seed=3) if not each.is_list]
    random = Random(5)
    answers: dict[str, Answer] = {}
    for number, each in enumerate(pages):
        answers[site.page(f"/p{number}", each.html)] = answer(each, random)

    def reply(question: Question) -> object:
        prompt = question.messages[1]["content"]
        url = next(url for url in answers if f"{urlsplit(url).path}\n" in prompt)
        return reply_with(json.dumps(answers[url].data))

    model.usual = reply  # type: ignore[assignment] # a plain reply, without a coroutine
    monkeypatch.setitem(settings.options.llm, "custom", LanguageModel(model.url, KEY, model="m"))
    extract = {"schema": SCHEMA, "prompt": "the product"}
    df = scrape_df(list(answers), extract=extract)
    assert df["success"].all()
    found = verify(df)
    assert len(found) == len(pages) * len(FIELDS)
    places = zip(found["url"], found["field"], strict=True)
    wrong = [f"/{field}" in answers[url].wrong for url, field in places]
    flagged = [verdict == "unsupported" for verdict in found["verdict"]]
    assert flagged == wrong


def test_another_service_is_refused_with_one_sentence(
    service: WireService, connected: Session
) -> None:
    df = pd.DataFrame({"url": ["http://a.test/"], "extract": [{"name": "Hat"}]})
    with pytest.raises(InvalidArgument, match="df has no receipt"):
        verify(df)
    with pytest.raises(InvalidArgument, match="pass extract= to the call"):
        verify(df[["url"]])
    with pytest.raises(InvalidArgument, match="column extract must have objects or JSON text"):
        verify(df.astype({"extract": str}))
    df.attrs = {"webdata": {"kind": "crawl", "job_id": "one"}}
    with pytest.raises(NotSupported, match=r"does not keep the pages that it extracts from"):
        verify(df)
    assert service.jobs == {}
    assert connected is not None


def test_values_of_nested_data_have_the_pointers_of_their_evidence() -> None:
    data = {"a/b": {"c~d": [1, {"e": None, "f": True}]}, "g": "", "h": "x"}
    assert list(extracted.values_of(data)) == [
        ("/a~1b/c~0d/0", 1),
        ("/a~1b/c~0d/1/f", True),
        ("/h", "x"),
    ]
    assert extracted.field_name("/a~1b/c~0d/0") == "a/b.c~d.0"


@pytest.mark.usefixtures("on_this_machine")
@pytest.mark.slow
@pytest.mark.parametrize("number", [2**64, -(10**30), 10**400, 10**5000], ids=len_of)
def test_a_very_long_number_is_compared_by_its_digits(site: Site, number: int) -> None:
    digits = str(Decimal(number))
    url = site.page("/", page("Ant", digits, "A-1", "/"))
    pages = scrape_df(url, extract={"name": str, "price": str})
    data = {"price": number, "sku": number + 1}
    changed = pages.assign(extract=pd.Series([data], dtype=object))
    found = verify(changed)
    assert found["value"].tolist() == [digits, str(Decimal(number + 1))]
    assert found["verdict"].tolist() == ["verbatim", "unsupported"]


def test_a_place_beyond_any_page_is_none() -> None:
    row = extracted.ExtractedRow("http://x/", {"name": "Ant"}, None)
    value = VerifiedValue(pointer="/name", verdict="verbatim", reason="", start=2**63, end=10**30)
    page = VerifiedPage(job_id="j", url="http://x/", outcome="compared", values=[value])
    found = extracted.build([row], [page])
    assert found[["start", "end"]].isna().all(axis=None)


def test_values_that_the_service_does_not_compare_have_a_row() -> None:
    data = {"name": "Ant", "sizes": [1, 2], "note": " ", "weight": float("nan")}
    row = extracted.ExtractedRow("http://x/", data, None)
    compared = [VerifiedValue(pointer="/name", verdict="verbatim", reason="")]
    page = VerifiedPage(job_id="j", url="http://x/", outcome="compared", values=compared)
    found = extracted.build([row], [page])
    assert list(zip(found["field"], found["verdict"], found["value"], strict=True)) == [
        ("name", "verbatim", "Ant"),
        ("sizes.0", "failed", "1"),
        ("sizes.1", "failed", "2"),
    ]
