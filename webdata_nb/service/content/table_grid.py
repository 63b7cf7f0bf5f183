"""A table's cells on its grid, as a browser lays them out: rows, columns, spans."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webdata_nb.service.content.parser import Element

if TYPE_CHECKING:
    from collections.abc import Collection

MAX_GRID_CELLS = 100_000
"""Cells of an expanded table that are too many to expand."""
SECTIONS = frozenset({"thead", "tbody", "tfoot"})

_CELLS = frozenset({"td", "th"})
_WIDEST_SPAN = 1000


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table, its cells, and the part of the table whose rows it may span."""

    element: Element
    cells: list[Element]
    section: Element


@dataclass(frozen=True, slots=True)
class GridCell:
    """A cell on the grid: its top row, its first column, and how far it reaches."""

    cell: Element
    row: int
    column: int
    height: int
    width: int


def table_rows(table: Element) -> list[TableRow]:
    """Return the rows that belong to this table itself, those without cells left out."""
    rows = [
        TableRow(row, child_elements(row, _CELLS), section) for row, section in _row_elements(table)
    ]
    return [row for row in rows if row.cells]


def is_too_large(table: Element) -> bool:
    """Tell whether a table has more cells of its own than are ever put on a grid."""
    # A cell and the white space around it are two nodes; counting them makes no objects.
    return sum(len(row) for row, _ in _row_elements(table)) > 2 * MAX_GRID_CELLS


def _row_elements(table: Element) -> list[tuple[Element, Element]]:
    """Return the rows of a table, each with the part of the table it belongs to."""
    rows: list[tuple[Element, Element]] = []
    for child in child_elements(table, SECTIONS | {"tr"}):
        if child.tag == "tr":
            rows.append((child, table))
        else:
            rows += ((row, child) for row in child_elements(child, {"tr"}))
    return rows


def child_elements(parent: Element, tags: Collection[str]) -> list[Element]:
    """Return the children of `parent` with one of `tags`."""
    return [each for each in parent.children if isinstance(each, Element) and each.tag in tags]


def read_span(cell: Element, name: str) -> int:
    """Return how many columns or rows a cell asks for; 0 means to the end."""
    value = cell.attr(name) if len(cell.attrs) else None
    if value is None:
        return 1
    digits = value.strip()[:4]
    return min(int(digits), _WIDEST_SPAN) if digits.isascii() and digits.isdecimal() else 1


def place_cells(rows: list[TableRow]) -> list[GridCell]:
    """Put cells on the grid as a browser does, flowing around those that reach down from above."""
    placed: list[GridCell] = []
    reaching: list[GridCell] = []
    for number, row in enumerate(rows):
        reaching = [
            each
            for each in reaching
            if each.row + each.height > number and rows[each.row].section is row.section
        ]
        above = iter(sorted(reaching, key=lambda each: each.column))
        blocker = next(above, None)
        column = 0
        for cell in row.cells:
            while blocker is not None and blocker.column <= column:
                column = max(column, blocker.column + blocker.width)
                blocker = next(above, None)
            height = read_span(cell, "rowspan") or len(rows)
            placed.append(GridCell(cell, number, column, height, read_span(cell, "colspan") or 1))
            column += placed[-1].width
        reaching += (each for each in placed[-len(row.cells) :] if each.height > 1)
    return placed


def column_range(placed: GridCell, columns: list[int]) -> tuple[int, int]:
    """Return the first column that a cell is in, and the first after it."""
    after = placed.column + placed.width
    return bisect_left(columns, placed.column), bisect_left(columns, after)


def spanned_rows(rows: list[TableRow], placed: GridCell) -> list[int]:
    """Return the numbers of the rows that a cell is in."""
    section = rows[placed.row].section
    reached = range(placed.row, min(placed.row + placed.height, len(rows)))
    return [number for number in reached if rows[number].section is section]
