"""Text indexes of pages that no job has crawled."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import MappingProxyType

from webdata_nb.service.store.backends import INDEX_FILE
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.postgres.text_index import PostgresTextIndex
from webdata_nb.service.store.records import IndexedPage
from webdata_nb.service.store.sql.indexed_text import StoredTexts
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.sql.text_index import TextIndex
from webdata_nb.service.store.sqlite.text_index import SqliteTextIndex


class DocumentTexts(StoredTexts):
    """Reads texts from the store, and of jobs without rows from the pages that a test has added."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.added: dict[tuple[str, int], str] = {}

    async def read(self, places: Sequence[tuple[str, int]]) -> list[str | None]:
        texts = await super().read(places)
        return [
            self.added.get(place) if text is None else text
            for place, text in zip(places, texts, strict=True)
        ]


class DocumentIndex(TextIndex):
    """An index that also finds pages of jobs that the store does not have."""

    _texts: DocumentTexts

    async def add(
        self,
        account_id: str,
        job_id: str,
        pages: Sequence[IndexedPage],
        *,
        start: int = 0,
        upto: int,
        reachable: Mapping[str, bool] = MappingProxyType({}),
    ) -> int:
        self._texts.added |= {(job_id, page.position): page.text for page in pages}
        return await super().add(
            account_id, job_id, pages, start=start, upto=upto, reachable=reachable
        )

    @property
    def texts(self) -> DocumentTexts:
        """What reads the texts of pages."""
        return self._texts

    def set_text(self, job_id: str, position: int, text: str | None) -> None:
        """Change the text of a page's row, or delete it."""
        self._texts.added.pop((job_id, position))
        if text is not None:
            self._texts.added[job_id, position] = text


class SqliteDocumentIndex(DocumentIndex, SqliteTextIndex):
    """A `DocumentIndex` in a file."""


class PostgresDocumentIndex(DocumentIndex, PostgresTextIndex):
    """A `DocumentIndex` in a database."""


def open_document_index(data_dir: Path, store: Store) -> DocumentIndex:
    """Return the text index of an open store, which may also have pages without rows."""
    texts = DocumentTexts(store)
    if isinstance(store, Store) and isinstance(store.database, PostgresDatabase):
        return PostgresDocumentIndex(store.database, texts)
    return SqliteDocumentIndex(data_dir / INDEX_FILE, texts)


def pages_by_word(path: Path) -> dict[str, int]:
    """Return in how many pages each word of the index is, found or not."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO page_text (page_text) VALUES ('integrity-check')")
        connection.execute("CREATE VIRTUAL TABLE temp.word USING fts5vocab (main, page_text, row)")
        return dict(connection.execute("SELECT term, doc FROM temp.word"))
