"""Hashes of URLs and texts, and how similar two texts are by their sketches. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

HASH_BYTES: Final = 4
"""Bytes of each hash in the sketch of a text (`content.minhash`)."""
# Arrays by the first bits of a hash: to insert one moves some kilobytes at most.
_ARRAYS: Final = 256
_SHIFT: Final = 56


def hash64(data: bytes) -> int:
    """Return a hash of 8 bytes."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


class UrlHashes:
    """Keys of URLs, of which only hashes are stored: about 9 bytes for each, in sorted arrays.

    Two of a million URLs have the same hash with a probability of 3e-8. The second of them then
    counts as known, in a crawl that runs without a stop as in one that was continued.
    """

    def __init__(self) -> None:
        self._arrays = [array("Q") for _ in range(_ARRAYS)]
        self._count = 0

    def add(self, key: str) -> None:
        """Add a key, unless it is there."""
        number = hash64(key.encode())
        numbers = self._arrays[number >> _SHIFT]
        at = bisect_left(numbers, number)
        if at == len(numbers) or numbers[at] != number:
            numbers.insert(at, number)
            self._count += 1

    def __contains__(self, key: str) -> bool:
        number = hash64(key.encode())
        numbers = self._arrays[number >> _SHIFT]
        at = bisect_left(numbers, number)
        return at < len(numbers) and numbers[at] == number

    def __len__(self) -> int:
        return self._count

    def state(self) -> list[bytes]:
        """Return the arrays as bytes, in the byte order of this machine."""
        return [numbers.tobytes() for numbers in self._arrays]

    def restore(self, state: Sequence[bytes]) -> None:
        """Continue with the keys of `state`."""
        self._arrays = [array("Q", numbers) for numbers in state]
        self._count = sum(map(len, self._arrays))


def similarity(first: bytes, second: bytes) -> float:
    """Estimate the Jaccard similarity of the word pairs of two texts from their sketches, 0 to 1.

    The estimate is exact while both texts are shorter than a sketch. An empty sketch is similar
    to none.
    """
    if not first or not second:
        return 0.0
    if first == second:
        return 1.0
    first_hashes, second_hashes = _hashes(first), _hashes(second)
    size = max(len(first_hashes), len(second_hashes))
    smallest = set(sorted(first_hashes | second_hashes)[:size])
    return len(smallest & first_hashes & second_hashes) / len(smallest)


def _hashes(sketch: bytes) -> set[bytes]:
    return {sketch[start : start + HASH_BYTES] for start in range(0, len(sketch), HASH_BYTES)}
