"""Encodes the state of a crawl plan as one record, from which a later attempt continues. Pure.

Each part of the plan has a struct with its state. Long collections in it are packed: divided into
chunks, each encoded and compressed in one step of some milliseconds. A record that is damaged, or
of another version, is not used: the crawl then replays its journal, from which the state follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar
from zlib import crc32

import msgspec

from webdata_nb.page.errors import ApplicationError
from webdata_nb.service.compression import zstd
from webdata_nb.service.runtime.steps import Steps

VERSION: Final = 4
ITEMS_PER_CHUNK: Final = 1000
_LEVEL: Final = 3
_CHECKSUM_BYTES: Final = 4

Packed: TypeAlias = list[bytes]
"""A collection as chunks, each with some of its items, encoded and compressed."""
Item = TypeVar("Item")
State = TypeVar("State")


class UnusableState(ApplicationError):
    """The stored state of a crawl is damaged, or of another version."""


def pack_chunk(items: Sequence[Any]) -> bytes:
    """Return items as one chunk."""
    return zstd.compress(msgspec.msgpack.encode(items), _LEVEL)


def unpack_chunk(chunk: bytes, item_type: type[Item]) -> list[Item]:
    """Return the items of a chunk."""
    return msgspec.msgpack.decode(zstd.decompress(chunk), type=list[item_type])  # type: ignore[valid-type]


def pack(items: Iterable[Any]) -> Steps[Packed]:
    """Return a collection in chunks."""
    iterator, chunks = iter(items), list[bytes]()
    while chunk := list(islice(iterator, ITEMS_PER_CHUNK)):
        chunks.append(pack_chunk(chunk))
        yield
    return chunks


def unpack(
    chunks: Packed, item_type: type[Item], add: Callable[[list[Item]], object]
) -> Steps[None]:
    """Pass the items of each chunk to `add`."""
    for chunk in chunks:
        add(unpack_chunk(chunk, item_type))
        yield


def encode_state(state: Any) -> bytes:
    """Return the record of a state."""
    body = msgspec.msgpack.encode((VERSION, state))
    return crc32(body).to_bytes(_CHECKSUM_BYTES) + body


def decode_state(record: bytes, state_type: type[State]) -> State:
    """Return the state of a record.

    Raises
    ------
    UnusableState
        The record is damaged, or of another version.
    """
    body = memoryview(record)[_CHECKSUM_BYTES:]
    if not body or crc32(body) != int.from_bytes(record[:_CHECKSUM_BYTES]):
        raise UnusableState("the state of the crawl is damaged")
    version, state = msgspec.msgpack.decode(body, type=tuple[int, msgspec.Raw])
    if version != VERSION:
        raise UnusableState(f"the state of the crawl is not of version {VERSION}")
    return msgspec.msgpack.decode(state, type=state_type)
