"""Finds the price of the product that a page shows, among all amounts of money on the page."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from webdata_nb.page.extract.visible.amounts import MAX_AMOUNT_LENGTH, Amount
from webdata_nb.page.extract.visible.element_names import (
    ASIDE,
    CHOICE,
    HIDDEN,
    LINK,
    OVERLAY,
    STRUCK,
)
from webdata_nb.page.extract.visible.shown_amounts import read_amount
from webdata_nb.page.extract.visible.wording import OLD_PRICE, OTHER_AMOUNT, fold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.extract.visible.page_text import PageText, VisibleText

_BEFORE: Final = 250
"""Texts before the title that are looked at: the purchase box may come first in the source."""
_AFTER: Final = 400
_NEAR: Final = 15
_MAX_CANDIDATES: Final = 300
_MAX_LABEL_LENGTH: Final = 60
_MANY: Final = 3
"""More different amounts in elements of the same names are a list of products."""
_MIN_SCORE: Final = 1.5
_PRICE_NAME: Final = re.compile(
    r"price|preis|prix|precio|pre[cç]o|prezzo|(?<![a-z])cena|tsena|(?<![a-z])pris(?![a-z])|hinta"
    r"|fiyat|amount|(?<![a-z])cost(?![a-z])|kaina|(?<![a-z])ar(?![a-z])"
)
_CURRENT_NAME: Final = re.compile(
    r"sale|current|special|final|(?<![a-z])our|actual|(?<![a-z])now|selling|(?<![a-z])main|primary"
    r"|buy|(?<![a-z])new(?![a-z])|offer|value|promo|discounted"
)
_OTHER_NAME: Final = re.compile(
    r"shipping|delivery|instal?lment|monthly|per-?unit|unit-?price|save|saving|discount-?(?!ed)|tax"
    r"|finance|credit|points|total|cart|basket|badge|threshold|subtotal|fee(?![a-z])"
)
_PER: Final = re.compile(r"\s*(?:/|per |pro |x\s*\d|\*\s*\d)")
_FLAG_WEIGHTS: Final = ((ASIDE, 5.0), (HIDDEN, 3.0), (LINK, 2.0), (CHOICE, 1.5), (OVERLAY, 3.0))
_NAMED_NEAR, _NAMED_FAR, _NAMED_CURRENT, _NAMED_OTHER = 3.0, 2.0, 0.5, 2.0
_WITH_CURRENCY: Final = 2.0
_AT_TITLE: Final = 1.0
_PER_TEXT: Final = 0.01
_BEFORE_TITLE: Final = 1.5
_AFTER_RELATED: Final = 4.0
_REPEATED_NAMES: Final = 5.0
_REPEATED_VALUE: Final = 0.5
_OLD, _OTHER, _ADDED, _UNIT = 3.0, 2.0, 3.0, 1.5
_OTHER_PRODUCT: Final = 5.0
_CARD_TEXTS: Final = 8
"""Texts between the heading of a product card and its price."""
_CARD_HEADINGS: Final = frozenset({"h2", "h3", "h4", "h5", "h6"})


@dataclass(frozen=True, slots=True)
class PriceCandidate:
    """An amount on the page and how likely it is the price of the product."""

    amount: Amount
    text: str
    index: int
    score: float


def find_price(page: PageText) -> PriceCandidate | None:
    """Return the most likely price; None if no amount is likely."""
    return max(price_candidates(page), key=lambda candidate: candidate.score, default=None)


def price_candidates(page: PageText) -> Iterator[PriceCandidate]:
    """Return the amounts that may be the price."""
    found = _amounts_near_title(page)
    # Each value counts once: a price may stand in several places, such as a fixed bar.
    signatures = {(_signature(page.texts[index]), amount.value) for index, amount, _ in found}
    repeats = Counter(signature for signature, _ in signatures)
    values = Counter(amount.value for index, amount, _ in found if index < page.related)
    for index, amount, text in found:
        score = _score(page, index, amount)
        if index >= page.related:
            score -= _AFTER_RELATED
        if repeats[_signature(page.texts[index])] > _MANY:
            score -= _REPEATED_NAMES
        score += _REPEATED_VALUE * min(max(values[amount.value] - 1, 0), 2)
        if score >= _MIN_SCORE:
            yield PriceCandidate(amount, text, index, score)


def _amounts_near_title(page: PageText) -> list[tuple[int, Amount, str]]:
    """Return index, amount and text of the amounts that are not excluded by their surroundings."""
    found: list[tuple[int, Amount, str]] = []
    title = page.title
    if title is None:
        return found
    for index in range(max(0, title - _BEFORE), min(len(page.texts), title + _AFTER)):
        text = page.texts[index]
        if not text.has_digit or len(text.text) > MAX_AMOUNT_LENGTH:
            continue
        read = None if page.own_flags(text) & STRUCK else read_amount(page.texts, index)
        if read is not None and read[0].value > 0 and _may_be_price(text, read[0]):
            found.append((index, *read))
        if len(found) == _MAX_CANDIDATES:
            break
    return found


def _may_be_price(text: VisibleText, amount: Amount) -> bool:
    return bool(amount.currency) or _PRICE_NAME.search(text.all_names) is not None


def _signature(text: VisibleText) -> tuple[str, str]:
    return text.element.tag, text.all_names


def _score(page: PageText, index: int, amount: Amount) -> float:
    """Return the score of an amount by its names, its place, and the words beside it."""
    text = page.texts[index]
    flags = page.own_flags(text)
    score = _score_of_names(text) + _WITH_CURRENCY * bool(amount.currency)
    score -= sum(weight for flag, weight in _FLAG_WEIGHTS if flags & flag)
    score -= _label_penalty(page, index)
    score -= _OTHER_PRODUCT * _follows_linked_heading(page, index)
    distance = index - (page.title or 0)
    if distance < 0:
        return score - _BEFORE_TITLE + _PER_TEXT * distance
    return score + _AT_TITLE * (0 < distance <= _NEAR) - _PER_TEXT * distance


def _follows_linked_heading(page: PageText, index: int) -> bool:
    """Return whether the last heading before an amount links to another page, as in a list."""
    start = max(index - _CARD_TEXTS, (page.title or 0) + 1)
    for text in reversed(page.texts[start:index]):
        element, parent = text.element, text.element.parent
        tags = {element.tag, getattr(parent, "tag", "")}
        if tags & _CARD_HEADINGS:
            return bool(page.own_flags(text) & LINK)
    return False


def _score_of_names(text: VisibleText) -> float:
    names = text.names
    score = -_NAMED_OTHER if _OTHER_NAME.search(names) else 0.0
    if _PRICE_NAME.search(names):
        score += _NAMED_NEAR
    elif _PRICE_NAME.search(text.all_names):
        score += _NAMED_FAR
    else:
        return score
    return score + _NAMED_CURRENT * bool(_CURRENT_NAME.search(names))


def _label_penalty(page: PageText, index: int) -> float:
    """Return a penalty for words beside an amount that say that it is no price."""
    return _penalty_before(_label_at(page, index - 1)) + _penalty_after(_label_at(page, index + 1))


def _label_at(page: PageText, index: int) -> str:
    if not 0 <= index < len(page.texts):
        return ""
    text = page.texts[index].text
    return fold(text) if len(text) <= _MAX_LABEL_LENGTH else ""


def _penalty_before(label: str) -> float:
    penalty = _ADDED if label.endswith("+") else 0.0
    if "%" in label:
        return penalty
    if OLD_PRICE.search(label):
        return penalty + _OLD
    return penalty + _OTHER * bool(OTHER_AMOUNT.search(label))


def _penalty_after(label: str) -> float:
    has_digit = any(character.isdigit() for character in label)
    is_unit = _PER.match(label) or (OTHER_AMOUNT.match(label) and not has_digit)
    return _UNIT if is_unit else 0.0
