"""Finds a product's codes and brand beside their labels, in names of elements and in forms."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from webdata_nb.page.content.class_names import word_set
from webdata_nb.page.extract.visible.page_text import (
    ASIDE,
    CHOICE,
    HIDDEN,
    OVERLAY,
    simplify_name,
)
from webdata_nb.page.extract.visible.wording import (
    BRAND_LABELS,
    GTIN_LABELS,
    MPN_LABELS,
    SKU_LABELS,
    fold,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.extract.visible.page_text import PageText, VisibleText

_MAX_CODE_LENGTH: Final = 40
_MAX_LABEL_LENGTH: Final = 40
_MAX_LABELLED_LENGTH: Final = 120
_MAX_BRAND_LENGTH: Final = 60
_MAX_URL_LENGTH: Final = 2000
_MIN_IN_URL: Final = 4
"""Shorter codes are in most URLs."""
_CODE: Final = re.compile(r"[^\W_][\w./#+-]*")
_MODEL: Final = re.compile(r"[^\W_][\w./#+-]*(?: [\w./-]+){0,3}")
_GTIN: Final = re.compile(r"\d{8}|\d{12,14}")
_NO_CODE: Final = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{1,2}:\d\d|\d[.,]\d|\d{1,2}")
_SEPARATOR: Final = re.compile(
    r"\s*[:\uff1a#\u2116]\s*|\s+(?:n[o°º]\.?|nr\.?|no\.)\s*[:\uff1a]?\s*"
)
_BRACKETS: Final = re.compile(r"[()\[\]〈〉【】<>|]")
_SKU_NAME: Final = re.compile(
    r"(?<![a-z])(?:sku|asin|reference|artikelnummer|articul|referencia|codigo)(?![a-z])"
    r"|(?:product|prod|item|article|element|artikel|catalog(?:ue)?|cat|style|stock)"
    r"-?(?:code|ref(?:erence)?|numbers?|num|no|nr|id|sku|article)(?![a-z])"
)
_MPN_NAME: Final = re.compile(r"(?<![a-z])(?:mpn|(?:part|model)-?(?:numbers?|no|nr))(?![a-z])")
_FIELD_NAMES: Final = word_set(
    "sku asin productid productcode productsku itemid itemno itemnumber articleid articlenumber"
    " artikelnummer pid prodid idproduct productno adno adid listingid"
)
_LABELS: Final = {
    **dict.fromkeys(BRAND_LABELS, "brand"),
    **dict.fromkeys(MPN_LABELS, "mpn"),
    **dict.fromkeys(GTIN_LABELS, "gtin"),
    **dict.fromkeys(SKU_LABELS, "sku"),
}
_MAX_PREFIX_WORDS: Final = 3
_EVIDENCE: Final = {"label": 3.0, "name": 2.0, "field": 1.5}
_IN_URL: Final = 2.0
_FLAG_WEIGHTS: Final = ((ASIDE, 3.0), (OVERLAY, 1.0), (HIDDEN, 0.7), (CHOICE, 0.5))
_PER_TEXT: Final = 0.002
_LOWEST_PLACE: Final = -3.0
_MAX_READINGS: Final = 1000
_MANY: Final = 3
"""More different values in elements of the same names are of a list of products."""
_REPEATED_PLACE: Final = 3.0


@dataclass(frozen=True, slots=True)
class CodeReading:
    """A value that the page labels as a code or brand.

    Attributes
    ----------
    name
        ``sku``, ``gtin``, ``mpn`` or ``brand``.
    value
        The value as written.
    evidence
        ``label`` (a label before it), ``name`` (class or id of its element) or ``field`` (a hidden
        field of a form).
    label
        The label, the name, or the field's name.
    """

    name: str
    value: str
    evidence: str
    label: str


def find_codes(page: PageText, url: str) -> dict[str, CodeReading]:
    """Return the most likely value of each name.

    Parameters
    ----------
    page
        The texts of the page.
    url
        The URL of the page; a code in it is likely the product's own.
    """
    if page.title is None:
        return {}
    rated = list(_rated(page, unquote(url[:_MAX_URL_LENGTH]).casefold()))[:_MAX_READINGS]
    counts = Counter(place for place, _ in {(place, read.value) for _, place, read in rated})
    best: dict[str, tuple[float, CodeReading]] = {}
    for score, place, reading in rated:
        rating = score - _REPEATED_PLACE * (counts[place] > _MANY)
        if rating > best.get(reading.name, (0.0,))[0]:
            best[reading.name] = rating, reading
    return {name: reading for name, (_, reading) in best.items()}


def _rated(page: PageText, url: str) -> Iterator[tuple[float, str, CodeReading]]:
    """Return all readings of the page with their scores, and label and names of their elements."""
    for index, text in enumerate(page.texts):
        if len(text.text) > _MAX_LABELLED_LENGTH:
            continue
        for reading in _readings(page, index, text):
            score = _EVIDENCE[reading.evidence] + _score_of_place(page, index, text)
            if score > 0:
                place = f"{reading.label} {text.all_names}"
                yield score + _IN_URL * _is_in_url(reading.value, url), place, reading
    for index, control in page.controls:
        field = _field_reading(control)
        if field is not None and _is_in_url(field.value, url):
            distance = abs(index - (page.title or 0))
            yield _EVIDENCE["field"] + _IN_URL - _PER_TEXT * distance, "", field


def _readings(page: PageText, index: int, text: VisibleText) -> Iterator[CodeReading]:
    """Return what a text says, alone or as the label of the next one."""
    own = _BRACKETS.sub(" ", text.text).strip()
    label, value = _split(own, has_digit=text.has_digit)
    name = _meaning(label) if len(label) <= _MAX_LABEL_LENGTH else ""
    if name and not value and index + 1 < len(page.texts):
        value = _BRACKETS.sub(" ", page.texts[index + 1].text[:_MAX_LABELLED_LENGTH]).strip()
    if name and (valid := _valid_value(name, value)):
        yield CodeReading(name, valid, "label", label)
    elif text.has_digit and not name:
        yield from _named_readings(text, value or own)


def _named_readings(text: VisibleText, value: str) -> Iterator[CodeReading]:
    """Return the readings of a code in an element that is named as one."""
    for name, pattern in (("sku", _SKU_NAME), ("mpn", _MPN_NAME)):
        valid = _valid_value(name, value)
        match = pattern.search(text.names) if valid else None
        if match is not None:
            yield CodeReading(name, valid, "name", match[0])


def _split(text: str, *, has_digit: bool) -> tuple[str, str]:
    """Split a text at the first colon or number sign; a known label needs none."""
    match = _SEPARATOR.search(text, 1)
    if match is not None and match.start() <= _MAX_LABEL_LENGTH:
        return text[: match.start()], text[match.end() :].strip()
    head, _, tail = text.rpartition(" ") if has_digit else ("", "", "")
    if tail and len(head) <= _MAX_LABEL_LENGTH and _meaning(head):
        return head, tail
    return text, ""


def _meaning(label: str) -> str:
    """Return the name that a label means; empty for none.

    A label may begin with other words, such as the name of the shop, if the rest has two words.
    """
    rest = fold(label).strip(" .:#*-")
    if name := _LABELS.get(rest, ""):
        return name
    for _ in range(_MAX_PREFIX_WORDS):
        rest = rest.partition(" ")[2]
        if " " not in rest:
            return ""
        if (name := _LABELS.get(rest, "")) and name != "brand":
            return name
    return ""


def _valid_value(name: str, value: str) -> str:
    """Return a value as a code or brand; empty if it is none."""
    if name == "brand":
        return value if 1 < len(value) <= _MAX_BRAND_LENGTH and "http" not in value else ""
    if name == "gtin":
        digits = value.replace(" ", "").replace("-", "")
        return digits if _GTIN.fullmatch(digits) else ""
    if len(value) > _MAX_CODE_LENGTH or not any(character.isdigit() for character in value):
        return ""
    pattern = _MODEL if name == "mpn" else _CODE
    return value if pattern.fullmatch(value) and not _NO_CODE.fullmatch(value) else ""


def _score_of_place(page: PageText, index: int, text: VisibleText) -> float:
    flags = page.own_flags(text)
    score = -_PER_TEXT * abs(index - (page.title or 0))
    score -= sum(weight for flag, weight in _FLAG_WEIGHTS if flags & flag)
    return max(score, _LOWEST_PLACE)


def _is_in_url(value: str, url: str) -> bool:
    return len(value) >= _MIN_IN_URL and value.casefold() in url


def _field_reading(control: VisibleText) -> CodeReading | None:
    """Return the code in a hidden field of a form."""
    element = control.element
    if element.tag != "input" or (element.attr("type") or "").lower() != "hidden":
        return None
    value = (element.attr("value") or "")[: 2 * _MAX_CODE_LENGTH].strip()
    for attribute in ("name", "id"):
        name = (element.attr(attribute) or "")[:_MAX_LABEL_LENGTH]
        known = simplify_name(name).replace("-", "") in _FIELD_NAMES
        if known and _valid_value("sku", value):
            return CodeReading("sku", value, "field", name)
    return None
