"""Reads the contents of rows that are in segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from webdata_nb.service.store.records import Content, JournalEntry
from webdata_nb.service.store.segments import SegmentSource
from webdata_nb.service.store.sql.connection import SqlDatabase


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
