"""Reads the text of OpenDocument files: paragraphs, lists, tables, notes, frames."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final

from webdata_nb.page.documents.office.footnotes import Footnotes
from webdata_nb.page.documents.office.html_blocks import (
    Block,
    Cell,
    CodeLine,
    ListItem,
    TextSpan,
    write_blocks,
    write_heading,
    write_image,
    write_spans,
    write_table,
    write_text,
)
from webdata_nb.page.documents.office.xml_parts import (
    attribute,
    child,
    children,
    local_name,
    read_part,
    text_below,
    to_int,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.documents.office.archive import DocumentArchive
    from webdata_nb.page.documents.office.open_document_styles import OpenDocumentStyles
    from webdata_nb.page.documents.office.xml_parts import XmlElement

MAX_SPACES: Final = 100
MAX_REPEATED_CELLS: Final = 10_000
"""Cells of a document's tables that stand for further cells beside them."""

_CONTAINERS: Final = frozenset({
    "alphabetical-index", "bibliography", "content", "g", "illustration-index", "index-body",
    "index-title", "object-index", "section", "table-index", "table-of-content", "text-box",
    "user-index",
})  # fmt: skip
_ROWS: Final = ("table-row", "table-rows", "table-header-rows", "table-row-group")
_SKIPPED: Final = frozenset({"annotation", "annotation-end", "ruby-text", "title", "desc"})


class TextReader:
    """Reads the blocks of one document and collects its notes."""

    def __init__(self, archive: DocumentArchive, styles: OpenDocumentStyles) -> None:
        self._archive, self._styles = archive, styles
        self._footnotes = Footnotes()
        self._repeated_cells_left = MAX_REPEATED_CELLS
        self._notes: dict[str, XmlElement] = {}

    def blocks(self, container: XmlElement | None) -> Iterator[Block]:
        """Yield the blocks of a part of the document."""
        for element in container.iterchildren() if container is not None else ():
            name = local_name(element)
            if name in {"p", "h"}:
                yield from self._paragraph(element)
            elif name == "list":
                yield from self._list(element, None, 0)
            elif name == "table":
                yield self._table(element)
            elif name in _CONTAINERS:
                yield from self.blocks(element)
            elif name in {"frame", "custom-shape", "rect", "ellipse"}:
                yield from self.shape(element)

    def shape(self, shape: XmlElement) -> Iterator[Block]:
        """Yield the content of a frame or a drawn shape."""
        spans, blocks = self._frame(shape)
        if spans:
            yield f"<p>{write_spans(spans)}</p>"
        yield from blocks

    def write_notes(self) -> str:
        """Write the notes that were referred to, as HTML."""
        return self._footnotes.write(
            lambda key: write_blocks(self.blocks(child(self._notes.get(key), "note-body")))
        )

    def _paragraph(self, element: XmlElement) -> Iterator[Block]:
        style = self._styles[attribute(element, "style-name")]
        spans, blocks = self._inline(element)
        html = write_spans(spans).strip()
        if style.is_hidden:
            return
        if style.is_code:
            yield from map(CodeLine, _plain_text(element).split("\n"))
        elif not html:
            pass
        elif local_name(element) == "h" or style.is_title:
            level = to_int(attribute(element, "outline-level"), 1)
            yield write_heading(level, html)
        elif style.is_quote:
            yield f"<blockquote><p>{html}</p></blockquote>"
        else:
            yield f"<p>{html}</p>"
        yield from blocks

    def _list(self, element: XmlElement, style_name: str | None, level: int) -> Iterator[Block]:
        """Yield the items of a list; the first paragraph of an item has the bullet or number."""
        style_name = attribute(element, "style-name") or style_name
        start = self._styles.list_start(style_name, level)
        number = start
        for item in children(element, "list-item", "list-header"):
            if number is not None:
                number = to_int(attribute(item, "start-value"), number)
            pieces: list[str] = []
            for part in item.iterchildren():
                if local_name(part) == "list":
                    yield from _items(pieces, level, number)
                    pieces = []
                    yield from self._list(part, style_name, level + 1)
                elif local_name(part) == "h":
                    yield from self._paragraph(part)
                else:
                    pieces.append(self._item_text(part))
            yield from _items(pieces, level, number)
            if number is not None:
                number += 1

    def _item_text(self, element: XmlElement) -> str:
        spans, blocks = self._inline(element)
        return write_spans(spans).strip() + write_blocks(blocks)

    def _table(self, table: XmlElement) -> str:
        rows = list(_table_rows(table, is_header=False))
        return write_table(self._row(row, is_header=is_header) for row, is_header in rows)

    def _row(self, row: XmlElement, *, is_header: bool) -> list[Cell]:
        cells = []
        for column, element in enumerate(children(row, "table-cell")):
            width = max(1, to_int(attribute(element, "number-columns-spanned"), 1))
            height = max(1, to_int(attribute(element, "number-rows-spanned"), 1))
            blocks = list(self.blocks(element))
            repeated = to_int(attribute(element, "number-columns-repeated"), 1)
            repeated = max(1, min(repeated, self._repeated_cells_left))
            self._repeated_cells_left -= repeated - 1
            cells += repeated * [Cell(column, blocks, width, height, is_header)]
        return cells

    def cell_html(self, cell: XmlElement) -> str:
        """Return the text of a cell of a sheet, its paragraphs as lines."""
        lines = (write_spans(self._inline(line)[0]) for line in children(cell, "p"))
        return "<br>".join(filter(None, lines))

    def _inline(
        self,
        container: XmlElement,
        tags: frozenset[str] = frozenset(),
        href: str | None = None,
    ) -> tuple[list[TextSpan], list[Block]]:
        """Return the text of a paragraph, and the blocks that are anchored in it."""
        spans: list[TextSpan] = []
        blocks: list[Block] = []
        if container.text:
            spans.append(TextSpan(_collapsed(container.text), tags, href))
        for element in container.iterchildren():
            inner_spans, inner_blocks = self._inline_element(element, tags, href)
            spans += inner_spans
            blocks += inner_blocks
            if element.tail:
                spans.append(TextSpan(_collapsed(element.tail), tags, href))
        return spans, blocks

    def _inline_element(
        self, element: XmlElement, tags: frozenset[str], href: str | None
    ) -> tuple[list[TextSpan], list[Block]]:
        name = local_name(element)
        if name in _SKIPPED:
            return [], []
        if name == "note":
            key = str(len(self._notes))
            self._notes[key] = element
            return [TextSpan(self._footnotes.refer(key))], []
        if name in {"frame", "custom-shape", "rect"}:
            return self._frame(element, href)
        if name in {"s", "tab", "line-break"}:
            return [TextSpan(write_text(_character(element, name)), tags, href)], []
        if name == "a":
            target = attribute(element, "href") or ""
            href = None if target.startswith("#") else _external(target) or href
        elif name == "span":
            style = self._styles[attribute(element, "style-name")]
            if style.is_hidden:
                return [], []
            tags = tags | style.tags
        return self._inline(element, tags, href)

    def _frame(
        self, frame: XmlElement, href: str | None = None
    ) -> tuple[list[TextSpan], list[Block]]:
        """Return the picture or the formula of a frame, or its text."""
        formula = self._formula(frame)
        if formula:
            return [TextSpan(formula)], []
        picture = child(frame, "image")
        box_blocks = list(self.blocks(child(frame, "text-box")))
        if picture is not None and not box_blocks:
            alt = text_below(child(frame, "desc")) or text_below(child(frame, "title"))
            source = attribute(picture, "href") or ""
            is_part = source.removeprefix("./") in self._archive
            source = f"#{source.removeprefix('./')}" if is_part else source
            return [TextSpan(write_image(source, alt), href=href)], []
        table = child(frame, "table")
        if table is not None:
            box_blocks.append(self._table(table))
        return [], box_blocks or list(self.blocks(frame))

    def _formula(self, frame: XmlElement) -> str:
        """Return the MathML of an embedded formula without its source annotation."""
        target = (attribute(child(frame, "object"), "href") or "").removeprefix("./")
        if not target:
            return ""
        root = read_part(self._archive, posixpath.join(target, "content.xml"))
        if root is None or local_name(root) != "math":
            return ""
        return f'<math display="inline">{_mathml(root)}</math>'


def _items(pieces: list[str], level: int, number: int | None) -> Iterator[ListItem]:
    first, *others = list(filter(None, pieces)) or [""]
    if first:
        yield ListItem(first + "".join(f"<p>{html}</p>" for html in others), level, number)


def _table_rows(table: XmlElement, *, is_header: bool) -> Iterator[tuple[XmlElement, bool]]:
    """Yield the rows of a table, each with whether it is one of the header."""
    for element in children(table, *_ROWS):
        name = local_name(element)
        if name == "table-row":
            yield element, is_header
        else:
            yield from _table_rows(element, is_header=is_header or name == "table-header-rows")


def _character(element: XmlElement, name: str) -> str:
    if name == "s":
        return " " * min(MAX_SPACES, max(1, to_int(attribute(element, "c"), 1)))
    return "\n" if name == "line-break" else " "


def _collapsed(text: str) -> str:
    """Return text with white space as a reader sees it: runs of it are one space."""
    start, end = text[:1].isspace(), text[-1:].isspace()
    inner = " ".join(text.split())
    return write_text(f"{' ' * start}{inner}{' ' * (end and bool(inner))}")


def _plain_text(element: XmlElement) -> str:
    """Return the text of a paragraph of code with its spaces and line breaks."""
    pieces = [element.text or ""]
    for inner in element.iterchildren():
        name = local_name(inner)
        if name in {"s", "tab", "line-break"}:
            pieces.append("\t" if name == "tab" else _character(inner, name))
        elif name not in _SKIPPED and name not in {"note", "frame"}:
            pieces.append(_plain_text(inner))
        pieces.append(inner.tail or "")
    return "".join(pieces)


def _external(target: str) -> str:
    """Return the URL of a link. Targets are relative to the archive, so ``../`` is its folder."""
    return target.removeprefix("../")


def _mathml(element: XmlElement) -> str:
    """Write MathML without namespaces and annotations."""
    pieces = [write_text((element.text or "").strip())]
    for inner in element.iterchildren():
        name = local_name(inner)
        if name == "semantics":
            pieces.append(_mathml(inner))
        elif name.isalpha() and not name.startswith("annotation"):
            pieces.append(f"<{name}>{_mathml(inner)}</{name}>")
    return "".join(pieces)
