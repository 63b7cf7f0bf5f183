"""Writes emphasis where CommonMark reads it as such, by the rules for flanking delimiters."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

SIGNS: Final = {
    "strong": "**",
    "b": "**",
    "em": "*",
    "i": "*",
    "del": "~~",
    "s": "~~",
    "strike": "~~",
}
"""What is written before and after each element of emphasis."""
SIGN_CHARACTERS: Final = frozenset("*~")
CODE_SEPARATOR: Final = "<!-- -->"


class Delimiter(NamedTuple):
    """One end of an element of emphasis.

    Attributes
    ----------
    place
        The number of pieces of the line before it.
    sign
        What is written for it.
    opening
        Whether the element starts here.
    """

    place: int
    sign: str
    opening: bool


def with_emphasis(
    pieces: Sequence[str], delimiters: Sequence[Delimiter], before: str = "", after: str = ""
) -> str:
    """Join the pieces of a line with the delimiters between them.

    Parameters
    ----------
    pieces
        The line without its emphasis.
    delimiters
        Its emphasis, in order; elements of the same sign do not nest.
    before, after
        The characters beside the line.
    """
    line = _EmphasisLine(before)
    start = 0
    for place, sign, opening in delimiters:
        line.add_text("".join(pieces[start:place]))
        start = place
        if opening:
            line.open(sign)
        else:
            line.close()
    line.add_text("".join(pieces[start:]))
    return line.finish(after)


class _EmphasisLine:
    """A line with emphasis, written from left to right.

    White space at the ends of an element moves out of it, an element without text is left out,
    and one that follows another of its kind continues it.
    """

    def __init__(self, before: str) -> None:
        self._written: list[str] = []
        self._last = before  # the last character that is no sign
        self._space = ""  # white space that is not written yet
        self._unopened: list[str] = []  # signs that wait for text
        self._opened: list[tuple[str, int, bool]] = []  # sign, place, whether it is valid
        self._closed: list[tuple[str, int, int]] = []  # sign and places that wait for what follows

    def add_text(self, text: str) -> None:
        body = text.strip()
        if not body:
            self._space = self._space or text
            return
        if len(body) < len(text):
            self._space += text[: -len(text.lstrip())]
        closed = self._settle(self._space[:1] or body[0])
        if self._space:
            self._written.append(self._space)
            self._last = self._space[-1]
            closed = []
        if self._unopened:
            self._open_waiting(body[0], closed)
        self._written.append(body)
        self._last = body[-1]
        self._space = text[len(text.rstrip()) :] if len(body) < len(text) else ""

    def open(self, sign: str) -> None:
        if self._closed and not self._space and not self._unopened:
            last_sign, place, end = self._closed[-1]
            if last_sign == sign and end == len(self._written) - 1:
                self._closed.pop()
                self._written.pop()
                self._opened.append((sign, place, True))
                return
        self._unopened.append(sign)

    def close(self) -> None:
        if self._unopened:
            self._unopened.pop()
            return
        sign, place, valid = self._opened.pop()
        if valid:
            self._closed.append((sign, place, len(self._written)))
            self._written.append(sign)
        else:
            self._written[place] = ""

    def finish(self, after: str) -> str:
        self._settle(self._space[:1] or after)
        return _join(self._written) + self._space

    def _open_waiting(self, following: str, closed: list[str]) -> None:
        """Write the signs that waited for text, where they are read as such."""
        signs, self._unopened = self._unopened, []
        valid = self._last not in SIGN_CHARACTERS if not closed else _can_follow(closed, signs)
        outside = closed[-1][0] if closed and closed[-1][0] != signs[0][0] else self._last
        for number, sign in enumerate(signs):
            inside = _next_unlike(signs[number:], following)
            stands = valid and flanks(inside, outside)
            self._opened.append((sign, len(self._written), stands))
            self._written.append(sign)
            if stands and number + 1 < len(signs) and signs[number + 1][0] != sign[0]:
                outside = sign[0]

    def _settle(self, following: str) -> list[str]:
        """Keep the elements that end here where their last sign is read as such; return those."""
        if not self._closed:
            return []
        closed, self._closed = self._closed, []
        signs = [sign for sign, _, _ in closed]
        kept: list[str] = []
        inside = self._last
        for number, (sign, place, end) in enumerate(closed):
            if kept and kept[-1][0] != sign[0]:
                inside = kept[-1][0]
            if flanks(inside, _next_unlike(signs[number:], following)):
                kept.append(sign)
            else:
                self._written[place] = self._written[end] = ""
        return kept


def _join(pieces: Sequence[str]) -> str:
    """Join pieces; an empty comment separates code spans, which would be read as one."""
    joined: list[str] = []
    for piece in filter(None, pieces):
        if piece[0] == "`" and joined and joined[-1][-1] == "`":
            joined.append(CODE_SEPARATOR)
        joined.append(piece)
    return "".join(joined)


def _next_unlike(signs: list[str], following: str) -> str:
    """Return the character after a sign and those that are read as one with it."""
    return next((sign[0] for sign in signs if sign[0] != signs[0][0]), following)


def _can_follow(closed: list[str], opened: list[str]) -> bool:
    """Tell whether signs that close and open with nothing between are read as such."""
    if closed[-1][0] != opened[0][0]:
        return True
    return len(closed) == len(opened) == 1 and closed != opened


def flanks(inside: str, outside: str) -> bool:
    """Tell whether a sign between two characters belongs to the one inside."""
    return inside.isalnum() or not (
        _is_punctuation(inside)
        and outside
        and not outside.isspace()
        and not _is_punctuation(outside)
    )


def _is_punctuation(character: str) -> bool:
    return not character.isalnum() and unicodedata.category(character)[0] in "PS"
