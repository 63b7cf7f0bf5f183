"""Converts OpenDocument files to HTML: texts (.odt), spreadsheets (.ods), presentations (.odp)."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.page.documents.converted_document import ConvertedDocument
from webdata_nb.page.documents.office.html_blocks import (
    Block,
    OutputLimit,
    write_blocks,
)
from webdata_nb.page.documents.office.open_document_sheet import SheetReader
from webdata_nb.page.documents.office.open_document_styles import OpenDocumentStyles
from webdata_nb.page.documents.office.open_document_text import TextReader
from webdata_nb.page.documents.office.properties import DocumentProperties
from webdata_nb.page.documents.office.xml_parts import (
    attribute,
    child,
    children,
    descendants,
    local_name,
    read_part,
    text_below,
    to_int,
)
from webdata_nb.page.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.documents.office.archive import DocumentArchive
    from webdata_nb.page.documents.office.xml_parts import XmlElement

_CONTENT: Final = "content.xml"
_FURNITURE: Final = frozenset({"date-time", "footer", "header", "page-number"})


def convert_open_document(archive: DocumentArchive) -> ConvertedDocument:
    """Convert a document of any of the three kinds.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``: damaged, or encrypted.
    """
    _refuse_encryption(archive)
    content = read_part(archive, _CONTENT)
    if content is None:
        raise ScrapeError("parse", f"the document has no part {_CONTENT}")
    styles = OpenDocumentStyles(content, read_part(archive, "styles.xml"))
    text = TextReader(archive, styles)
    sheets = SheetReader(text)
    body = next(
        iter(children(child(content, "body"), "text", "spreadsheet", "presentation", "drawing")),
        None,
    )
    limit = OutputLimit()
    blocks = _blocks(body, text, sheets)
    html = write_blocks(limit.take(blocks)) + text.write_notes()
    meta = child(read_part(archive, "meta.xml"), "meta")
    metadata = _counts(body, meta)
    if limit.is_reached or sheets.is_truncated:
        metadata["truncated"] = True
    return ConvertedDocument(_properties(meta).to_html(html), metadata=metadata)


def _blocks(body: XmlElement | None, text: TextReader, sheets: SheetReader) -> Iterator[Block]:
    kind = local_name(body) if body is not None else ""
    if kind == "spreadsheet":
        for table in children(body, "table"):
            yield from sheets.blocks(table)
    elif kind in {"presentation", "drawing"}:
        for number, page in enumerate(children(body, "page"), 1):
            yield from _slide(page, number, text)
    else:
        yield from text.blocks(body)


def _slide(page: XmlElement, number: int, text: TextReader) -> Iterator[Block]:
    """Yield a slide: its title, the texts of its shapes, and its notes."""
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
    frames = (frame for frame in children(notes, "frame") if attribute(frame, "class") == "notes")
    for frame in frames:
        if text_below(frame):
            yield "<h3>Notes</h3>"
            yield from text.shape(frame)


def _counts(body: XmlElement | None, meta: XmlElement | None) -> dict[str, Any]:
    kind = local_name(body) if body is not None else ""
    if kind == "spreadsheet":
        return {"sheet_count": sum(1 for _ in children(body, "table"))}
    if kind in {"presentation", "drawing"}:
        return {"page_count": sum(1 for _ in children(body, "page"))}
    count = to_int(attribute(child(meta, "document-statistic"), "page-count"))
    return {"page_count": count} if count else {}


def _properties(meta: XmlElement | None) -> DocumentProperties:
    return DocumentProperties(
        title=text_below(child(meta, "title")),
        author=text_below(child(meta, "initial-creator")) or text_below(child(meta, "creator")),
        description=text_below(child(meta, "description")) or text_below(child(meta, "subject")),
        language=text_below(child(meta, "language")),
        created=text_below(child(meta, "creation-date")),
        modified=text_below(child(meta, "date")),
    )


def _refuse_encryption(archive: DocumentArchive) -> None:
    manifest = read_part(archive, "META-INF/manifest.xml")
    if next(descendants(manifest, "encryption-data"), None) is not None:
        raise ScrapeError("parse", "the document is encrypted with a password")
