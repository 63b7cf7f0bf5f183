"""Full-text search over stored pages with PostgreSQL's `tsvector` and a GIN index.

All processes of a store share the index. Words are split and folded here and not by a text search
configuration of the server: they are the same for every locale, need no extension, and the size of
a `tsvector` is known before it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.postgres.text_vector import folded_words, text_vector, without_nul
from webdata_nb.service.store.records import IndexedPage
from webdata_nb.service.store.sql.connection import SqlRow, Transaction
from webdata_nb.service.store.sql.text_index import SqlTextIndex, compressed, decompressed

T = TypeVar("T")
# Ranking reads the words of every candidate.
MAX_CANDIDATES: Final = 2000
MAX_QUERY_WORDS: Final = 64
# Passages have no line breaks.
_SEPARATOR: Final = "\n"
# For the weights D, C, B and A of a position: a title names its page.
_WEIGHTS: Final = [0.25, 0.25, 0.25, 1.0]


class PostgresTextIndex(SqlTextIndex):
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

    def _text_values(self, page: IndexedPage) -> dict[str, Any]:
        title = without_nul(page.title)
        vector = text_vector(title, without_nul(page.text))
        text = compressed(_SEPARATOR.join(vector.passages))
        return {"title": title, "text": text, "words": vector.literal}

    def _snippet(self, row: SqlRow) -> str:
        """Return the passage with most of the words."""
        passages, best = _passages(row), row["passage"] or 1
        if best > len(passages):
            return ""
        before, after = "… " if best > 1 else "", " …" if best < len(passages) else ""
        return f"{before}{passages[best - 1]}{after}"

    def _query_values(self, query: str, *, require_all: bool) -> dict[str, Any] | None:
        words = list(dict.fromkeys(folded_words(query)))[:MAX_QUERY_WORDS]
        if not words:
            return None
        queries = [f"'{word}'" for word in words]
        return {
            "match": (" & " if require_all else " | ").join(queries),
            "words": words,
            "queries": queries,
            "weights": _WEIGHTS,
            "max_candidates": MAX_CANDIDATES,
        }


def _passages(row: SqlRow) -> Sequence[str]:
    """Return the passages of a page; earlier releases stored them as an array."""
    if row["text"] is None:
        return list(row["passages"] or ())
    text = decompressed(row["text"])
    return text.split(_SEPARATOR) if text else ()
