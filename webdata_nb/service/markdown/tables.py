"""Tables made ready for Markdown: spans expanded, rows of one width, layout tables undone.

A pipe table holds one line of text a cell. A table that carries page layout, code or further
tables would lose them there, so it becomes plain blocks instead.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from webdata_nb.service.content.parser import Element, append_html, drop_all, serialize
from webdata_nb.service.content.table_grid import (
    LARGEST_GRID,
    SECTIONS,
    children,
    is_huge,
    place,
    reach,
    rows_of,
    rows_reached,
    span,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from webdata_nb.service.content.table_grid import Placed, Row

LONGEST_REPEAT = 120
"""Characters of a cell that are repeated where it spans; longer ones leave blanks."""

_BLOCK_TAGS = ("table", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote")
_BLOCKS = ",".join(_BLOCK_TAGS)
_OWN = frozenset({"tr", "td", "th"})
_PARTS = frozenset({*_OWN, *_BLOCK_TAGS, "caption", "math"})
_SPANNING = "[colspan],[rowspan]"
_BLANK = "<td></td>"


def prepare_tables(tables: Sequence[Element]) -> None:
    """Make every table of a page ready, inner ones before those that hold them."""
    for table in reversed(tables):
        _prepare(table)


def _prepare(table: Element) -> None:
    if _is_ready(table):
        return
    _caption_before(table)
    if is_huge(table):
        # Its cells stand where they were written: nothing is repeated, and nothing is lost.
        _drop_spans(table.select(_SPANNING))
        return
    rows = rows_of(table)
    if _is_layout(table, rows):
        _undo(table, rows)
        return
    if _is_even(rows):
        _drop_spans(cell for row in rows for cell in row.cells)
        return
    spanning = sum(span(cell, "rowspan") != 1 for row in rows for cell in row.cells)
    placed = place(rows) if spanning * len(rows) <= LARGEST_GRID else []
    columns = sorted({each.column for each in placed})
    if 0 < len(rows) * len(columns) <= LARGEST_GRID:
        _fill(rows, placed, columns)
    else:
        _undo(table, rows)


def _is_ready(table: Element) -> bool:
    """Tell at one look whether a table is plain rows of one width, as most tables of data are."""
    tags = []
    for each in table.iter_elements(_PARTS):
        if each.tag not in _OWN:
            return False
        tags.append(each.tag)
    rows = [row for row in "".join(tags).replace("th", "td").split("tr") if row]
    if len(rows) < 2 or len({*rows}) != 1 or "tdtd" not in rows[0]:  # noqa: PLR2004 - a single row may be layout
        return False
    return table.attr("role") is None and table.select_one(_SPANNING) is None


def _is_layout(table: Element, rows: list[Row]) -> bool:
    if (table.attr("role") or "").lower() in {"presentation", "none"}:
        return True
    if max((len(row.cells) for row in rows), default=0) < 2:  # noqa: PLR2004 - one column
        return True
    if len(rows) == 1 and table.select_one("ul,ol,dl") is not None:
        return True  # lists set side by side
    return table.select_one(_BLOCKS) is not None


def _undo(table: Element, rows: list[Row]) -> None:
    """Turn a table into blocks, without the column of line numbers beside code."""
    for row in rows:
        gutters = [each for each in row.cells if _is_gutter(each)]
        drop_all(gutters if len(gutters) < len(row.cells) else [])
        for cell in row.cells:
            cell.tag = "div"
        row.element.tag = "div"
    for part in children(table, SECTIONS):
        part.tag = "div"
    table.tag = "div"


def _is_gutter(cell: Element) -> bool:
    return cell.select_one("pre") is not None and not any(map(str.isalpha, cell.text))


def _caption_before(table: Element) -> None:
    for caption in children(table, {"caption"}):
        caption.tag = "div"
        table.insert_before(caption)


def _is_even(rows: list[Row]) -> bool:
    """Tell whether no cell spans and every row is as long as the first."""
    if any(len(row.cells) != len(rows[0].cells) for row in rows):
        return False
    cells = [cell for row in rows for cell in row.cells]
    return all(span(cell, "colspan") == span(cell, "rowspan") == 1 for cell in cells)


def _drop_spans(cells: Iterable[Element]) -> None:
    """Take off the span attributes: the writer gives up on a table that has any."""
    for cell in cells:
        attrs = cell.attrs
        if len(attrs):
            for name in ("colspan", "rowspan"):
                if cell.attr(name) is not None:
                    del attrs[name]


def _fill(rows: list[Row], placed: list[Placed], columns: list[int]) -> None:
    """Give every row one cell a column; a column in which no cell starts does not exist."""
    _drop_spans(each.cell for each in placed)
    grid: list[dict[int, Element | str]] = [{} for _ in rows]
    for each in placed:
        grid[each.row][bisect_left(columns, each.column)] = each.cell
    for each in placed:
        first, last = reach(each, columns)
        if last - first > 1 or each.height > 1:
            again = _again(each.cell) if last - first < len(columns) else _BLANK
            for number in rows_reached(rows, each):
                for at in range(first, last):
                    grid[number].setdefault(at, again)
    for row, cells in zip(rows, grid, strict=True):
        _rebuild(row.element, [cells.get(at, _BLANK) for at in range(len(columns))])


def _again(cell: Element) -> str:
    return serialize(cell) if len(cell.text) <= LONGEST_REPEAT else _BLANK


def _rebuild(row: Element, cells: list[Element | str]) -> None:
    """Put cells into a row: those there are, and new ones given as HTML.

    The new ones are parsed at once, for an element made alone takes 64 kB of address space.
    """
    written = [cell for cell in cells if isinstance(cell, str)]
    made = append_html(row, "".join(written))
    if len(made) != len(written):  # a cell that cannot be written within a row
        drop_all(made)
        made = append_html(row, _BLANK * len(written))
    new = iter(made)
    row.extend([next(new) if isinstance(cell, str) else cell for cell in cells])
