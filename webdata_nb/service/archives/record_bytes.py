"""Reads the bytes of one WARC record, compressed or not, within limits.

A record of a `.warc.gz` is a gzip member of its own, so that it can be read without those before
it.
"""

from __future__ import annotations

import zlib
from typing import BinaryIO, Final, Protocol

GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_CHUNK_BYTES: Final = 64 * 1024
# A record that is larger than this, and compressed better than this, is a decompression bomb.
_BOMB_BYTES: Final = 64 * 1024 * 1024
_BOMB_RATIO: Final = 200
# No page is nearly as large as a record that unpacks to more than this.
_MAX_MEMBER_BYTES: Final = 1024**3
# Compressed bytes that may unpack to nothing.
_MAX_SILENT_BYTES: Final = 1024 * 1024


class BrokenRecord(Exception):
    """The bytes are no complete WARC record; the text says what is wrong."""


class RecordBytes(Protocol):
    """The bytes of one record, from its first one on."""

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; none at the end. Raises `BrokenRecord`."""

    def skip(self, size: int) -> None:
        """Skip bytes. Raises `BrokenRecord` where there are fewer."""

    def end(self) -> int:
        """Return the offset of what follows in the file. Raises `BrokenRecord`."""


class PlainBytes(RecordBytes):
    """A record that is not compressed: `file` between `start` and `limit`."""

    def __init__(self, file: BinaryIO, start: int, limit: int) -> None:
        self._file, self._position, self._limit = file, start, limit
        file.seek(start)

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; none at the end."""
        data = self._file.read(min(size, self._limit - self._position))
        self._position += len(data)
        return data

    def skip(self, size: int) -> None:
        """Skip bytes."""
        if size > self._limit - self._position:
            raise BrokenRecord("the file ends within the record")
        self._position += size
        self._file.seek(self._position)

    def end(self) -> int:
        """Return the offset of what was not read."""
        return self._position


class MemberBytes(RecordBytes):
    """A record that is a gzip member: `file` from `start`, and before `limit`."""

    def __init__(self, file: BinaryIO, start: int, limit: int) -> None:
        self._file, self._position, self._limit = file, start, limit
        self._start = start
        self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._pending = b""
        self._inflated_bytes = self._silent_bytes = 0
        file.seek(start)

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; none at the end."""
        while not self._inflater.eof:
            if not self._pending:
                self._pending = self._next_chunk()
            data = self._inflate(size)
            if data:
                self._silent_bytes = 0
                return data
        return b""

    def skip(self, size: int) -> None:
        """Skip bytes."""
        while size:
            data = self.read(min(size, _CHUNK_BYTES))
            if not data:
                raise BrokenRecord("the record is shorter than its Content-Length")
            size -= len(data)

    def end(self) -> int:
        """Return the offset after the member."""
        # At most the line breaks that end a record, and bytes that belong to none.
        while self.read(_CHUNK_BYTES):
            pass
        return self._position - len(self._inflater.unused_data)

    def _next_chunk(self) -> bytes:
        chunk = self._file.read(min(_CHUNK_BYTES, self._limit - self._position))
        if not chunk:
            raise BrokenRecord("the file ends within the record")
        self._position += len(chunk)
        self._silent_bytes += len(chunk)
        if self._silent_bytes > _MAX_SILENT_BYTES:
            raise BrokenRecord("the compressed data has no content")
        return chunk

    def _inflate(self, size: int) -> bytes:
        try:
            data = self._inflater.decompress(self._pending, size)
        except zlib.error as error:
            raise BrokenRecord(f"the compressed data is damaged ({error})") from None
        self._pending = self._inflater.unconsumed_tail
        self._inflated_bytes += len(data)
        read_bytes = self._position - self._start
        if self._inflated_bytes > max(_BOMB_BYTES, _BOMB_RATIO * read_bytes):
            raise BrokenRecord(f"the record unpacks to more than {_BOMB_RATIO} times its size")
        if self._inflated_bytes > _MAX_MEMBER_BYTES:
            raise BrokenRecord(f"the record unpacks to more than {_MAX_MEMBER_BYTES:,} bytes")
        return data


def record_bytes(file: BinaryIO, start: int, limit: int) -> RecordBytes:
    """Return the bytes of the record at an offset of a file."""
    file.seek(start)
    is_compressed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    return (MemberBytes if is_compressed else PlainBytes)(file, start, limit)
