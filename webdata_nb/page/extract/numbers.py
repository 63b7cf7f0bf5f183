"""Parses numbers with decimal and thousands separators, currencies and units."""

from __future__ import annotations

import re
from typing import Final

MAX_NUMBER_LENGTH: Final = 60
"""Longer texts are prose that contains a number."""

_NUMBER: Final = re.compile(
    r"[-+\u2212]?(?:\d+(?:[.,'\u2019 \u00a0\u202f]\d+)*|[.,]\d+)(?:[eE][-+]?\d{1,3}(?!\w))?"
)
_SPACES: Final = re.compile(r"['\u2019 \u00a0\u202f]")
_OUT_OF: Final = re.compile(
    r"\s*(?:/|out of|of)\s*\d+(?:[.,]\d+)?\s*(?:stars?|points?)?", re.IGNORECASE
)
# A currency sign, a currency code or a short abbreviation such as "Rs." or "approx.".
_CURRENCY: Final = re.compile(r"(?:[^\w\s]{0,3}|[A-Za-z]{0,3}\.?\s?[^\w\s]?)\s*[:~\u2248]?\s*")
_UNIT: Final = re.compile(r"\s*[^\d]{0,24}")
# Words for a factor, in the languages of most pages; such a text is not the number alone.
_SCALE_SUFFIX: Final = re.compile(
    r"(?:k|K|M|B)(?!\w)"
    r"|[\s\u00a0\u202f-]*(?i:(?:bn|mn|mln|mio|mrd|tsd|mil|mill|mille)(?!\w)"
    r"|(?:hundred|thousand|million|billion|trillion|lakh|crore|dozen|tausend|milliard|millones"
    r"|milh[õã]|bilh[õã]|\u0442\u044b\u0441|\u043c\u043b\u043d|\u043c\u043b\u0440\u0434)\w{0,3}(?!\w))"
    r"|\s*[\u4e07\u842c\u5104\u4ebf\u5343]"
)
_BOUND: Final = re.compile(r"[<>\u2264\u2265\u00b1]")
_DECIMAL_COMMA_LANGUAGES: Final = (
    "bg bs ca cs da de el es et eu fi fr gl hr hu id is it lt lv mk nb nl nn no pl pt ro ru sk sl"
    " sq sr sv tr uk vi"
)
_GROUP_DIGITS: Final = 3


def uses_decimal_comma(language: str | None) -> bool:
    """Return whether `language`, a BCP 47 tag, uses a decimal comma."""
    primary = (language or "").lower().replace("_", "-").split("-")[0]
    return bool(primary) and primary in _DECIMAL_COMMA_LANGUAGES.split()


def parse_number(
    text: str, *, decimal_comma: bool = False, integer: bool = False
) -> int | float | None:
    """Parse a text that is one number, with its currency or unit.

    Parameters
    ----------
    text
        A text of the page; a range, a list or a sentence is not a number.
    decimal_comma
        Whether a single separator before three digits is a decimal separator if it is a comma,
        rather than if it is a point.
    integer
        Whether the number has no decimals, so that such a separator groups thousands.

    Returns
    -------
    int, float or None
        None if the text is not clearly one number.
    """
    text = text.strip()
    match = _NUMBER.search(text) if len(text) <= MAX_NUMBER_LENGTH else None
    if match is None:
        return None
    before, after = text[: match.start()], text[match.end() :]
    if not _CURRENCY.fullmatch(before) or _BOUND.search(before) or _SCALE_SUFFIX.match(after):
        return None
    if not _UNIT.fullmatch(after) and not _OUT_OF.fullmatch(after):
        return None
    number = match[0].replace("\u2212", "-")
    return _convert(number, decimal_comma=decimal_comma, integer=integer)


def _convert(number: str, *, decimal_comma: bool, integer: bool) -> int | float | None:
    mantissa, e, exponent = number.lower().partition("e")
    digits = _normalize_separators(mantissa, decimal_comma=decimal_comma, integer=integer)
    if digits is None:
        return None
    try:
        return float(digits + e + exponent) if e or "." in digits else int(digits)
    except ValueError:
        return None


def _normalize_separators(number: str, *, decimal_comma: bool, integer: bool) -> str | None:
    """Return a number with a decimal point and no other separator; None if it is invalid."""
    sign = number[0] if number[0] in "-+" else ""
    body = number[len(sign) :]
    parts = _SPACES.split(body)
    if len(parts) > 1 and not _are_digit_groups(re.split(r"[.,]", " ".join(parts))[0].split(" ")):
        return None
    body = "".join(parts)
    points, commas = body.count("."), body.count(",")
    if points and commas:
        separator = "." if body.rindex(".") > body.rindex(",") else ","
    elif points + commas == 1:
        separator = _decimal_separator(body, decimal_comma=decimal_comma, integer=integer)
    else:
        separator = ""
    head, _, decimals = body.rpartition(separator) if separator else (body, "", "")
    groups = re.split(r"[.,]", head)
    if len(groups) > 1 and not _are_digit_groups(groups):
        return None
    return sign + ("".join(groups) or "0") + (f".{decimals}" if separator else "")


def _decimal_separator(body: str, *, decimal_comma: bool, integer: bool) -> str:
    """Return the only separator of a number if it is decimal; empty if it groups thousands."""
    separator = "," if "," in body else "."
    head, _, tail = body.partition(separator)
    could_group = len(tail) == _GROUP_DIGITS and 0 < len(head) <= _GROUP_DIGITS
    if not could_group or head.startswith("0"):
        return separator
    return separator if not integer and decimal_comma == (separator == ",") else ""


def _are_digit_groups(groups: list[str]) -> bool:
    """Return whether digits are in groups of three, or of two before the last three (India)."""
    inner_lengths = {len(group) for group in groups[1:-1]}
    return 0 < len(groups[0]) <= _GROUP_DIGITS == len(groups[-1]) and inner_lengths in (
        set(),
        {2},
        {_GROUP_DIGITS},
    )
