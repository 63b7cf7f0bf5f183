"""Contents of entries: read, deleted, and moved to segments, which are files outside the database.

A segment is a file with contents of one account. Its row in the database is written before the
file, in the state `writing`; the transaction that points contents to the file makes it `stored`. A
file whose row is in the state `deleting` is never pointed to again, and no other file gets its
name.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Protocol, TypeVar

from webdata_nb.service.errors import BlobsUnavailable, SegmentGivenUp
from webdata_nb.service.store.page_contents import LARGE_BYTES, DamagedContent, content_text
from webdata_nb.service.store.records import JournalEntry
from webdata_nb.service.store.sql.connection import SqlDatabase, SqlRow, Transaction


@dataclass(frozen=True, slots=True)
class JobToMove:
    """A job whose contents may have to be moved; of a running one, those of visible rows only."""

    id: str
    account_id: str
    has_ended: bool


@dataclass(frozen=True, slots=True)
class MovableContent:
    """A content in the database, found at an entry of a job; `size` is not compressed."""

    id: bytes
    size: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment with its account, and the number of contents in its file."""

    name: str
    account_id: str
    contents: int


@dataclass(frozen=True, slots=True)
class SegmentContents:
    """A segment that contents point to, with their ids; `is_stored` as it should be."""

    name: str
    ids: tuple[bytes, ...]
    is_stored: bool


class SegmentSource(Protocol):
    """Reads contents in segments."""

    async def texts(self, wanted: Mapping[str, Collection[bytes]]) -> dict[bytes, bytes]:
        """Return contents by id; those of missing and damaged files are left out.

        Parameters
        ----------
        wanted
            Ids by the name of the segment.

        Raises
        ------
        BlobsUnavailable
            The place of the files does not answer, or this process has none.
        """


class NoSegments(SegmentSource):
    """The segments of a process without a place for them."""

    async def texts(self, wanted: Mapping[str, Collection[bytes]]) -> dict[bytes, bytes]:
        """Raise `BlobsUnavailable` if contents are wanted."""
        if not wanted:
            return {}
        raise BlobsUnavailable(
            "stored pages are in files, and this process has no --blobs (WEBDATA_BLOBS): start it "
            "with the one of the other processes"
        )


NO_SEGMENTS: Final = NoSegments()


async def with_texts(
    rows: Sequence[JournalEntry], database: SqlDatabase, source: SegmentSource
) -> Sequence[JournalEntry]:
    """Return rows with the contents that are in segments; without those that cannot be read.

    A segment may be rewritten after the rows were read: contents that it lacks are looked up again.
    """
    found = {row.content_id: row for row in rows if row.segment is not None}
    if not found:
        return rows
    texts = await _texts(found.values(), source)
    if missing := sorted(each for each in found if each is not None and each not in texts):
        moved = list[JournalEntry]()
        for place in await _places(database, missing):
            row = found[place["id"]]
            if row.segment != place["segment"]:
                row = replace(row, body=place["body"], segment=place["segment"])
                found[row.content_id] = row
                moved.append(row)
        texts |= await _texts(moved, source)
    return [
        replace(row, body=at.body, segment=at.segment, text=texts.get(row.content_id))
        if (at := found.get(row.content_id)) is not None
        else row
        for row in rows
    ]


async def _texts(rows: Iterable[JournalEntry], source: SegmentSource) -> dict[bytes | None, bytes]:
    """Return the contents that are in segments and can be read, by id."""
    ids_by_segment: dict[str, set[bytes]] = {}
    for row in rows:
        if row.segment is not None and row.content_id is not None:
            ids_by_segment.setdefault(row.segment, set()).add(row.content_id)
    return dict((await source.texts(ids_by_segment)).items())


async def _places(database: SqlDatabase, ids: Sequence[bytes]) -> list[SqlRow]:
    """Return where contents are that are stored."""
    rows_of_each = await database.query(
        lambda transaction: transaction.rows_of_each([("content", {"id": each}) for each in ids])
    )
    return [row for rows in rows_of_each for row in rows]


log: Final = logging.getLogger(__name__)

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
    return JournalEntry(
        ordinal=row["ordinal"],
        url=row["url"],
        success=bool(row["success"]),
        journal=row["journal"],
        page=row["page"],
        position=row["position"],
        visit=row["visit"],
        content_id=row["content_id"],
        body=row["body"],
        size=row["size"] or 0,
        segment=row["segment"],
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
            if sum(page.size for page in whole) < LARGE_BYTES:
                converted += map(convert, whole)
            else:
                converted += await asyncio.to_thread(list, map(convert, whole))
        return converted


def _slices(pages: Sequence[JournalEntry]) -> Iterator[Sequence[JournalEntry]]:
    """Divide pages into slices whose contents in segments are not too large for the memory."""
    start = size = 0
    for end, page in enumerate(pages):
        if page.segment is not None:
            size += page.size
        if size > SLICE_BYTES:
            yield pages[start : end + 1]
            start, size = end + 1, 0
    yield pages[start:]


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

    async def intact_texts(self, ids: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        """Return id and text of those of some contents that are in the database, undamaged."""
        stored = await _places(self._database, ids)
        return await asyncio.to_thread(_intact_texts, stored)

    async def mark_moved(self, job_id: str, *, now: float) -> None:
        """Note that no content of an ended job is to be moved."""
        await self._database.write("mark_moved", id=job_id, now=now)

    async def begin(self, segment: StoredSegment, *, now: float) -> None:
        """Add the row of a segment that is about to be written.

        Raises
        ------
        SegmentGivenUp
            Its account is deleted.
        """
        if not await self._database.write(
            "add_segment",
            name=segment.name,
            account_id=segment.account_id,
            contents=segment.contents,
            now=now,
        ):
            raise SegmentGivenUp(f"the account of the segment {segment.name} is deleted")

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

    async def give_up_account(self, account_id: str, *, limit: int) -> list[str]:
        """Return the names of segments of a deleted account, whose files are to be deleted."""

        def change(transaction: Transaction) -> list[str]:
            transaction.send("give_up_segments_of", account_id=account_id)
            rows = transaction.rows("segments_of", account_id=account_id, limit=limit)
            return [row["name"] for row in rows]

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


def _intact_texts(rows: Iterable[SqlRow]) -> list[tuple[bytes, bytes]]:
    texts = []
    for row in rows:
        if row["body"] is None:  # moved meanwhile
            continue
        content_id = bytes(row["id"])
        try:
            texts.append((content_id, content_text(content_id, row["body"], row["size"])))
        except DamagedContent as error:
            log.warning("the content %s is not moved: %s", content_id.hex(), error)
    return texts


def segments_with_contents(transaction: Transaction) -> list[SegmentContents]:
    """Return the segments that contents point to."""
    found = []
    rows = transaction.rows("segment_contents")
    for name, group in groupby(rows, key=itemgetter("segment")):
        contents = list(group)
        ids = tuple(bytes(each["id"]) for each in contents)
        found.append(SegmentContents(str(name), ids, contents[0]["state"] == "stored"))
    return found


def _segment(row: SqlRow) -> StoredSegment:
    return StoredSegment(row["name"], row["account_id"], row["contents"])
