"""Converts PDF to HTML: headings by font size, paragraphs by gaps, tables by ruling lines."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from ctypes import c_double, c_float, c_int, create_string_buffer
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby, islice, pairwise, product, zip_longest
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from webdata_nb.page.documents.converted_document import (
    Cell,
    ConvertedDocument,
    write_head,
    write_table,
    write_text,
)
from webdata_nb.page.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_CHARACTERS = 5_000_000
"""Characters read from one document."""
MAX_LINKS = 10_000
"""Links read from one document, duplicates included."""
MAX_PAGES = 5000
"""Pages of one document whose links are read."""

_Part: TypeAlias = "PdfLine | PdfTable"

_HEADING_SIZE_RATIO = 1.15  # a short line of this many times the body font size is a heading
_MAX_HEADING_LENGTH = 150
_MAX_HEADING_LEVEL = 4
_PARAGRAPH_GAP_RATIO = 1.6  # a gap of this many font sizes between lines ends a paragraph
_DOT_LEADER = ". . ."  # in a table of contents, before the page number


def convert_pdf(body: bytes) -> ConvertedDocument:
    """Convert a PDF document to an HTML page. Not thread-safe, as pdfium is not.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``: the document is damaged or needs a password.
    """
    # Imported late: the library is large and most pages do not need it. It has no types.
    import pypdfium2  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        with closing(pypdfium2.PdfDocument(body)) as document:
            info = document.get_metadata_dict()
            reader = _PdfReader(document)
            reader.read()
    except pypdfium2.PdfiumError as error:
        raise ScrapeError("parse", f"the PDF document cannot be read: {error}") from error
    # A date such as `D:20250208122313Z`.
    day = info.get("CreationDate", "").removeprefix("D:")[:8]
    is_day = len(day) == 8 and day.isascii() and day.isdecimal()  # noqa: PLR2004 - YYYYMMDD
    names = {"author": info.get("Author"), "description": info.get("Subject")}
    names["date"] = f"{day[:4]}-{day[4:6]}-{day[6:]}" if is_day else None
    head = write_head(info.get("Title"), names.items())
    content = _body(reader.pages)
    if reader.targets:  # as an image map, which is no visible text
        areas = "".join(f'<area href="{escape(target)}">' for target in reader.targets)
        content += f"<map>{areas}</map>"
    html = f"<!doctype html><html><head>{head}</head><body>{content}</body></html>"
    metadata: dict[str, Any] = {"page_count": reader.page_count}
    if len(reader.pages) < reader.page_count:
        metadata["truncated"] = True
    return ConvertedDocument(html, metadata=metadata)


class _PdfReader:
    """Reads the pages of a document, each of them once.

    Attributes
    ----------
    page_count
        The pages of the document.
    pages
        The lines and tables of the pages that were read.
    targets
        The URLs of links.
    """

    def __init__(self, document: Any) -> None:
        self._document = document
        self._finder = TableFinder()
        self._characters_left, self._links_left = MAX_CHARACTERS, MAX_LINKS
        self.page_count = len(document)
        self.pages: list[list[_Part]] = []
        self.targets: dict[str, None] = {}

    def read(self) -> None:
        """Read texts and links; behind the last characters that are read, only links."""
        for number in range(self.page_count):
            reads_text = self._characters_left >= 0
            reads_links = number < MAX_PAGES and self._links_left > 0
            if not (reads_text or reads_links):
                return
            with closing(self._document[number]) as page:
                if reads_text:
                    with closing(page.get_textpage()) as text:
                        tables = self._finder.find_tables(page, text)
                        parts = list(_parts(read_lines(text), tables))
                    self.pages.append(parts)
                    self._characters_left -= sum(
                        len(part.text if isinstance(part, PdfLine) else part.html) for part in parts
                    )
                if reads_links:
                    targets = list(islice(_targets(self._document, page), self._links_left))
                    self._links_left -= len(targets)
                    self.targets |= dict.fromkeys(targets)


def _parts(lines: list[PdfLine], tables: list[PdfTable]) -> Iterator[_Part]:
    """Yield the lines of a page, with each table at the place of its first line."""
    written: set[float] = set()
    for line in lines:
        table = next((each for each in tables if each.contains(line.left, line.top)), None)
        if table is None:
            yield line
        elif table.top not in written:
            written.add(table.top)
            yield table


def _targets(document: Any, page: Any) -> Iterator[str]:
    """Read the URLs of the links of a page."""
    from pypdfium2 import raw  # noqa: PLC0415 - as in `convert_pdf`

    position, link = c_int(0), raw.FPDF_LINK()
    while raw.FPDFLink_Enumerate(page, position, link):
        action = raw.FPDFLink_GetAction(link)
        if action and raw.FPDFAction_GetType(action) == raw.PDFACTION_URI:
            size = raw.FPDFAction_GetURIPath(document, action, None, 0)
            buffer = create_string_buffer(size)
            raw.FPDFAction_GetURIPath(document, action, buffer, size)
            yield buffer.value.decode("utf-8", "replace")


def _body(pages: list[list[_Part]]) -> str:
    sizes: Counter[float] = Counter()
    for page in pages:
        for part in page:
            if isinstance(part, PdfLine):
                sizes[round(part.size, 1)] += len(part.text)
    body = sizes.most_common(1)[0][0] if sizes else 0.0
    larger = sorted((size for size in sizes if size >= body * _HEADING_SIZE_RATIO), reverse=True)
    levels = {size: min(level, _MAX_HEADING_LEVEL) for level, size in enumerate(larger, 1)}
    pieces: list[str] = []
    for page in pages:
        for is_text, parts in groupby(page, key=lambda part: isinstance(part, PdfLine)):
            if is_text:
                lines = [part for part in parts if isinstance(part, PdfLine)]
                pieces += (_to_html(level, text) for level, text in _join_lines(lines, levels))
            else:
                pieces += (part.html for part in parts if isinstance(part, PdfTable))
    return "".join(pieces)


def _join_lines(lines: list[PdfLine], levels: dict[float, int]) -> Iterator[tuple[int, str]]:
    """Join the lines of a page to headings (level 1 and up) and paragraphs (level 0)."""
    level, text, previous = 0, "", None
    for line in lines:
        line_level = (
            levels.get(round(line.size, 1), 0)
            if (len(line.text) <= _MAX_HEADING_LENGTH and _DOT_LEADER not in line.text)
            else 0
        )
        is_apart = previous is not None and (
            abs(previous.top - line.top) > _PARAGRAPH_GAP_RATIO * max(line.size, previous.size)
        )
        if text and (line_level != level or is_apart):
            yield level, text
            text = ""
        if text.endswith(HYPHENS):
            text = text[:-1] + line.text
        else:
            text = f"{text} {line.text}" if text else line.text
        level, previous = line_level, line
    if text:
        yield level, text


def _to_html(level: int, text: str) -> str:
    for hyphen in HYPHENS:
        text = text.replace(hyphen, "")
    return f"<h{level}>{escape(text)}</h{level}>" if level else f"<p>{escape(text)}</p>"


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
    lines: list[tuple[int, PdfLine]] = []
    offset = 0
    for stored in text.get_text_range().split("\r\n"):
        stripped = stored.strip(" ")
        if stripped.strip():
            start = offset + len(stored) - len(stored.lstrip(" "))
            left, _, top = characters.edges(start)
            lines.append((start, PdfLine(stripped, characters.size(start), left, top)))
        offset += len(stored) + 2
    long_lines = [entry for entry in lines if len(entry[1].text) >= _LONG_LINE]
    sample = long_lines[:: max(1, len(long_lines) // _SAMPLE_LINES)]
    with_gaps = sum(1 for entry in sample if _gaps(characters, *entry))
    if 2 * with_gaps < len(sample) or not with_gaps:
        return [line for _, line in lines]
    gaps = [_gaps(characters, *entry) for entry in lines]
    gutter = _find_gutter([line for _, line in lines], gaps)
    if gutter is None:
        return [line for _, line in lines]
    return list(_by_columns(characters, lines, gaps, gutter))


class _Characters:
    """The edges and font sizes of the characters of a page. Lookups share their buffers."""

    def __init__(self, text: Any) -> None:
        from pypdfium2 import raw  # noqa: PLC0415 - as in `convert_pdf`

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
            end = gap.index + 1
            _, _, top = characters.edges(offset + end)
            size = characters.size(offset + end)
            before = line.text[:end].rstrip(" ")
            columns[0].append(PdfLine(before, line.size, line.left, line.top))
            columns[1].append(PdfLine(line.text[end:], size, gap.right, top))
        elif line.left >= gutter or (
            characters.edges(offset + len(line.text) - 1)[1] <= gutter  # its right edge
        ):
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
        horizontal: list[_Ruling] = []
        vertical: list[_Ruling] = []
        for x1, y1, x2, y2 in segments:
            if abs(y1 - y2) <= _MAX_WIDTH < _MIN_LENGTH <= abs(x1 - x2):
                horizontal.append(_Ruling((y1 + y2) / 2, min(x1, x2), max(x1, x2)))
            elif abs(x1 - x2) <= _MAX_WIDTH < _MIN_LENGTH <= abs(y1 - y2):
                vertical.append(_Ruling((x1 + x2) / 2, min(y1, y2), max(y1, y2)))
        horizontal, vertical = _joined(horizontal), _joined(vertical)
        self._work_left -= len(horizontal) * len(vertical)
        grids = _grids(horizontal, vertical) if self._work_left >= 0 else ()
        tables = (_Grid(rows, columns).read(text) for rows, columns in grids)
        return sorted(filter(None, tables), key=lambda table: -table.top)


def _segments(page: Any) -> Iterator[_Segment]:
    """Yield the straight lines of the paths of a page."""
    from pypdfium2 import raw  # noqa: PLC0415 - as in `convert_pdf`

    for number in range(min(MAX_OBJECTS, raw.FPDFPage_CountObjects(page))):
        path = raw.FPDFPage_GetObject(page, number)
        if raw.FPDFPageObj_GetType(path) != raw.FPDF_PAGEOBJ_PATH:
            continue
        fill, stroke = c_int(0), c_int(0)
        raw.FPDFPath_GetDrawMode(path, fill, stroke)
        if not (fill.value or stroke.value):
            continue
        matrix = raw.FS_MATRIX(1, 0, 0, 1, 0, 0)
        raw.FPDFPageObj_GetMatrix(path, matrix)
        x, y = c_float(), c_float()
        start = previous = None
        for index in range(min(raw.FPDFPath_CountSegments(path), MAX_SEGMENTS + 1)):
            segment = raw.FPDFPath_GetPathSegment(path, index)
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
            crossing = {
                other
                for other in others
                if ruling.start - _MAX_WIDTH <= other.at <= ruling.end + _MAX_WIDTH
                and other.start - _MAX_WIDTH <= ruling.at <= other.end + _MAX_WIDTH
            }
            others -= crossing
            (columns if is_row else rows).update(crossing)
            pending += ((other, not is_row) for other in crossing)
        is_table = len(rows) >= _MIN_LINES and len(columns) >= _MIN_LINES
        if is_table and len(rows) * len(columns) <= MAX_TABLE_CELLS:
            yield sorted(rows, reverse=True), sorted(columns)


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
                # A cell has the columns without a line between them in its first row, and the rows
                # without a line between them in all its columns.
                middle = (self._tops[row] + self._tops[row + 1]) / 2
                end_column = column + 1
                while (
                    end_column < len(self._lefts) - 1
                    and (row, end_column) not in self._taken
                    and not _is_drawn(self._columns, self._lefts[end_column], middle)
                ):
                    end_column += 1
                edges = self._lefts[column : end_column + 1]
                middles = [(left + right) / 2 for left, right in pairwise(edges)]
                end_row = row + 1
                while end_row < len(self._tops) - 1 and not any(
                    _is_drawn(self._rows, self._tops[end_row], middle) for middle in middles
                ):
                    end_row += 1
                self._taken.update(product(range(row, end_row), range(column, end_column)))
                left, right = self._lefts[column], self._lefts[end_column]
                bottom, top = self._tops[end_row], self._tops[row]
                inset = (left + _INSIDE, bottom + _INSIDE, right - _INSIDE, top - _INSIDE)
                content = str(text.get_text_bounded(*inset)).strip("\r\n")
                lines = [line.strip() for line in content.split("\r\n")] if content.strip() else []
                yield _RuledCell(column, lines, end_column - column, end_row - row)


def _is_drawn(rulings: list[_Ruling], at: float, middle: float) -> bool:
    return any(ruling.at == at and ruling.start <= middle <= ruling.end for ruling in rulings)


def _written_rows(cells: list[_RuledCell]) -> list[list[Cell]]:
    """Return the rows between two lines: one, or several that have no lines between them.

    They are several if all cells have equally many short lines of text, at least three.
    """
    counts = {len(cell.lines) for cell in cells}
    is_split = len(counts) == 1 and max(counts) >= _MIN_ROWS and len(cells) > 1
    if not is_split or any(
        cell.height > 1 or sum(map(len, cell.lines)) > _MAX_MEAN_LENGTH * len(cell.lines)
        for cell in cells
    ):
        return [[_cell(cell, _join_cell_lines(cell.lines)) for cell in cells]]
    return [[_cell(cell, cell.lines[number]) for cell in cells] for number in range(max(counts))]


def _cell(cell: _RuledCell, text: str) -> Cell:
    return Cell(cell.column, [write_text(text)] if text else [], cell.width, cell.height)


def _join_cell_lines(lines: list[str]) -> str:
    """Join lines; words that are broken at the end of one become whole."""
    text = "\n".join(lines)
    for hyphen in HYPHENS:
        text = text.replace(f"{hyphen}\n", "").replace(hyphen, "")
    return " ".join(text.split())
