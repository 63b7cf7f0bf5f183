"""Values in the notations of many languages, and pages whose source hides or repeats them."""

# ruff: noqa: RUF001 - digits, dashes and letters of many scripts are what is tested

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.cpu_deadline import cpu_deadline
from webdata_nb.page.extract.evidence import page_index
from webdata_nb.page.extract.evidence.evidence import find_evidence
from webdata_nb.page.extract.results import ValueEvidence

HEADING: Final = "<h1>Tea pot Omega</h1>"
WORDS: Final = " ".join(f"word{number}" for number in range(40))


def evidence_of(page: str, name: str, value: Any) -> ValueEvidence:
    found = find_evidence(page, {"name": "Tea pot Omega", name: value})
    return next(each for each in found if each.pointer == f"/{name}")


@pytest.mark.parametrize(
    ("page", "name", "value", "quote"),
    [
        ("<p>Price: $.99</p>", "price", 0.99, ".99"),
        ("<p>Temperature: -5 °C</p>", "temperature", -5, "-5"),
        ("<p>Temperature: −7.5 °C</p>", "temperature", -7.5, "−7.5"),
        ("<p>Rating: 4.66666666666666674</p>", "rating", 4.66666666666666674, None),
        ("<p>السعر: ١٢٣٫٥٠ ر.س</p>", "السعر", 123.5, "١٢٣٫٥٠"),
        ("<p>Weight: ١٬٢٥٠</p>", "weight", 1250, "١٬٢٥٠"),
        ("<p>Code: ۱۲۳</p>", "code", "123", "۱۲۳"),
        ("<p class=price>€ 19<sup>99</sup></p>", "price", 19.99, "19<sup>99"),
        ("<p class=price>1.299 <small>50</small> €</p>", "price", 1299.5, "1.299 <small>50"),
        ("<p class=price>9<i class=price-cents>90</i> €</p>", "price", 9.9, None),
        ("<p>브랜드는 삼성입니다.</p>", "brand", "삼성", "삼성"),
        ("<p>กาน้ำชาสีแดงขนาดใหญ่</p>", "color", "สีแดง", "สีแดง"),
        ("<p>चाय की केतली</p>", "slogan", "चाय की केतली", "चाय की केतली"),
        ("<p>&copy Acme Tools</p>", "brand", "Acme Tools", "Acme Tools"),
        ("<p>AT&amp;T &#169 Acme Tools</p>", "brand", "Acme Tools", "Acme Tools"),
        ("<!--><p>Slogan: Best pot</p>", "slogan", "Best pot", "Best pot"),
        ("<!-- x --!><p>Slogan: Best pot</p>", "slogan", "Best pot", "Best pot"),
        (f"<p>{WORDS} \n<br>\n {WORDS}\n</p>", "text", f"{WORDS} {WORDS}", None),
    ],
)
def test_a_value_is_supported_in_each_notation(
    page: str, name: str, value: Any, quote: str | None
) -> None:
    found = evidence_of(HEADING + page, name, value)
    assert found.verdict != "unsupported", found
    assert quote is None or found.quote == quote


@pytest.mark.parametrize(
    ("page", "name", "value"),
    [
        ("<p>Number: 1234567890123456789</p>", "number", 123456789012345),
        ("<p>Number: 1234567890123456789</p>", "number", 1234567890123456788),
        ("<p>Pages: 12-5</p>", "pages", -5),
        ("<p class=price>€ 19<sup>99</sup></p>", "price", 1999),
        ("<p>サンダル</p>", "brand", "サンタ"),
        ("<p>कीमत</p>", "brand", "मत"),
        ("<p>किताब लाल</p>", "brand", "कुताब लाल"),
        ("<p>각</p>", "brand", "가"),
        ("<meta name=price content='79' content='1'>", "price", 1),
        ("<!-- Slogan: Best pot -->", "slogan", "Best pot"),
        ("<!-- {availability: 'OutOfStock'} --><p class=price>79 €", "availability", "OutOfStock"),
    ],
)
def test_a_part_of_a_value_or_a_comment_is_no_support(page: str, name: str, value: Any) -> None:
    assert evidence_of(HEADING + page, name, value).verdict == "unsupported"


def test_markup_beyond_the_bound_of_elements_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_index, "MAX_ELEMENTS", 3)
    page = HEADING + "<p>a<p>b<p>c<!-- Slogan: Best pot -->"
    assert evidence_of(page, "slogan", "Best pot").verdict == "unsupported"


def test_a_long_run_of_spaces_in_a_value_takes_little_time() -> None:
    with cpu_deadline():
        found = evidence_of(HEADING, "slogan", "a" + " " * 400_000 + "b")
    assert found.verdict == "unsupported"
