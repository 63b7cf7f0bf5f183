"""Reads contents in segments, and keeps those read last in memory."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final
from weakref import WeakValueDictionary

from webdata_nb.service.blobs import BlobStore
from webdata_nb.service.errors import MissingBlobs
from webdata_nb.service.segments.parquet_file import InvalidSegment, decode_segment
from webdata_nb.service.store.backends import CheckResult
from webdata_nb.service.store.sql.contents import SegmentContents, SegmentSource, SegmentStore

log: Final = logging.getLogger(__name__)

CACHE_BYTES: Final = 32 * 1024 * 1024
# Segments that are decoded at a time: each may have 8 MB, or one content of any size.
_DECODERS: Final = 2
_MAX_REPORTS: Final = 1000
MAX_PROBLEMS: Final = 100
_CHECK: Final = "files of stored pages"
_NOTHING: Final[Mapping[bytes, bytes]] = MappingProxyType({})


class SegmentReader(SegmentSource):
    """A `SegmentSource` at the place for files; its files are read whole.

    Parameters
    ----------
    blobs
        Where the segments are.
    cache_bytes
        How many bytes of contents stay in memory; the last segment does in any case.
    """

    def __init__(self, blobs: BlobStore, *, cache_bytes: int = CACHE_BYTES) -> None:
        self._blobs, self._cache_bytes = blobs, cache_bytes
        self._cache: OrderedDict[str, Mapping[bytes, bytes]] = OrderedDict()
        self._cached_bytes = 0
        # Requests for one segment read it once.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._decoders = asyncio.Semaphore(_DECODERS)
        self._reported: set[str] = set()

    async def texts(self, wanted: Mapping[str, Collection[bytes]]) -> dict[bytes, bytes]:
        """Return contents by id; those of missing and damaged files are left out."""
        found = {}
        for name, ids in wanted.items():
            lock = self._locks.setdefault(name, asyncio.Lock())
            async with lock:
                contents = self._cache.get(name)
                if contents is not None:
                    self._cache.move_to_end(name)
                else:
                    contents = await self._read(name)
                    if contents:  # otherwise the file may come back
                        self._cache[name] = contents
                        self._cached_bytes += _bytes_of(contents)
                    while self._cached_bytes > self._cache_bytes and len(self._cache) > 1:
                        _, oldest = self._cache.popitem(last=False)
                        self._cached_bytes -= _bytes_of(oldest)
            found.update({each: contents[each] for each in ids if each in contents})
        return found

    async def _read(self, name: str) -> Mapping[bytes, bytes]:
        """Return the contents of a segment; none of a file that is missing or damaged."""
        blob = await self._blobs.read(name)
        if blob is None:
            self._report(name, "its file is missing")
            return _NOTHING
        try:
            async with self._decoders:
                return await asyncio.to_thread(decode_segment, name, blob.data)
        except InvalidSegment as error:
            self._report(name, str(error))
            return _NOTHING

    def _report(self, name: str, problem: str) -> None:
        """Log a problem of a segment, once."""
        if name not in self._reported and len(self._reported) < _MAX_REPORTS:
            self._reported.add(name)
            log.error("rows of the segment %s have errors: %s", name, problem)


async def check_place(segments: SegmentStore, blobs: BlobStore | None) -> None:
    """Check at a start that the place for files has the newest segment of a store.

    Another place is no reason to stop: if the files are lost, everything else goes on.

    Raises
    ------
    MissingBlobs
        There are segments, and no place is given.
    """
    newest = await segments.newest()
    if newest is None:
        return
    if blobs is None:
        raise MissingBlobs(
            "stored pages are in files: start with the --blobs (WEBDATA_BLOBS) that this service "
            "had before"
        )
    if await blobs.read(newest.name) is None:
        log.error(
            "the place of --blobs lacks the file %s of stored pages: is it the one that this "
            "service had before? Rows whose file is missing have an error",
            newest.name,
        )


def _bytes_of(contents: Mapping[bytes, bytes]) -> int:
    return sum(map(len, contents.values()))


ReadSegments = Callable[[], Awaitable[Sequence[SegmentContents]]]


async def check_segments(read: ReadSegments, blobs: BlobStore | None) -> list[CheckResult]:
    """Read every file that contents point to; nothing is returned for a store without any.

    Parameters
    ----------
    read
        Returns the segments that contents point to.
    blobs
        The place of the files; None if it is not known.
    """
    segments = await read()
    if not segments:
        return []
    if blobs is None:
        detail = f"{len(segments)} files were not read: --blobs (WEBDATA_BLOBS) is missing"
        return [CheckResult(_CHECK, detail=detail)]
    problems = {each.name: problem for each in segments if (problem := await _problem(each, blobs))}
    # A service may have rewritten some meanwhile.
    current = {each.name for each in await read()} if problems else set()
    lines = [f"{name}: {problem}" for name, problem in problems.items() if name in current]
    return [CheckResult(_CHECK, tuple(lines[:MAX_PROBLEMS]), f"{len(segments)} files")]


async def _problem(segment: SegmentContents, blobs: BlobStore) -> str | None:
    """Return what is wrong with a segment."""
    if not segment.is_stored:
        return f"{len(segment.ids)} contents point to it, and it is not stored"
    blob = await blobs.read(segment.name)
    if blob is None:
        return f"is missing, with {len(segment.ids)} contents"
    try:
        contents = await asyncio.to_thread(decode_segment, segment.name, blob.data)
    except InvalidSegment as error:
        return f"{error}, {len(segment.ids)} contents are lost"
    missing = sum(each not in contents for each in segment.ids)
    return f"lacks {missing} of {len(segment.ids)} contents" if missing else None
