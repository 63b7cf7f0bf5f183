"""Makes the snippet of a text for a query, on words in lower case and without diacritics."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Final

_MAX_WORD_CHARS: Final = 200
MAX_TITLE_CHARS: Final = 2_000
# Of a snippet: before the first match, until the last one, and after the first one.
_CONTEXT_CHARS: Final = 60
_MATCHES_CHARS: Final = 180
_SNIPPET_CHARS: Final = 240
# Matches that are looked at in a text.
_MAX_PLACES: Final = 10_000
_WORD: Final = re.compile(rf"[^\W_]{{1,{_MAX_WORD_CHARS}}}")
_SPACE: Final = re.compile(r"\s")


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


def first_snippet(text: str) -> str:
    """Return the beginning of a text."""
    return _snippet(unicodedata.normalize("NFC", text), 0)


def best_snippet(title: str, text: str, words: Collection[str]) -> str | None:
    """Return the snippet of a text with most of some folded words.

    Without any of them in the text, it is the first one if the title has a word, and None if not.
    """
    text = unicodedata.normalize("NFC", text)
    places = [(match.start(), match[0]) for match in _matches(fold(text), words)]
    if not places and set(words).isdisjoint(folded_words(title[:MAX_TITLE_CHARS])):
        return None
    return _snippet(text, _densest(places))


def _matches(folded: str, words: Collection[str]) -> Iterator[re.Match[str]]:
    """Find words in a folded text; of very many the first ones."""
    alternatives = "|".join(sorted(words, key=len, reverse=True))
    pattern = re.compile(rf"(?<![^\W_])(?:{alternatives})(?![^\W_])")
    return islice(pattern.finditer(folded), _MAX_PLACES)


def _densest(places: Sequence[tuple[int, str]]) -> int:
    """Return where the first snippet with most of the words begins, by places in their order."""
    best = most = first = 0
    inside = Counter[str]()
    for place, word in places:
        inside[word] += 1
        while place - places[first][0] > _MATCHES_CHARS:
            inside -= Counter([places[first][1]])
            first += 1
        if len(inside) > most:
            best, most = places[first][0], len(inside)
    return best


def _snippet(text: str, match: int) -> str:
    """Return the whole words of a text around a match."""
    start, end = max(0, match - _CONTEXT_CHARS), match + _SNIPPET_CHARS
    before, after = text[start:match], text[match:end]
    if start and (space := _SPACE.search(before)):
        before = before[space.end() :]
    if end < len(text):
        after = (after.rsplit(maxsplit=1) or [""])[0]
    snippet = " ".join((before + after).split())
    return f"{'… ' if start else ''}{snippet}{' …' if end < len(text) else ''}"
