"""The HTML that the readers of documents write: blocks, tables, footnotes, properties."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


@dataclass(frozen=True, slots=True)
class ConvertedDocument:
    """A document as HTML, from which all formats are made.

    Attributes
    ----------
    html
        The document as an HTML page.
    markdown
        The document as Markdown, where its own text is better than Markdown written from `html`.
    text
        Its text for full-text search, where that is better than the text of `html`.
    metadata
        Fields that the page's metadata has in addition.
    """

    html: str
    markdown: str | None = None
    text: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


MAX_CHARACTERS: Final = 5_000_000
"""Characters of HTML that are written for one document."""
MAX_HEADING_LEVEL: Final = 6
MAX_LIST_LEVEL: Final = 8
_MAX_SPAN: Final = 1000
_TAGS: Final = ("strong", "em", "s", "sub", "sup", "code")


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A piece of a paragraph as HTML, with the tags around it and its link."""

    html: str
    tags: frozenset[str] = frozenset()
    href: str | None = None


@dataclass(frozen=True, slots=True)
class ListItem:
    """A paragraph of a list; `number` is None for a bullet.

    A paragraph that `continues` has neither: it belongs to the item before it, if there is one.
    """

    html: str
    level: int = 0
    number: int | None = None
    continues: bool = False


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A paragraph of code. Adjacent lines become one block."""

    text: str


Block: TypeAlias = str | ListItem | CodeLine
"""HTML, or a paragraph that belongs together with its neighbours."""


@dataclass(slots=True)
class Cell:
    """A cell of a table; `column` is its first column."""

    column: int
    blocks: list[Block] = field(default_factory=list)
    width: int = 1
    height: int = 1
    is_header: bool = False


class OutputLimit:
    """Counts the characters of a document's HTML."""

    def __init__(self) -> None:
        self._left = MAX_CHARACTERS
        self.is_reached: bool = False

    def take(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield blocks up to the limit."""
        for block in blocks:
            self._left -= len(
                block
                if isinstance(block, str)
                else (block.html if isinstance(block, ListItem) else block.text)
            )
            if self._left < 0:
                self.is_reached = True
                return
            yield block


def write_head(title: str | None, metas: Iterable[tuple[str, str | None]]) -> str:
    """Write the title and the named meta tags of a page, without those that are empty."""
    head = f"<title>{escape(title)}</title>" if title else ""
    return head + "".join(
        f'<meta name="{name}" content="{escape(text)}">' for name, text in metas if text
    )


def write_spans(spans: Sequence[TextSpan]) -> str:
    """Write the pieces of a paragraph; adjacent pieces share tags and links."""
    pieces = []
    for href, group in groupby(spans, key=lambda span: span.href):
        inner = _wrap(list(group), 0)
        pieces.append(f'<a href="{escape(href)}">{inner}</a>' if href and inner.strip() else inner)
    return "".join(pieces)


def write_text(text: str) -> str:
    """Write text as HTML; line breaks and tabs are kept as such."""
    return escape(text, quote=False).replace("\n", "<br>")


def write_image(source: str, alt: str | None) -> str:
    """Write a picture; nothing without a description."""
    alt = " ".join((alt or "").split())
    return f'<img src="{escape(source)}" alt="{escape(alt)}">' if alt else ""


def write_heading(level: int, html: str) -> str:
    """Write a heading; levels above the deepest of HTML are that one."""
    level = max(1, min(level, MAX_HEADING_LEVEL))
    return f"<h{level}>{html}</h{level}>"


def write_blocks(blocks: Iterable[Block]) -> str:
    """Write blocks; adjacent list items become nested lists, adjacent lines of code one block."""
    pieces: list[str] = []
    for kind, group in groupby(blocks, key=type):
        if kind is ListItem:
            pieces += _write_lists([item for item in group if isinstance(item, ListItem)])
        elif kind is CodeLine:
            lines = [line.text for line in group if isinstance(line, CodeLine)]
            pieces.append(f"<pre><code>{escape(chr(10).join(lines), quote=False)}</code></pre>")
        else:
            pieces += [block for block in group if isinstance(block, str)]
    return "".join(pieces)


def write_table(rows: Iterable[Sequence[Cell]]) -> str:
    """Write a table; nothing for one without text.

    Documents seldom say which rows are headers: if none does, it is the first one.
    """
    table = [list(row) for row in rows]
    if len(table) > 1 and not any(cell.is_header for row in table for cell in row):
        for cell in table[0]:
            cell.is_header = True
    written = ["".join(map(_write_cell, row)) for row in table]
    body = "".join(f"<tr>{cells}</tr>" for cells in written if cells)
    has_content = any(
        "<img " in row or any(part.rpartition(">")[2].strip() for part in row.split("<") if part)
        for row in written
    )
    return f"<table>{body}</table>" if has_content else ""


def merge_downwards(rows: Sequence[Sequence[tuple[Cell, bool]]]) -> list[list[Cell]]:
    """Join cells that continue the cell above, which become taller.

    Parameters
    ----------
    rows
        Pairs of a cell, and whether it continues the cell above in the same column.
    """
    merged, above = [], dict[int, Cell]()
    for row in rows:
        cells = []
        for cell, continues in row:
            owner = above.get(cell.column)
            if continues and owner is not None:
                owner.height += 1
            else:
                above[cell.column] = cell
                cells.append(cell)
        merged.append(cells)
    return merged


def _wrap(spans: list[TextSpan], tag_number: int) -> str:
    if tag_number == len(_TAGS) or not any(span.tags for span in spans):
        return "".join(span.html for span in spans)
    tag, pieces = _TAGS[tag_number], []
    for is_tagged, group in groupby(spans, key=lambda span: tag in span.tags):
        inner = _wrap(list(group), tag_number + 1)
        pieces.append(f"<{tag}>{inner}</{tag}>" if is_tagged and inner.strip() else inner)
    return "".join(pieces)


def _write_lists(items: Sequence[ListItem]) -> Iterator[str]:
    """Write items of one run of list paragraphs, nested by their levels."""
    is_open: list[tuple[int, str]] = []
    for item in items:
        level, tag = min(item.level, MAX_LIST_LEVEL), "ul" if item.number is None else "ol"
        while is_open and is_open[-1][0] > level:
            yield f"</li></{is_open.pop()[1]}>"
        if item.continues:
            yield f"<p>{item.html}</p>"
            continue
        if is_open and is_open[-1] == (level, tag):
            yield "</li>"
        else:
            if is_open and is_open[-1][0] == level:
                yield f"</li></{is_open.pop()[1]}>"
            is_open.append((level, tag))
            yield f"<{tag}>" if item.number in {None, 1} else f'<ol start="{item.number}">'
        yield f"<li>{item.html}"
    for _, tag in reversed(is_open):
        yield f"</li></{tag}>"


def _write_cell(cell: Cell) -> str:
    tag = "th" if cell.is_header else "td"
    spans = (("colspan", cell.width), ("rowspan", cell.height))
    attributes = "".join(f' {name}="{min(span, _MAX_SPAN)}"' for name, span in spans if span > 1)
    html = write_blocks(cell.blocks).replace("</p><p>", "<br>")
    if html.startswith("<p>") and html.endswith("</p>") and html.count("<p>") == 1:
        html = html[len("<p>") : -len("</p>")]
    return f"<{tag}{attributes}>{html}</{tag}>"


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
        by_row: dict[int, list[Cell]] = {row: [] for row in rows}
        for (row, column), html in sorted(texts.items()):
            by_row[row].append(Cell(column, [html]))
        return write_table(by_row.values())
    owners = _owners(texts, merged, rows, columns)
    written = []
    for row in rows:
        cells_of_row = []
        for column in columns:
            top, left, height, width = owners.get((row, column), (row, column, 1, 1))
            if (top, left) == (row, column):
                html = texts.get((row, column), "")
                cells_of_row.append(Cell(column, [html] if html else [], width, height))
        written.append(cells_of_row)
    return write_table(written)


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


# What the programs write when the author gives no title.
_DEFAULT_TITLES: Final = frozenset({"powerpoint presentation", "word document", "untitled"})


@dataclass(frozen=True, slots=True)
class DocumentProperties:
    """The properties of a document; texts that it does not declare are empty.

    Attributes
    ----------
    created, modified
        ISO 8601.
    page_count
        Pages or slides; None if the document does not say.
    """

    title: str = ""
    author: str = ""
    description: str = ""
    language: str = ""
    created: str = ""
    modified: str = ""
    page_count: int | None = None

    def to_document(self, body: str, *, truncated: bool, **counts: int) -> ConvertedDocument:
        """Return an HTML page with these properties, and metadata."""
        title = "" if self.title.lower() in _DEFAULT_TITLES else self.title
        metas = (
            ("author", self.author),
            ("description", self.description),
            ("date", self.created),
            ("article:modified_time", self.modified),
        )
        head = write_head(title, metas)
        language = f' lang="{escape(self.language)}"' if self.language else ""
        html = f"<!doctype html><html{language}><head>{head}</head><body>{body}</body></html>"
        metadata = counts | ({"truncated": True} if truncated else {})
        return ConvertedDocument(html, metadata=metadata)


MAX_NOTES: Final = 10_000


class Footnotes:
    """The notes of a document, numbered in the order of their first references."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._keys: list[str] = []

    def refer(self, key: str) -> str:
        """Return a reference to a note as HTML."""
        if key not in self._numbers:
            self._keys.append(key)
            self._numbers[key] = len(self._keys)
        number = self._numbers[key]
        return (
            f'<sup><a href="#fn{number}" id="fnref{number}" class="footnote-ref"'
            f' role="doc-noteref">{number}</a></sup>'
        )

    def write(self, read_note: Callable[[str], str]) -> str:
        """Write the notes; `read_note` returns the HTML of one. A note may refer to others."""
        items: list[str] = []
        while len(items) < min(len(self._keys), MAX_NOTES):
            key = self._keys[len(items)]
            items.append(f'<li id="fn{len(items) + 1}">{read_note(key)}</li>')
        if not items:
            return ""
        notes = "".join(items)
        return f'<section class="footnotes" role="doc-endnotes"><ol>{notes}</ol></section>'
