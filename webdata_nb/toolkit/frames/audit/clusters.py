"""Groups pages whose texts are nearly the same, by the sketches of their pairs of words."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from webdata_nb.toolkit.frames.audit.kinds import MIN_SIMILARITY

_HASH_BYTES: Final = 4
# Rare hashes by which candidates are found. Of two texts that share 90 %, each of the rarest is
# common with that probability.
_KEYS: Final = 8
# Groups that a page is compared with for each of its keys, which bounds the work.
_MAX_GROUPS: Final = 50

Sketch = frozenset[bytes]


def clusters(encoded: Sequence[str]) -> list[int | None]:
    """Return the number of each page's cluster, from 1 in their order; None for a page alone.

    `encoded` are the sketches of the pages in Base64, empty without a text.
    """
    sketches = [_sketch(each) for each in encoded]
    leaders = _leaders(sketches)
    sizes = Counter(leaders)
    numbers: dict[int, int] = {}
    for leader in leaders:
        if sizes[leader] > 1:
            numbers.setdefault(leader, len(numbers) + 1)
    return [numbers.get(leader) for leader in leaders]


def _sketch(encoded: str) -> Sketch:
    data = b64decode(encoded)
    return frozenset(
        data[start : start + _HASH_BYTES] for start in range(0, len(data), _HASH_BYTES)
    )


def _leaders(sketches: Sequence[Sketch]) -> list[int]:
    """Return the first page of each page's group: one that is nearly the same, or itself."""
    frequencies = Counter(each for sketch in sketches for each in sketch)
    groups: defaultdict[bytes, list[int]] = defaultdict(list)
    leaders = []
    for page, sketch in enumerate(sketches):
        shared = (each for each in sketch if frequencies[each] > 1)
        keys = sorted(shared, key=lambda each: (frequencies[each], each))[:_KEYS]
        candidates = dict.fromkeys(leader for key in keys for leader in groups[key])
        similar = (each for each in candidates if _are_similar(sketches[each], sketch))
        leader = next(similar, page)
        leaders.append(leader)
        for key in keys:
            if leader not in groups[key] and len(groups[key]) < _MAX_GROUPS:
                groups[key].append(leader)
    return leaders


def _are_similar(first: Sketch, second: Sketch) -> bool:
    """Return whether two texts share enough pairs of words, estimated from the smallest hashes."""
    size = max(len(first), len(second))
    smallest = set(sorted(first | second)[:size])
    return len(smallest & first & second) >= MIN_SIMILARITY * len(smallest) > 0
