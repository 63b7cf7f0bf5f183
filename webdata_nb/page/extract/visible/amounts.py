"""Parses amounts of money in visible text: number, currency, and both ends of a range."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from webdata_nb.page.extract.visible.currencies import CURRENCY_CODES, CURRENCY_OF_SYMBOL

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
    value = _value(match["number"], three_decimals=currency in _THREE_DECIMALS)
    return None if value is None else Amount(value, currency, symbol)


def _value(number: str, *, three_decimals: bool) -> int | float | None:
    digits = re.sub(r"[ '\u2019\u00a0\u202f]", "", number)
    head, separator, tail = digits, "", ""
    last = max(digits.rfind("."), digits.rfind(","))
    if last >= 0:
        tail = digits[last + 1 :]
        groups = digits.count(digits[last]) > 1 or (len(tail) == 3 and not three_decimals)  # noqa: PLR2004 - digits of a group
        if not groups or digits.startswith("0"):
            head, separator = digits[:last], "."
    head = head.replace(".", "").replace(",", "")
    try:
        return float(f"{head}.{tail}") if separator else int(head)
    except ValueError:
        return None
