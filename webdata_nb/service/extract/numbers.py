"""Numbers as people write them: decimal and thousand marks, currencies, units."""

from __future__ import annotations

import re
from typing import Final

MAX_LENGTH: Final = 60
"""Characters beyond which a text is prose that mentions a number, not a number."""

_NUMBER: Final = re.compile(
    r"[-+\u2212]?(?:\d+(?:[.,'\u2019 \u00a0\u202f]\d+)*|[.,]\d+)(?:[eE][-+]?\d{1,3}(?!\w))?"
)
_SPACES: Final = re.compile(r"['\u2019 \u00a0\u202f]")
_OUT_OF: Final = re.compile(
    r"\s*(?:/|out of|of)\s*\d+(?:[.,]\d+)?\s*(?:stars?|points?)?", re.IGNORECASE
)
# A currency sign, a currency code or a short abbreviation such as "Rs." or "approx.".
_BEFORE: Final = re.compile(r"(?:[^\w\s]{0,3}|[A-Za-z]{0,3}\.?\s?[^\w\s]?)\s*[:~\u2248]?\s*")
_AFTER: Final = re.compile(r"\s*[^\d]{0,24}")
_SCALED: Final = re.compile(r"(?:k|K|M|B|bn|mn)(?!\w)")
_COMMA_LANGUAGES: Final = (
    "bg bs ca cs da de el es et eu fi fr gl hr hu id is it lt lv mk nb nl nn no pl pt ro ru sk sl"
    " sq sr sv tr uk vi"
)
_GROUP: Final = 3


def decimal_comma(language: str | None) -> bool:
    """Tell whether people write a decimal comma in `language`, a BCP 47 tag."""
    primary = (language or "").lower().replace("_", "-").split("-")[0]
    return bool(primary) and primary in _COMMA_LANGUAGES.split()


def read_number(text: str, *, comma: bool = False, whole: bool = False) -> int | float | None:
    """Read the one number that `text` is, with its currency or unit.

    Parameters
    ----------
    text
        What the page says; a range, a list or a sentence is not a number.
    comma
        Whether a lone mark before three digits is a decimal mark when it is a comma, rather
        than when it is a point.
    whole
        Whether the number can have no decimals, so that such a mark groups thousands.

    Returns
    -------
    int, float or None
        None where the text is not plainly one number.
    """
    text = text.strip()
    found = _NUMBER.search(text) if len(text) <= MAX_LENGTH else None
    if found is None:
        return None
    before, after = text[: found.start()], text[found.end() :]
    if not _BEFORE.fullmatch(before) or _SCALED.match(after):
        return None
    if not _AFTER.fullmatch(after) and not _OUT_OF.fullmatch(after):
        return None
    return _plain(found[0].replace("\u2212", "-"), comma=comma, whole=whole)


def _plain(written: str, *, comma: bool, whole: bool) -> int | float | None:
    mantissa, mark, exponent = written.lower().partition("e")
    digits = _point(mantissa, comma=comma, whole=whole)
    if digits is None:
        return None
    try:
        return float(digits + mark + exponent) if mark or "." in digits else int(digits)
    except ValueError:
        return None


def _point(written: str, *, comma: bool, whole: bool) -> str | None:
    """Rewrite a number with a decimal point and no other mark; None where it is none."""
    sign = written[0] if written[0] in "-+" else ""
    body = written[len(sign) :]
    spaced = _SPACES.split(body)
    if len(spaced) > 1 and not _grouped(re.split(r"[.,]", " ".join(spaced))[0].split(" ")):
        return None
    body = "".join(spaced)
    points, commas = body.count("."), body.count(",")
    if points and commas:
        decimal = "." if body.rindex(".") > body.rindex(",") else ","
    elif points + commas == 1:
        decimal = _lone(body, comma=comma, whole=whole)
    else:
        decimal = ""
    return _joined(sign, body, decimal)


def _lone(body: str, *, comma: bool, whole: bool) -> str:
    """Return the mark if it is a decimal mark, else nothing: then it groups thousands."""
    mark = "," if "," in body else "."
    head, _, tail = body.partition(mark)
    if len(tail) != _GROUP or not 0 < len(head) <= _GROUP or head.startswith("0"):
        return mark
    return mark if not whole and comma == (mark == ",") else ""


def _joined(sign: str, body: str, decimal: str) -> str | None:
    head, _, tail = body.rpartition(decimal) if decimal else (body, "", "")
    groups = re.split(r"[.,]", head)
    if len(groups) > 1 and not _grouped(groups):
        return None
    return sign + ("".join(groups) or "0") + (f".{tail}" if decimal else "")


def _grouped(groups: list[str]) -> bool:
    """Tell whether digits are grouped in threes, or in twos before the last three, as in India."""
    inner = {len(each) for each in groups[1:-1]}
    return 0 < len(groups[0]) <= _GROUP == len(groups[-1]) and inner in (set(), {2}, {_GROUP})
