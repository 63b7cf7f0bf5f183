"""Writes, reads and deletes the contents of entries (see `page_contents`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from webdata_nb.service.store.page_contents import LARGE_BYTES
from webdata_nb.service.store.records import Content, JournalEntry
from webdata_nb.service.store.segments import SegmentSource
from webdata_nb.service.store.sql.connection import SqlDatabase, SqlRow, Transaction
from webdata_nb.service.store.sql.segment_texts import with_texts

log = logging.getLogger(__name__)

T = TypeVar("T")
SLICE_BYTES: Final = 8 * 1024 * 1024


def delete_unused(transaction: Transaction, content_ids: Iterable[bytes | None]) -> None:
    """Delete contents that no entry uses any more."""
    ids = sorted({each for each in content_ids if each is not None})
    if not ids:
        return
    values: list[dict[str, Any]] = [{"id": each} for each in ids]
    transaction.rows_of_each([("lock_content", each) for each in values])
    transaction.execute_many("delete_unused_content", values)


def entry_of_row(row: SqlRow) -> JournalEntry:
    """Return an entry as it is stored, with its content."""
    content = None
    if row["content_id"] is not None:
        content = Content(row["content_id"], row["body"], row["size"] or 0, row["segment"])
    return JournalEntry(
        ordinal=row["ordinal"],
        url=row["url"],
        success=bool(row["success"]),
        journal=row["journal"],
        page=row["page"],
        position=row["position"],
        content=content,
        visit=row["visit"],
    )


class ContentReader:
    """Reads rows and journals of stored pages."""

    def __init__(self, database: SqlDatabase, segments: SegmentSource) -> None:
        self._database, self._segments = database, segments

    async def convert(
        self, pages: Sequence[JournalEntry], convert: Callable[[JournalEntry], T]
    ) -> list[T]:
        """Return what `convert` makes of each page; on another thread if there is much to do."""
        converted: list[T] = []
        for some in _slices(pages):
            whole = await with_texts(some, self._database, self._segments)
            converted += await _convert(whole, convert)
        return converted


def _slices(pages: Sequence[JournalEntry]) -> Iterator[Sequence[JournalEntry]]:
    """Divide pages into slices whose contents in segments are not too large for the memory."""
    start = size = 0
    for end, page in enumerate(pages):
        if page.content is not None and page.content.segment is not None:
            size += page.content.size
        if size > SLICE_BYTES:
            yield pages[start : end + 1]
            start, size = end + 1, 0
    yield pages[start:]


async def _convert(pages: Sequence[JournalEntry], convert: Callable[[JournalEntry], T]) -> list[T]:
    if sum(map(_work, pages)) < LARGE_BYTES:
        return list(map(convert, pages))
    return await asyncio.to_thread(lambda: list(map(convert, pages)))


def _work(page: JournalEntry) -> int:
    """Return how many bytes are decompressed for a page."""
    return 0 if page.content is None else page.content.size
