"""Defines the protocols between the store and the files that contents are moved to.

A segment is a file with contents of one account. Its row in the database is written before the
file, in the state `writing`; the transaction that points contents to the file makes it `stored`. A
file whose row is in the state `deleting` is never pointed to again, and no other file gets its
name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from webdata_nb.service.errors import BlobsUnavailable
from webdata_nb.service.store.records import StoredContent


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


class SegmentStore(Protocol):
    """Contents that are in segments, or are to be moved into them."""

    async def store_id(self) -> str:
        """Return the id of this store; its segments are in a folder of that name."""

    async def newest(self) -> StoredSegment | None:
        """Return the segment that was stored last; None if there is none."""

    async def jobs_to_move(self, *, limit: int) -> list[JobToMove]:
        """Return ended jobs whose contents were not moved, oldest first, then running ones."""

    async def movable_contents(
        self, job: JobToMove, *, start: int, count: int
    ) -> list[MovableContent]:
        """Return contents of a job that are in the database, from ordinal `start`."""

    async def contents(self, ids: Sequence[bytes]) -> list[StoredContent]:
        """Return those of some contents that exist."""

    async def mark_moved(self, job_id: str, *, now: float) -> None:
        """Note that no content of an ended job is to be moved."""

    async def begin(self, segment: StoredSegment, *, now: float) -> None:
        """Add the row of a segment that is about to be written."""

    async def complete(self, name: str, ids: Sequence[bytes], *, source: str | None = None) -> int:
        """Point contents to a written segment, in one transaction; return how many.

        They come from the database, or from the segment `source`. A content that was deleted
        meanwhile stays deleted.

        Raises
        ------
        SegmentGivenUp
            The row of the segment is older than moves may be, and its file is deleted.
        """

    async def reduced(self, *, after: str, limit: int) -> list[StoredSegment]:
        """Return segments, beyond a name, some of whose contents were deleted."""

    async def content_ids(self, name: str) -> list[bytes]:
        """Return the ids of the contents that are in a segment."""

    async def give_up(self, *, before: float, limit: int) -> list[str]:
        """Return the names of segments whose files are to be deleted.

        They are given up before: nothing points to them, and those that are not stored began
        before a time.
        """

    async def remove(self, name: str) -> None:
        """Delete the row of a given up segment, after its file."""

    async def names(self) -> set[str]:
        """Return the names of all segments."""
