"""One run at a time for one question, over all threads and processes that share a cache."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import filelock

from webdata_nb.cache.snapshots import Question, prepare
from webdata_nb.frames import private_files

_FOLDER: Final = Path("v1", "locks")
_SOONEST_S: Final = 0.02
_LATEST_S: Final = 0.25
_KEPT_S: Final = 86_400.0


@asynccontextmanager
async def turn(root: Path, question: Question) -> AsyncIterator[None]:
    """Hold the right to ask `question` inside the block; others wait until it ends.

    The system gives the right back where its holder dies. Where the cache cannot be written or
    its file system knows no locks, everybody asks for himself.
    """
    try:
        lock = _lock(root, question)
        await _acquired(lock)
    except (OSError, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        lock.release()


def _lock(root: Path, question: Question) -> filelock.BaseFileLock:
    prepare(root)
    folder = root / _FOLDER
    private_files.make_folder(folder, root)
    # Not tied to a thread: a task may end on another one than it began on.
    return filelock.FileLock(
        folder / f"{question.op}-{question.digest}.lock",
        mode=private_files.FILE,
        thread_local=False,
    )


async def _acquired(lock: filelock.BaseFileLock) -> None:
    pause = _SOONEST_S
    while True:
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            await asyncio.sleep(pause)
            pause = min(_LATEST_S, pause * 1.5)
        else:
            return


def sweep(root: Path) -> None:
    """Remove lock files that nobody has used for a day."""
    for path in (root / _FOLDER).glob("*.lock"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _KEPT_S:
                path.unlink()
