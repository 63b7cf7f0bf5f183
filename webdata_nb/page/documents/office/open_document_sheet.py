"""Reads the sheets of OpenDocument spreadsheets (.ods)."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from webdata_nb.page.documents.office.html_blocks import MAX_CHARACTERS
from webdata_nb.page.documents.office.spreadsheet_grid import (
    MAX_CELLS,
    MergedRange,
    write_sheet,
)
from webdata_nb.page.documents.office.xml_parts import (
    attribute,
    children,
    local_name,
    to_int,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.documents.office.open_document_text import TextReader
    from webdata_nb.page.documents.office.xml_parts import XmlElement


class SheetReader:
    """Reads sheets up to the limit of cells of a document."""

    def __init__(self, text: TextReader) -> None:
        self._text = text
        self._cells_left = MAX_CELLS
        self._characters_left = MAX_CHARACTERS
        self.is_truncated = False

    def blocks(self, table: XmlElement) -> Iterator[str]:
        """Yield the heading and the table of a sheet."""
        name = attribute(table, "name")
        if name:
            yield f"<h2>{escape(name)}</h2>"
        cells: dict[tuple[int, int], str] = {}
        merged: list[MergedRange] = []
        number = 0
        for row in _rows(table):
            repeated = max(1, to_int(attribute(row, "number-rows-repeated"), 1))
            self._read_row(row, range(number, number + repeated), cells, merged)
            number += repeated
            if self.is_truncated:
                break
        yield write_sheet(cells, merged)

    def _read_row(
        self,
        row: XmlElement,
        numbers: range,
        cells: dict[tuple[int, int], str],
        merged: list[MergedRange],
    ) -> None:
        """Add the cells of a row that stands for the rows `numbers`."""
        column = 0
        for cell in children(row, "table-cell", "covered-table-cell"):
            repeated = max(1, to_int(attribute(cell, "number-columns-repeated"), 1))
            html = self._text.cell_html(cell) if local_name(cell) == "table-cell" else ""
            if html:
                self._add(html, numbers, range(column, column + repeated), cells)
                merged += _merged(cell, numbers[0], column)
            if self.is_truncated:
                return
            column += repeated

    def _add(
        self, html: str, rows: range, columns: range, cells: dict[tuple[int, int], str]
    ) -> None:
        for row in rows:
            for column in columns:
                self._cells_left -= 1
                self._characters_left -= len(html)
                if self._cells_left < 0 or self._characters_left < 0:
                    self.is_truncated = True
                    return
                cells[row, column] = html


def _merged(cell: XmlElement, row: int, column: int) -> Iterator[MergedRange]:
    width = max(1, to_int(attribute(cell, "number-columns-spanned"), 1))
    height = max(1, to_int(attribute(cell, "number-rows-spanned"), 1))
    if width > 1 or height > 1:
        yield MergedRange(row, column, row + height - 1, column + width - 1)


def _rows(table: XmlElement) -> Iterator[XmlElement]:
    names = ("table-row", "table-rows", "table-header-rows", "table-row-group")
    for element in children(table, *names):
        if local_name(element) == "table-row":
            yield element
        else:
            yield from _rows(element)
