"""Full-text search over stored pages with hashes of their words in a GIN index.

All processes of a store share the index. Words are split and folded here and not by a text search
configuration of the server: they are the same for every locale, and need no extension.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from webdata_nb.service.store.indexing import StoredTexts
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.postgres.page_words import (
    best_passage,
    folded_words,
    page_words,
    word_hash,
)
from webdata_nb.service.store.records import IndexedPage, TextMatch
from webdata_nb.service.store.sql.connection import SqlRow, Transaction
from webdata_nb.service.store.sql.text_index import SqlTextIndex

T = TypeVar("T")
# Ranking reads the words of every candidate.
MAX_CANDIDATES: Final = 2000
MAX_QUERY_WORDS: Final = 64
# Pages whose texts are in memory at one time.
_SNIPPETS: Final = 20


class PostgresTextIndex(SqlTextIndex):
    """A `TextIndex` in the database of a store, which opens and closes it.

    It has no texts: `texts` reads those of the pages that are found.
    """

    def __init__(self, database: PostgresDatabase, texts: StoredTexts) -> None:
        self._database, self._texts = database, texts

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: the store closes the database."""

    async def return_space(self) -> None:
        """Do nothing: PostgreSQL's autovacuum does it."""

    async def _change(self, change: Callable[[Transaction], T]) -> T:
        return await self._database.change(change)

    async def _read(self, statement: str, /, **values: Any) -> Sequence[SqlRow]:
        return await self._database.read(statement, **values)

    def _text_values(self, page: IndexedPage) -> dict[str, Any]:
        words = page_words(page.title, page.text)
        return {
            "title": _without_nul(page.title),
            "hashes": list(words.hashes),
            "weights": words.weights,
        }

    def _query_values(self, query: str, *, require_all: bool) -> dict[str, Any] | None:
        hashes = list(dict.fromkeys(map(word_hash, _query_words(query))))
        if not hashes:
            return None
        return {
            "hashes": hashes,
            "required": hashes if require_all else [],
            "max_candidates": MAX_CANDIDATES,
        }

    async def _matches(self, rows: Sequence[SqlRow], query: str) -> list[TextMatch]:
        """Return the pages that still have their text, and a word of the query in it."""
        words = _query_words(query)
        matches: list[TextMatch] = []
        for start in range(0, len(rows), _SNIPPETS):
            some = rows[start : start + _SNIPPETS]
            texts = await self._texts.read([(row["job_id"], row["position"]) for row in some])
            matches += await asyncio.to_thread(_with_passages, some, texts, words)
        return matches


def _query_words(query: str) -> list[str]:
    return list(dict.fromkeys(folded_words(query)))[:MAX_QUERY_WORDS]


def _with_passages(
    rows: Sequence[SqlRow], texts: Sequence[str | None], words: Collection[str]
) -> list[TextMatch]:
    """Return the pages with their passages.

    A page without any of the words has another word with the same hash.
    """
    passages = [
        None if text is None else best_passage(row["title"], text, words)
        for row, text in zip(rows, texts, strict=True)
    ]
    return [
        TextMatch(row["url"], row["title"], passage, row["unreachable"])
        for row, passage in zip(rows, passages, strict=True)
        if passage is not None
    ]


def _without_nul(text: str) -> str:
    """Return a text without NUL, which PostgreSQL refuses."""
    return text.replace("\x00", " ")
