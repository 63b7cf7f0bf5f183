"""Reads the tables of Markdown and HTML texts as rows of cells."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final

Grid = list[list[str]]

# Limits for hostile pages, whose spans and nesting may be huge.
_MAX_COLUMNS: Final = 500
_MAX_ROWS: Final = 20_000
_MAX_NESTING: Final = 20
_DELIMITER_ROW: Final = re.compile(r"\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")
_CELL_SEPARATOR: Final = re.compile(r"(?<!\\)\|")
_CODE_FENCE: Final = re.compile(r" {0,3}(```|~~~)")


@dataclass(slots=True)
class TextTable:
    """The cells of a table; all rows have the width of the header."""

    header: list[str]
    rows: Grid
    caption: str = ""


# ------------------------------------------------------------------------------------- Markdown


def of_markdown(text: str) -> list[TextTable]:
    """Return the pipe tables of a Markdown text (a GitHub extension) in their order."""
    tables: list[TextTable] = []
    lines = text.splitlines()
    in_code, at = False, 0
    while at < len(lines):
        if _CODE_FENCE.match(lines[at]):
            in_code = not in_code
        if not in_code and at + 1 < len(lines) and _is_table_start(lines[at], lines[at + 1]):
            end = _table_end(lines, at + 2)
            tables.append(_pipe_table(lines[at], lines[at + 2 : end]))
            at = end
        else:
            at += 1
    return tables


def _is_table_start(line: str, delimiter_row: str) -> bool:
    is_delimiter_row = (
        "-" in delimiter_row and _DELIMITER_ROW.fullmatch(delimiter_row.strip()) is not None
    )
    return "|" in line and is_delimiter_row and len(_cells(line)) == len(_cells(delimiter_row))


def _table_end(lines: list[str], at: int) -> int:
    while at < len(lines) and lines[at].strip() and "|" in lines[at]:
        at += 1
    return at


def _pipe_table(header: str, body: list[str]) -> TextTable:
    names = _cells(header)
    return TextTable(names, [_padded(_cells(line), len(names)) for line in body])


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL_SEPARATOR.split(inner)]


def _padded(row: list[str], width: int) -> list[str]:
    return (row + [""] * width)[:width]


# ----------------------------------------------------------------------------------------- HTML


@dataclass(slots=True)
class _HtmlCell:
    text: list[str]
    colspan: int
    rowspan: int
    is_header: bool


@dataclass(slots=True)
class _HtmlTable:
    """A table while it is parsed."""

    rows: list[list[_HtmlCell]] = field(default_factory=list)
    caption: list[str] = field(default_factory=list)
    cell: _HtmlCell | None = None
    in_caption: bool = False


class _TableParser(HTMLParser):
    """Collects the cells of all tables; a nested table is separate from its outer table."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[TextTable] = []
        self._open_tables: list[_HtmlTable] = []
        self._ignored_depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "style", "template"}:
            self._ignored_depth += 1
        elif tag == "table":
            if len(self._open_tables) < _MAX_NESTING:
                self._open_tables.append(_HtmlTable())
        elif self._open_tables:
            self._handle_table_tag(self._open_tables[-1], tag, dict(attrs))

    @staticmethod
    def _handle_table_tag(table: _HtmlTable, tag: str, attrs: dict[str, str | None]) -> None:
        if tag == "tr":
            table.cell = None
            table.rows.append([])
        elif tag in {"td", "th"} and len(table.rows) <= _MAX_ROWS:
            if not table.rows:
                table.rows.append([])
            colspan, rowspan = _span(attrs.get("colspan")), _span(attrs.get("rowspan"))
            table.cell = _HtmlCell([], colspan, rowspan, tag == "th")
            table.rows[-1].append(table.cell)
        elif tag == "caption":
            table.in_caption = True
        elif tag == "br" and table.cell is not None:
            table.cell.text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in {"script", "style", "template"}:
            self._ignored_depth = max(0, self._ignored_depth - 1)
        elif self._open_tables:
            table = self._open_tables[-1]
            if tag in {"td", "th"}:
                table.cell = None
            elif tag == "caption":
                table.in_caption = False
            elif tag == "table":
                self._close_table()

    def handle_data(self, data: str) -> None:
        if self._ignored_depth or not self._open_tables:
            return
        table = self._open_tables[-1]
        if table.in_caption:
            table.caption.append(data)
        elif table.cell is not None:
            table.cell.text.append(data)

    def close(self) -> None:
        super().close()
        while self._open_tables:
            self._close_table()

    def _close_table(self) -> None:
        table = _text_table(self._open_tables.pop())
        if table is not None:
            self.tables.append(table)


def of_html(text: str) -> list[TextTable]:
    """Return the tables of an HTML text, a nested one before its outer table.

    A cell with a span is repeated in each row and column that it covers.
    """
    parser = _TableParser()
    parser.feed(text)
    parser.close()
    return parser.tables


def _span(value: str | None) -> int:
    return min(max(int(value), 1), _MAX_COLUMNS) if value and value.strip().isdecimal() else 1


def _text_table(table: _HtmlTable) -> TextTable | None:
    """Return the table with its spans filled, or None if it has no cells."""
    grid = _fill_spans(table.rows)
    width = max(map(len, grid), default=0)
    if not width:
        return None
    grid = [_padded(row, width) for row in grid]
    has_header = bool(table.rows[0]) and all(cell.is_header for cell in table.rows[0])
    header = grid[0] if has_header else [f"column {number}" for number in range(1, width + 1)]
    return TextTable(header, grid[1:] if has_header else grid, _normalize_space(table.caption))


def _fill_spans(rows: list[list[_HtmlCell]]) -> Grid:
    grid: Grid = []
    spanning: dict[int, tuple[int, str]] = {}  # by column: the number of rows left, and the text
    for cells in rows:
        row: list[str] = []
        remaining = iter(cells)
        spanning_next: dict[int, tuple[int, str]] = {}
        while len(row) < _MAX_COLUMNS:
            column = len(row)
            if column in spanning:
                rows_left, text = spanning[column]
                row.append(text)
                if rows_left > 1:
                    spanning_next[column] = (rows_left - 1, text)
                continue
            cell = next(remaining, None)
            if cell is None:
                if not any(other > column for other in spanning):
                    break
                row.append("")
                continue
            text = _normalize_space(cell.text)
            for index in range(column, min(column + cell.colspan, _MAX_COLUMNS)):
                row.append(text)
                if cell.rowspan > 1:
                    spanning_next[index] = (cell.rowspan - 1, text)
        spanning = spanning_next
        grid.append(row)
    return grid


def _normalize_space(pieces: list[str]) -> str:
    return " ".join("".join(pieces).split())
