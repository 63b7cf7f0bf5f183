"""Serializes calls across threads and processes with file locks, such as one per cache key."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import filelock

from webdata_nb.pacing.backoff import BackoffPolicy
from webdata_nb.toolkit.cache.snapshots import CacheKey, prepare
from webdata_nb.toolkit.frames import private_files

_FOLDER: Final = Path("v1", "locks")
_POLLING: Final = BackoffPolicy(0.02, 0.25, factor=1.5)
_EXPIRES_S: Final = 86_400.0


@asynccontextmanager
async def lock(root: Path, key: CacheKey) -> AsyncIterator[None]:
    """Hold the lock of `key` inside the block.

    The operating system releases the lock when its holder dies. Where the cache is not writable or
    its file system has no locks, the block runs without one.
    """
    try:
        file_lock = _file_lock(lock_path(root, f"{key.op}-{key.digest}"))
        await _acquire(file_lock)
    except (OSError, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        file_lock.release()


@asynccontextmanager
async def lock_file(path: Path, *, wait: bool) -> AsyncIterator[None]:
    """Hold the lock of a file inside the block.

    Raises
    ------
    filelock.Timeout
        Another call holds it, and `wait` is off.
    OSError
        The file cannot be written.
    """
    file_lock = _file_lock(path)
    if wait:
        await _acquire(file_lock)
    else:
        file_lock.acquire(timeout=0)
    try:
        yield
    finally:
        file_lock.release()


def try_lock(path: Path) -> filelock.BaseFileLock | None:
    """Return the lock of a file, to be released; None where a living call holds it.

    Raises
    ------
    OSError, NotImplementedError
        The file cannot be written, or its file system has no locks.
    """
    file_lock = _file_lock(path)
    try:
        file_lock.acquire(timeout=0)
    except filelock.Timeout:
        return None
    return file_lock


def lock_path(root: Path, name: str) -> Path:
    """Return the path of a lock file in a cache; its folder exists afterwards."""
    folder = root / _FOLDER
    if not folder.is_dir():
        prepare(root)
        private_files.make_folder(folder, root)
    return folder / f"{name}.lock"


def _file_lock(path: Path) -> filelock.BaseFileLock:
    # Not bound to a thread: a task may end on another thread than it began on.
    return filelock.FileLock(path, mode=private_files.FILE_MODE, thread_local=False)


async def _acquire(file_lock: filelock.BaseFileLock) -> None:
    for attempt in itertools.count(1):
        with suppress(filelock.Timeout):
            file_lock.acquire(timeout=0)
            return
        await asyncio.sleep(_POLLING.delay_s(attempt))


def sweep(root: Path) -> None:
    """Remove lock files that were last used more than a day ago."""
    for path in (root / _FOLDER).glob("*.lock"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _EXPIRES_S:
                path.unlink()
