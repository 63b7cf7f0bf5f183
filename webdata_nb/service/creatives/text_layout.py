"""Orders recognized lines of text and finds the headline and the description among them."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

# The least ratio of a headline's font size to the other lines'; smaller ones may be noise.
_HEADLINE_RATIO: Final = 1.15
_MIN_CONFIDENCE: Final = 0.3
_WEB_ADDRESS: Final = re.compile(r"(?:https?://)?(?:[\w-]+\.)+[a-z]{2,}(?:/\S*)?", re.IGNORECASE)
# Parts of the font size: letters without ascenders or descenders, ascenders, descenders.
_X_HEIGHT: Final = 0.53
_ASCENDER: Final = 0.20
_DESCENDER: Final = 0.21
_WITH_DESCENDER: Final = frozenset("gjpqy,;()[]{}|/QJ@")
_WITHOUT_ASCENDER: Final = frozenset("acegmnopqrsuvwxyz.,-:;_~")


@dataclass(frozen=True, slots=True)
class OcrText:
    """The text of a picture, with headline and description if font sizes distinguish them."""

    text: str
    confidence: float | None
    headline: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text: position and font size in pixels, confidence from 0 to 1."""

    text: str
    confidence: float
    top: int
    left: int
    size: float


def font_size(word: str, height: float) -> float:
    """Return the font size of a word from its height and the strokes of its letters.

    "on" at 20 pixels is lower than "pj" at 15, which has ascenders and descenders.
    """
    ascender = 0.0 if _WITHOUT_ASCENDER.issuperset(word) else _ASCENDER
    descender = 0.0 if _WITH_DESCENDER.isdisjoint(word) else _DESCENDER
    return height / (_X_HEIGHT + ascender + descender)


def layout_text(line_fields: Sequence[Mapping[str, Any]]) -> OcrText:
    """Sort lines into reading order, and separate headline and description by font size."""
    lines = [TextLine(**fields) for fields in line_fields]
    lines = [line for line in lines if line.confidence >= _MIN_CONFIDENCE]
    lines.sort(key=lambda line: (line.top, line.left))
    if not lines:
        return OcrText("", None)
    word_counts = [len(line.text.split()) for line in lines]
    total = sum(line.confidence * count for line, count in zip(lines, word_counts, strict=True))
    text = "\n".join(line.text for line in lines)
    headline, description = _find_headline(
        [line for line in lines if not _WEB_ADDRESS.fullmatch(line.text)]
    )
    return OcrText(text, round(total / sum(word_counts), 4), headline, description)


def _find_headline(lines: Sequence[TextLine]) -> tuple[str | None, str | None]:
    """Return the block of the largest lines and the text below it."""
    if not lines:
        return None, None
    largest = max(line.size for line in lines)
    large = [number for number, line in enumerate(lines) if line.size * _HEADLINE_RATIO >= largest]
    other_sizes = [line.size for number, line in enumerate(lines) if number not in large]
    is_one_block = large == list(range(large[0], large[-1] + 1))
    if (
        not other_sizes
        or not is_one_block
        or largest < _HEADLINE_RATIO * statistics.median(other_sizes)
    ):
        return None, None
    headline = " ".join(lines[number].text for number in large)
    description = " ".join(line.text for line in lines[large[-1] + 1 :])
    return headline, description or None
