"""Writes emphasis that CommonMark parses as emphasis, by its rules for flanking delimiters."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final, NamedTuple

from webdata_nb.page.markdown.escaping import DOLLAR

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
"""The delimiter that is written before and after an element, by its tag."""
_TAGS: Final = {"**": "strong", "*": "em", "~~": "del"}
"""The tag of an element that CommonMark has no notation for at its place."""
SIGN_CHARACTERS: Final = frozenset("*~")
SEPARATOR: Final = "<!-- -->"


class Delimiter(NamedTuple):
    """One end of an element of emphasis.

    Attributes
    ----------
    position
        The number of pieces of the line before it.
    sign
        The characters that are written for it.
    opening
        Whether the element starts here.
    """

    position: int
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
        The characters next to the line.
    """
    line = _EmphasisLine(before)
    start = 0
    for position, sign, opening in delimiters:
        line.add_text("".join(pieces[start:position]))
        start = position
        if opening:
            line.open(sign)
        else:
            line.close()
    line.add_text("".join(pieces[start:]))
    return line.finish(after)


class _EmphasisLine:
    """A line with emphasis, written from left to right.

    White space at the ends of an element is moved out of it. An element without text is omitted,
    and adjacent elements of the same kind are joined. An element whose signs would not be parsed
    is text, except beside characters of languages without spaces: there it has tags.
    """

    def __init__(self, before: str) -> None:
        self._written: list[str] = []
        self._last = before  # the last character that is not a sign
        self._space = ""  # white space that is not written yet
        self._unopened: list[str] = []  # signs that are written before the next text
        self._opened: list[tuple[str, int, str]] = []  # sign, position, sign or tag as written
        self._closed: list[
            tuple[str, int, int]
        ] = []  # signs with positions, valid or not depending on the next text

    def add_text(self, text: str) -> None:
        body = text.strip()
        if not body:
            self._space = self._space or text
            return
        if len(body) < len(text):
            self._space += text[: -len(text.lstrip())]
        closed = self._resolve_closed(self._space[:1] or body[0])
        if self._space:
            self._written.append(self._space)
            self._last = self._space[-1]
            closed = []
        if self._unopened:
            self._write_opening_signs(body[0], closed)
        self._written.append(body)
        self._last = body[-1]
        self._space = text[len(text.rstrip()) :] if len(body) < len(text) else ""

    def open(self, sign: str) -> None:
        if self._closed and not self._space and not self._unopened:
            last_sign, start, end = self._closed[-1]
            if last_sign == sign and end == len(self._written) - 1:
                self._closed.pop()
                self._written.pop()
                self._opened.append((sign, start, sign))
                return
        self._unopened.append(sign)

    def close(self) -> None:
        if self._unopened:
            self._unopened.pop()
            return
        sign, start, notation = self._opened.pop()
        if notation == sign:
            self._closed.append((sign, start, len(self._written)))
            self._written.append(sign)
        else:
            self._written[start] = notation
            self._written.append(notation.replace("<", "</"))

    def finish(self, after: str) -> str:
        self._resolve_closed(self._space[:1] or after)
        return _join(self._written) + self._space

    def _write_opening_signs(self, following: str, closing: list[str]) -> None:
        """Write the opening signs before a text, marked as valid if CommonMark parses them."""
        signs, self._unopened = self._unopened, []
        valid = self._last not in SIGN_CHARACTERS if not closing else _can_follow(closing, signs)
        outside = closing[-1][0] if closing and closing[-1][0] != signs[0][0] else self._last
        for number, sign in enumerate(signs):
            inside = _next_other_character(signs[number:], following)
            is_emphasis = valid and flanks(inside, outside)
            notation = sign if is_emphasis else _tag_beside(sign, inside, outside)
            self._opened.append((sign, len(self._written), notation))
            self._written.append(sign)
            if is_emphasis and number + 1 < len(signs) and signs[number + 1][0] != sign[0]:
                outside = sign[0]

    def _resolve_closed(self, following: str) -> list[str]:
        """Remove the signs of elements that are not emphasis in CommonMark; return the others."""
        if not self._closed:
            return []
        closed, self._closed = self._closed, []
        signs = [sign for sign, _, _ in closed]
        written_signs: list[str] = []
        inside = self._last
        for number, (sign, start, end) in enumerate(closed):
            if written_signs and written_signs[-1][0] != sign[0]:
                inside = written_signs[-1][0]
            outside = _next_other_character(signs[number:], following)
            if flanks(inside, outside):
                written_signs.append(sign)
            else:
                self._written[start] = _tag_beside(sign, inside, outside)
                self._written[end] = self._written[start].replace("<", "</")
        return written_signs


def _join(pieces: Sequence[str]) -> str:
    """Join pieces, with an empty comment between code spans that would otherwise merge."""
    parts: list[str] = []
    for piece in filter(None, pieces):
        if piece[0] == "`" and parts and parts[-1][-1] == "`":
            parts.append(SEPARATOR)
        parts.append(piece)
    return "".join(parts)


def _next_other_character(signs: list[str], following: str) -> str:
    """Return the character after a run of the same sign."""
    return next((sign[0] for sign in signs if sign[0] != signs[0][0]), following)


def _can_follow(closing: list[str], opening: list[str]) -> bool:
    """Return whether closing signs can directly precede opening ones."""
    if closing[-1][0] != opening[0][0]:
        return True
    return len(closing) == len(opening) == 1 and closing != opening


def flanks(inside: str, outside: str) -> bool:
    """Return whether a sign between two characters delimits the text on its inner side."""
    return inside.isalnum() or not (
        _is_punctuation(inside)
        and outside
        and not outside.isspace()
        and not _is_punctuation(outside)
    )


def _tag_beside(sign: str, *characters: str) -> str:
    """Return the start tag for an element whose sign would not be parsed, or nothing."""
    is_wide = any(unicodedata.east_asian_width(each) in "WF" for each in characters if each)
    return f"<{_TAGS[sign]}>" if is_wide else ""


def _is_punctuation(character: str) -> bool:
    if character == DOLLAR:
        return True
    return not character.isalnum() and unicodedata.category(character)[0] in "PS"
