"""Writes segments: first the row, then the file, then the contents point to it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from webdata_nb.service.blobs.store import BlobStore
from webdata_nb.service.errors import SegmentGivenUp
from webdata_nb.service.observability.metrics import Metrics
from webdata_nb.service.segments.parquet_file import encode_segment, segment_name
from webdata_nb.service.store.page_contents import DamagedContent, content_text
from webdata_nb.service.store.records import StoredContent
from webdata_nb.service.store.segments import MovableContent, StoredSegment
from webdata_nb.service.store.sql.store import Store

log = logging.getLogger(__name__)

SEGMENT_BYTES: Final = 8 * 1024 * 1024
SEGMENT_CONTENTS: Final = 2_000


class PendingSegment:
    """Contents for the next segment of an account."""

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}
        self._size = 0

    def is_full_with(self, content: MovableContent) -> bool:
        """Whether one more content would make the segment too large."""
        return bool(self._ids) and (
            self._size + content.size > SEGMENT_BYTES or len(self._ids) >= SEGMENT_CONTENTS
        )

    def add(self, content: MovableContent) -> None:
        """Add a content, unless it is one of them."""
        if content.id not in self._ids:
            self._ids[content.id] = content.size
            self._size += content.size

    def take(self) -> list[bytes]:
        """Return the ids of the contents, and begin the segment after it."""
        ids = list(self._ids)
        self._ids, self._size = {}, 0
        return ids


class SegmentWriter:
    """Writes contents of one account into a new segment.

    A kill at any point leaves the contents where they were, or in the new segment; a row or a file
    that nothing points to is deleted by `SegmentSweep`.
    """

    def __init__(
        self, store: Store, blobs: BlobStore, metrics: Metrics, *, clock: Callable[[], float]
    ) -> None:
        self._segments, self._blobs = store.segments, blobs
        self._metrics, self._clock = metrics, clock

    async def move(self, account_id: str, ids: Sequence[bytes]) -> None:
        """Move contents from the database; those that were deleted or are damaged stay there."""
        if not ids:
            return
        stored = await self._segments.contents(ids)
        texts = await asyncio.to_thread(_intact_texts, stored)
        moved = await self._write(account_id, texts, source=None)
        self._metrics.count_moved_contents(moved)

    async def rewrite(self, segment: StoredSegment, texts: Mapping[bytes, bytes]) -> None:
        """Point the contents that are left of a segment to a new one."""
        await self._write(segment.account_id, list(texts.items()), source=segment.name)

    async def _write(
        self, account_id: str, texts: Sequence[tuple[bytes, bytes]], source: str | None
    ) -> int:
        if not texts:
            return 0
        store_id = await self._segments.store_id()
        data = await asyncio.to_thread(encode_segment, texts, secrets.token_hex(8))
        name = segment_name(store_id, account_id, data)
        segment = StoredSegment(name, account_id, len(texts))
        await self._segments.begin(segment, now=self._clock())
        await self._blobs.write(name, data)
        self._metrics.count_segment("written")
        try:
            return await self._segments.complete(name, [each for each, _ in texts], source=source)
        except SegmentGivenUp as error:
            log.warning("%s", error)
            return 0


def _intact_texts(contents: Sequence[StoredContent]) -> list[tuple[bytes, bytes]]:
    return list(_each_intact_text(contents))


def _each_intact_text(contents: Sequence[StoredContent]) -> Iterator[tuple[bytes, bytes]]:
    for content in contents:
        if content.body is None:  # moved meanwhile
            continue
        try:
            yield content.id, content_text(content)
        except DamagedContent as error:
            log.warning("the content %s is not moved: %s", content.id.hex(), error)
