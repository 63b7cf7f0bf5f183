"""How much two texts have in common, by their sketches. Pure."""

from __future__ import annotations

from typing import Final

HASH_BYTES: Final = 4


def similarity(one: bytes, other: bytes) -> float:
    """Estimate the share of word pairs that two texts have in common, 0 to 1.

    Exact while both texts are shorter than a sketch; empty sketches are like none.
    """
    if not one or not other:
        return 0.0
    if one == other:
        return 1.0
    first, second = _hashes(one), _hashes(other)
    size = max(len(first), len(second))
    both = set(sorted(first | second)[:size])
    return len(both & first & second) / len(both)


def _hashes(sketch: bytes) -> set[bytes]:
    return {sketch[at : at + HASH_BYTES] for at in range(0, len(sketch), HASH_BYTES)}
