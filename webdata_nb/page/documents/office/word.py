"""Converts Word documents (.docx) to HTML."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.page.documents.converted_document import ConvertedDocument
from webdata_nb.page.documents.office.footnotes import Footnotes
from webdata_nb.page.documents.office.html_blocks import (
    Block,
    Cell,
    CodeLine,
    ListItem,
    OutputLimit,
    TextSpan,
    merge_downwards,
    write_blocks,
    write_heading,
    write_image,
    write_spans,
    write_table,
    write_text,
)
from webdata_nb.page.documents.office.office_math import math_to_html
from webdata_nb.page.documents.office.package import OfficePackage
from webdata_nb.page.documents.office.word_styles import (
    WordNumbering,
    WordStyles,
    heading_level,
    run_tags,
)
from webdata_nb.page.documents.office.xml_parts import (
    attribute,
    child,
    children,
    descendants,
    is_on,
    local_name,
    relationship_id,
    text_below,
    to_int,
    value_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.documents.office.archive import DocumentArchive
    from webdata_nb.page.documents.office.xml_parts import XmlElement

_MAIN_PART: Final = "word/document.xml"
# Elements around content. Deleted text (`del`, `moveFrom`) is none of them.
_WRAPPERS: Final = frozenset(
    {"sdt", "sdtContent", "ins", "moveTo", "smartTag", "customXml", "fldSimple", "bdo", "dir"}
)
_CHARACTERS: Final = {"tab": " ", "ptab": " ", "cr": "\n", "noBreakHyphen": "-"}
_MAX_OPEN_FIELDS: Final = 50
_HYPERLINK: Final = re.compile(r'\s*HYPERLINK\s+(?:"([^"]*)"|([^\s"\\]+))')


@dataclass(slots=True)
class _Field:
    """A field that is open, such as the one of a link or a table of contents."""

    code: str = ""
    is_result: bool = False
    href: str | None = None


@dataclass(slots=True)
class _Paragraph:
    """What was read of a paragraph; `blocks` are the text boxes anchored in it."""

    part: str
    spans: list[TextSpan] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    plain_text: list[str] = field(default_factory=list)


def convert_word(archive: DocumentArchive) -> ConvertedDocument:
    """Convert a document.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``.
    """
    return _WordReader(OfficePackage(archive)).convert()


class _WordReader:
    """Reads the parts of one document."""

    def __init__(self, package: OfficePackage) -> None:
        self._package = package
        self._main = package.main_part(_MAIN_PART)
        self._styles = WordStyles(package.related(self._main, "styles"))
        numbering = package.related(self._main, "numbering")
        self._numbering = WordNumbering(numbering, self._styles)
        self._footnotes = Footnotes()
        self._notes: dict[str, dict[str, XmlElement]] = {}
        self._fields: list[_Field] = []

    def convert(self) -> ConvertedDocument:
        body = child(self._package.read(self._main), "body")
        limit = OutputLimit()
        html = write_blocks(limit.take(self._blocks(body, self._main)))
        html += self._footnotes.write(self._read_note)
        properties = self._package.properties()
        metadata: dict[str, Any] = {}
        if properties.page_count:
            metadata["page_count"] = properties.page_count
        if limit.is_reached:
            metadata["truncated"] = True
        return ConvertedDocument(properties.to_html(html), metadata=metadata)

    def _blocks(self, container: XmlElement | None, part: str) -> Iterator[Block]:
        for element in container.iterchildren() if container is not None else ():
            name = local_name(element)
            if name == "p":
                yield from self._paragraph(element, part)
            elif name == "tbl":
                yield self._table(element, part)
            elif name in _WRAPPERS:
                yield from self._blocks(element, part)
            elif name == "AlternateContent":
                yield from self._blocks(_alternative(element), part)
            elif name in {"oMathPara", "oMath"}:
                yield math_to_html(element, is_block=True)

    def _paragraph(self, element: XmlElement, part: str) -> Iterator[Block]:
        paragraph = _Paragraph(part)
        self._inline(element, paragraph, None)
        html = write_spans(paragraph.spans).strip()
        if html or value_of(element, "pPr", "pStyle") is not None:
            yield from self._styled(element, html, "".join(paragraph.plain_text))
        yield from paragraph.blocks

    def _styled(self, element: XmlElement, html: str, text: str) -> Iterator[Block]:
        """Yield a paragraph as its style requires."""
        properties = child(element, "pPr")
        style = self._styles[value_of(properties, "pStyle")]
        if style.is_code:
            yield from map(CodeLine, text.split("\n"))
            return
        outline = value_of(properties, "outlineLvl")
        level = style.heading if outline is None else heading_level(outline)
        if not html:
            return
        list_id = value_of(properties, "numPr", "numId") or style.list_id
        if level:
            yield write_heading(level, html)
        elif list_id not in {None, "0"}:
            list_level = to_int(value_of(properties, "numPr", "ilvl"), style.list_level)
            has_sign, number = self._numbering.next_item(list_id or "", list_level)
            yield ListItem(html, list_level, number, continues=not has_sign)
        elif style.is_quote:
            yield f"<blockquote><p>{html}</p></blockquote>"
        else:
            yield f"<p>{html}</p>"

    def _inline(self, container: XmlElement, paragraph: _Paragraph, href: str | None) -> None:
        for element in container.iterchildren():
            name = local_name(element)
            if name == "r":
                self._run(element, paragraph, href)
            elif name == "hyperlink":
                identifier = relationship_id(element)
                target = self._package.external_target(paragraph.part, identifier)
                self._inline(element, paragraph, target or href)
            elif name in _WRAPPERS:
                code = attribute(element, "instr") if name == "fldSimple" else None
                self._inline(element, paragraph, _link_of(code or "") or href)
            elif name == "AlternateContent":
                self._inline(_alternative(element), paragraph, href)
            elif name in {"oMath", "oMathPara"}:
                html = math_to_html(element, is_block=name == "oMathPara")
                paragraph.spans.append(TextSpan(html))

    def _run(self, run: XmlElement, paragraph: _Paragraph, href: str | None) -> None:
        properties = child(run, "rPr")
        if is_on(properties, "vanish"):
            return
        tags = run_tags(properties) | self._styles[value_of(properties, "rStyle")].tags
        self._run_content(run, paragraph, tags, href)

    def _run_content(
        self, run: XmlElement, paragraph: _Paragraph, tags: frozenset[str], href: str | None
    ) -> None:
        for element in run.iterchildren():
            name = local_name(element)
            if name == "fldChar":
                self._field_mark(attribute(element, "fldCharType"))
            elif name == "instrText":
                if self._fields:
                    self._fields[-1].code += element.text or ""
            elif name == "AlternateContent":
                self._run_content(_alternative(element), paragraph, tags, href)
            elif name in {"drawing", "pict", "object"}:
                self._drawing(element, paragraph, href)
            elif name in {"footnoteReference", "endnoteReference"}:
                self._reference(element, name, paragraph)
            elif name == "ruby":
                base, reading = (
                    "".join(text_below(part) for part in children(element, part_name))
                    for part_name in ("rubyBase", "rt")
                )
                html = f"<ruby>{write_text(base)}<rt>{write_text(reading)}</rt></ruby>"
                paragraph.spans.append(TextSpan(html, tags, href))
                paragraph.plain_text.append(f"{base}({reading})")
            elif text := _text(element, name):
                link = href or next((each.href for each in self._fields if each.href), None)
                paragraph.spans.append(TextSpan(write_text(text), tags, link))
                paragraph.plain_text.append(text)

    def _field_mark(self, kind: str | None) -> None:
        if kind == "begin" and len(self._fields) < _MAX_OPEN_FIELDS:
            self._fields.append(_Field())
        elif kind == "separate" and self._fields:
            self._fields[-1].href = _link_of(self._fields[-1].code)
        elif kind == "end" and self._fields:
            self._fields.pop()

    def _drawing(self, element: XmlElement, paragraph: _Paragraph, href: str | None) -> None:
        """Add a picture, or the text boxes of a drawing."""
        boxes = list(_text_boxes(element))
        for box in boxes:
            paragraph.blocks += self._blocks(box, paragraph.part)
        picture = next(descendants(element, "blip", "imagedata"), None)
        if picture is None or boxes:
            return
        identifiers = (relationship_id(picture, name) for name in ("embed", "link", "id"))
        identifier = next(filter(None, identifiers), None)
        source = self._package.image_source(paragraph.part, identifier)
        paragraph.spans.append(TextSpan(write_image(source, _description(element)), href=href))

    def _reference(self, element: XmlElement, name: str, paragraph: _Paragraph) -> None:
        kind = name.removesuffix("Reference")
        html = self._footnotes.refer(f"{kind}:{attribute(element, 'id')}")
        paragraph.spans.append(TextSpan(html))

    def _read_note(self, key: str) -> str:
        kind, _, identifier = key.partition(":")
        part = next(iter(self._package.related_parts(self._main, f"{kind}s")), "")
        if kind not in self._notes:
            notes = children(self._package.read(part), kind)
            self._notes[kind] = {attribute(note, "id") or "": note for note in notes}
        return write_blocks(self._blocks(self._notes[kind].get(identifier), part))

    def _table(self, table: XmlElement, part: str) -> str:
        rows = [self._row(row, part) for row in _table_parts(table, "tr")]
        return write_table(merge_downwards(rows))

    def _row(self, row: XmlElement, part: str) -> list[tuple[Cell, bool]]:
        properties = child(row, "trPr")
        if child(properties, "del") is not None:
            return []
        is_header = is_on(properties, "tblHeader")
        column = to_int(value_of(properties, "gridBefore"))
        cells = []
        for element in _table_parts(row, "tc"):
            width = max(1, to_int(value_of(element, "tcPr", "gridSpan"), 1))
            merge = child(element, "tcPr", "vMerge")
            continues = merge is not None and attribute(merge, "val") in {None, "continue"}
            blocks = [] if continues else list(self._blocks(element, part))
            cells.append((Cell(column, blocks, width, is_header=is_header), continues))
            column += width
        return cells


def _text(element: XmlElement, name: str) -> str:
    """Return the text of a part of a run."""
    if name == "t":
        return element.text or ""
    if name == "br":
        return "" if attribute(element, "type") in {"page", "column"} else "\n"
    return _CHARACTERS.get(name, "")


def _link_of(code: str) -> str | None:
    """Return the URL in the code of a field; None for other fields and links in the document."""
    match = _HYPERLINK.match(code)
    return (match[1] or match[2]) if match else None


def _alternative(element: XmlElement) -> XmlElement:
    """Return the alternative of a part that newer programs show; they mean the same."""
    choices = (child(element, name) for name in ("Choice", "Fallback"))
    return next((choice for choice in choices if choice is not None), element)


def _text_boxes(element: XmlElement) -> Iterator[XmlElement]:
    """Yield the text boxes of a drawing, without those inside of others."""
    for inner in element.iterchildren():
        if local_name(inner) == "txbxContent":
            yield inner
        elif local_name(inner) == "AlternateContent":
            yield from _text_boxes(_alternative(inner))
        else:
            yield from _text_boxes(inner)


def _description(drawing: XmlElement) -> str | None:
    """Return the alternative text of a picture."""
    described = next(descendants(drawing, "docPr", "shape"), None)
    texts = (attribute(described, name) for name in ("descr", "alt", "title"))
    return next(filter(None, texts), None)


def _table_parts(parent: XmlElement, name: str) -> Iterator[XmlElement]:
    """Yield the rows or the cells of a table, also those in content controls."""
    for element in parent.iterchildren():
        if local_name(element) == name:
            yield element
        elif local_name(element) in _WRAPPERS:
            yield from _table_parts(element, name)
