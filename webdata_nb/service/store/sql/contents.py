"""Reads and deletes the contents of entries, in the database or in segments."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from webdata_nb.service.store.page_contents import LARGE_BYTES
from webdata_nb.service.store.records import Content, JournalEntry
from webdata_nb.service.store.segments import SegmentSource
from webdata_nb.service.store.sql.connection import SqlDatabase, SqlRow, Transaction


async def with_texts(
    rows: Sequence[JournalEntry], database: SqlDatabase, source: SegmentSource
) -> Sequence[JournalEntry]:
    """Return rows with the contents that are in segments; without those that cannot be read.

    A segment may be rewritten after the rows were read: contents that it lacks are looked up again.
    """
    wanted = {
        row.content.id: row.content
        for row in rows
        if row.content is not None and row.content.segment is not None
    }
    if not wanted:
        return rows
    found = await _read(wanted.values(), source)
    if missing := wanted.keys() - found.keys():
        moved = await _moved_since(wanted, sorted(missing), database)
        found |= {each.id: each for each in moved if each.body is not None}
        found |= await _read((each for each in moved if each.body is None), source)
    return [
        row
        if row.content is None or row.content.id not in found
        else replace(row, content=found[row.content.id])
        for row in rows
    ]


async def _read(contents: Iterable[Content], source: SegmentSource) -> dict[bytes, Content]:
    """Return those contents that can be read, with their text, by id."""
    by_id = {each.id: each for each in contents}
    ids_by_segment: dict[str, list[bytes]] = {}
    for each in by_id.values():
        if each.segment is not None:
            ids_by_segment.setdefault(each.segment, []).append(each.id)
    texts = await source.texts(ids_by_segment)
    return {each: replace(by_id[each], text=text) for each, text in texts.items()}


async def read_contents(database: SqlDatabase, ids: Sequence[bytes]) -> list[Content]:
    """Return the contents that are stored, as they are in the database."""
    rows_of_each = await database.query(
        lambda transaction: transaction.rows_of_each([("content", {"id": each}) for each in ids])
    )
    return [
        Content(bytes(row["id"]), row["body"], row["size"], row["segment"])
        for rows in rows_of_each
        for row in rows
    ]


async def _moved_since(
    before: Mapping[bytes, Content], ids: Sequence[bytes], database: SqlDatabase
) -> list[Content]:
    """Return contents that are in another place than before."""
    found = await read_contents(database, ids)
    return [each for each in found if each.segment != before[each.id].segment]


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
