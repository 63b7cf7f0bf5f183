"""Full-text search over stored pages with hashes of their words in a GIN index.

All processes of a store share the index. It has no texts: snippets come from the stored rows. Words
are split and folded here and not by a text search configuration of the server: they are the same
for every locale, and need no extension.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Self, TypeVar

from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.records import IndexedPage, UnindexedRow
from webdata_nb.service.store.sql.connection import SqlRow, Transaction
from webdata_nb.service.store.sql.jobs import JobQueue
from webdata_nb.service.store.sql.text_index import (
    MAX_TITLE_CHARS,
    TextIndex,
    best_snippet,
    folded_words,
    indexed_page,
    query_words,
)

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


T = TypeVar("T")
# Ranking reads the words of every candidate.
MAX_CANDIDATES: Final = 2000


class PostgresTextIndex(TextIndex):
    """A `TextIndex` in the database of a store, which opens and closes it.

    `source` has the rows that were indexed.
    """

    def __init__(self, database: PostgresDatabase, source: JobQueue) -> None:
        self._database, self._source = database, source

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: the store closes the database."""

    async def return_space(self) -> None:
        """Do nothing: PostgreSQL's autovacuum does it."""

    async def erase(self) -> None:
        """Do nothing: the tables are those of the store."""

    async def _change(self, change: Callable[[Transaction], T]) -> T:
        return await self._database.change(change)

    async def _read(self, statement: str, /, **values: Any) -> Sequence[SqlRow]:
        return await self._database.read(statement, **values)

    def _text_values(self, page: IndexedPage) -> dict[str, Any]:
        words = page_words(page.title, page.text)
        return {
            "position": page.position,
            "hashes": list(words.hashes),
            "weights": words.weights,
        }

    def _query_values(self, query: str, *, require_all: bool) -> dict[str, Any] | None:
        hashes = list(dict.fromkeys(map(word_hash, query_words(query))))
        if not hashes:
            return None
        return {
            "hashes": hashes,
            "required": hashes if require_all else [],
            "max_candidates": MAX_CANDIDATES,
        }

    async def _texts(self, rows: Sequence[SqlRow]) -> Sequence[str | None]:
        places = [(row["job_id"], row["position"]) for row in rows]
        return await asyncio.to_thread(_texts_of, await self._source.indexed_rows(places))

    def _snippet(self, title: str, text: str, words: Collection[str]) -> str | None:
        """Return None for a page that has only other words with the same hashes."""
        return best_snippet(title, text, words)


def _texts_of(rows: Sequence[UnindexedRow | None]) -> list[str | None]:
    pages = (None if row is None else indexed_page(row) for row in rows)
    return [None if page is None else page.text for page in pages]
