"""Full-text search over stored pages with hashes of their words in a GIN index.

All processes of a store share the index. Words are split and folded here and not by a text search
configuration of the server: they are the same for every locale, and need no extension.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.postgres.page_words import page_words, word_hash
from webdata_nb.service.store.records import IndexedPage
from webdata_nb.service.store.snippets import best_snippet
from webdata_nb.service.store.sql.connection import SqlRow, Transaction
from webdata_nb.service.store.sql.text_index import TextIndex, decompressed, query_words

T = TypeVar("T")
# Ranking reads the words of every candidate.
MAX_CANDIDATES: Final = 2000


class PostgresTextIndex(TextIndex):
    """A `TextIndex` in the database of a store, which opens and closes it."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

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

    def _word_values(self, page: IndexedPage) -> dict[str, Any]:
        words = page_words(page.title, page.text)
        return {
            "title": _without_nul(page.title),
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

    def _snippet(self, row: SqlRow, words: Collection[str]) -> str | None:
        """Return None for a page that has only other words with the same hashes."""
        return best_snippet(row["title"], decompressed(row["text"]), words)


def _without_nul(text: str) -> str:
    """Return a text without NUL, which PostgreSQL refuses."""
    return text.replace("\x00", " ")
