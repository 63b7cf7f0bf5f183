"""Encodes the state of a crawl plan as one record, from which a later attempt continues. Pure.

Each part of the plan has a struct with its state. Long collections are written behind each other
in chunks, each encoded and compressed in one step of some milliseconds; the structs, which have the
places of the chunks, follow them. A record that is damaged, or of another version, is not used: the
crawl then replays its journal, from which the state follows.
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
# The size of the structs, and the checksum of all before it.
_SIZE_BYTES: Final = 4
_CHECKSUM_BYTES: Final = 4

Packed: TypeAlias = list[tuple[int, int]]
"""A collection: where each chunk of its items begins and ends in the record."""
Item = TypeVar("Item")
State = TypeVar("State")


class UnusableState(ApplicationError):
    """The stored state of a crawl is damaged, or of another version."""


class StateWriter:
    """Writes a state without a second copy of it in memory."""

    def __init__(self) -> None:
        self._record = bytearray()

    def pack(self, items: Iterable[Any]) -> Steps[Packed]:
        """Write a collection."""
        iterator, places = iter(items), Packed()
        while chunk := list(islice(iterator, ITEMS_PER_CHUNK)):
            places.append(self.write(pack_chunk(chunk)))
            yield
        return places

    def write(self, chunk: bytes) -> tuple[int, int]:
        """Write a chunk; return its place."""
        start = len(self._record)
        self._record += chunk
        return start, len(self._record)

    def end(self, state: Any) -> bytearray:
        """Return the record of a state whose collections were written."""
        head = msgspec.msgpack.encode((VERSION, state))
        self._record += head
        self._record += len(head).to_bytes(_SIZE_BYTES)
        self._record += crc32(self._record).to_bytes(_CHECKSUM_BYTES)
        return self._record


class StateReader:
    """Reads the record of a state."""

    def __init__(self, record: bytes | bytearray) -> None:
        self._record = memoryview(record)

    def state(self, state_type: type[State]) -> State:
        """Return the state.

        Raises
        ------
        UnusableState
            The record is damaged, or of another version.
        """
        body, checksum = self._record[:-_CHECKSUM_BYTES], self._record[-_CHECKSUM_BYTES:]
        if not body or crc32(body) != int.from_bytes(checksum):
            raise UnusableState("the state of the crawl is damaged")
        end = len(body) - _SIZE_BYTES
        head = body[end - int.from_bytes(body[end:]) : end]
        version, state = msgspec.msgpack.decode(head, type=tuple[int, msgspec.Raw])
        if version != VERSION:
            raise UnusableState(f"the state of the crawl is not of version {VERSION}")
        return msgspec.msgpack.decode(state, type=state_type)

    def unpack(
        self, places: Packed, item_type: type[Item], add: Callable[[list[Item]], object]
    ) -> Steps[None]:
        """Pass the items of each chunk to `add`."""
        for place in places:
            add(unpack_chunk(self.read(place), item_type))
            yield

    def read(self, place: tuple[int, int]) -> bytes:
        """Return a chunk."""
        start, end = place
        return bytes(self._record[start:end])


def pack_chunk(items: Sequence[Any]) -> bytes:
    """Return items as one chunk."""
    return zstd.compress(msgspec.msgpack.encode(items), _LEVEL)


def unpack_chunk(chunk: bytes, item_type: type[Item]) -> list[Item]:
    """Return the items of a chunk."""
    return msgspec.msgpack.decode(zstd.decompress(chunk), type=list[item_type])  # type: ignore[valid-type]
