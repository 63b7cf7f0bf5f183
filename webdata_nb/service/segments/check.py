"""Checks that the segment files of a store hold the contents that its rows refer to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from webdata_nb.service.blobs.store import BlobStore
from webdata_nb.service.segments.parquet_file import InvalidSegment, decode_segment
from webdata_nb.service.store.backends import CheckResult
from webdata_nb.service.store.segments import SegmentContents

MAX_PROBLEMS: Final = 100
_CHECK: Final = "files of stored pages"

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
    return _missing_contents(segment, contents)


def _missing_contents(segment: SegmentContents, contents: Mapping[bytes, bytes]) -> str | None:
    missing = sum(each not in contents for each in segment.ids)
    return f"lacks {missing} of {len(segment.ids)} contents" if missing else None
