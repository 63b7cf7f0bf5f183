"""Large bodies go to page workers as files: written by a thread, and never through the event loop.

The files have no name, so that a service that is killed leaves none behind. A worker opens one by
way of the service's own descriptor, which Linux alone has under ``/proc``.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import BinaryIO, Final, cast

from webdata_nb.service.content.source import Slice, Source

# A smaller body is in the worker's pipe sooner than in a file.
THROUGH_THE_PIPE: Final = 1024 * 1024
# What a system call writes; another thread runs before the next.
PIECE: Final = 4 * 1024 * 1024


@asynccontextmanager
async def handed_over(source: Source) -> AsyncIterator[Source]:
    """Give the page with its body in a file, which is there until the block ends.

    A page that is small, or lies in a file already, stays as it is; so does one for which there is
    no room on the disk, and every page where the system is not Linux.
    """
    small = len(source.body) <= THROUGH_THE_PIPE
    if small or source.lies_in is not None or sys.platform != "linux":
        yield source
        return
    writing = asyncio.create_task(asyncio.to_thread(_written, source.body))
    try:
        # A thread cannot be cancelled; what it has written is closed below.
        file = await asyncio.shield(writing)
        if file is None:
            yield source
        else:
            path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
            yield source.lying(Slice(path, 0, len(source.body)))
    finally:
        writing.add_done_callback(_close)


def _written(body: bytes) -> BinaryIO | None:
    """Write a body to a file without a name; None where the disk does not take it."""
    with suppress(OSError):
        file = cast("BinaryIO", tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 - its user closes it
        try:
            rest = memoryview(body)
            while rest:
                rest = rest[file.write(rest[:PIECE]) :]
        except BaseException:
            file.close()
            raise
        return file
    return None


def _close(writing: asyncio.Task[BinaryIO | None]) -> None:
    if not writing.cancelled() and (file := writing.result()) is not None:
        file.close()
