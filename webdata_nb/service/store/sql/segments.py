"""Moves contents between the database and segments, each step in a transaction."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from webdata_nb.service.errors import SegmentGivenUp
from webdata_nb.service.store.records import Content
from webdata_nb.service.store.segments import (
    JobToMove,
    MovableContent,
    SegmentContents,
    StoredSegment,
)
from webdata_nb.service.store.sql.connection import SqlDatabase, SqlRow, Transaction
from webdata_nb.service.store.sql.contents import read_contents

_STORE_ID: Final = "store id"


class SegmentStore:
    """Contents that are in segments, or are to be moved into them."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    async def store_id(self) -> str:
        """Return the id of this store; its segments are in a folder of that name."""
        new_id = secrets.token_hex(4)
        await self._database.write("add_setting", name=_STORE_ID, value=new_id)
        [row] = await self._database.read("setting", name=_STORE_ID)
        return str(row["value"])

    async def newest(self) -> StoredSegment | None:
        """Return the segment that was stored last; None if there is none."""
        rows = await self._database.read("newest_segment")
        return _segment(rows[0]) if rows else None

    async def jobs_to_move(self, *, limit: int) -> list[JobToMove]:
        """Return ended jobs whose contents were not moved, oldest first, then running ones."""
        rows = await self._database.read("jobs_to_move", limit=limit)
        return [JobToMove(row["id"], row["account_id"], bool(row["has_ended"])) for row in rows]

    async def movable_contents(
        self, job: JobToMove, *, start: int, count: int
    ) -> list[MovableContent]:
        """Return contents of a job that are in the database, from ordinal `start`."""
        rows = await self._database.read(
            "movable_contents", job_id=job.id, start=start, has_ended=job.has_ended, limit=count
        )
        return [MovableContent(bytes(row["id"]), row["size"], row["ordinal"]) for row in rows]

    async def contents(self, ids: Sequence[bytes]) -> list[Content]:
        """Return those of some contents that exist."""
        return await read_contents(self._database, ids)

    async def mark_moved(self, job_id: str, *, now: float) -> None:
        """Note that no content of an ended job is to be moved."""
        await self._database.write("mark_moved", id=job_id, now=now)

    async def begin(self, segment: StoredSegment, *, now: float) -> None:
        """Add the row of a segment that is about to be written."""
        await self._database.write(
            "add_segment",
            name=segment.name,
            account_id=segment.account_id,
            contents=segment.contents,
            now=now,
        )

    async def complete(self, name: str, ids: Sequence[bytes], *, source: str | None = None) -> int:
        """Point contents to a written segment, in one transaction; return how many.

        They come from the database, or from the segment `source`. A content that was deleted
        meanwhile stays deleted.

        Raises
        ------
        SegmentGivenUp
            The row of the segment is older than moves may be, and its file is deleted.
        """
        return await self._database.change(partial(_complete, name, sorted(ids), source))

    async def reduced(self, *, after: str, limit: int) -> list[StoredSegment]:
        """Return segments, beyond a name, some of whose contents were deleted."""
        rows = await self._database.read("reduced_segments", after=after, limit=limit)
        return [_segment(row) for row in rows]

    async def content_ids(self, name: str) -> list[bytes]:
        """Return the ids of the contents that are in a segment."""
        rows = await self._database.read("contents_of_segment", name=name)
        return [bytes(row["id"]) for row in rows]

    async def give_up(self, *, before: float, limit: int) -> list[str]:
        """Return the names of segments whose files are to be deleted.

        They are given up before: nothing points to them, and those that are not stored began
        before a time.
        """

        def change(transaction: Transaction) -> list[str]:
            transaction.send("give_up_unfinished_segments", before=before)
            transaction.send("give_up_unused_segments")
            return [row["name"] for row in transaction.rows("given_up_segments", limit=limit)]

        return await self._database.change(change)

    async def remove(self, name: str) -> None:
        """Delete the row of a given up segment, after its file."""
        await self._database.write("remove_segment", name=name)

    async def names(self) -> set[str]:
        """Return the names of all segments."""
        return {row["name"] for row in await self._database.read("segment_names")}


def _complete(name: str, ids: Sequence[bytes], source: str | None, transaction: Transaction) -> int:
    if not transaction.execute("store_segment", name=name):
        raise SegmentGivenUp(f"the segment {name} took too long to write; it is not used")
    if source is None:
        values = [{"id": each, "name": name} for each in ids]
        return transaction.execute_many("move_content", values)
    values = [{"id": each, "name": name, "source": source} for each in ids]
    return transaction.execute_many("repoint_content", values)


def segments_with_contents(transaction: Transaction) -> list[SegmentContents]:
    """Return the segments that contents point to."""
    rows = transaction.rows("segment_contents")
    return [
        SegmentContents(
            name, tuple(bytes(row["id"]) for row in group), group[0]["state"] == "stored"
        )
        for name, group in _grouped(rows)
    ]


def _grouped(rows: Sequence[SqlRow]) -> Iterator[tuple[str, list[SqlRow]]]:
    for name, group in groupby(rows, key=lambda row: row["segment"]):
        yield str(name), list(group)


def _segment(row: SqlRow) -> StoredSegment:
    return StoredSegment(row["name"], row["account_id"], row["contents"])
