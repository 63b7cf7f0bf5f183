"""What was fetched and is not stored yet: plain files, which outlive the process that wrote them.

Nothing is synchronised to the disk. A kill, against which this is meant, leaves what was written;
a loss of power may not, which a checksum tells, and then the pages are fetched again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from zlib import crc32

from webdata_nb.service.errors import LeaseLost

# Of all jobs together. Beyond it a page holds its place until it is stored.
MOST_BYTES: Final = 32 * 1024 * 1024
# A larger file is written on a thread, so that the event loop does not wait for it.
AT_ONCE: Final = 1024 * 1024
_SUM: Final = 4
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)


class Spool:
    """The spooled files of all jobs, a folder each, readable by their owner alone."""

    def __init__(self, root: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self._root, self._most = root, most_bytes
        self._held = 0

    def of(self, job_id: str) -> JobSpool:
        """Return the files of one attempt at a job, to be used by `with`."""
        return JobSpool(self, self._root / job_id)

    def jobs(self) -> list[str]:
        """Return the jobs that have files."""
        with suppress(OSError):
            return [folder.name for folder in self._root.iterdir()]
        return []

    def forget(self, job_id: str) -> None:
        """Remove what a job that is over has left."""
        shutil.rmtree(self._root / job_id, ignore_errors=True)

    def takes(self, size: int) -> bool:
        """Make room for `size` bytes; False where there is none."""
        if self._held + size > self._most:
            return False
        self._held += size
        return True

    def gives_back(self, size: int) -> None:
        """Free the room of `size` bytes."""
        self._held -= size


class JobSpool:
    """The spooled files of a job, by the ordinal of what they hold.

    Leaving its `with` block removes them, unless the job goes on elsewhere: after a cancellation,
    which may be the end of the service alone, or with its lease lost.
    """

    def __init__(self, spool: Spool, folder: Path) -> None:
        self._spool, self._folder = spool, folder
        self._sizes: dict[int, int] = {}

    def __enter__(self) -> Self:
        for path in self._folder.glob("*"):
            with suppress(OSError, ValueError):
                self._sizes[int(path.name)] = size = path.stat().st_size
                # Not refused, whatever the bound: what is there is there.
                self._spool.gives_back(-size)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._spool.gives_back(sum(self._sizes.values()))
        goes_on = kind is not None and (
            not issubclass(kind, Exception) or issubclass(kind, LeaseLost)
        )
        if not goes_on:
            self._spool.forget(self._folder.name)

    async def keep(self, ordinal: int, record: bytes) -> bool:
        """Write a record where a kill leaves it; False where there is no room for it."""
        if ordinal in self._sizes:
            return True
        if not self._spool.takes(len(record)):
            return False
        self._sizes[ordinal] = len(record)
        try:
            if len(record) > AT_ONCE:
                await asyncio.to_thread(self._write, ordinal, record)
            else:
                self._write(ordinal, record)
        except OSError:  # a full disk costs speed here, and no page
            self.drop(ordinal)
            return False
        return True

    async def take(self, ordinal: int) -> bytes | None:
        """Return what an earlier attempt kept; None where there is nothing whole."""
        if ordinal not in self._sizes:
            return None
        with suppress(OSError):
            data = await asyncio.to_thread((self._folder / str(ordinal)).read_bytes)
            record = data[_SUM:]
            if data[:_SUM] == _sum(record):
                return record
        self.drop(ordinal)
        return None

    def drop(self, ordinal: int) -> None:
        """Remove a record, if there is one: it is stored, or of no use."""
        size = self._sizes.pop(ordinal, None)
        if size is not None:
            self._spool.gives_back(size)
            with suppress(OSError):
                (self._folder / str(ordinal)).unlink()

    def _write(self, ordinal: int, record: bytes) -> None:
        path = self._folder / str(ordinal)
        try:
            number = os.open(path, _FLAGS, 0o600)
        except FileNotFoundError:
            self._folder.mkdir(mode=0o700, parents=True)
            number = os.open(path, _FLAGS, 0o600)
        with os.fdopen(number, "wb") as file:
            file.write(_sum(record))
            file.write(record)


def _sum(record: bytes) -> bytes:
    return crc32(record).to_bytes(_SUM, "big")
