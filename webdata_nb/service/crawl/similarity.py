"""Estimates how similar two texts are from their bottom-k sketches (`content.minhash`). Pure."""

from __future__ import annotations

from typing import Final

HASH_BYTES: Final = 4


def similarity(first: bytes, second: bytes) -> float:
    """Estimate the Jaccard similarity of the word pairs of two texts, 0 to 1.

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
