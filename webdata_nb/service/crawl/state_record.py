"""Encodes the state of a crawl as compact records, and decodes them. Pure.

The first record has the whole state. Each later one has what changed since the one before it. A
record is a header and chunks. A chunk has some items of a section as JSON, compressed; a section is
a part of the state, such as the queue. The header has the version of the format, the checksum of
the record before, 0 if the state is whole, and the checksum of all chunks. If a record is of
another version, or a checksum is wrong, none is used: the crawl then replays its journal.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final, TypeAlias
from zlib import crc32

import orjson

from webdata_nb.page.errors import ApplicationError
from webdata_nb.service.compression import zstd
from webdata_nb.service.runtime.steps import Steps

Section: TypeAlias = tuple[str, list[Any]]
"""The name of a section, and some of its items."""

VERSION: Final = 3
# Items that are encoded in one step: some milliseconds.
ITEMS_PER_CHUNK: Final = 500
# The changes after a whole state take at most so many bytes, or as many as twice the state.
MIN_CHANGE_BYTES: Final = 8 * 1024 * 1024
MAX_CHANGE_RATIO: Final = 2
_MAGIC: Final = b"webdata crawl"
_HEADER: Final = struct.Struct("!13sHII")
_SIZE: Final = struct.Struct("!I")
_LEVEL: Final = 3


class UnusableRecord(ApplicationError):
    """A record is of another version, or damaged."""


@dataclass(frozen=True, slots=True)
class RecordChain:
    """The records of a crawl that are stored: their sizes, and the checksum of the last one."""

    whole_bytes: int = 0
    change_bytes: int = 0
    checksum: int = 0

    @property
    def needs_whole_state(self) -> bool:
        """Whether the next record has to have the whole state: to bound the size of all records."""
        limit = max(MIN_CHANGE_BYTES, MAX_CHANGE_RATIO * self.whole_bytes)
        return not self.checksum or self.change_bytes > limit

    def followed_by(self, record: bytes, *, whole: bool) -> RecordChain:
        """Return the chain with another record."""
        size, checksum = len(record), crc32(record)
        if whole:
            return RecordChain(size, 0, checksum)
        return RecordChain(self.whole_bytes, self.change_bytes + size, checksum)


def sections(name: str, items: Iterable[Any]) -> Iterator[Section]:
    """Divide the items of a section into chunks."""
    iterator = iter(items)
    while chunk := list(islice(iterator, ITEMS_PER_CHUNK)):
        yield name, chunk


def compress_json(value: Any) -> bytes:
    """Return a value as compressed JSON."""
    return zstd.compress(orjson.dumps(value), _LEVEL)


def decompress_json(data: bytes | memoryview) -> Any:
    """Return the value that `compress_json` compressed."""
    return orjson.loads(zstd.decompress(data))  # noqa: TID251 - our own record


def encode_record(parts: Iterable[Section], *, after: int = 0) -> Steps[bytes]:
    """Return the record of a whole state, or of changes `after` the record with that checksum."""
    chunks: list[bytes] = []
    checksum = 0
    for name, items in parts:
        body = compress_json([name, items])
        chunk = _SIZE.pack(len(body)) + body
        checksum = crc32(chunk, checksum)
        chunks.append(chunk)
        yield
    return b"".join((_HEADER.pack(_MAGIC, VERSION, after, checksum), *chunks))


def decode_records(records: Sequence[bytes]) -> tuple[Iterator[Section], RecordChain]:
    """Return the sections of the records, in their order; raises `UnusableRecord` at once."""
    records_chain = RecordChain()
    for record in records:
        is_whole = not records_chain.checksum
        _check_record(record, records_chain.checksum)
        records_chain = records_chain.followed_by(record, whole=is_whole)
    return chain.from_iterable(map(sections_of, records)), records_chain


def _check_record(record: bytes, after: int) -> None:
    if len(record) < _HEADER.size:
        raise UnusableRecord("the record of the crawl is damaged")
    magic, version, before, checksum = _HEADER.unpack_from(record)
    if magic != _MAGIC or version != VERSION:
        raise UnusableRecord(f"the record of the crawl is not of version {VERSION}")
    if crc32(memoryview(record)[_HEADER.size :]) != checksum:
        raise UnusableRecord("the record of the crawl is damaged")
    if before != after:
        raise UnusableRecord("a record of the crawl is missing")


def sections_of(record: bytes) -> Iterator[Section]:
    """Return the sections of a record, which is not checked."""
    body = memoryview(record)[_HEADER.size :]
    while body:
        (size,) = _SIZE.unpack_from(body)
        name, items = decompress_json(body[_SIZE.size : _SIZE.size + size])
        yield name, items
        body = body[_SIZE.size + size :]
