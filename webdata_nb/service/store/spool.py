"""Keeps fetched pages that are not stored yet in plain files, which survive a kill.

Nothing is synchronised to disk: after a power failure a checksum shows which records are lost, and
their pages are fetched again.

The file of a stored record is overwritten by the next record: creating and deleting files waits for
the file system's journal, which the database's commits keep busy. Until then the old record is
also in the job's journal, and is not read again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self
from zlib import crc32

from webdata_nb.service.errors import LeaseLost
from webdata_nb.service.store.job_context import PageSpool
from webdata_nb.service.store.records import SpoolLocation

# Of all jobs together. Beyond it a fetched page occupies its fetch slot until it is stored.
MAX_BYTES: Final = 32 * 1024 * 1024
# A larger record is written on a thread, so that the event loop does not wait, and its file is
# deleted, not reused.
LARGE_RECORD_BYTES: Final = 1024 * 1024
# Checksum of all that follows; number of the write; ordinal; bytes of the record.
_HEADER: Final = struct.Struct("!IQII")
_CHECKED_HEADER: Final = struct.Struct("!QII")
_WRITE: Final = os.O_WRONLY | getattr(os, "O_BINARY", 0)


class SpoolDirectory:
    """The spooled files of all jobs, a folder for each, readable by their owner only."""

    def __init__(self, root: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self._root, self._max_bytes = root, max_bytes
        self._used_bytes = 0

    def open(self, job_id: str) -> JobSpool:
        """Return the files of one attempt at a job, to be used by `with`."""
        return JobSpool(self, self._root / job_id)

    def job_ids(self) -> list[str]:
        """Return the jobs that have files."""
        with suppress(OSError):
            return [folder.name for folder in self._root.iterdir()]
        return []

    def delete(self, job_id: str) -> None:
        """Delete the files of a job that is over."""
        shutil.rmtree(self._root / job_id, ignore_errors=True)

    def reserve(self, size: int) -> bool:
        """Reserve `size` bytes; return False if there is no room."""
        if self._used_bytes + size > self._max_bytes:
            return False
        self._used_bytes += size
        return True

    def free(self, size: int) -> None:
        """Free `size` reserved bytes."""
        self._used_bytes -= size


class ClosedSpool(PageSpool):
    """A spool that has no room for any record, for pages that must not be written to disk."""

    async def write(self, ordinal: int, *parts: bytes) -> SpoolLocation | None:
        """Refuse the record."""

    def ordinals(self) -> list[int]:
        """Return the ordinals of all records: none."""
        return []

    def location(self, ordinal: int) -> SpoolLocation:
        """Raise, because there is no record."""
        raise KeyError(ordinal)

    async def read(self, ordinal: int) -> bytes | None:
        """Return None: no record was written."""

    def drop(self, ordinal: int) -> None:
        """Do nothing: there is nothing to delete."""


class JobSpool(PageSpool):
    """The spooled files of a job, by the ordinal of their records.

    The end of the `with` block deletes them, unless another attempt may continue the job: after a
    cancellation, which may be the end of the service, or with the lease lost.
    """

    def __init__(self, directory: SpoolDirectory, folder: Path) -> None:
        self._directory, self._folder = directory, folder
        self._sizes: dict[int, int] = {}
        # The file number of each record, the reusable files, and how many files there are.
        self._files: dict[int, int] = {}
        self._free_files: list[int] = []
        self._file_count = self._writes = 0

    def __enter__(self) -> Self:
        latest: dict[int, tuple[int, int, int]] = {}
        for path in self._folder.glob("*"):
            if not path.name.isdecimal():
                continue
            number = int(path.name)
            self._file_count = max(self._file_count, number + 1)
            self._free_files.append(number)
            with suppress(OSError, struct.error), path.open("rb") as file:
                _, write, ordinal, size = _HEADER.unpack(file.read(_HEADER.size))
                # A reusable file still has the header of its old record.
                latest[ordinal] = max(latest.get(ordinal, (0, 0, 0)), (write, number, size))
        for ordinal, (write, number, size) in latest.items():
            self._writes = max(self._writes, write)
            self._sizes[ordinal], self._files[ordinal] = size, number
            self._free_files.remove(number)
        # Existing files count even beyond the limit.
        self._directory.free(-sum(self._sizes.values()))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._directory.free(sum(self._sizes.values()))
        may_continue = kind is not None and (
            not issubclass(kind, Exception) or issubclass(kind, LeaseLost)
        )
        if not may_continue:
            self._directory.delete(self._folder.name)

    async def write(self, ordinal: int, *parts: bytes) -> SpoolLocation | None:
        size = sum(map(len, parts))
        if not self._directory.reserve(size):
            return None
        if self._free_files:
            number = self._free_files.pop()
        else:
            number = self._file_count
            self._file_count += 1
        self._sizes[ordinal], self._files[ordinal] = size, number
        try:
            if size > LARGE_RECORD_BYTES:
                await asyncio.to_thread(self._write_file, ordinal, parts)
            else:
                self._write_file(ordinal, parts)
        except OSError:  # with a full disk crawling is slower, but loses no page
            self.drop(ordinal)
            return None
        return self.location(ordinal)

    def ordinals(self) -> list[int]:
        return list(self._sizes)

    def location(self, ordinal: int) -> SpoolLocation:
        return SpoolLocation(self._path(ordinal), _HEADER.size)

    async def read(self, ordinal: int) -> bytes | None:
        if ordinal not in self._sizes:
            return None
        with suppress(OSError, struct.error):
            data = await asyncio.to_thread(Path(self._path(ordinal)).read_bytes)
            record = data[_HEADER.size : _HEADER.size + self._sizes[ordinal]]
            _, write, _, _ = _HEADER.unpack(data[: _HEADER.size])
            if data[: _HEADER.size] == _header(write, ordinal, record):
                return record
        self.drop(ordinal)
        return None

    def drop(self, ordinal: int) -> None:
        size = self._sizes.pop(ordinal, None)
        if size is None:
            return
        path, number = self._path(ordinal), self._files.pop(ordinal)
        self._directory.free(size)
        self._free_files.append(number)
        if size > LARGE_RECORD_BYTES:
            with suppress(OSError):
                Path(path).unlink()

    def _path(self, ordinal: int) -> str:
        return f"{self._folder}/{self._files[ordinal]}"

    def _write_file(self, ordinal: int, parts: Sequence[bytes]) -> None:
        path = self._path(ordinal)
        try:
            number = os.open(path, _WRITE)
        except FileNotFoundError:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            number = os.open(path, _WRITE | os.O_CREAT, 0o600)
        try:
            self._writes += 1
            left = memoryview(b"".join((_header(self._writes, ordinal, *parts), *parts)))
            while left:
                left = left[os.write(number, left) :]
        finally:
            os.close(number)


def _header(write: int, ordinal: int, *parts: bytes) -> bytes:
    checked = _CHECKED_HEADER.pack(write, ordinal, sum(map(len, parts)))
    checksum = crc32(checked)
    for part in parts:
        checksum = crc32(part, checksum)
    return checksum.to_bytes(4, "big") + checked
