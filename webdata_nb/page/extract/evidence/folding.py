"""Folds text for comparison, and maps positions in folded text back to the source."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from functools import lru_cache
from html import unescape
from html.entities import html5
from typing import Final

from webdata_nb.foreign_json import MalformedJson, decode_json

_ZEROS: Final = (
    "\u0660\u06f0\u07c0\u0966\u09e6\u0a66\u0ae6\u0b66\u0be6"
    "\u0c66\u0ce6\u0d66\u0e50\u0ed0\u0f20\u1040\u17e0"
)
"""The zeros of scripts with digits of their own, such as Arabic, Devanagari and Thai."""
_PLAIN: Final = str.maketrans(
    {
        **{chr(ord(zero) + digit): str(digit) for zero in _ZEROS for digit in range(10)},
        "\u066b": ".",
        "\u066c": ",",
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u2032\u00b4`", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff"),
        **dict.fromkeys(map(chr, range(0x300, 0x370))),
    }
)
"""One form of digits, quotes and dashes; no accents, soft hyphens or characters without width."""
_BARE_ENTITIES: Final = "|".join(
    sorted((name for name in html5 if not name.endswith(";")), key=len, reverse=True)
)
"""Entities that are also decoded without a semicolon, such as `&copy`."""
_TOKEN: Final = re.compile(
    r"\s+|\\u[dD][89abAB]\w\w\\u\w{4}|\\u[0-9a-fA-F]{4}|\\."
    rf"|&(?:\w{{1,32}};|#(?:[0-9]+|[xX][0-9a-fA-F]+);?|{_BARE_ENTITIES})|.",
    re.DOTALL,
)
_SPACE: Final = re.compile(r"\s+")
_FIRST_MARK: Final = "\u0300"
_MARKS: Final = "".join(
    mark
    for mark in map(chr, (*range(0x300, 0x1B00), 0x3099, 0x309A))
    if unicodedata.category(mark).startswith("M")
)
WORD: Final = re.compile(rf"[\w{_MARKS}]+")
"""A word, with the marks that are letters of Indic scripts and Thai."""
_KOREAN_REST: Final = "\u1160", "\u11ff"
"""The letters of a folded Korean syllable behind its first."""


def is_in_word(character: str) -> bool:
    """Return whether a folded character is a letter, a digit, or a mark on one."""
    return character.isalnum() or (
        character >= _FIRST_MARK and unicodedata.category(character).startswith("M")
    )


def is_inside_character(character: str) -> bool:
    """Return whether a folded character belongs to the one before it, as marks do."""
    if character < _FIRST_MARK:
        return False
    is_rest = _KOREAN_REST[0] <= character <= _KOREAN_REST[1]
    return is_rest or unicodedata.category(character).startswith("M")


def fold(text: str) -> str:
    """Return a text without differences of case, Unicode form, quotes, dashes and white space.

    Examples
    --------
    >>> fold("Caf\u00e9\u00a0\u2013  \u201cOpen\u201d")
    'cafe - "open"'
    """
    if not text.isascii():
        # Compatibility forms first: some of them contain characters that `_PLAIN` maps.
        text = unicodedata.normalize("NFKD", text).translate(_PLAIN).casefold()
    else:
        text = text.lower().replace("`", "'")
    return _SPACE.sub(" ", text)


def fold_source(raw: str, *, is_json: bool = False) -> str:
    """Fold a text of a page's source, whose entities and JSON escapes are decoded."""
    if is_json and "\\" in raw:
        raw = _decode_json(raw)
    return fold(unescape(raw) if "&" in raw else raw)


def _decode_json(raw: str) -> str:
    try:
        return str(decode_json(f'"{_SPACE.sub(" ", raw)}"'))
    except MalformedJson:
        return raw


class FoldedOffsets:
    """Maps positions in `fold_source(raw)` to positions in `raw`."""

    def __init__(self, raw: str, *, is_json: bool = False) -> None:
        self._raw_ends: list[int] = [0]
        self._folded_ends: list[int] = [0]
        self._length = len(raw)
        has_escapes = "&" in raw or (is_json and "\\" in raw)
        self._is_identical = raw.isascii() and not has_escapes and _SPACE.sub(" ", raw) == raw
        if not self._is_identical:
            self._align(raw, is_json=is_json)

    def _align(self, raw: str, *, is_json: bool) -> None:
        folded_end, in_space = 0, False
        for match in _TOKEN.finditer(raw):
            folded = _fold_token(match[0], is_json=is_json)
            is_space = folded == " "
            folded_end += 0 if is_space and in_space else len(folded)
            in_space = is_space if folded else in_space
            self._raw_ends.append(match.end())
            self._folded_ends.append(folded_end)

    def start(self, offset: int) -> int:
        """Return where the folded character at `offset` begins in the source."""
        if self._is_identical:
            return min(offset, self._length)
        return self._raw_ends[bisect_right(self._folded_ends, offset) - 1]

    def end(self, offset: int) -> int:
        """Return where the folded character before `offset` ends in the source."""
        if self._is_identical:
            return min(offset, self._length)
        place = bisect_right(self._folded_ends, offset - 1)
        return self._raw_ends[min(place, len(self._raw_ends) - 1)]


@lru_cache(maxsize=1 << 14)
def _fold_token(token: str, *, is_json: bool) -> str:
    return " " if token.isspace() else fold_source(token, is_json=is_json)
