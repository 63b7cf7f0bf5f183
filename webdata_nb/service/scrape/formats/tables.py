"""Reads tables and definition lists as plain text, for extraction.

The tables are read before the page is pruned. Tables that contain other tables are layout and
are skipped, as are tables of more than 100,000 cells and code in cells.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.service.content.parser import (
    Element,
    Text,
    collapse_whitespace,
    nearest_ancestor,
    text_of,
)
from webdata_nb.service.content.table_grid import (
    MAX_GRID_CELLS,
    child_elements,
    column_range,
    is_too_large,
    place_cells,
    read_span,
    spanned_rows,
    table_rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.service.content.parsed_page import ParsedPage
    from webdata_nb.service.content.table_grid import TableRow

TABLES: Final = "tables"
"""The key of the tables in the formats that `scrape` returns; no request can name it."""
MAX_TABLES = 200
MAX_CELLS = 20_000
"""Maximum cells of all tables of a page, including repeated ones."""
MAX_CELL_CHARACTERS = 500
"""Maximum characters of a cell; the rest is cut."""

_LISTS: Final = frozenset({"table", "dl"})
_LAYOUT: Final = frozenset({"presentation", "none"})
_CODE: Final = frozenset({"script", "style", "template"})
_MAX_ANCESTORS = 64  # ancestors that are searched for an outer table
_PAIR = 2
_MAX_NAMES = 5  # names that share one value


def read_tables(page: ParsedPage) -> list[dict[str, Any]]:
    """Read the tables of the whole page, in document order.

    A table has `header`, the texts of the last row of its head (empty without a head), and `rows`,
    lists of texts of the same length as the header; spanning cells are repeated. A definition list
    has an empty header and a row of two texts for each pair of name and value.
    """
    tables: list[dict[str, Any]] = []
    max_cells = MAX_CELLS
    for element in _innermost(page):
        read = _read_definition_list if element.tag == "dl" else _read_table
        table = read(element, max_cells)
        if table["rows"]:
            tables.append(table)
            max_cells -= sum(len(row) for row in (table["header"], *table["rows"]))
        if len(tables) == MAX_TABLES or max_cells <= 0:
            break
    return tables


def _innermost(page: ParsedPage) -> list[Element]:
    """Return the first tables and lists that contain no others, so that no text is read twice."""
    elements: list[Element] = []
    outer: set[Element] = set()
    for element in page.document.iter_elements(_LISTS):
        elements.append(element)
        ancestor = nearest_ancestor(element, _LISTS, levels=_MAX_ANCESTORS)
        if ancestor is not None:
            outer.add(ancestor)
        if len(elements) == 2 * MAX_TABLES:
            break
    return [element for element in elements if element not in outer]


def _read_definition_list(definitions: Element, max_cells: int) -> dict[str, Any]:
    """Read a definition list, also one with its pairs in ``div`` elements."""
    rows: list[list[str]] = []
    names: list[str] = []
    last_tag = ""
    for part in _terms(definitions):
        if len(rows) * _PAIR >= max_cells:
            break
        if part.tag == "dt":
            names = [*names, _text(part)][-_MAX_NAMES:] if last_tag == "dt" else [_text(part)]
        else:
            value = _text(part)
            rows += ([name, value] for name in names)
        last_tag = part.tag
    return {"header": [], "rows": rows}


def _terms(definitions: Element) -> Iterator[Element]:
    for element in child_elements(definitions, {"dt", "dd", "div"}):
        if element.tag == "div":
            yield from child_elements(element, {"dt", "dd"})
        else:
            yield element


def _read_table(table: Element, max_cells: int) -> dict[str, Any]:
    rows = [] if is_too_large(table) else _limit_rows(table_rows(table), max_cells)
    spanning = sum(read_span(cell, "rowspan") != 1 for row in rows for cell in row.cells)
    if (table.attr("role") or "").lower() in _LAYOUT or spanning * len(rows) > MAX_GRID_CELLS:
        return {"header": [], "rows": []}
    head_rows = _count_head_rows(rows)
    texts = _cell_texts(rows, max_cells)
    return {"header": texts[head_rows - 1] if head_rows else [], "rows": texts[head_rows:]}


def _limit_rows(rows: list[TableRow], max_cells: int) -> list[TableRow]:
    """Return the first rows that have at most `max_cells` cells in total."""
    cell_counts = accumulate(len(row.cells) for row in rows)
    return [row for row, count in zip(rows, cell_counts, strict=True) if count <= max_cells]


def _count_head_rows(rows: list[TableRow]) -> int:
    """Return the number of rows at the top that name the columns."""
    head_rows = 0
    for row in rows:
        if row.section.tag != "thead" and any(cell.tag == "td" for cell in row.cells):
            break
        head_rows += 1
    return head_rows if head_rows < len(rows) else 0


def _cell_texts(rows: list[TableRow], max_cells: int) -> list[list[str]]:
    """Return the text of every cell on the grid, for the rows that `max_cells` allows."""
    grid_cells = place_cells(rows)
    columns = sorted({cell.column for cell in grid_cells})
    max_rows = max_cells // max(1, len(columns))
    grid: list[list[str]] = [[""] * len(columns) for _ in rows[:max_rows]]
    for cell in grid_cells:
        text = _text(cell.cell) if cell.row < max_rows else ""
        start, end = column_range(cell, columns)
        for row_number in spanned_rows(rows, cell) if text else ():
            if row_number < max_rows:
                grid[row_number][start:end] = [text] * (end - start)
    return grid


def _text(cell: Element) -> str:
    """Return the text of a cell without code; an image without text beside it as its ``alt``."""
    text = (
        text_of(cell)
        if next(iter(cell.iter_elements(_CODE)), None) is None
        else _text_without_code(cell)
    )
    if not text:
        image = cell.select_one("img[alt]")
        text = collapse_whitespace((image.attr("alt") or "") if image is not None else "")
    return text[:MAX_CELL_CHARACTERS]


def _text_without_code(cell: Element) -> str:
    pieces = [
        node.data
        for node in cell.descendants
        if isinstance(node, Text)
        and not (isinstance(node.parent, Element) and node.parent.tag in _CODE)
    ]
    return collapse_whitespace("".join(pieces))
