"""Places table cells on a grid with row and column spans, like a browser."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webdata_nb.service.content.parser import Element

if TYPE_CHECKING:
    from collections.abc import Collection

MAX_GRID_CELLS = 100_000
"""A table with more cells is not expanded."""
SECTIONS = frozenset({"thead", "tbody", "tfoot"})

_CELLS = frozenset({"td", "th"})
_MAX_SPAN = 1000


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table row with its cells and its section, which bounds row spans."""

    element: Element
    cells: list[Element]
    section: Element


@dataclass(frozen=True, slots=True)
class GridCell:
    """A cell on the grid: first row, first column, height and width."""

    cell: Element
    row: int
    column: int
    height: int
    width: int


def table_rows(table: Element) -> list[TableRow]:
    """Return the rows of the table itself that have cells, without those of nested tables."""
    rows = [
        TableRow(row, child_elements(row, _CELLS), section) for row, section in _row_elements(table)
    ]
    return [row for row in rows if row.cells]


def is_too_large(table: Element) -> bool:
    """Return whether a table has more than `MAX_GRID_CELLS` cells."""
    # A cell and its white space are two nodes; counting nodes creates no objects.
    return sum(len(row) for row, _ in _row_elements(table)) > 2 * MAX_GRID_CELLS


def _row_elements(table: Element) -> list[tuple[Element, Element]]:
    """Return the rows of a table with their sections."""
    rows: list[tuple[Element, Element]] = []
    for child in child_elements(table, SECTIONS | {"tr"}):
        if child.tag == "tr":
            rows.append((child, table))
        else:
            rows += ((row, child) for row in child_elements(child, {"tr"}))
    return rows


def child_elements(parent: Element, tags: Collection[str]) -> list[Element]:
    """Return the children of `parent` with one of `tags`."""
    return [child for child in parent.children if isinstance(child, Element) and child.tag in tags]


def read_span(cell: Element, name: str) -> int:
    """Return ``colspan`` or ``rowspan`` of a cell; 0 means to the end."""
    value = cell.attr(name) if len(cell.attrs) else None
    if value is None:
        return 1
    digits = value.strip()[:4]
    return min(int(digits), _MAX_SPAN) if digits.isascii() and digits.isdecimal() else 1


def place_cells(rows: list[TableRow]) -> list[GridCell]:
    """Place cells row by row, around cells that span down from earlier rows."""
    grid_cells: list[GridCell] = []
    spanning: list[GridCell] = []
    for number, row in enumerate(rows):
        spanning = [
            cell
            for cell in spanning
            if cell.row + cell.height > number and rows[cell.row].section is row.section
        ]
        blockers = iter(sorted(spanning, key=lambda cell: cell.column))
        blocker = next(blockers, None)
        column = 0
        for cell in row.cells:
            while blocker is not None and blocker.column <= column:
                column = max(column, blocker.column + blocker.width)
                blocker = next(blockers, None)
            height = read_span(cell, "rowspan") or len(rows)
            grid_cells.append(
                GridCell(cell, number, column, height, read_span(cell, "colspan") or 1)
            )
            column += grid_cells[-1].width
        spanning += (cell for cell in grid_cells[-len(row.cells) :] if cell.height > 1)
    return grid_cells


def column_range(cell: GridCell, columns: list[int]) -> tuple[int, int]:
    """Return the first column of a cell, and the first column after it, as indexes of `columns`."""
    after = cell.column + cell.width
    return bisect_left(columns, cell.column), bisect_left(columns, after)


def spanned_rows(rows: list[TableRow], cell: GridCell) -> list[int]:
    """Return the numbers of the rows that a cell covers."""
    section = rows[cell.row].section
    covered = range(cell.row, min(cell.row + cell.height, len(rows)))
    return [number for number in covered if rows[number].section is section]
