"""Reads the lines of a PDF page in reading order, also where two columns share the same lines."""

from __future__ import annotations

from ctypes import c_double
from dataclasses import dataclass, replace
from itertools import zip_longest
from statistics import median
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HYPHENS: Final = ("\x02", "\ufffe", "\xad")
"""The signs of pdfium for a word that is broken at the end of a line."""

_GUTTER_RATIO: Final = 1.2  # the space between columns in font sizes, at least
_MIN_COLUMN_LINES: Final = 5  # lines that two columns share, at least
_MIN_COLUMN_LENGTH: Final = (
    18  # characters of the median line of a column; tables have shorter ones
)
_SAMPLE_LINES: Final = (
    12  # a page is searched for columns if some of its first long lines have gaps
)
_LONG_LINE: Final = 30


@dataclass(frozen=True, slots=True)
class PdfLine:
    """A line of text with its font size and its edges, in points from the bottom left."""

    text: str
    size: float
    left: float
    top: float


@dataclass(frozen=True, slots=True)
class _Gap:
    """A wide space: the index of its last character, and its edges."""

    index: int
    left: float
    right: float


def read_lines(text: Any) -> list[PdfLine]:
    """Read the lines of one text page of pypdfium2."""
    characters = _Characters(text)
    lines = list(_stored_lines(text, characters))
    long_lines = [entry for entry in lines if len(entry[1].text) >= _LONG_LINE]
    sample = long_lines[:: max(1, len(long_lines) // _SAMPLE_LINES)]
    with_gaps = sum(1 for entry in sample if _gaps(characters, *entry))
    if 2 * with_gaps < len(sample) or not with_gaps:
        return [line for _, line in lines]
    gaps = [_gaps(characters, offset, line) for offset, line in lines]
    gutter = _find_gutter([line for _, line in lines], gaps)
    if gutter is None:
        return [line for _, line in lines]
    return list(_by_columns(characters, lines, gaps, gutter))


class _Characters:
    """The edges and font sizes of the characters of a page. Lookups share their buffers."""

    def __init__(self, text: Any) -> None:
        from pypdfium2 import raw  # type: ignore[import-untyped]  # noqa: PLC0415 - as in `pdf`

        self._text = text
        self._read_box, self._read_size = raw.FPDFText_GetCharBox, raw.FPDFText_GetFontSize
        self._box = tuple(c_double() for _ in range(4))

    def edges(self, index: int) -> tuple[float, float, float]:
        """Return the left, right and top edge."""
        left, right, bottom, top = self._box
        self._read_box(self._text, index, left, right, bottom, top)
        return left.value, right.value, top.value

    def size(self, index: int) -> float:
        """Return the font size."""
        return float(self._read_size(self._text, index))


def _stored_lines(text: Any, characters: _Characters) -> Iterator[tuple[int, PdfLine]]:
    """Yield the lines as they are stored, with the index of their first characters."""
    offset = 0
    for stored in text.get_text_range().split("\r\n"):
        line = stored.strip(" ")
        if line.strip():
            start = offset + len(stored) - len(stored.lstrip(" "))
            left, _, top = characters.edges(start)
            yield start, PdfLine(line, characters.size(start), left, top)
        offset += len(stored) + 2


def _gaps(characters: _Characters, offset: int, line: PdfLine) -> list[_Gap]:
    gaps = []
    position = line.text.find(" ")
    while position > 0:
        end = position
        while line.text[end + 1] == " ":
            end += 1
        _, left, _ = characters.edges(offset + position - 1)
        right, _, _ = characters.edges(offset + end + 1)
        if right - left >= _GUTTER_RATIO * line.size:
            gaps.append(_Gap(end, left, right))
        position = line.text.find(" ", end + 1)
    return gaps


def _find_gutter(lines: Sequence[PdfLine], gaps: Sequence[Sequence[_Gap]]) -> float | None:
    """Return the position of the space between two columns of text; None without columns."""
    centres = sorted((gap.left + gap.right) / 2 for found in gaps for gap in found)
    if len(centres) < _MIN_COLUMN_LINES:
        return None
    gutter = median(centres)
    sides = [
        (gap.index, len(line.text) - gap.index)
        for line, found in zip(lines, gaps, strict=True)
        for gap in found
        if gap.left <= gutter <= gap.right
    ]
    is_text = len(sides) >= _MIN_COLUMN_LINES and all(
        median(lengths) >= _MIN_COLUMN_LENGTH for lengths in zip(*sides, strict=True)
    )
    return gutter if is_text else None


def _by_columns(
    characters: _Characters,
    lines: Sequence[tuple[int, PdfLine]],
    gaps: Sequence[Sequence[_Gap]],
    gutter: float,
) -> Iterator[PdfLine]:
    """Yield the left column before the right one, between lines that span both."""
    columns: tuple[list[PdfLine], list[PdfLine]] = ([], [])
    for (offset, line), found in zip(lines, gaps, strict=True):
        gap = next((each for each in found if each.left <= gutter <= each.right), None)
        if gap is not None:
            for column, part in zip(columns, _split(characters, offset, line, gap), strict=True):
                column.append(part)
        elif _is_in_column(characters, offset, line, gutter):
            columns[line.left >= gutter].append(line)
        else:
            yield from (*_with_hyphens(columns[0]), *columns[1], line)
            columns = ([], [])
    yield from (*_with_hyphens(columns[0]), *columns[1])


def _with_hyphens(column: Sequence[PdfLine]) -> Iterator[PdfLine]:
    """Mark words that are broken at the end of a left column, where pdfium sees no line end."""
    for line, following in zip_longest(column, column[1:]):
        is_broken = (
            following is not None
            and line.text[-1:] == "-"
            and line.text[-2:-1].isalpha()
            and following.text[:1].islower()
        )
        yield replace(line, text=line.text[:-1] + HYPHENS[0]) if is_broken else line


def _is_in_column(characters: _Characters, offset: int, line: PdfLine, gutter: float) -> bool:
    if line.left >= gutter:
        return True
    _, right, _ = characters.edges(offset + len(line.text) - 1)
    return right <= gutter


def _split(
    characters: _Characters, offset: int, line: PdfLine, gap: _Gap
) -> tuple[PdfLine, PdfLine]:
    start = gap.index + 1
    _, _, top = characters.edges(offset + start)
    size = characters.size(offset + start)
    before = PdfLine(line.text[:start].rstrip(" "), line.size, line.left, line.top)
    return before, PdfLine(line.text[start:], size, gap.right, top)
