"""What was fetched and is not stored yet: plain files, which outlive the process that wrote them.

Nothing is synchronised to the disk. A kill, against which this is meant, leaves what was written;
a loss of power may not, which a checksum tells, and then the pages are fetched again.

A file whose record is stored is written over: to create and to remove one waits for the file
system's journal, which each commit of the database keeps busy. What it holds until then is in the
job's journal as well, so that nobody asks for it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from zlib import crc32

from webdata_nb.service.errors import LeaseLost
from webdata_nb.service.store.records import SpoolLocation

# Of all jobs together. Beyond it a page holds its place until it is stored.
MOST_BYTES: Final = 32 * 1024 * 1024
# A larger record is written on a thread, so that the event loop does not wait for it, and its file
# is not kept for others.
AT_ONCE: Final = 1024 * 1024
# Checksum of all that follows; number of the write; ordinal; bytes of the record.
_HEAD: Final = struct.Struct("!IQII")
_TOLD: Final = struct.Struct("!QII")
_WRITE: Final = os.O_WRONLY | getattr(os, "O_BINARY", 0)


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
        # File of each record, files free to be written over, and how many files there are.
        self._places: dict[int, int] = {}
        self._free: list[int] = []
        self._files = self._writes = 0

    def __enter__(self) -> Self:
        latest: dict[int, tuple[int, int, int]] = {}
        for path in self._folder.glob("*"):
            if not path.name.isdecimal():
                continue
            place = int(path.name)
            self._files = max(self._files, place + 1)
            self._free.append(place)
            with suppress(OSError, struct.error), path.open("rb") as file:
                _, write, ordinal, size = _HEAD.unpack(file.read(_HEAD.size))
                # A file that is free still tells of what it held.
                latest[ordinal] = max(latest.get(ordinal, (0, 0, 0)), (write, place, size))
        for ordinal, (write, place, size) in latest.items():
            self._writes = max(self._writes, write)
            self._sizes[ordinal], self._places[ordinal] = size, place
            self._free.remove(place)
        # Not refused, whatever the bound: what is there is there.
        self._spool.gives_back(-sum(self._sizes.values()))
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

    async def keep(self, ordinal: int, *parts: bytes) -> SpoolLocation | None:
        """Write a new record where a kill leaves it; None where there is no room for it."""
        size = sum(map(len, parts))
        if not self._spool.takes(size):
            return None
        self._sizes[ordinal], self._places[ordinal] = size, self._file()
        try:
            if size > AT_ONCE:
                await asyncio.to_thread(self._write, ordinal, parts)
            else:
                self._write(ordinal, parts)
        except OSError:  # a full disk costs speed here, and no page
            self.drop(ordinal)
            return None
        return self.place(ordinal)

    def kept(self) -> list[int]:
        """Return the ordinals of all that is kept."""
        return list(self._sizes)

    def place(self, ordinal: int) -> SpoolLocation:
        """Return where a record lies that is kept."""
        return SpoolLocation(self._path(ordinal), _HEAD.size)

    async def take(self, ordinal: int) -> bytes | None:
        """Return what an earlier attempt kept; None where there is nothing whole."""
        if ordinal not in self._sizes:
            return None
        with suppress(OSError, struct.error):
            data = await asyncio.to_thread(Path(self._path(ordinal)).read_bytes)
            record = data[_HEAD.size : _HEAD.size + self._sizes[ordinal]]
            if _is_whole(data[: _HEAD.size], ordinal, record):
                return record
        self.drop(ordinal)
        return None

    def drop(self, ordinal: int) -> None:
        """Give up a record, if there is one: it is stored, or of no use."""
        size = self._sizes.pop(ordinal, None)
        if size is None:
            return
        path, place = self._path(ordinal), self._places.pop(ordinal)
        self._spool.gives_back(size)
        self._free.append(place)
        if size > AT_ONCE:
            with suppress(OSError):
                Path(path).unlink()

    def _file(self) -> int:
        if self._free:
            return self._free.pop()
        self._files += 1
        return self._files - 1

    def _path(self, ordinal: int) -> str:
        return f"{self._folder}/{self._places[ordinal]}"

    def _write(self, ordinal: int, parts: Sequence[bytes]) -> None:
        path = self._path(ordinal)
        try:
            number = os.open(path, _WRITE)
        except FileNotFoundError:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            number = os.open(path, _WRITE | os.O_CREAT, 0o600)
        try:
            self._writes += 1
            for part in (_head(self._writes, ordinal, *parts), *parts):
                written = os.write(number, part)
                while written < len(part):
                    written += os.write(number, memoryview(part)[written:])
        finally:
            os.close(number)


def _head(write: int, ordinal: int, *parts: bytes) -> bytes:
    told = _TOLD.pack(write, ordinal, sum(map(len, parts)))
    checksum = crc32(told)
    for part in parts:
        checksum = crc32(part, checksum)
    return checksum.to_bytes(4, "big") + told


def _is_whole(head: bytes, ordinal: int, record: bytes) -> bool:
    return head == _head(_HEAD.unpack(head)[1], ordinal, record)
