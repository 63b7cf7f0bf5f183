"""Deletes segments without contents, and rewrites those that have lost some."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from webdata_nb.service.blobs.store import BlobStore
from webdata_nb.service.observability.metrics import Metrics
from webdata_nb.service.segments.parquet_file import store_folder
from webdata_nb.service.segments.reader import SegmentReader
from webdata_nb.service.segments.writer import SegmentWriter
from webdata_nb.service.store.segments import StoredSegment
from webdata_nb.service.store.sql.store import Store

log = logging.getLogger(__name__)

# A move takes less than a minute.
UNFINISHED_S: Final = 3600.0
# Between two listings of the place: only a process that was stopped in the middle of a move for
# longer than `UNFINISHED_S`, or a lost database, leaves files without a row.
LISTING_INTERVAL_S: Final = 3600.0
_SLICE: Final = 100


class SegmentSweep:
    """Deletes what is past its time from the place for files."""

    def __init__(
        self, store: Store, blobs: BlobStore, metrics: Metrics, *, clock: Callable[[], float]
    ) -> None:
        self._segments, self._blobs = store.segments, blobs
        self._metrics, self._clock = metrics, clock
        self._writer = SegmentWriter(store, blobs, metrics, clock=clock)
        self._next_listing = 0.0

    async def sweep(self) -> None:
        """Rewrite and delete segments; every step can be repeated."""
        await self._rewrite_reduced()
        await self._delete_given_up()
        if self._clock() >= self._next_listing:
            await self._delete_unknown_files()
            self._next_listing = self._clock() + LISTING_INTERVAL_S

    async def _rewrite_reduced(self) -> None:
        after, reader = "", SegmentReader(self._blobs, cache_bytes=0)
        while segments := await self._segments.reduced(after=after, limit=_SLICE):
            for segment in segments:
                await self._rewrite(segment, reader)
            after = segments[-1].name

    async def _rewrite(self, segment: StoredSegment, reader: SegmentReader) -> None:
        ids = await self._segments.content_ids(segment.name)
        texts = await reader.texts({segment.name: ids})
        if len(texts) == len(ids):  # else the file is damaged, and stays for who repairs it
            await self._writer.rewrite(segment, texts)

    async def _delete_given_up(self) -> None:
        while names := await self._segments.give_up(
            before=self._clock() - UNFINISHED_S, limit=_SLICE
        ):
            for name in names:
                await self._blobs.delete(name)
                await self._segments.remove(name)
                self._metrics.count_segment("deleted")

    async def _delete_unknown_files(self) -> None:
        """Delete files of this store that have no row, and drafts of killed writes."""
        folder = store_folder(await self._segments.store_id())
        # Listed first: the row of a file is older than the file.
        files = await self._blobs.list_folder(folder)
        known = await self._segments.names()
        before = self._clock() - UNFINISHED_S
        for file in files:
            if file.name not in known and file.modified_at < before:
                await self._blobs.delete(file.name)
