"""Tables and definition lists as plain texts: what an extraction reads, never a format of its own.

They are read from the page as it came, before anything is pruned. Tables that hold others are
layout and are passed over, as are tables of more than 100,000 cells; so is a cell's code.
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
"""The name under which `scrape` gives them; no request may ask for it."""
MOST_TABLES = 200
MOST_CELLS = 20_000
"""Cells that are read of all tables of a page, repeated ones counted."""
LONGEST_CELL = 500
"""Characters of a cell that are kept."""

_LISTS: Final = frozenset({"table", "dl"})
_LAYOUT: Final = frozenset({"presentation", "none"})
_CODE: Final = frozenset({"script", "style", "template"})
_LEVELS = 64  # how far up a table is looked for around another
_PAIR = 2
_NAMES = 5  # that share one value


def tables(page: ParsedPage) -> list[dict[str, Any]]:
    """Read the tables of the whole page, in document order.

    Each has `header` (the texts of the last row of its head, empty where it has none) and `rows`
    (lists of texts, all as long as the header where there is one; spanning cells repeat). A
    definition list has an empty header and a row of two texts for each pair of name and value.
    """
    found: list[dict[str, Any]] = []
    left = MOST_CELLS
    for each in _innermost(page):
        table = _pairs(each, left) if each.tag == "dl" else _table(each, left)
        if table["rows"]:
            found.append(table)
            left -= sum(len(row) for row in (table["header"], *table["rows"]))
        if len(found) == MOST_TABLES or left <= 0:
            break
    return found


def _innermost(page: ParsedPage) -> list[Element]:
    """Return the first tables and lists that hold no others: each text is read once."""
    every: list[Element] = []
    outer: set[Element] = set()
    for each in page.document.iter_elements(_LISTS):
        every.append(each)
        around = nearest_ancestor(each, _LISTS, levels=_LEVELS)
        if around is not None:
            outer.add(around)
        if len(every) == 2 * MOST_TABLES:
            break
    return [each for each in every if each not in outer]


def _pairs(listed: Element, most: int) -> dict[str, Any]:
    """Read a definition list; its pairs may stand in ``div`` elements."""
    rows: list[list[str]] = []
    names: list[str] = []
    before = ""
    for part in _terms(listed):
        if len(rows) * _PAIR >= most:
            break
        if part.tag == "dt":
            names = [*names, _text(part)][-_NAMES:] if before == "dt" else [_text(part)]
        else:
            value = _text(part)
            rows += ([name, value] for name in names)
        before = part.tag
    return {"header": [], "rows": rows}


def _terms(listed: Element) -> Iterator[Element]:
    for each in child_elements(listed, {"dt", "dd", "div"}):
        if each.tag == "div":
            yield from child_elements(each, {"dt", "dd"})
        else:
            yield each


def _table(table: Element, most: int) -> dict[str, Any]:
    rows = [] if is_too_large(table) else _first(table_rows(table), most)
    spanning = sum(read_span(cell, "rowspan") != 1 for row in rows for cell in row.cells)
    if (table.attr("role") or "").lower() in _LAYOUT or spanning * len(rows) > MAX_GRID_CELLS:
        return {"header": [], "rows": []}
    heads = _heads(rows)
    texts = _texts(rows, most)
    return {"header": texts[heads - 1] if heads else [], "rows": texts[heads:]}


def _first(rows: list[TableRow], most: int) -> list[TableRow]:
    """Return the first rows, as many as have at most so many cells."""
    cells = accumulate(len(row.cells) for row in rows)
    return [row for row, so_far in zip(rows, cells, strict=True) if so_far <= most]


def _heads(rows: list[TableRow]) -> int:
    """Return how many rows at the top name the columns."""
    heads = 0
    for row in rows:
        if row.section.tag != "thead" and any(cell.tag == "td" for cell in row.cells):
            break
        heads += 1
    return heads if heads < len(rows) else 0


def _texts(rows: list[TableRow], most: int) -> list[list[str]]:
    """Return the text of every cell on the grid; as many rows as `most` cells allow."""
    placed = place_cells(rows)
    columns = sorted({each.column for each in placed})
    whole = most // max(1, len(columns))
    grid: list[list[str]] = [[""] * len(columns) for _ in rows[:whole]]
    for each in placed:
        text = _text(each.cell) if each.row < whole else ""
        first, last = column_range(each, columns)
        for number in spanned_rows(rows, each) if text else ():
            if number < whole:
                grid[number][first:last] = [text] * (last - first)
    return grid


def _text(cell: Element) -> str:
    """Return the text of a cell without code; an image stands for what it shows."""
    text = text_of(cell) if next(iter(cell.iter_elements(_CODE)), None) is None else _prose(cell)
    if not text:
        image = cell.select_one("img[alt]")
        text = collapse_whitespace((image.attr("alt") or "") if image is not None else "")
    return text[:LONGEST_CELL]


def _prose(cell: Element) -> str:
    pieces = [
        node.data
        for node in cell.descendants
        if isinstance(node, Text)
        and not (isinstance(node.parent, Element) and node.parent.tag in _CODE)
    ]
    return collapse_whitespace("".join(pieces))
