"""Writes the cells of a sheet as a table without its empty rows and columns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from webdata_nb.page.documents.office.html_blocks import Cell, write_table

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_CELLS: Final = 100_000
"""Cells that are read of one document."""


@dataclass(frozen=True, slots=True)
class MergedRange:
    """Merged cells; all bounds are inclusive."""

    top: int
    left: int
    bottom: int
    right: int


def write_sheet(cells: dict[tuple[int, int], str], merged: Iterable[MergedRange] = ()) -> str:
    """Write a sheet.

    Parameters
    ----------
    cells
        The HTML of cells by row and column; empty cells may be missing.
    merged
        The merged ranges. Cells that are covered have no content.
    """
    texts = {place: html for place, html in cells.items() if html}
    if not texts:
        return ""
    rows = sorted({row for row, _ in texts})
    columns = sorted({column for _, column in texts})
    if len(rows) * len(columns) > 4 * MAX_CELLS:  # far apart: a table would be almost empty
        return write_table(_sparse_rows(texts, rows))
    owners = _owners(texts, merged, rows, columns)
    return write_table(_full_rows(texts, owners, rows, columns))


def _sparse_rows(texts: dict[tuple[int, int], str], rows: list[int]) -> list[list[Cell]]:
    by_row: dict[int, list[Cell]] = {row: [] for row in rows}
    for (row, column), html in sorted(texts.items()):
        by_row[row].append(Cell(column, [html]))
    return list(by_row.values())


def _owners(
    texts: dict[tuple[int, int], str],
    merged: Iterable[MergedRange],
    rows: list[int],
    columns: list[int],
) -> dict[tuple[int, int], tuple[int, int, int, int]]:
    """Map covered places to their range: first row, first column, height and width as written."""
    owners: dict[tuple[int, int], tuple[int, int, int, int]] = {}
    places_left = 4 * MAX_CELLS
    for area in merged:
        start = (area.top, area.left)
        if start not in texts or start in owners:  # ranges do not overlap
            continue
        covered_rows = _between(rows, area.top, area.bottom)
        covered_columns = _between(columns, area.left, area.right)
        places_left -= len(covered_rows) * len(covered_columns)
        if places_left < 0:
            break
        extent = (*start, len(covered_rows), len(covered_columns))
        owners.update(((row, column), extent) for row in covered_rows for column in covered_columns)
    return owners


def _between(numbers: list[int], first: int, last: int) -> list[int]:
    return numbers[bisect_left(numbers, first) : bisect_right(numbers, last)]


def _full_rows(
    texts: dict[tuple[int, int], str],
    owners: dict[tuple[int, int], tuple[int, int, int, int]],
    rows: list[int],
    columns: list[int],
) -> list[list[Cell]]:
    written = []
    for row in rows:
        cells = []
        for column in columns:
            top, left, height, width = owners.get((row, column), (row, column, 1, 1))
            if (top, left) == (row, column):
                html = texts.get((row, column), "")
                cells.append(Cell(column, [html] if html else [], width, height))
        written.append(cells)
    return written
