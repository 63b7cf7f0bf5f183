"""Moves the contents of pages from the database into segments, and deletes segments.

A segment is written in three steps: first its row, then its file, then the contents point to it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Final

from webdata_nb.service.blobs import BlobStore
from webdata_nb.service.errors import SegmentGivenUp, StoreUnavailable
from webdata_nb.service.observability.metrics import Metrics
from webdata_nb.service.runtime.event_loop import wait_at_most
from webdata_nb.service.segments.parquet_file import (
    account_folder,
    encode_segment,
    segment_name,
    store_folder,
)
from webdata_nb.service.segments.reader import SegmentReader
from webdata_nb.service.store.sql.contents import JobToMove, MovableContent, StoredSegment
from webdata_nb.service.store.sql.store import Store

log: Final = logging.getLogger(__name__)

SEGMENT_BYTES: Final = 8 * 1024 * 1024
SEGMENT_CONTENTS: Final = 2_000
# Jobs that end within this time share segments.
MOVE_DELAY_S: Final = 2.0
# Between two looks at running jobs, and for jobs that ended in other processes.
INTERVAL_S: Final = 10.0
RETRY_DELAY_S: Final = 60.0
# The lock of this work is held for ten minutes at most.
_ROUND_S: Final = 300.0
_JOBS: Final = 500
_MOVED: Final = 256
# A move takes less than a minute.
UNFINISHED_S: Final = 3600.0
# Between two listings of the place: only a process that was stopped in the middle of a move for
# longer than `UNFINISHED_S`, or a lost database, leaves files without a row.
LISTING_INTERVAL_S: Final = 3600.0
_SWEPT: Final = 100


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
        texts = await self._segments.intact_texts(ids)
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
        try:
            await self._segments.begin(segment, now=self._clock())
            await self._blobs.write(name, data)
            self._metrics.count_segment("written")
            return await self._segments.complete(name, [each for each, _ in texts], source=source)
        except SegmentGivenUp as error:
            log.warning("%s", error)
            await self._blobs.delete(name)  # perhaps written after its deletion
            return 0


class BodyMover:
    """Moves contents into segments, of one account at a time.

    Those of an ended job move soon after its end, those of a running one when there are 8 MB that
    clients can see. Of several processes on a store, one moves at a time.

    Parameters
    ----------
    store
        Where the contents are.
    blobs
        Where the segments are written.
    metrics
        Of this process.
    clock
        Returns the time.
    """

    def __init__(
        self, store: Store, blobs: BlobStore, metrics: Metrics, *, clock: Callable[[], float]
    ) -> None:
        self._store, self._segments = store, store.segments
        self._writer = SegmentWriter(store, blobs, metrics, clock=clock)
        self._clock = clock
        self._due = asyncio.Event()
        self._due.set()
        # From which ordinal on a running job has contents in the database.
        self._starts: dict[str, int] = {}

    def notify(self) -> None:
        """Note that a job ended."""
        self._due.set()

    async def run(self) -> None:
        """Move forever; after an error the next round tries again."""
        while True:
            await wait_at_most(self._due, INTERVAL_S)
            await asyncio.sleep(MOVE_DELAY_S)
            self._due.clear()
            try:
                await self.move()
            except StoreUnavailable as error:
                log.warning("stored pages are not moved to files: %s; trying again later", error)
            except Exception:
                log.exception("stored pages could not be moved to files; trying again later")
            else:
                continue
            await asyncio.sleep(RETRY_DELAY_S)

    async def move(self) -> None:
        """Move what is due, unless another process does."""
        if not await self._segments.jobs_to_move(limit=1):
            return
        async with self._store.exclusive("segments") as is_first:
            if is_first:
                await self._move_all(until=monotonic() + _ROUND_S)

    async def _move_all(self, until: float) -> None:
        while monotonic() < until:
            jobs = await self._segments.jobs_to_move(limit=_JOBS)
            running = {job.id for job in jobs if not job.has_ended}
            self._starts = {job: start for job, start in self._starts.items() if job in running}
            ended = [job for job in jobs if job.has_ended]
            by_account: dict[str, list[JobToMove]] = {}
            for job in ended:
                by_account.setdefault(job.account_id, []).append(job)
            for account_id, account_jobs in by_account.items():
                await self._move_ended(account_id, account_jobs)
            if len(ended) < _JOBS:
                break
        for job in jobs:
            if not job.has_ended and monotonic() < until:
                await self._move_full(job, PendingSegment())

    async def _move_ended(self, account_id: str, jobs: Sequence[JobToMove]) -> None:
        """Move the contents of ended jobs of an account, which share segments."""
        pending = PendingSegment()
        for job in jobs:
            await self._move_full(job, pending)
        await self._writer.move(account_id, pending.take())
        for job in jobs:
            await self._segments.mark_moved(job.id, now=self._clock())

    async def _move_full(self, job: JobToMove, pending: PendingSegment) -> None:
        """Add the contents of a job to `pending`, and move it whenever it is full."""
        start = self._starts.get(job.id, 0)
        while rows := await self._segments.movable_contents(job, start=start, count=_MOVED):
            for row in rows:
                if pending.is_full_with(row):
                    await self._writer.move(job.account_id, pending.take())
                    self._starts[job.id] = row.ordinal
                pending.add(row)
            start = rows[-1].ordinal + 1


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
        after, reader = "", SegmentReader(self._blobs, cache_bytes=0)
        while segments := await self._segments.reduced(after=after, limit=_SWEPT):
            for segment in segments:
                ids = await self._segments.content_ids(segment.name)
                texts = await reader.texts({segment.name: ids})
                if len(texts) == len(ids):  # else the file is damaged, and stays for who repairs it
                    await self._writer.rewrite(segment, texts)
            after = segments[-1].name
        while names := await self._segments.give_up(
            before=self._clock() - UNFINISHED_S, limit=_SWEPT
        ):
            await self._delete(names)
        if self._clock() >= self._next_listing:
            # Delete files of this store that have no row, and drafts of killed writes.
            folder = store_folder(await self._segments.store_id())
            # Listed first: the row of a file is older than the file.
            files = await self._blobs.list_folder(folder)
            known = await self._segments.names()
            before = self._clock() - UNFINISHED_S
            for file in files:
                if file.name not in known and file.modified_at < before:
                    await self._blobs.delete(file.name)
            self._next_listing = self._clock() + LISTING_INTERVAL_S

    async def delete_account(self, account_id: str) -> None:
        """Delete all files of a deleted account, to whose segments nothing points."""
        while names := await self._segments.give_up_account(account_id, limit=_SWEPT):
            await self._delete(names)
        folder = account_folder(await self._segments.store_id(), account_id)
        for file in await self._blobs.list_folder(folder):
            await self._blobs.delete(file.name)

    async def _delete(self, names: Sequence[str]) -> None:
        for name in names:
            await self._blobs.delete(name)
            await self._segments.remove(name)
            self._metrics.count_segment("deleted")
