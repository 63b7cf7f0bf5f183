"""Reads amounts of money, and finds the price of the product among those of a page."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.block_tree import word_set
from webdata_nb.page.content.parser import Element
from webdata_nb.page.extract.data import read_data
from webdata_nb.page.extract.visible_text import (
    ASIDE,
    CHOICE,
    HIDDEN,
    LINK,
    OLD_PRICE,
    OTHER_AMOUNT,
    OVERLAY,
    STRUCK,
    fold_case,
    is_within,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from webdata_nb.page.extract.visible_text import PageText, VisibleText


_CURRENCIES: Final = read_data("currencies.json")
CURRENCY_OF_SYMBOL: Final[dict[str, str]] = {
    symbol: code for code, symbols in _CURRENCIES["symbols"].items() for symbol in symbols
}
"""The currency of each symbol; of a symbol of several currencies, the most common one."""
CODES_OF_SYMBOL: Final[dict[str, dict[str, list[str]]]] = _CURRENCIES["ambiguous_symbols"]
"""For each symbol of several currencies, their codes with the countries of each and, after a
hyphen, its languages."""
_GENERIC_DOMAINS: Final = word_set("co do sc bz gl")
"""Top-level domains of countries that sites all over the world use."""
_TRADITIONAL: Final = "hant"
"""The script of Taiwan and of Hong Kong."""
_NAMED: Final = re.compile(r"(?<![^\W_])(?:[A-Z]{3}(?![^\W_])|(?:US|AU|CA|NZ|HK|NT|MX|A|C|S) ?\$)")
_MAX_NAMING_LENGTH: Final = 120
_ABOUT_PRICES: Final = re.compile(
    r"\d|\b(?:prices?|currency|preise?|prix|precios?|prezzi|priser|valuta|währung|devise|moneda)\b",
    re.IGNORECASE,
)
CURRENCY_CODES: Final = frozenset[str](_CURRENCIES["codes"])


def settle_symbols(
    texts: Iterable[str], *, host: str, languages: Sequence[str | None]
) -> dict[str, str]:
    """Return the ISO 4217 code of each symbol of several currencies that a page settles.

    Parameters
    ----------
    texts
        The texts of the page.
    host
        The name of its host.
    languages
        The declared languages, BCP 47 tags or locales, best first.

    Examples
    --------
    >>> settle_symbols([], host="shop.example", languages=["sv"])
    {'kr': 'SEK', 'kr.': 'SEK'}
    >>> settle_symbols(["All prices in AUD"], host="shop.example", languages=["en-US"])
    {'$': 'AUD'}
    >>> settle_symbols(["Add to cart"], host="shop.example", languages=["en"])
    {}
    """
    named: set[str] = set()
    for text in texts:
        names = _NAMED.findall(text) if len(text) <= _MAX_NAMING_LENGTH else ()
        if names and _ABOUT_PRICES.search(text):
            folded_names = [name.casefold().replace(" ", "") for name in names]
            named.update(CURRENCY_OF_SYMBOL.get(name) or name.upper() for name in folded_names)
    tags = [language.lower().replace("_", "-").split("-") for language in languages if language]
    country = host.rpartition(".")[2].lower()
    places = [] if country in _GENERIC_DOMAINS else [country]
    places += [part for _, *parts in tags for part in parts]
    places += [f"-{tag[0]}" for tag in tags if _TRADITIONAL not in tag]
    settled: dict[str, str] = {}
    for symbol, codes in CODES_OF_SYMBOL.items():
        fitting = list(named & codes.keys())
        if not fitting:
            fitting = [code for at in places for code, own in codes.items() if at in own][:1]
        if len(fitting) == 1:
            settled[symbol] = fitting[0]
    return settled


MAX_AMOUNT_LENGTH: Final = 60
"""Longer texts are prose."""

_THREE_DECIMALS: Final = frozenset({"KWD", "BHD", "OMR", "JOD", "TND"})
_INDIAN_GROUPS: Final = r"\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d{1,2})?"
_GROUPS: Final = r"\d{1,3}(?:[ .,'\u2019\u00a0\u202f]\d{3})+(?:[.,]\d{1,2})?"
_NUMBER: Final = rf"{_INDIAN_GROUPS}|{_GROUPS}|\d{{1,9}}(?:[.,]\d{{1,3}})?"
_ENDINGS: Final = r"(?:[.,][-\u2013\u2014]{1,2}|[.,]\u2212)?"
_CURRENCY: Final = "|".join(
    re.escape(name)
    for name in sorted({*CURRENCY_OF_SYMBOL, *CURRENCY_CODES}, key=lambda name: (-len(name), name))
)
_AMOUNT: Final = re.compile(
    rf"(?:(?P<before>(?<!\w)(?:{_CURRENCY}))\s?)?(?P<number>{_NUMBER}){_ENDINGS}"
    rf"(?:\s?(?P<after>(?:{_CURRENCY})(?!\w)))?"
)
_RANGE: Final = re.compile(r"\s?(?:-|\u2013|\u2014|~|to|bis|à|a|do|до)\s?")


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of money as shown.

    Attributes
    ----------
    value
        The number; of a range, its lower end.
    currency
        The ISO 4217 code that its symbol most often means; empty without a symbol.
    symbol
        The currency as written.
    highest
        The upper end of a range; None otherwise.
    """

    value: int | float
    currency: str
    symbol: str
    highest: int | float | None = None


@lru_cache(maxsize=1 << 12)
def parse_amount(text: str) -> Amount | None:
    """Parse a text that is one amount or one range of amounts, with or without a currency.

    A separator before three digits groups thousands: prices have two decimals, except in a few
    currencies.
    """
    folded = text.casefold().strip(" \u00a0:*\u00b9\u00b2")
    if not 0 < len(folded) <= MAX_AMOUNT_LENGTH or "%" in folded:
        return None
    first = _AMOUNT.match(folded)
    if first is None:
        return None
    if first.end() == len(folded):
        return _amount(first)
    between = _RANGE.match(folded, first.end())
    second = _AMOUNT.fullmatch(folded, between.end()) if between else None
    if second is None:
        return None
    low, high = _amount(first), _amount(second)
    if low is None or high is None or high.value <= low.value:
        return None
    symbol = low.symbol or high.symbol
    return Amount(low.value, low.currency or high.currency, symbol, high.value)


def currency_code(symbol: str) -> str:
    """Return the ISO 4217 code of a currency symbol or code; empty if unknown."""
    folded = symbol.casefold().strip()
    return CURRENCY_OF_SYMBOL.get(folded) or (folded.upper() if folded in CURRENCY_CODES else "")


def _amount(match: re.Match[str]) -> Amount | None:
    symbol = match["before"] or match["after"] or ""
    currency = currency_code(symbol)
    digits = re.sub(r"[ '\u2019\u00a0\u202f]", "", match["number"])
    head, separator, tail = digits, "", ""
    last = max(digits.rfind("."), digits.rfind(","))
    if last >= 0:
        tail = digits[last + 1 :]
        has_three = len(tail) == 3 and currency not in _THREE_DECIMALS  # noqa: PLR2004 - digits of a group
        groups = digits.count(digits[last]) > 1 or has_three
        if not groups or digits.startswith("0"):
            head, separator = digits[:last], "."
    head = head.replace(".", "").replace(",", "")
    try:
        value = float(f"{head}.{tail}") if separator else int(head)
    except ValueError:
        return None
    return Amount(value, currency, symbol)


_MAX_LEVELS: Final = 4
_MAX_PIECES: Final = 6
CENTS: Final = re.compile(r"\d\d")
_CENTS_NAME: Final = re.compile(r"cent|fraction|decimal|(?<![a-z])sup(?![a-z])|small")
_CENTS_TAGS: Final = frozenset({"sup", "small"})


def read_amount(texts: Sequence[VisibleText], index: int) -> tuple[Amount, str] | None:
    """Return the amount at a text and how it is written; None if there is none.

    It is the amount of the widest element around the text that contains nothing else, or of the
    text and the one beside it.
    """
    text = texts[index].text
    amount = parse_amount(text)
    best = None if amount is None else (amount, text)
    current: object = texts[index].element
    for _ in range(_MAX_LEVELS):
        joined = _text_within(texts, index, current) if isinstance(current, Element) else None
        if joined is None or not isinstance(current, Element):
            break
        amount = parse_amount(joined)
        best = best if amount is None else (amount, joined)
        current = current.parent
    if best is not None and best[0].currency:
        return best
    # A number and a currency in the text beside it are an amount together.
    for first in (index - 1, index):
        if not 0 <= first < len(texts) - 1:
            continue
        joined = f"{texts[first].text} {texts[first + 1].text}"
        amount = parse_amount(joined) if len(joined) <= MAX_AMOUNT_LENGTH else None
        if amount is not None and amount.currency and amount.highest is None:
            return amount, joined
    return best


def _text_within(texts: Sequence[VisibleText], index: int, element: Element) -> str | None:
    """Return the text of an element around a text; None if it is longer than any amount."""
    start, end = index, index + 1
    while start > 0 and end - start <= _MAX_PIECES and is_within(texts[start - 1], element):
        start -= 1
    while end < len(texts) and end - start <= _MAX_PIECES and is_within(texts[end], element):
        end += 1
    joined = ""
    for piece in texts[start:end] if end - start <= _MAX_PIECES else ():
        # Raised or small decimals get the point that they lack.
        is_small = makes_cents(piece.element.tag, piece.names)
        if joined[-1:].isdigit() and CENTS.fullmatch(piece.text) and is_small:
            joined += f".{piece.text}"
        else:
            joined += piece.text if piece.text[0] in ".," else f" {piece.text}"
    joined = joined.strip()
    return joined if 0 < len(joined) <= MAX_AMOUNT_LENGTH else None


def makes_cents(tag: str, names: str) -> bool:
    """Return whether an element with this tag and these names shows digits as cents."""
    return tag in _CENTS_TAGS or bool(_CENTS_NAME.search(names))


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
    found: list[tuple[int, Amount, str]] = []
    title = page.title
    if title is None:
        return
    for index in range(max(0, title - _BEFORE), min(len(page.texts), title + _AFTER)):
        at = page.texts[index]
        if not at.has_digit or len(at.text) > MAX_AMOUNT_LENGTH:
            continue
        read = None if page.own_flags(at) & STRUCK else read_amount(page.texts, index)
        if read is not None and read[0].value > 0:
            is_named = read[0].currency or _PRICE_NAME.search(at.all_names)
            found += [(index, *read)] if is_named else []
        if len(found) == _MAX_CANDIDATES:
            break
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


def _signature(text: VisibleText) -> tuple[str, str]:
    return text.element.tag, text.all_names


def _score(page: PageText, index: int, amount: Amount) -> float:
    """Return the score of an amount by its names, its place, and the words beside it."""
    text = page.texts[index]
    flags = page.own_flags(text)
    names = text.names
    score = -_NAMED_OTHER if _OTHER_NAME.search(names) else 0.0
    is_near = _PRICE_NAME.search(names)
    if is_near or _PRICE_NAME.search(text.all_names):
        score += _NAMED_NEAR if is_near else _NAMED_FAR
        score += _NAMED_CURRENT * bool(_CURRENT_NAME.search(names))
    score += _WITH_CURRENCY * bool(amount.currency)
    score -= sum(weight for flag, weight in _FLAG_WEIGHTS if flags & flag)
    # Words beside an amount may say that it is no price.
    before, after = _label_at(page, index - 1), _label_at(page, index + 1)
    penalty = _ADDED if before.endswith("+") else 0.0
    if "%" not in before:
        is_old = OLD_PRICE.search(before)
        penalty += _OLD if is_old else _OTHER * bool(OTHER_AMOUNT.search(before))
    has_digit = any(character.isdigit() for character in after)
    if _PER.match(after) or (OTHER_AMOUNT.match(after) and not has_digit):
        penalty += _UNIT
    score -= penalty
    # After a heading that links to another page, as in a list, it is that of another product.
    start = max(index - _CARD_TEXTS, (page.title or 0) + 1)
    for earlier in reversed(page.texts[start:index]):
        element, parent = earlier.element, earlier.element.parent
        if {element.tag, getattr(parent, "tag", "")} & _CARD_HEADINGS:
            score -= _OTHER_PRODUCT * bool(page.own_flags(earlier) & LINK)
            break
    distance = index - (page.title or 0)
    if distance < 0:
        return score - _BEFORE_TITLE + _PER_TEXT * distance
    return score + _AT_TITLE * (0 < distance <= _NEAR) - _PER_TEXT * distance


def _label_at(page: PageText, index: int) -> str:
    if not 0 <= index < len(page.texts):
        return ""
    text = page.texts[index].text
    return fold_case(text) if len(text) <= _MAX_LABEL_LENGTH else ""
