"""Encodes the state of a crawl as one compact record, and decodes it. Pure.

A record is a header and chunks. A chunk has some items of a section as JSON, compressed; a section
is a part of the state, such as the queue. The header has the version of the format and a checksum
of all chunks. A record of another version, or with a wrong checksum, is not used: the crawl then
replays its journal.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeAlias
from zlib import crc32

import orjson

from webdata_nb.service.errors import ApplicationError
from webdata_nb.service.runtime.steps import Steps

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Section: TypeAlias = tuple[str, list[Any]]
"""The name of a section, and some of its items."""

VERSION: Final = 2
# Items that are encoded in one step: some milliseconds.
ITEMS_PER_CHUNK: Final = 500
_MAGIC: Final = b"webdata crawl"
_HEADER: Final = struct.Struct("!13sHI")
_SIZE: Final = struct.Struct("!I")
_LEVEL: Final = 3


class UnusableRecord(ApplicationError):
    """A record is of another version, or damaged."""


def sections(name: str, items: Iterable[Any]) -> Iterator[Section]:
    """Divide the items of a section into chunks."""
    iterator = iter(items)
    while chunk := list(islice(iterator, ITEMS_PER_CHUNK)):
        yield name, chunk


def encode_record(parts: Iterable[Section]) -> Steps[bytes]:
    """Return the record of a state."""
    chunks: list[bytes] = []
    checksum = 0
    for name, items in parts:
        body = zstd.compress(orjson.dumps([name, items]), _LEVEL)
        chunk = _SIZE.pack(len(body)) + body
        checksum = crc32(chunk, checksum)
        chunks.append(chunk)
        yield
    return b"".join((_HEADER.pack(_MAGIC, VERSION, checksum), *chunks))


def decode_record(record: bytes) -> Iterator[Section]:
    """Return the sections of a record; raises `UnusableRecord` at once."""
    if len(record) < _HEADER.size:
        raise UnusableRecord("the record of the crawl is damaged")
    magic, version, checksum = _HEADER.unpack_from(record)
    if magic != _MAGIC or version != VERSION:
        raise UnusableRecord(f"the record of the crawl is not of version {VERSION}")
    body = memoryview(record)[_HEADER.size :]
    if crc32(body) != checksum:
        raise UnusableRecord("the record of the crawl is damaged")
    return _sections_of(body)


def _sections_of(body: memoryview) -> Iterator[Section]:
    while body:
        (size,) = _SIZE.unpack_from(body)
        name, items = orjson.loads(zstd.decompress(body[_SIZE.size : _SIZE.size + size]))
        yield name, items
        body = body[_SIZE.size + size :]
