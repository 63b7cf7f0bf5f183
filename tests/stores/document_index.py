"""Text indexes of pages that no job has crawled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from webdata_nb.service.store.backends import open_text_index
from webdata_nb.service.store.indexing import StoredTexts
from webdata_nb.service.store.interface import Store
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.postgres.text_index import PostgresTextIndex
from webdata_nb.service.store.records import IndexedPage
from webdata_nb.service.store.sql.store import SqlStore
from webdata_nb.service.store.text_index import TextIndex


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


class DocumentIndex(PostgresTextIndex):
    """An index that also finds pages of jobs that the store does not have."""

    def __init__(self, database: PostgresDatabase, texts: DocumentTexts) -> None:
        super().__init__(database, texts)
        self._documents = texts

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
        self._documents.added |= {(job_id, page.position): page.text for page in pages}
        return await super().add(
            account_id, job_id, pages, start=start, upto=upto, reachable=reachable
        )


def open_document_index(data_dir: Path, store: Store) -> TextIndex:
    """Return the text index of an open store, which may also have pages without rows."""
    if isinstance(store, SqlStore) and isinstance(store.database, PostgresDatabase):
        return DocumentIndex(store.database, DocumentTexts(store))
    return open_text_index(data_dir, store)
