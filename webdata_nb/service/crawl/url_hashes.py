"""A set of URLs as hashes of 8 bytes. Pure."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Final

HASH_BYTES: Final = 8
# Tables, each of which grows by itself: no single step rehashes all numbers.
_TABLE_BITS: Final = 6
_SHIFT: Final = 8 * HASH_BYTES - _TABLE_BITS
_FIRST_SLOTS: Final = 32
# A table grows before it is fuller than this share, in percent: longer probes take more time.
_MAX_LOAD: Final = 60
_EMPTY: Final = 0


class UrlHashes:
    """Keys of URLs, of which only hashes are stored: 13 to 27 bytes for each URL.

    Two of a million URLs have the same hash with a probability of 3e-8. The second of them then
    counts as known, in a crawl that runs in one leg as in one that runs in many.
    """

    def __init__(self) -> None:
        self._tables = [_HashTable() for _ in range(1 << _TABLE_BITS)]
        self._count = 0
        # Added since the last record.
        self._new = array("Q")

    def add(self, key: str) -> None:
        """Add a key, unless it is there."""
        number = hash64(key.encode())
        if self._tables[number >> _SHIFT].add(number):
            self._count += 1
            self._new.append(number)

    def __contains__(self, key: str) -> bool:
        number = hash64(key.encode())
        return number in self._tables[number >> _SHIFT]

    def __len__(self) -> int:
        return self._count

    def changes(self, *, whole: bool, block: int) -> Iterator[bytes]:
        """Yield blocks of the hashes added since the last call, or of all; lowest bytes first."""
        new, self._new = self._new, array("Q")
        if not whole:
            return _blocks(new, block)
        return (part for table in self._tables for part in _blocks(table.numbers(), block))

    def restore(self, block: bytes) -> None:
        """Add the hashes of a block."""
        for number in _little_endian(array("Q", block)):
            self._count += self._tables[number >> _SHIFT].add(number)


class _HashTable:
    """Numbers other than 0, in a table with open addressing."""

    __slots__ = ("_count", "_slots")

    def __init__(self) -> None:
        self._slots = array("Q", bytes(HASH_BYTES * _FIRST_SLOTS))
        self._count = 0

    def add(self, number: int) -> bool:
        """Add a number; return whether it is new."""
        slot = self._slot_of(number)
        if self._slots[slot] == number:
            return False
        self._slots[slot] = number
        self._count += 1
        if 100 * self._count > _MAX_LOAD * len(self._slots):
            self._grow()
        return True

    def __contains__(self, number: int) -> bool:
        return self._slots[self._slot_of(number)] == number

    def numbers(self) -> array[int]:
        """Return the numbers."""
        return array("Q", filter(None, self._slots))

    def _slot_of(self, number: int) -> int:
        """Return the slot of a number, or the empty one where it belongs."""
        slots = self._slots
        mask = len(slots) - 1
        slot = number & mask
        while (found := slots[slot]) != number and found != _EMPTY:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        numbers = self.numbers()
        self._slots = array("Q", bytes(2 * HASH_BYTES * len(self._slots)))
        for number in numbers:
            self._slots[self._slot_of(number)] = number


def _blocks(numbers: array[int], size: int) -> Iterator[bytes]:
    return (
        _little_endian(numbers[at : at + size]).tobytes() for at in range(0, len(numbers), size)
    )


def _little_endian(numbers: array[int]) -> array[int]:
    """Return numbers whose lowest byte comes first."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


def hash64(data: bytes) -> int:
    """Return a hash of 8 bytes, never 0."""
    return int.from_bytes(blake2b(data, digest_size=HASH_BYTES).digest(), "big") or 1


def hashes_of(blocks: Iterable[bytes]) -> UrlHashes:
    """Return the set whose blocks `changes` yielded."""
    hashes = UrlHashes()
    for block in blocks:
        hashes.restore(block)
    return hashes
