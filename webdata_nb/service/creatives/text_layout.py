"""From the lines of a picture to its text, its headline and its description."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

# A headline is set this much larger than the rest; less may be chance.
_LARGER: Final = 1.15
_SURE: Final = 0.3
_ADDRESS: Final = re.compile(r"(?:https?://)?(?:[\w-]+\.)+[a-z]{2,}(?:/\S*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reading:
    """The text of a picture; headline and description only where their sizes tell them apart."""

    text: str
    confidence: float | None
    headline: str | None = None
    description: str | None = None


# Parts of the type's size: letters without strokes up or down, the strokes up, the strokes down.
_MIDDLE: Final = 0.53
_UP: Final = 0.20
_DOWN: Final = 0.21
_WITH_DOWN: Final = frozenset("gjpqy,;()[]{}|/QJ@")
_WITHOUT_UP: Final = frozenset("acegmnopqrsuvwxyz.,-:;_~")


def type_size(word: str, height: float) -> float:
    """Return the size of type in which a word is as high as it is.

    "on" set in 20 pixels is lower than "pj" set in 15: the strokes of its letters decide.
    """
    up = 0.0 if _WITHOUT_UP.issuperset(word) else _UP
    down = 0.0 if _WITH_DOWN.isdisjoint(word) else _DOWN
    return height / (_MIDDLE + up + down)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text: place and size of type in pixels, confidence from 0 to 1."""

    text: str
    confidence: float
    top: int
    left: int
    size: float


def reading(told: Sequence[Mapping[str, Any]]) -> Reading:
    """Put lines in reading order, and tell the headline from the rest by its size."""
    lines = sorted((Line(**line) for line in told), key=lambda line: (line.top, line.left))
    lines = [line for line in lines if line.confidence >= _SURE]
    if not lines:
        return Reading("", None)
    words = [(line.confidence, len(line.text.split())) for line in lines]
    mean = sum(sure * count for sure, count in words) / sum(count for _, count in words)
    text = "\n".join(line.text for line in lines)
    headline, description = _parts([line for line in lines if not _ADDRESS.fullmatch(line.text)])
    return Reading(text, round(mean, 4), headline, description)


def _parts(lines: Sequence[Line]) -> tuple[str | None, str | None]:
    """Return the block of largest lines and the lines below it."""
    if len(lines) < 2:  # noqa: PLR2004 - one line cannot be told from another
        return None, None
    largest = max(line.size for line in lines)
    large = [at for at, line in enumerate(lines) if line.size * _LARGER >= largest]
    rest = [line.size for at, line in enumerate(lines) if at not in large]
    together = large == list(range(large[0], large[-1] + 1))
    if not rest or not together or largest < _LARGER * statistics.median(rest):
        return None, None
    headline = " ".join(lines[at].text for at in large)
    below = " ".join(line.text for line in lines[large[-1] + 1 :])
    return headline, below or None
