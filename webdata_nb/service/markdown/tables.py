"""Writes tables, and decides which tables become Markdown tables.

A Markdown table holds one line of text per cell. A table that carries page layout, code or further
tables would lose them there, so it is written as plain blocks instead.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from webdata_nb.service.content.table_grid import (
    MAX_GRID_CELLS,
    column_range,
    place_cells,
    read_span,
    spanned_rows,
)
from webdata_nb.service.markdown.inline import InlineWriter
from webdata_nb.service.markdown.latex import without_bars

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from webdata_nb.service.content.parser import Element
    from webdata_nb.service.content.table_grid import GridCell, TableRow
    from webdata_nb.service.markdown.inline import End, Handler

    Grid: TypeAlias = list[list[Element | None]]
    """The cells of each row; None is an empty cell."""

MAX_REPEATED_CHARACTERS = 120
"""Maximum characters of a spanning cell that is repeated; after a longer one, cells are empty."""

_BLOCKS = 'table,pre,h1,h2,h3,h4,h5,h6,blockquote,math[display="block"]'
_LISTS = "ul,ol,dl"
_SPANNING = "[colspan],[rowspan]"


def grid_of(table: Element, rows: list[TableRow]) -> Grid | None:
    """Return the cells of a table row by row, None if the table is written as blocks."""
    if sum(len(row.cells) for row in rows) > MAX_GRID_CELLS:
        # Cells stay in their row: none is repeated, and none is lost.
        return [list(row.cells) for row in rows]
    if _is_layout(table, rows):
        return None
    if table.select_one(_SPANNING) is None:
        return _padded(rows)
    spanning = sum(read_span(cell, "rowspan") != 1 for row in rows for cell in row.cells)
    if spanning * len(rows) > MAX_GRID_CELLS:
        return None
    grid_cells = place_cells(rows)
    columns = sorted({cell.column for cell in grid_cells})
    if len(rows) * len(columns) > MAX_GRID_CELLS:
        return None
    return _expanded(rows, grid_cells, columns)


def line_number_cells(rows: Sequence[TableRow]) -> set[Element]:
    """Return the cells that hold only the line numbers of the code beside them."""
    number_cells: set[Element] = set()
    for row in rows:
        if len(row.cells) > 1:
            numbers = [cell for cell in row.cells if _is_line_numbers(cell)]
            number_cells.update(numbers if len(numbers) < len(row.cells) else ())
    return number_cells


def write_table(
    grid: Sequence[Sequence[Element | None]], texts: Mapping[Element | None, str]
) -> str:
    """Write a table whose first row is its header."""
    columns = max(map(len, grid))
    lines = [f"| {' | '.join([texts[cell] for cell in row])} |" for row in grid]
    lines[0] = lines[0] + "  |" * (columns - len(grid[0]))
    lines.insert(1, f"|{' --- |' * columns}")
    return "\n".join(lines)


def _is_layout(table: Element, rows: Sequence[TableRow]) -> bool:
    if (table.attr("role") or "").lower() in {"presentation", "none"}:
        return True
    if max((len(row.cells) for row in rows), default=0) < 2:  # noqa: PLR2004 - one column
        return True
    if len(rows) == 1 and table.select_one(_LISTS) is not None:
        return True  # adjacent lists
    if table.select_one(_BLOCKS) is None:
        return False
    return any(row.element.select_one(_BLOCKS) is not None for row in rows)


def _is_line_numbers(cell: Element) -> bool:
    return cell.select_one("pre") is not None and not any(map(str.isalpha, cell.text))


def _padded(rows: Sequence[TableRow]) -> Grid | None:
    """Return rows of one length."""
    columns = max(len(row.cells) for row in rows)
    if len(rows) * columns > MAX_GRID_CELLS:
        return None
    return [[*row.cells, *[None] * (columns - len(row.cells))] for row in rows]


def _expanded(rows: list[TableRow], grid_cells: Iterable[GridCell], columns: list[int]) -> Grid:
    """Return one cell per column for each row; columns in which no cell starts are dropped.

    A cell is repeated where it spans, but one across the whole row is not.
    """
    grid: Grid = [[None] * len(columns) for _ in rows]
    starts = {(cell.row, bisect_left(columns, cell.column)): cell.cell for cell in grid_cells}
    for cell in grid_cells:
        first, last = column_range(cell, columns)
        if last - first < len(columns) and len(cell.cell.text) <= MAX_REPEATED_CHARACTERS:
            for number in spanned_rows(rows, cell):
                for column in range(first, last):
                    if grid[number][column] is None:
                        grid[number][column] = cell.cell
    for (row, column), element in starts.items():
        grid[row][column] = element
    return grid


class CellWriter(InlineWriter):
    """Writes the cells of a table, with breaks and lists as HTML."""

    def write(self, element: Element) -> str:
        """Write the content of a cell."""
        text = super().write(element)
        return text.replace("|", "\\|") if "|" in text else text

    def _append_formula(self, latex: str, element: Element) -> None:
        super()._append_formula(without_bars(latex) if "|" in latex else latex, element)

    def _write_break(self, _: Element) -> None:
        if self._pieces:
            self._pieces.append("<br>")

    def _open_ul(self, _: Element) -> End:
        self._pieces.append("<ul>")
        return CellWriter._close_ul

    def _close_ul(self) -> None:
        self._pieces.append("</ul>")

    def _open_ol(self, _: Element) -> End:
        self._pieces.append("<ol>")
        return CellWriter._close_ol

    def _close_ol(self) -> None:
        self._pieces.append("</ol>")

    def _open_li(self, _: Element) -> End:
        self._pieces.append("<li>")
        return CellWriter._close_li

    def _close_li(self) -> None:
        self._pieces.append("</li>")

    handlers: ClassVar[dict[str, Handler]] = InlineWriter.handlers | {
        "br": _write_break,
        "li": _open_li,
        "ol": _open_ol,
        "ul": _open_ul,
    }
