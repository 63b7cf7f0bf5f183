"""Converts the text of a page to passages and to a `tsvector` of their words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# PostgreSQL's limits are 2 kB for a word, 1 MB for all words with their positions, 16,383 for a
# position and 256 positions for a word.
_MAX_WORD_CHARS: Final = 200
MAX_VECTOR_BYTES: Final = 1_000_000
_TITLE_POSITION: Final = 16_383
MAX_PASSAGES: Final = _TITLE_POSITION - 1
_MAX_POSITIONS: Final = 255
_PASSAGE_WORDS: Final = 30
# A passage ends early at long words, and its punctuation is cut.
_PASSAGE_CHARS: Final = 300
_MAX_PASSAGE_CHARS: Final = _PASSAGE_CHARS + _MAX_WORD_CHARS
_MAX_TITLE_CHARS: Final = 2_000
# The length and, at even addresses, the number of positions.
_ENTRY_BYTES: Final = 4
_POSITION_BYTES: Final = 2
_WORD: Final = re.compile(rf"[^\W_]{{1,{_MAX_WORD_CHARS}}}")


def _base_letter(character: str) -> str | None:
    """Return the Latin letter below a letter's diacritics."""
    decomposed = unicodedata.normalize("NFD", character)
    base, marks = decomposed[0], decomposed[1:]
    is_latin = base.isascii() and base.isalpha() and all(map(unicodedata.combining, marks))
    return base.lower() if marks and is_latin else None


# One character for each, so that a word has the same place in a text and in its folded text. The
# lower case of a capital sigma would depend on its neighbours.
_SIGMA: Final = "\N{GREEK SMALL LETTER SIGMA}"
_FOLDED: Final = dict.fromkeys((0x3A3, 0x3C2), _SIGMA) | {
    code: letter for code in range(0xC0, 0x2000) if (letter := _base_letter(chr(code)))
}


def fold(text: str) -> str:
    """Return a text in lower case and without the diacritics of Latin letters.

    Examples
    --------
    >>> fold("Überraschung")
    'uberraschung'
    """
    return text.lower() if text.isascii() else text.translate(_FOLDED).lower()


def folded_words(text: str) -> list[str]:
    """Return the words of a text in their order.

    Examples
    --------
    >>> folded_words("Crème_brûlée at 5%")
    ['creme', 'brulee', 'at', '5']
    """
    return _WORD.findall(fold(unicodedata.normalize("NFC", text)))


def without_nul(text: str) -> str:
    """Return a text without NUL, which PostgreSQL refuses."""
    return text.replace("\x00", " ")


@dataclass(frozen=True, slots=True)
class TextVector:
    """The passages of a text, and the literal of a `tsvector`.

    A position in the vector is the number of a passage, from 1; words of the title have weight A.
    """

    passages: tuple[str, ...]
    literal: str


def text_vector(title: str, text: str) -> TextVector:
    """Return the passages and words of a page.

    A vector that reaches PostgreSQL's limit has no further words; the first ones are those of the
    title.
    """
    words = _SizedVector()
    for word in folded_words(title[:_MAX_TITLE_CHARS]):
        words.add(word, f"{_TITLE_POSITION}A")
    passages = []
    for number, (passage, passage_words) in enumerate(_passages(text), start=1):
        passages.append(passage)
        for word in passage_words:
            words.add(word, str(number))
        if number == MAX_PASSAGES:
            break
    return TextVector(tuple(passages), words.literal())


class _SizedVector:
    """Positions by word, within PostgreSQL's limits."""

    def __init__(self) -> None:
        self._positions: dict[str, list[str]] = {}
        self._bytes_left = MAX_VECTOR_BYTES

    def add(self, word: str, position: str) -> None:
        positions = self._positions.get(word)
        if positions is None:
            size = len(word.encode()) + _ENTRY_BYTES + _POSITION_BYTES
            if size <= self._bytes_left:
                self._bytes_left -= size
                self._positions[word] = [position]
        elif (
            positions[-1] != position
            and len(positions) < _MAX_POSITIONS
            and self._bytes_left >= _POSITION_BYTES
        ):
            self._bytes_left -= _POSITION_BYTES
            positions.append(position)

    def literal(self) -> str:
        return " ".join(f"'{word}':{','.join(each)}" for word, each in self._positions.items())


def _passages(text: str) -> Iterator[tuple[str, set[str]]]:
    """Split a text after every so many words; yield each passage with its words."""
    text = unicodedata.normalize("NFC", text)
    folded = fold(text)
    start, words = 0, list[str]()
    for match in _WORD.finditer(folded):
        if words and (len(words) == _PASSAGE_WORDS or match.end() - start > _PASSAGE_CHARS):
            yield _one_line(text[start : match.start()]), set(words)
            start, words = match.start(), []
        words.append(match[0])
    if words:
        yield _one_line(text[start:]), set(words)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAX_PASSAGE_CHARS]
