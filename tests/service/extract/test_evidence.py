"""Where values stand in a page, in which notation, and that values in wrong places are found."""

from __future__ import annotations

from cProfile import Profile
from random import Random
from typing import Any

import msgspec
import pytest

from tests.cpu_deadline import cpu_deadline
from tests.evidence_pages import answer, make_pages
from webdata_nb.page.extract.evidence.evidence import find_evidence
from webdata_nb.page.extract.evidence.page_index import FoldedOffsets, fold_source
from webdata_nb.page.extract.results import ValueEvidence

CARDS = "".join(
    f'<li class="card"><a href="/{name}"><img src="{name}.jpg" alt=""><h3>Kettle {name}</h3></a>'
    f'<p class="brand">Acme</p><span class="price">€{price}</span></li>'
    for name, price in (("Alpha", "10,50"), ("Beta", "20,99"), ("Gamma", "31"))
)
SHOP = (
    "<title>Tea pot Omega | Shop</title><main><h1>Tea pot Omega</h1><p>SKU: T-99</p>"
    "<p class='price'><del>99.00 €</del> <b>79.00 €</b></p><p>Weight: 1,25 kg</p>"
    "<p>Published 4. M&auml;rz 2026</p><p><i>Big</i> &amp; <b>round</b></p>"
    "<ul class=tags><li>tea</li><li>copper</li></ul><button>Add to cart</button>"
    f"<h2>You may also like</h2><ul>{CARDS}</ul></main>"
)


def verdicts(page: str, data: dict[str, Any]) -> dict[str, str]:
    return {each.pointer: each.verdict for each in find_evidence(page, data)}


@pytest.mark.parametrize(
    ("field", "value", "verdict", "quote"),
    [
        ("name", "Tea pot Omega", "verbatim", "Tea pot Omega"),
        ("name", "TEA POT  OMEGA", "derived", "Tea pot Omega"),
        ("price", 79, "derived", "79.00"),
        ("price", "79,00 EUR", "derived", "79.00"),
        ("currency", "EUR", "derived", "€"),
        ("sku", "T-99", "verbatim", "T-99"),
        ("weight_kg", 1.25, "derived", "1,25"),
        ("published", "2026-03-04", "derived", "4. M&auml;rz 2026"),
        ("slogan", "Big & round", "derived", "Big</i> &amp; <b>round"),
        ("tags", ["tea", "copper"], "verbatim", "tea"),
        ("tags", "tea, copper", "derived", "tea</li><li>copper"),
        ("availability", "InStock", "derived", "Add to cart"),
        ("in_stock", True, "derived", "Add to cart"),
    ],
)
def test_a_value_is_found_in_each_notation(
    field: str, value: Any, verdict: str, quote: str
) -> None:
    found = find_evidence(SHOP, {"name": "Tea pot Omega", field: value})
    first = next(each for each in found if each.pointer.startswith(f"/{field}"))
    assert (first.verdict, first.quote) == (verdict, quote), first
    assert first.start is not None
    assert first.end is not None
    assert SHOP[first.start : first.end] == quote


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("name", "Tea pot Delta", "the page does not contain it"),
        ("name", "Kettle Alpha", "the page gives it for another record"),
        ("name", "Tea pot Beta", "the page does not contain it"),
        ("price", 20.99, "the page gives it for another record"),
        ("price", 99.0, "the page gives it as an earlier price"),
        ("price", 79.5, "the page does not contain it"),
        ("brand", "Acme", "the page gives it for another record"),
        ("color", "T-99", "the page gives it as sku"),
        ("availability", "OutOfStock", "the page shows 'Add to cart'"),
        ("in_stock", False, "the page shows 'Add to cart'"),
        ("tags", "tea, Kettle Alpha", "the page does not contain it"),
    ],
)
def test_a_value_in_the_wrong_place_is_not_supported(field: str, value: Any, reason: str) -> None:
    data = {"name": "Tea pot Omega", "sku": "T-99", field: value}
    found = next(each for each in find_evidence(SHOP, data) if each.pointer == f"/{field}")
    assert (found.verdict, found.reason) == ("unsupported", reason)


def test_the_label_of_a_price_is_also_one_of_its_currency() -> None:
    page = '<h1>Tea pot</h1><b itemprop="price" content="€"></b><p>Now for € 1.079,00 only</p>'
    data = {"name": "Tea pot", "price": 1079, "currency": "€"}
    assert set(verdicts(page, data).values()) == {"verbatim", "derived"}


def test_entries_of_a_list_keep_to_their_own_part() -> None:
    right = [("Alpha", 10.5), ("Beta", 20.99), ("Gamma", 31)]
    rows = [{"name": f"Kettle {name}", "price": price} for name, price in right]
    assert set(verdicts(CARDS, {"products": rows}).values()) <= {"verbatim", "derived"}
    rows[1]["price"] = 31
    wrong = {
        at for at, each in verdicts(CARDS, {"products": rows}).items() if each == "unsupported"
    }
    assert wrong == {"/products/1/price"}
    rows[1]["price"], rows[0]["name"] = 20.99, "Kettle Beta"
    rows[0]["brand"] = "Acme"
    wrong = {
        at for at, each in verdicts(CARDS, {"products": rows}).items() if each == "unsupported"
    }
    assert wrong == {"/products/0/name"}


def test_null_and_empty_values_need_no_evidence() -> None:
    assert find_evidence(SHOP, {"name": None, "tags": [], "more": {"a": None}, "text": " "}) == []
    assert find_evidence("", {"name": "x"})[0].verdict == "unsupported"


@pytest.mark.parametrize("is_json", [False, True])
def test_folded_places_lead_back_to_the_source(is_json: bool) -> None:
    for raw in (
        "Caf&eacute;\u00a0 \u2013 Ⅷ",
        "plain",
        "  a\tb ",
        "e\u0301te\u0301",
        "x\u00adyß",
        "İi",
    ):
        folded = fold_source(raw, is_json=is_json)
        offsets = FoldedOffsets(raw, is_json=is_json)
        for start in range(len(folded)):
            piece = raw[offsets.start(start) : offsets.end(start + 1)]
            assert folded[start].strip() in fold_source(piece, is_json=is_json), (raw, start)


@pytest.mark.parametrize("change", [{"verdict": []}, {"verdict": "true"}, {"start": -1}, {"a": 1}])
def test_evidence_of_another_form_is_refused(change: dict[str, Any]) -> None:
    [message] = msgspec.to_builtins(find_evidence(SHOP, {"name": "Tea pot Omega"}))
    assert msgspec.convert(message, ValueEvidence).verdict == "verbatim"
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(message | change, ValueEvidence)


HOSTILE = {
    "deep": "<div>" * 30_000,
    "open quotes": "<a '" * 60_000,
    "open tags": "<a b=" * 60_000,
    "comments": "<!--" * 80_000,
    "lists": "<li><a>x<h3>y" * 30_000,
    "cards": '<div class="c"><a>a</a>\n<p>b</p></div>' * 8000,
    "related": "<h2>related products</h2>" * 15_000,
    "one word": "a " * 200_000,
    "digits": "1 " * 150_000,
    "json": '<script type="application/ld+json">' + '{"a":[' * 60_000,
    "strings": '<script type="application/ld+json">' + '"\\' * 100_000,
    "entities": "&amp;" * 60_000 + "&" * 60_000,
    "buttons": "<h1>x</h1>" + "<div><button>add to cart</button>sold out</div>" * 8000,
    "rows": "<table>" + "<tr><td>a<td>1" * 20_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_page_takes_work_in_proportion_to_its_length(name: str) -> None:
    page = HOSTILE[name]
    # Linear work makes four times as many calls for the whole page, quadratic work 16 times.
    with cpu_deadline():
        assert _calls(page) < 6 * _calls(page[: len(page) // 4]) + 10_000


def _calls(page: str) -> int:
    """Return the number of function calls of a comparison with a page."""
    data = {
        "name": "a a a a b", "price": 1, "text": "a " * 300 + "b", "day": "2026-01-02",
        "rows": [{"name": "a", "price": 1, "in_stock": True} for _ in range(20)],
    }  # fmt: skip
    if "button" in page:
        data["availability"] = "OutOfStock"
    profile = Profile()
    profile.runcall(find_evidence, page, data)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.slow
def test_errors_of_a_model_are_found_without_false_alarms() -> None:
    pages, random = make_pages(140), Random(8)
    missed, false_alarms, wrong, right = [], [], 0, 0
    for page in pages:
        reply = answer(page, random)
        for each in find_evidence(page.html, reply.data):
            is_wrong, is_flagged = each.pointer in reply.wrong, each.verdict == "unsupported"
            wrong, right = wrong + is_wrong, right + (not is_wrong)
            missed += [each] if is_wrong and not is_flagged else []
            false_alarms += [each] if is_flagged and not is_wrong else []
    assert wrong > 500
    assert len(missed) <= 0.01 * wrong, missed
    assert len(false_alarms) <= 0.01 * right, false_alarms


def test_a_number_beyond_a_float_is_on_no_page() -> None:
    data = {"price": 10**400, "weight": -(10**400)}
    found = find_evidence(f"<p>Price: {'9' * 400}</p>", data)
    assert [value.verdict for value in found] == ["unsupported"] * 2
