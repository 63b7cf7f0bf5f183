"""Reads the tables of a page: the one reader behind Markdown, `tables()` and extraction.

A cell stands in every row and column that it covers, as in a browser. Hidden cells are gone. A
table inside a cell is part of that cell; a table that only arranges a page is none, and the tables
in it are read instead.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.footnotes import REFERENCE, mark_of
from webdata_nb.page.content.formulas import LATEX
from webdata_nb.page.content.parser import (
    BLOCKS,
    MAY_BE_HIDDEN,
    NOT_RENDERED,
    NOT_TEXT,
    PREFORMATTED,
    Element,
    Text,
    collapse_whitespace,
    is_hidden_part,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from webdata_nb.page.content.parser import Node

MAX_GRID_CELLS = 100_000
"""The rows of a table with more cells are not filled up, and none of its cells is repeated."""
MAX_REPEATED_CHARACTERS = 120
"""Maximum characters of a spanning cell that is repeated; after a longer one, cells are empty."""
MAX_BLOCK_CHARACTERS = 1000
"""A table that has a cell with more text and blocks, such as headings, arranges the page."""
MAX_HEADER_ROWS = 5

SECTIONS = frozenset({"thead", "tbody", "tfoot"})
_CELLS = frozenset({"td", "th"})
_MAX_SPAN = 1000
_LAYOUT_ROLES = frozenset({"presentation", "none"})
_BLOCKS = 'table,pre,h1,h2,h3,h4,h5,h6,blockquote,math[display="block"]'
_BLOCKS_WITHOUT_CODE = _BLOCKS.replace("pre,", "")
_LISTS = "ul,ol,dl"
_SPANNING = "[colspan],[rowspan]"
_EXPONENT: Final = re.compile(r"\s*[-+\u2212]?\d{1,9}\s*")
_REFERENCES = frozenset({"sup", "a"})
_LINES = BLOCKS | {"br", *PREFORMATTED}
_UNREAD = NOT_RENDERED | NOT_TEXT | {"button"}
# fmt: off
_TOTALS: Final = frozenset({
    "total", "totals", "grand total", "subtotal", "sub-total", "sub total", "sum", "sum total",
    "overall total", "total sum", "summe", "gesamt", "insgesamt", "gesamtsumme", "zwischensumme",
    "somme", "total général", "sous-total", "totale", "totale generale", "somma", "suma",
    "total general", "totaal", "som", "subtotaal", "soma", "total geral", "totalt", "i alt",
    "sammanlagt", "summa", "delsumma", "yhteensä", "razem", "ogółem", "łącznie", "celkem",
    "spolu", "skupaj", "ukupno", "összesen", "toplam", "genel toplam", "kokku", "kopā", "iš viso",
    "итого", "всего", "итог", "разом", "всього", "общо", "σύνολο", "合計", "総計", "小計", "计",
    "合计", "总计", "小计", "總計", "합계", "총계", "tổng", "tổng cộng", "المجموع", "סך הכל",
    "jumlah",
})
# fmt: on


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table row with its cells and its section, which bounds row spans."""

    element: Element
    cells: list[Element]
    section: Element


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table with its spans resolved; a cell is None where the page has none.

    Attributes
    ----------
    titles
        Elements that hold its title: its ``caption``, or cells above its header that cover the
        whole width.
    header
        For each column, the cells that name it, outermost first; empty without a header.
    rows
        The cells of each row below the header, as many as there are columns.
    """

    titles: list[Element]
    header: list[list[Element]]
    rows: list[list[Element | None]]

    @property
    def width(self) -> int:
        """The number of columns."""
        return max(len(self.header), max(map(len, self.rows), default=0))

    def write_cells(self, write: Callable[[Element], str]) -> tuple[list[str], list[list[str]]]:
        """Return the names of the columns and the rows below them, each cell written once."""
        texts: dict[Element | None, str] = {None: ""}
        for cell in chain(*self.header, *self.rows):
            if cell is not None and cell not in texts:
                texts[cell] = write(cell)
        names = (filter(None, [texts[cell] for cell in cells]) for cells in self.header)
        header = [" ".join(dict.fromkeys(own)) for own in names]
        return header, [[texts[cell] for cell in row] for row in self.rows]


@dataclass(frozen=True, slots=True)
class TableTexts:
    """The texts of a table; `totals` has the indexes of the rows that add up others."""

    caption: str
    header: list[str]
    rows: list[list[str]]
    totals: list[int]


@dataclass(frozen=True, slots=True)
class _GridCell:
    """A cell on the grid: first row, first column, height and width."""

    cell: Element
    row: int
    column: int
    height: int
    width: int


def find_tables(root: Node, *, lenient: bool = False) -> Iterator[tuple[Element, PageTable]]:
    """Yield the tables below a node in document order, none inside another one.

    Parameters
    ----------
    root
        A page or an element.
    lenient
        Also read what may only arrange the page, unless it says so or contains tables.
    """
    inner: set[Element] = set()
    for element in root.iter_elements({"table"}):
        if element in inner:
            continue
        table = read_table(element, lenient=lenient and element.select_one("table") is None)
        if table is not None:
            inner.update(element.select("table"))
            yield element, table


def read_table(element: Element, *, lenient: bool = False) -> PageTable | None:
    """Read a table; None if it arranges the page, so that its cells are blocks of text."""
    rows = [] if _is_layout_role(element) else table_rows(element)
    if not rows:
        return None
    header_rows = _count_header_rows(rows)
    grid: list[list[Element | None]] | None
    if sum(len(row.cells) for row in rows) > MAX_GRID_CELLS:
        grid = [list(row.cells) for row in rows]  # no cell is lost
    elif not lenient and _is_layout(element, rows, header_rows):
        grid = None
    else:
        grid = _grid(element, rows)
    if grid is None:
        return None
    titles: list[Element] = list(child_elements(element, {"caption"}))
    while (  # the first row is one cell, which covers all columns
        0 < header_rows < len(grid)
        and len(grid[0]) > 1
        and len(rows[0].cells) == 1
        and _read_span(rows[0].cells[0], "colspan") >= len(grid[0])
    ):
        titles.append(rows[0].cells[0])
        del rows[0], grid[0]
        header_rows -= 1
    top, body = grid[:header_rows], grid[header_rows:]
    header: list[list[Element]] = [[] for _ in (top[0] if top else ())]
    for row in top:
        for column, cell in zip(header, row, strict=False):
            if cell is not None and cell not in column:
                column.append(cell)
    names = [text_of(column[-1]) if column else "" for column in header]
    if any(names):  # rows that repeat the header are left out
        body = [
            row
            for row in body
            if row[0] is None
            or row[0].tag != "th"
            or [text_of(cell) if cell is not None and cell.tag == "th" else "" for cell in row]
            != names
        ]
    return PageTable(titles, header, body)


def is_data_table(element: Element) -> bool:
    """Return whether a table has named columns and rows, so that its cells are all content."""
    if element.select_one("th,thead") is None or _is_layout_role(element):
        return False
    rows = table_rows(element)
    header_rows = _count_header_rows(rows) if rows else 0
    return (
        0 < header_rows < len(rows)
        and len(rows[header_rows - 1].cells) > 1
        and not _is_layout(element, rows, header_rows)
    )


def table_texts(table: PageTable) -> TableTexts:
    """Return the texts of a table."""
    header, rows = table.write_cells(cell_text)
    if not any(header):
        header = []
    caption = " ".join(filter(None, map(cell_text, table.titles)))
    return TableTexts(caption, header, rows, [n for n, row in enumerate(rows) if is_total(row)])


def is_total(row: Sequence[str]) -> bool:
    """Return whether a row says in its first cell that it adds up other rows."""
    label = next(filter(None, row), "")
    return label.strip("*_:.= ").lower() in _TOTALS


def cell_text(cell: Element) -> str:
    """Return the text of a cell on one line.

    Blocks and line breaks are separated by spaces. Without other text, images are read by their
    ``alt``. Hidden parts and references to footnotes are left out. An exponent follows "^", so that
    its digits join no number.
    """
    children = cell.children
    if len(children) == 1 and type(children[0]) is Text:
        return collapse_whitespace(children[0].data)
    may_be_hidden = cell.select_one(MAY_BE_HIDDEN) is not None
    pieces: list[str] = []
    images: list[Element] = []
    todo: list[Node | str] = [cell]
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            pieces.append(node)
        elif isinstance(node, Text):
            pieces.append(node.data)
        elif isinstance(node, Element):
            tag = node.tag
            if tag in _UNREAD or (may_be_hidden and node is not cell and is_hidden_part(node)):
                continue
            if tag in _REFERENCES and pieces and _is_reference(node, pieces[-1]):
                continue
            if tag == "img":
                images.append(node)
            latex = node.attr(LATEX) if tag in {"math", "img"} else None
            if latex:
                pieces.append(f"${latex}$")
                continue
            if tag == "sup" and pieces and pieces[-1][-1:].isalnum() and is_exponent(node):
                pieces.append("^")
            if tag in _LINES:
                pieces.append(" ")
                todo.append(" ")
            todo.extend(reversed(node.children))
    text = collapse_whitespace("".join(pieces))
    if not text:
        text = collapse_whitespace(" ".join(image.attr("alt") or "" for image in images))
    return text


def is_exponent(raised: Element) -> bool:
    """Return whether raised text is a number, which would change the one before it, and no link."""
    return (
        len(raised) == 1
        and _EXPONENT.fullmatch(raised.text) is not None
        and raised.select_one("a") is None
    )


def _is_reference(node: Element, before: str) -> bool:
    """Return whether an element right after a text refers to a footnote."""
    if node.attr(REFERENCE) is not None:
        return True
    link = node
    if node.tag == "sup":
        children = [child for child in node.children if not isinstance(child, Text)]
        if len(children) != 1 or not isinstance(children[0], Element):
            return False
        link = children[0]
    href = link.attr("href") if link.tag == "a" else None
    if href is None or "#" not in href or before[-1:].isspace():
        return False
    return mark_of(node.text) is not None


# ----------------------------------------------------------------------------------- the grid


def table_rows(table: Element) -> list[TableRow]:
    """Return the rows of the table itself that have cells, without those of nested tables."""
    rows: list[TableRow] = []
    for child in child_elements(table, SECTIONS | {"tr"}):
        is_row = child.tag == "tr"
        elements, section = ([child], table) if is_row else (child_elements(child, {"tr"}), child)
        rows += (TableRow(row, child_elements(row, _CELLS), section) for row in elements)
    if table.select_one(MAY_BE_HIDDEN) is not None:
        rows = [
            TableRow(
                row.element, [cell for cell in row.cells if not is_hidden_part(cell)], row.section
            )
            for row in rows
        ]
    return [row for row in rows if row.cells]


def child_elements(parent: Element, tags: Collection[str]) -> list[Element]:
    """Return the children of `parent` with one of `tags`."""
    return [child for child in parent.children if type(child) is Element and child.tag in tags]


def _count_header_rows(rows: list[TableRow]) -> int:
    """Return the number of rows at the top that name the columns."""
    count = 0
    for row in rows:
        if row.section.tag != "thead" and not _is_header_row(row):
            break
        count += 1
    if count == len(rows) or count > MAX_HEADER_ROWS:
        return int(_is_header_row(rows[0]) or rows[0].section.tag == "thead")
    return count


def _is_header_row(row: TableRow) -> bool:
    """Return whether all cells of a row name something; a cell without text may be a ``td``."""
    names = sum(cell.tag == "th" for cell in row.cells)
    return (
        names == len(row.cells)
        or (
            names > 0
            and len(row.cells) > 2  # noqa: PLR2004 - a name and an empty cell are a pair
            and row.cells[0].tag == "td"
            and not row.cells[0].text.strip()
            and all(cell.tag == "th" for cell in row.cells[1:])
        )
    )


def _is_layout_role(table: Element) -> bool:
    return (table.attr("role") or "").lower() in _LAYOUT_ROLES


def _is_layout(table: Element, rows: list[TableRow], header_rows: int) -> bool:
    """Return whether a table only arranges blocks of the page.

    A table whose columns or rows are named has data, whatever its cells hold. Only long cells with
    headings or further tables are sections of a page.
    """
    names_rows = len(rows) > 1 and all(row.cells[0].tag == "th" for row in rows)
    is_named = header_rows > 0 or names_rows
    if max(len(row.cells) for row in rows) < 2:  # noqa: PLR2004 - one column
        return (
            not header_rows or len(rows) == 1 or table.select_one(f"{_BLOCKS},{_LISTS}") is not None
        )
    if len(rows) == 1 and table.select_one(_LISTS) is not None:
        return True  # adjacent lists
    if table.select_one(_BLOCKS) is None:
        return False
    cells = [cell for row in rows for cell in row.cells if cell.select_one(_BLOCKS) is not None]
    if any(len(cell.text) > MAX_BLOCK_CHARACTERS for cell in cells):
        return True
    if is_named:
        return False
    # Without names, code makes no page, unless it stands beside its line numbers.
    return (
        len(rows) == 1
        or any(cell.select_one(_BLOCKS_WITHOUT_CODE) is not None for cell in cells)
        or bool(line_number_cells(rows))
    )


def line_number_cells(rows: Sequence[TableRow]) -> set[Element]:
    """Return the cells that hold only the line numbers of the code beside them."""
    number_cells: set[Element] = set()
    for row in rows:
        if len(row.cells) > 1:
            numbers = [
                cell
                for cell in row.cells
                if cell.select_one("pre") is not None and not any(map(str.isalpha, cell.text))
            ]
            number_cells.update(numbers if len(numbers) < len(row.cells) else ())
    return number_cells


def _grid(table: Element, rows: list[TableRow]) -> list[list[Element | None]] | None:
    """Return one cell per column for each row; None if there would be too many."""
    if table.select_one(_SPANNING) is None:
        columns = max(len(row.cells) for row in rows)
        if len(rows) * columns > MAX_GRID_CELLS:
            return None
        return [[*row.cells, *[None] * (columns - len(row.cells))] for row in rows]
    spanning = sum(_read_span(cell, "rowspan") != 1 for row in rows for cell in row.cells)
    if spanning * len(rows) > MAX_GRID_CELLS:
        return None
    grid_cells = _place_cells(rows)
    # Columns in which no cell starts are dropped.
    starts = sorted({cell.column for cell in grid_cells})
    if len(rows) * len(starts) > MAX_GRID_CELLS:
        return None
    grid: list[list[Element | None]] = [[None] * len(starts) for _ in rows]
    for cell in grid_cells:
        first, last = (
            bisect_left(starts, cell.column),
            bisect_left(starts, cell.column + cell.width),
        )
        if (
            (cell.height > 1 or last - first > 1)
            and len(cell.cell.text) <= MAX_REPEATED_CHARACTERS
            and cell.cell.select_one("img,table") is None
        ):
            section = rows[cell.row].section
            for number in range(cell.row, min(cell.row + cell.height, len(rows))):
                if rows[number].section is section:
                    covered = grid[number][first:last]
                    grid[number][first:last] = [
                        cell.cell if each is None else each for each in covered
                    ]
    for cell in grid_cells:
        grid[cell.row][bisect_left(starts, cell.column)] = cell.cell
    return grid


def _read_span(cell: Element, name: str) -> int:
    """Return ``colspan`` or ``rowspan`` of a cell; 0 means to the end."""
    value = cell.attr(name) if len(cell.attrs) else None
    if value is None:
        return 1
    digits = value.strip()[:4]
    return min(int(digits), _MAX_SPAN) if digits.isascii() and digits.isdecimal() else 1


def column_span(cell: Element) -> int:
    """Return the number of columns that a cell covers, at least 1."""
    return _read_span(cell, "colspan") or 1


def _place_cells(rows: list[TableRow]) -> list[_GridCell]:
    """Place cells row by row, around cells that span down from earlier rows."""
    grid_cells: list[_GridCell] = []
    spanning: list[_GridCell] = []
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
            height = _read_span(cell, "rowspan") or len(rows)
            grid_cells.append(_GridCell(cell, number, column, height, column_span(cell)))
            column += grid_cells[-1].width
        spanning += (cell for cell in grid_cells[-len(row.cells) :] if cell.height > 1)
    return grid_cells
