"""Reads amounts of money that a page splits over several elements."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.parser import Element
from webdata_nb.page.extract.visible.amounts import MAX_AMOUNT_LENGTH, Amount, parse_amount
from webdata_nb.page.extract.visible.page_text import is_within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webdata_nb.page.extract.visible.page_text import VisibleText

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
    return _joined_with_neighbour(texts, index) or best


def _joined_with_neighbour(texts: Sequence[VisibleText], index: int) -> tuple[Amount, str] | None:
    """Return the amount that a number and a currency in the text beside it are together."""
    for first in (index - 1, index):
        if not 0 <= first < len(texts) - 1:
            continue
        joined = f"{texts[first].text} {texts[first + 1].text}"
        amount = parse_amount(joined) if len(joined) <= MAX_AMOUNT_LENGTH else None
        if amount is not None and amount.currency and amount.highest is None:
            return amount, joined
    return None


def _text_within(texts: Sequence[VisibleText], index: int, element: Element) -> str | None:
    """Return the text of an element around a text; None if it is longer than any amount."""
    start, end = index, index + 1
    while start > 0 and end - start <= _MAX_PIECES and is_within(texts[start - 1], element):
        start -= 1
    while end < len(texts) and end - start <= _MAX_PIECES and is_within(texts[end], element):
        end += 1
    joined = _join(texts[start:end]) if end - start <= _MAX_PIECES else ""
    return joined if 0 < len(joined) <= MAX_AMOUNT_LENGTH else None


def _join(pieces: Sequence[VisibleText]) -> str:
    """Join the pieces of an amount; raised or small decimals get the point that they lack."""
    joined = ""
    for piece in pieces:
        if joined[-1:].isdigit() and _is_cents(piece):
            joined += f".{piece.text}"
        else:
            joined += piece.text if piece.text[0] in ".," else f" {piece.text}"
    return joined.strip()


def _is_cents(piece: VisibleText) -> bool:
    return bool(CENTS.fullmatch(piece.text)) and makes_cents(piece.element.tag, piece.names)


def makes_cents(tag: str, names: str) -> bool:
    """Return whether an element with this tag and these names shows digits as cents."""
    return tag in _CENTS_TAGS or bool(_CENTS_NAME.search(names))
