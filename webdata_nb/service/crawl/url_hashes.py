"""A set of URLs as hashes of 8 bytes, in one array that is saved as it is. Pure."""

from __future__ import annotations

import sys
from array import array
from hashlib import blake2b
from typing import Final

HASH_BYTES: Final = 8
_FIRST_SLOTS: Final = 1024
# The table grows before it is fuller than this share, in percent: longer probes take more time.
_MAX_LOAD: Final = 60
_EMPTY: Final = 0


class UrlHashes:
    """Keys of URLs, of which only hashes are stored: 13 to 27 bytes for each URL.

    Two of a million URLs have the same hash with a probability of 3e-8. The second of them then
    counts as known, in a crawl that runs in one leg as in one that runs in many.
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(HASH_BYTES * _FIRST_SLOTS))
        self._count = 0

    def add(self, key: str) -> None:
        """Add a key, unless it is there."""
        number = hash64(key.encode())
        slot = self._slot_of(number)
        if self._slots[slot] == number:
            return
        self._slots[slot] = number
        self._count += 1
        if 100 * self._count > _MAX_LOAD * len(self._slots):
            self._grow()

    def __contains__(self, key: str) -> bool:
        number = hash64(key.encode())
        return self._slots[self._slot_of(number)] == number

    def __len__(self) -> int:
        return self._count

    def to_bytes(self) -> bytes:
        """Return the table; numbers start with their lowest byte."""
        return _little_endian(self._slots).tobytes()

    @classmethod
    def from_bytes(cls, table: bytes) -> UrlHashes:
        """Return the set whose table `to_bytes` returned."""
        hashes = cls()
        hashes._slots = _little_endian(array("Q", table))
        hashes._count = len(hashes._slots) - hashes._slots.count(_EMPTY)
        return hashes

    def _slot_of(self, number: int) -> int:
        """Return the slot of a hash, or the empty one where it belongs."""
        slots = self._slots
        mask = len(slots) - 1
        slot = number & mask
        while (found := slots[slot]) != number and found != _EMPTY:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        numbers = self._slots
        self._slots = array("Q", bytes(2 * HASH_BYTES * len(numbers)))
        for number in numbers:
            if number != _EMPTY:
                self._slots[self._slot_of(number)] = number


def _little_endian(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


def hash64(data: bytes) -> int:
    """Return a hash of 8 bytes, never 0."""
    return int.from_bytes(blake2b(data, digest_size=HASH_BYTES).digest(), "big") or 1
