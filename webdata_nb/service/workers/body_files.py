"""Passes large bodies to page workers through unnamed files that a thread writes.

The files have no name, so a killed service leaves none behind. A worker opens a file through the
service's descriptor under ``/proc``, which exists on Linux only.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import BinaryIO, Final, cast

from webdata_nb.page.content.page_source import FileSlice, PageSource
from webdata_nb.service.observability.operations import waiting_for
from webdata_nb.service.runtime.event_loop import awake_timeout
from webdata_nb.service.runtime.work_threads import run_on_thread

# The pipe is faster than a file for smaller bodies.
MAX_PIPE_BODY_BYTES: Final = 1024 * 1024
# Other threads run between two system calls that write this much.
WRITE_BYTES: Final = 4 * 1024 * 1024
WRITE_S: Final = 60.0
"""How long the disk may take; a body that is not written by then goes through the pipe."""


@asynccontextmanager
async def body_in_file(source: PageSource) -> AsyncIterator[PageSource]:
    """Provide the page with its body in a file that exists until the block ends.

    A page stays as it is if it is small or in a file already, if the disk does not take it, and on
    systems other than Linux.
    """
    small = len(source.body) <= MAX_PIPE_BODY_BYTES
    if small or source.body_slice is not None or sys.platform != "linux":
        yield source
        return
    # On a thread of its own: a disk that hangs must not take those that other pages need.
    writing = run_on_thread(lambda: _write_file(source.body))
    try:
        file = await _wait_for_file(writing)
        if file is None:
            yield source
        else:
            path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
            yield source.with_body_in(FileSlice(path, 0, len(source.body)))
    finally:
        # A thread cannot be cancelled, so the file may have to be closed later.
        writing.add_done_callback(_close_file)


async def _wait_for_file(writing: asyncio.Future[BinaryIO | None]) -> BinaryIO | None:
    with suppress(TimeoutError), waiting_for("a page's temporary file", WRITE_S):
        async with awake_timeout(WRITE_S):
            return await asyncio.shield(writing)
    return None


def _write_file(body: bytes) -> BinaryIO | None:
    """Write a body to an unnamed file; return None if the disk does not take it."""
    with suppress(OSError):
        file = cast("BinaryIO", tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 - closed by `_close_file`
        try:
            remaining = memoryview(body)
            while remaining:
                remaining = remaining[file.write(remaining[:WRITE_BYTES]) :]
        except BaseException:
            file.close()
            raise
        return file
    return None


def _close_file(writing: asyncio.Future[BinaryIO | None]) -> None:
    if not writing.cancelled() and (file := writing.result()) is not None:
        file.close()
