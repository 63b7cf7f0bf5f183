"""Text indexes of pages that no job has crawled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from webdata_nb.service.store.backends import open_text_index
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.postgres.text_index import PostgresTextIndex
from webdata_nb.service.store.records import IndexedPage
from webdata_nb.service.store.sql.connection import SqlRow
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.sql.text_index import TextIndex


class PostgresDocumentIndex(PostgresTextIndex):
    """An index that also finds pages of jobs without rows, which a test has added."""

    def __init__(self, database: PostgresDatabase, store: Store) -> None:
        super().__init__(database, store)
        self._added: dict[tuple[str, int], str] = {}

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
        self._added |= {(job_id, page.position): page.text for page in pages}
        return await super().add(
            account_id, job_id, pages, start=start, upto=upto, reachable=reachable
        )

    async def _texts(self, rows: Sequence[SqlRow]) -> Sequence[str | None]:
        texts = await super()._texts(rows)
        return [
            self._added.get((row["job_id"], row["position"])) if text is None else text
            for row, text in zip(rows, texts, strict=True)
        ]


def open_document_index(data_dir: Path, store: Store) -> TextIndex:
    """Return the text index of an open store, which may also have pages without rows."""
    if isinstance(store.database, PostgresDatabase):
        return PostgresDocumentIndex(store.database, store)
    return open_text_index(data_dir, store)
