"""Converts OpenDocument files to HTML: texts (.odt), spreadsheets (.ods), presentations (.odp)."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from webdata_nb.page.charset import decode_text, sniff_charset
from webdata_nb.page.content.parser import body_of, parse, remove_all
from webdata_nb.page.documents.archive import (
    DocumentArchive,
    attribute,
    child,
    children,
    descendants,
    local_name,
    read_part,
    text_below,
    to_int,
)
from webdata_nb.page.documents.converted_document import (
    MAX_CELLS,
    MAX_CHARACTERS,
    Block,
    Cell,
    CodeLine,
    ConvertedDocument,
    DocumentProperties,
    Footnotes,
    ListItem,
    MergedRange,
    OutputLimit,
    TextSpan,
    write_blocks,
    write_heading,
    write_image,
    write_sheet,
    write_spans,
    write_table,
    write_text,
)
from webdata_nb.page.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.content.parser import Document, Element
    from webdata_nb.page.documents.archive import XmlElement

_CONTENT: Final = "content.xml"
_FURNITURE: Final = frozenset({"date-time", "footer", "header", "page-number"})


def convert_open_document(body: bytes) -> ConvertedDocument:
    """Convert a document of any of the three kinds.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``: damaged, or encrypted.
    """
    archive = DocumentArchive(body)
    manifest = read_part(archive, "META-INF/manifest.xml")
    if next(descendants(manifest, "encryption-data"), None) is not None:
        raise ScrapeError("parse", "the document is encrypted with a password")
    content = read_part(archive, _CONTENT)
    if content is None:
        raise ScrapeError("parse", f"the document has no part {_CONTENT}")
    styles = OpenDocumentStyles(content, read_part(archive, "styles.xml"))
    text = TextReader(archive, styles)
    sheets = SheetReader(text)
    content_body = next(
        iter(children(child(content, "body"), "text", "spreadsheet", "presentation", "drawing")),
        None,
    )
    limit = OutputLimit()
    kind = local_name(content_body) if content_body is not None else ""
    blocks = _blocks(kind, content_body, text, sheets)
    html = write_blocks(limit.take(blocks)) + text.write_notes()
    meta = child(read_part(archive, "meta.xml"), "meta")
    counts: dict[str, int] = {}
    if kind == "spreadsheet":
        counts["sheet_count"] = sum(1 for _ in children(content_body, "table"))
    elif kind in {"presentation", "drawing"}:
        counts["page_count"] = sum(1 for _ in children(content_body, "page"))
    elif count := to_int(attribute(child(meta, "document-statistic"), "page-count")):
        counts["page_count"] = count
    properties = DocumentProperties(
        title=text_below(child(meta, "title")),
        author=text_below(child(meta, "initial-creator")) or text_below(child(meta, "creator")),
        description=text_below(child(meta, "description")) or text_below(child(meta, "subject")),
        language=text_below(child(meta, "language")),
        created=text_below(child(meta, "creation-date")),
        modified=text_below(child(meta, "date")),
    )
    is_truncated = limit.is_reached or sheets.is_truncated
    return properties.to_document(html, truncated=is_truncated, **counts)


def _blocks(
    kind: str, body: XmlElement | None, text: TextReader, sheets: SheetReader
) -> Iterator[Block]:
    if kind == "spreadsheet":
        for table in children(body, "table"):
            yield from sheets.blocks(table)
    elif kind in {"presentation", "drawing"}:
        for number, page in enumerate(children(body, "page"), 1):
            shapes = [
                shape
                for shape in page.iterchildren()
                if attribute(shape, "class") not in _FURNITURE and local_name(shape) != "notes"
            ]
            title = next((shape for shape in shapes if attribute(shape, "class") == "title"), None)
            yield f"<h2>{escape(text_below(title) or f'Slide {number}')}</h2>"
            for shape in shapes:
                if shape is not title:
                    yield from text.shape(shape)
            notes = child(page, "notes")
            frames = (
                frame for frame in children(notes, "frame") if attribute(frame, "class") == "notes"
            )
            for frame in frames:
                if text_below(frame):
                    yield "<h3>Notes</h3>"
                    yield from text.shape(frame)
    else:
        yield from text.blocks(body)


class SheetReader:
    """Reads sheets up to the limit of cells of a document."""

    def __init__(self, text: TextReader) -> None:
        self._text = text
        self._cells_left = MAX_CELLS
        self._characters_left = MAX_CHARACTERS
        self.is_truncated: bool = False

    def blocks(self, table: XmlElement) -> Iterator[str]:
        """Yield the heading and the table of a sheet."""
        name = attribute(table, "name")
        if name:
            yield f"<h2>{escape(name)}</h2>"
        cells: dict[tuple[int, int], str] = {}
        merged: list[MergedRange] = []
        number = 0
        for row, _ in _table_rows(table, is_header=False):
            repeated = max(1, to_int(attribute(row, "number-rows-repeated"), 1))
            column = 0
            for cell in children(row, "table-cell", "covered-table-cell"):
                cell_repeated = max(1, to_int(attribute(cell, "number-columns-repeated"), 1))
                html = self._text.cell_html(cell) if local_name(cell) == "table-cell" else ""
                if html:
                    columns = range(column, column + cell_repeated)
                    self._add(html, range(number, number + repeated), columns, cells)
                    width = max(1, to_int(attribute(cell, "number-columns-spanned"), 1))
                    height = max(1, to_int(attribute(cell, "number-rows-spanned"), 1))
                    if width > 1 or height > 1:
                        end_row, end_column = number + height - 1, column + width - 1
                        merged.append(MergedRange(number, column, end_row, end_column))
                if self.is_truncated:
                    break
                column += cell_repeated
            number += repeated
            if self.is_truncated:
                break
        yield write_sheet(cells, merged)

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


_MAX_PARENTS: Final = 20
_BOLD_WEIGHT: Final = 600
_CODE: Final = re.compile(r"(?:source|preformatted|verbatim|code|teletype)")
_QUOTE: Final = re.compile(r"(?:quotations?|quote|block quotation)")


@dataclass(frozen=True, slots=True)
class OpenDocumentStyle:
    """A style with what it takes from its parents.

    Attributes
    ----------
    list_style
        The list style of its paragraphs; None without one.
    """

    tags: frozenset[str] = frozenset()
    is_title: bool = False
    is_code: bool = False
    is_quote: bool = False
    is_hidden: bool = False
    list_style: str | None = None


class OpenDocumentStyles:
    """The styles of a document by name, those of ``content.xml`` before those of the others."""

    def __init__(self, *roots: XmlElement | None) -> None:
        self._elements: dict[str, XmlElement] = {}
        self._lists: dict[str, dict[int, int | None]] = {}
        self._styles: dict[str, OpenDocumentStyle] = {}
        for root in roots:
            for group in children(root, "automatic-styles", "styles"):
                for element in children(group, "style", "list-style"):
                    self._add(element)

    def __getitem__(self, name: str | None) -> OpenDocumentStyle:
        key = name or ""
        if key in self._styles:
            return self._styles[key]
        chain: list[XmlElement] = []
        ancestor: str | None = key
        while ancestor in self._elements and len(chain) < _MAX_PARENTS:
            chain.append(self._elements[ancestor])
            ancestor = attribute(chain[-1], "parent-style-name")
        # The last name is that of a style that the document does not define.
        style = _named(OpenDocumentStyle(), ancestor or "")
        for element in reversed(chain):
            style = _named(style, attribute(element, "name") or "")
            style = _formatted(style, element)
        self._styles[key] = style
        return style

    def list_start(self, name: str | None, level: int) -> int | None:
        """Return the first number of a list level, which counts from 0; None for bullets."""
        levels = self._lists.get(name or "", {})
        defined = [each for each in levels if each <= level]
        return levels[max(defined)] if defined else None

    def _add(self, element: XmlElement) -> None:
        name = attribute(element, "name") or ""
        if local_name(element) == "style":
            self._elements.setdefault(name, element)
            return
        levels: dict[int, int | None] = {}
        for level in element.iterchildren():
            is_number = local_name(level) == "list-level-style-number" and (
                attribute(level, "num-format")
            )
            start = to_int(attribute(level, "start-value"), 1) if is_number else None
            levels[to_int(attribute(level, "level"), 1) - 1] = start
        self._lists.setdefault(name, levels)


def _named(style: OpenDocumentStyle, name: str) -> OpenDocumentStyle:
    words = name.replace("_20_", " ").lower()
    return replace(
        style,
        is_title=style.is_title or words == "title",
        is_code=style.is_code or _CODE.match(words) is not None,
        is_quote=style.is_quote or _QUOTE.match(words) is not None,
    )


def _formatted(style: OpenDocumentStyle, element: XmlElement) -> OpenDocumentStyle:
    text = child(element, "text-properties")
    is_text = attribute(element, "family") == "text"
    name = (attribute(element, "name") or "").lower()
    tags = set(style.tags)
    if (weight := attribute(text, "font-weight")) is not None:
        is_bold = weight == "bold" or to_int(weight) >= _BOLD_WEIGHT
        tags = tags | {"strong"} if is_bold else tags - {"strong"}
    if (slant := attribute(text, "font-style")) is not None:
        tags = tags - {"em"} if slant == "normal" else tags | {"em"}
    if attribute(text, "text-line-through-style") not in {None, "none"}:
        tags.add("s")
    position = attribute(text, "text-position") or ""
    if position.startswith(("super", "sub")):
        tags.add("sup" if position.startswith("super") else "sub")
    tags |= {
        tag for part, tag in (("strong", "strong"), ("emphasis", "em")) if name.startswith(part)
    }
    if is_text and style.is_code:
        tags.add("code")
    return replace(
        style,
        tags=frozenset(tags),
        is_hidden=style.is_hidden or attribute(text, "display") == "none",
        list_style=attribute(element, "list-style-name") or style.list_style,
    )


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
                    spans, blocks = self._inline(part)
                    pieces.append(write_spans(spans).strip() + write_blocks(blocks))
            yield from _items(pieces, level, number)
            if number is not None:
                number += 1

    def _table(self, table: XmlElement) -> str:
        rows = []
        for row, is_header in _table_rows(table, is_header=False):
            cells: list[Cell] = []
            for column, element in enumerate(children(row, "table-cell")):
                width = max(1, to_int(attribute(element, "number-columns-spanned"), 1))
                height = max(1, to_int(attribute(element, "number-rows-spanned"), 1))
                blocks = list(self.blocks(element))
                repeated = to_int(attribute(element, "number-columns-repeated"), 1)
                repeated = max(1, min(repeated, self._repeated_cells_left))
                self._repeated_cells_left -= repeated - 1
                cells += repeated * [Cell(column, blocks, width, height, is_header)]
            rows.append(cells)
        return write_table(rows)

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
            href = None if target.startswith("#") else target.removeprefix("../") or href
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
        target = (attribute(child(frame, "object"), "href") or "").removeprefix("./")
        root = read_part(self._archive, posixpath.join(target, "content.xml")) if target else None
        if root is not None and local_name(root) == "math":
            return [TextSpan(f'<math display="inline">{_mathml(root)}</math>')], []
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


# Converts e-books (.epub) to HTML: the documents of the spine, one after the other.


_DOCUMENT_TYPES: Final = frozenset(
    {"application/xhtml+xml", "text/html", "application/x-dtbook+xml"}
)
# Obfuscated fonts are no protection of the text.
_FONT_ALGORITHMS: Final = (
    "http://www.idpf.org/2008/embedding",
    "http://ns.adobe.com/pdf/enc#RC",
)


def convert_epub(body: bytes) -> ConvertedDocument:
    """Convert an e-book.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``: damaged, or protected against copying.
    """
    archive = DocumentArchive(body)
    container = read_part(archive, "META-INF/container.xml")
    paths = (attribute(file, "full-path") for file in descendants(container, "rootfile"))
    found = next(filter(None, paths), None)
    path = found or next((name for name in archive.names if name.endswith(".opf")), "")
    package = read_part(archive, path)
    if package is None:
        raise ScrapeError("parse", "the e-book has no package document")
    items = {
        attribute(item, "id"): posixpath.normpath(
            posixpath.join(posixpath.dirname(path), unquote(attribute(item, "href") or ""))
        )
        for item in children(child(package, "manifest"), "item")
        if attribute(item, "media-type") in _DOCUMENT_TYPES
    }
    identifiers = (
        attribute(reference, "idref") for reference in children(child(package, "spine"), "itemref")
    )
    # The documents in reading order, each once.
    parts = list(dict.fromkeys(items[each] for each in identifiers if each in items))
    encryption = read_part(archive, "META-INF/encryption.xml")
    for data in descendants(encryption, "EncryptedData"):
        algorithm = attribute(child(data, "EncryptionMethod"), "Algorithm") or ""
        reference = attribute(child(data, "CipherData", "CipherReference"), "URI") or ""
        if unquote(reference) in parts and algorithm not in _FONT_ALGORITHMS:
            raise ScrapeError("parse", "the e-book is protected against copying (DRM)")
    pieces: list[str] = []
    characters_left = MAX_CHARACTERS
    for part in parts:
        pieces.append(_read_document(archive, part, parts))
        characters_left -= len(pieces[-1])
        if characters_left < 0:
            break
    declared = child(package, "metadata")
    changed = (
        text_below(meta)
        for meta in children(declared, "meta")
        if attribute(meta, "property") == "dcterms:modified"
    )
    # The description may be HTML.
    description = text_below(child(declared, "description"))
    properties = DocumentProperties(
        title=text_below(child(declared, "title")),
        author=", ".join(filter(None, map(text_below, children(declared, "creator")))),
        description=" ".join(parse(description).text.split()) if description else "",
        language=text_below(child(declared, "language")),
        created=text_below(child(declared, "date")),
        modified=next(changed, ""),
    )
    return properties.to_document("".join(pieces), truncated=characters_left < 0)


def _read_document(archive: DocumentArchive, path: str, parts: list[str]) -> str:
    """Return the body of a document; its links into the book become links in the page."""
    body = archive.read(path)
    if body is None:
        return ""
    text = decode_text(body, sniff_charset(body, "application/xhtml+xml"))
    document = parse(text, xhtml=True)
    remove_all(list(document.iter_elements(("script", "style", "link", "base", "title", "meta"))))
    _rename_anchors(document, path, parts)
    return f"<div>{body_of(document).inner_html}</div>"


def _rename_anchors(document: Document, path: str, parts: list[str]) -> None:
    """Make ids unique in the book, and point its inner links and pictures to them."""
    numbers = {part: number for number, part in enumerate(parts)}
    own = numbers[path]
    for element in document.iter_elements():
        if (identifier := element.attr("id")) is not None:
            element.attrs["id"] = f"part{own}-{identifier}"
    for link in document.iter_elements(("a",)):
        target = _inner_target(link, "href", path)
        if target is None:
            continue
        part, _, fragment = target.partition("#")
        if part in numbers and fragment:
            link.attrs["href"] = f"#part{numbers[part]}-{fragment}"
        else:
            del link.attrs["href"]
    for image in document.iter_elements(("img",)):
        source = _inner_target(image, "src", path)
        if source is None:
            continue
        if (image.attr("alt") or "").strip():
            image.attrs["src"] = f"#{source}"
        else:
            del image.attrs["src"]


def _inner_target(element: Element, name: str, path: str) -> str | None:
    """Return the path and fragment of a target in the book; None for targets outside of it."""
    target = (element.attr(name) or "").strip()
    if not target or ":" in target.partition("/")[0] or target.startswith("//"):
        return None
    file, mark, fragment = target.partition("#")
    if file:
        file = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(file)))
    return f"{file or path}{mark}{fragment}"
