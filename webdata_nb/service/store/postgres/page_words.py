"""Splits the text of a page into words with their weights."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import Final

from webdata_nb.service.store.snippets import MAX_TITLE_CHARS, folded_words

# Different words of a page that are found.
MAX_WORDS: Final = 100_000
# The saturation and the length normalization of BM25 as in FTS5, with a usual length instead of the
# average of all pages, so that weights can be stored.
_SATURATION: Final = 1.2
_LENGTH_SHARE: Final = 0.75
_USUAL_WORDS: Final = 1_000
# A title names its page: a word of it counts as several of the text.
_TITLE_COUNT: Final = 4
_MAX_WEIGHT: Final = 255
_HASH_BITS: Final = 32


def word_hash(word: str) -> int:
    """Return the number that stands for a word in the index, within PostgreSQL's `integer`.

    Two words may have one number.
    """
    number = zlib.crc32(word.encode(errors="replace"))
    return number - (1 << _HASH_BITS) if number >> (_HASH_BITS - 1) else number


@dataclass(frozen=True, slots=True)
class PageWords:
    """The hashes of a page's words in ascending order, and the weight of each, from 1 to 255.

    A weight is the part of BM25 that depends on the page alone (Robertson and Zaragoza, "The
    Probabilistic Relevance Framework: BM25 and Beyond", 2009), as a share of its limit.
    """

    hashes: tuple[int, ...]
    weights: bytes


def page_words(title: str, text: str) -> PageWords:
    """Return the words of a page; of very many different words the first ones."""
    in_text = folded_words(text)
    counts = Counter[str]()
    for word in folded_words(title[:MAX_TITLE_CHARS]):
        counts[word] += _TITLE_COUNT
    counts.update(in_text)
    length = 1 - _LENGTH_SHARE + _LENGTH_SHARE * len(in_text) / _USUAL_WORDS
    weights: dict[int, int] = {}
    for word, count in islice(counts.items(), MAX_WORDS):
        weight = max(1, round(_MAX_WEIGHT * count / (count + _SATURATION * length)))
        number = word_hash(word)
        weights[number] = max(weight, weights.get(number, 0))
    hashes = tuple(sorted(weights))
    return PageWords(hashes, bytes(weights[number] for number in hashes))
