"""Defines what the store and the files that contents are moved to exchange.

A segment is a file with contents of one account. Its row in the database is written before the
file, in the state `writing`; the transaction that points contents to the file makes it `stored`. A
file whose row is in the state `deleting` is never pointed to again, and no other file gets its
name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from webdata_nb.service.errors import BlobsUnavailable


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
