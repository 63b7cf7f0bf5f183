"""Finds tables of PDF pages by their ruling lines."""

from __future__ import annotations

from ctypes import c_float, c_int
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from webdata_nb.page.documents.office.html_blocks import Cell, write_table, write_text
from webdata_nb.page.documents.pdf_lines import HYPHENS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_SEGMENTS: Final = 5000
"""Lines of one page's paths; a page with more is a drawing, whose tables are not searched."""
MAX_OBJECTS: Final = 20_000
"""Objects of one page that are searched for paths."""
MAX_TABLE_CELLS: Final = 2000
MAX_WORK: Final = 2_000_000
"""Pairs of lines that are compared in one document."""
_OBJECT_WORK: Final = 20  # of a line that is read, in pairs of lines that are compared


_MAX_WIDTH: Final = 3.0  # of a ruling line, in points; also how far its ends may miss another line
_MIN_LENGTH: Final = 8.0
_MIN_LINES: Final = 3  # of each direction: two rows and two columns
_MIN_FILLED: Final = 0.4  # the share of cells with text; grids of charts have less
_MIN_ROWS: Final = 3  # rows without lines between them
_MAX_MEAN_LENGTH: Final = 15  # characters of the lines of such rows; longer ones are paragraphs
_INSIDE: Final = 1.0  # distance of the text of a cell from its lines


class _Ruling(NamedTuple):
    """A horizontal or vertical line: its position, and its extent in the other direction."""

    at: float
    start: float
    end: float


_Segment: TypeAlias = tuple[float, float, float, float]
"""The two ends of a line."""


@dataclass(frozen=True, slots=True)
class PdfTable:
    """A table as HTML, and its place on the page in points from the bottom left."""

    html: str
    left: float
    bottom: float
    right: float
    top: float

    def contains(self, x: float, y: float) -> bool:
        """Return whether a point is in the table."""
        return self.left <= x <= self.right and self.bottom <= y <= self.top


class TableFinder:
    """Finds the tables of a document's pages, with a limit on the work for all of them."""

    def __init__(self) -> None:
        self._work_left = MAX_WORK

    def find_tables(self, page: Any, text: Any) -> list[PdfTable]:
        """Find the ruled tables of a page, from the top down.

        Parameters
        ----------
        page
            The page of pypdfium2.
        text
            Its text page.
        """
        if self._work_left < 0:
            return []
        segments = list(islice(_segments(page), MAX_SEGMENTS))
        self._work_left -= _OBJECT_WORK * len(segments)
        if len(segments) == MAX_SEGMENTS:
            return []
        horizontal, vertical = _rulings(segments)
        self._work_left -= len(horizontal) * len(vertical)
        grids = _grids(horizontal, vertical) if self._work_left >= 0 else ()
        tables = (_Grid(rows, columns).read(text) for rows, columns in grids)
        return sorted(filter(None, tables), key=lambda table: -table.top)


def _rulings(segments: list[_Segment]) -> tuple[list[_Ruling], list[_Ruling]]:
    """Return the horizontal and the vertical lines, joined where they overlap."""
    horizontal: list[_Ruling] = []
    vertical: list[_Ruling] = []
    for x1, y1, x2, y2 in segments:
        if abs(y1 - y2) <= _MAX_WIDTH < _MIN_LENGTH <= abs(x1 - x2):
            horizontal.append(_Ruling((y1 + y2) / 2, min(x1, x2), max(x1, x2)))
        elif abs(x1 - x2) <= _MAX_WIDTH < _MIN_LENGTH <= abs(y1 - y2):
            vertical.append(_Ruling((x1 + x2) / 2, min(y1, y2), max(y1, y2)))
    return _joined(horizontal), _joined(vertical)


def _segments(page: Any) -> Iterator[_Segment]:
    """Yield the straight lines of the paths of a page."""
    from pypdfium2 import raw  # type: ignore[import-untyped]  # noqa: PLC0415 - as in `pdf`

    for number in range(min(MAX_OBJECTS, raw.FPDFPage_CountObjects(page))):
        path = raw.FPDFPage_GetObject(page, number)
        if raw.FPDFPageObj_GetType(path) != raw.FPDF_PAGEOBJ_PATH:
            continue
        fill, stroke = c_int(0), c_int(0)
        raw.FPDFPath_GetDrawMode(path, fill, stroke)
        if fill.value or stroke.value:
            yield from _lines_of(path, raw)


def _lines_of(path: Any, raw: Any) -> Iterator[_Segment]:
    matrix = raw.FS_MATRIX(1, 0, 0, 1, 0, 0)
    raw.FPDFPageObj_GetMatrix(path, matrix)
    x, y = c_float(), c_float()
    start = previous = None
    for number in range(min(raw.FPDFPath_CountSegments(path), MAX_SEGMENTS + 1)):
        segment = raw.FPDFPath_GetPathSegment(path, number)
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        point = (
            matrix.a * x.value + matrix.c * y.value + matrix.e,
            matrix.b * x.value + matrix.d * y.value + matrix.f,
        )
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            start = point
        elif kind == raw.FPDF_SEGMENT_LINETO and previous is not None:
            yield *previous, *point
        previous = point
        if raw.FPDFPathSegment_GetClose(segment) and start is not None:
            yield *point, *start


def _joined(rulings: list[_Ruling]) -> list[_Ruling]:
    """Join lines of one position whose extents touch: tables are often drawn cell by cell."""
    joined: list[_Ruling] = []
    for position in _clusters(sorted(rulings)):
        at = sum(ruling.at for ruling in position) / len(position)
        for ruling in sorted(position, key=lambda ruling: ruling.start):
            last = joined[-1] if joined else None
            if last is not None and last.at == at and ruling.start <= last.end + _MAX_WIDTH:
                joined[-1] = _Ruling(at, last.start, max(last.end, ruling.end))
            else:
                joined.append(_Ruling(at, ruling.start, ruling.end))
    return joined


def _clusters(rulings: Sequence[_Ruling]) -> Iterator[list[_Ruling]]:
    """Yield groups of sorted lines whose positions differ by no more than the width of a line."""
    group: list[_Ruling] = []
    for ruling in rulings:
        if group and ruling.at - group[0].at > _MAX_WIDTH:
            yield group
            group = []
        group.append(ruling)
    if group:
        yield group


def _grids(
    horizontal: list[_Ruling], vertical: list[_Ruling]
) -> Iterator[tuple[list[_Ruling], list[_Ruling]]]:
    """Yield the lines of each table: those that are connected by crossings."""
    rows_left, columns_left = set(horizontal), set(vertical)
    while rows_left:
        rows, columns = {rows_left.pop()}, set[_Ruling]()
        pending: list[tuple[_Ruling, bool]] = [(next(iter(rows)), True)]
        while pending:
            ruling, is_row = pending.pop()
            others = columns_left if is_row else rows_left
            crossing = {other for other in others if _cross(ruling, other)}
            others -= crossing
            (columns if is_row else rows).update(crossing)
            pending += ((other, not is_row) for other in crossing)
        is_table = len(rows) >= _MIN_LINES and len(columns) >= _MIN_LINES
        if is_table and len(rows) * len(columns) <= MAX_TABLE_CELLS:
            yield sorted(rows, reverse=True), sorted(columns)


def _cross(one: _Ruling, other: _Ruling) -> bool:
    return (
        one.start - _MAX_WIDTH <= other.at <= one.end + _MAX_WIDTH
        and other.start - _MAX_WIDTH <= one.at <= other.end + _MAX_WIDTH
    )


@dataclass(frozen=True, slots=True)
class _RuledCell:
    column: int
    lines: list[str]
    width: int
    height: int


class _Grid:
    """The cells between the lines of one table."""

    def __init__(self, rows: list[_Ruling], columns: list[_Ruling]) -> None:
        self._rows, self._columns = rows, columns
        self._tops = list(dict.fromkeys(ruling.at for ruling in rows))
        self._lefts = list(dict.fromkeys(ruling.at for ruling in columns))
        self._taken: set[tuple[int, int]] = set()

    def read(self, text: Any) -> PdfTable | None:
        """Read the text of the cells; None if most are empty."""
        rows = [list(self._read_row(row, text)) for row in range(len(self._tops) - 1)]
        cells = [cell for row in rows for cell in row]
        filled = sum(1 for cell in cells if cell.lines)
        if len(cells) < _MIN_LINES or filled < _MIN_FILLED * len(cells):
            return None
        html = write_table(written for row in rows for written in _written_rows(row))
        return PdfTable(html, self._lefts[0], self._tops[-1], self._lefts[-1], self._tops[0])

    def _read_row(self, row: int, text: Any) -> Iterator[_RuledCell]:
        for column in range(len(self._lefts) - 1):
            if (row, column) not in self._taken:
                width = self._width(row, column)
                height = self._height(row, column, width)
                self._taken |= {
                    (row + down, column + right) for down in range(height) for right in range(width)
                }
                left, right = self._lefts[column], self._lefts[column + width]
                lines = _lines_in(text, left, self._tops[row + height], right, self._tops[row])
                yield _RuledCell(column, lines, width, height)

    def _width(self, row: int, column: int) -> int:
        """Return the number of columns without a line between them."""
        middle = (self._tops[row] + self._tops[row + 1]) / 2
        end = column + 1
        while end < len(self._lefts) - 1 and (row, end) not in self._taken:
            if _is_drawn(self._columns, self._lefts[end], middle):
                break
            end += 1
        return end - column

    def _height(self, row: int, column: int, width: int) -> int:
        """Return the number of rows without a line between them, in all columns of a cell."""
        edges = self._lefts[column : column + width + 1]
        middles = [(left + right) / 2 for left, right in pairwise(edges)]
        end = row + 1
        while end < len(self._tops) - 1:
            if any(_is_drawn(self._rows, self._tops[end], middle) for middle in middles):
                break
            end += 1
        return end - row


def _is_drawn(rulings: list[_Ruling], at: float, middle: float) -> bool:
    return any(ruling.at == at and ruling.start <= middle <= ruling.end for ruling in rulings)


def _written_rows(cells: list[_RuledCell]) -> list[list[Cell]]:
    """Return the rows between two lines: one, or several that have no lines between them.

    They are several if all cells have equally many short lines of text, at least three.
    """
    counts = {len(cell.lines) for cell in cells}
    is_split = len(counts) == 1 and max(counts) >= _MIN_ROWS and len(cells) > 1
    if not is_split or any(cell.height > 1 or _is_prose(cell) for cell in cells):
        return [[_cell(cell, _join(cell.lines)) for cell in cells]]
    return [[_cell(cell, cell.lines[number]) for cell in cells] for number in range(max(counts))]


def _is_prose(cell: _RuledCell) -> bool:
    return sum(map(len, cell.lines)) > _MAX_MEAN_LENGTH * len(cell.lines)


def _cell(cell: _RuledCell, text: str) -> Cell:
    return Cell(cell.column, [write_text(text)] if text else [], cell.width, cell.height)


def _join(lines: list[str]) -> str:
    """Join lines; words that are broken at the end of one become whole."""
    text = "\n".join(lines)
    for hyphen in HYPHENS:
        text = text.replace(f"{hyphen}\n", "").replace(hyphen, "")
    return " ".join(text.split())


def _lines_in(text: Any, left: float, bottom: float, right: float, top: float) -> list[str]:
    """Return the lines of text in a box; none for an empty one."""
    inset = (left + _INSIDE, bottom + _INSIDE, right - _INSIDE, top - _INSIDE)
    content = str(text.get_text_bounded(*inset)).strip("\r\n")
    return [line.strip() for line in content.split("\r\n")] if content.strip() else []
