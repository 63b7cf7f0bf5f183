"""Converts Word documents (.docx) to HTML."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from webdata_nb.page.documents.archive import (
    DocumentArchive,
    OfficePackage,
    attribute,
    child,
    children,
    descendants,
    is_on,
    local_name,
    math_to_html,
    relationship_id,
    text_below,
    to_int,
    value_of,
)
from webdata_nb.page.documents.converted_document import (
    Block,
    Cell,
    CodeLine,
    ConvertedDocument,
    Footnotes,
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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.documents.archive import XmlElement

_MAX_BASES: Final = 20  # styles that are based on each other
_BODY_TEXT: Final = 9  # the outline level of a paragraph that is no heading
_HEADING: Final = re.compile(r"heading ([1-9])")
_LIST_STYLE: Final = re.compile(r"list (?:bullet|number|continue) ([2-9])")
_CODE: Final = re.compile(
    r"(?:source |verbatim |inline |html )?(?:code|verbatim|preformatted)(?: char| text)?"
)
_QUOTE: Final = frozenset({"quote", "intense quote", "block text", "quotations"})


@dataclass(frozen=True, slots=True)
class WordStyle:
    """A style with what it takes from the styles that it is based on.

    Attributes
    ----------
    heading
        The level of the heading, 0 for none.
    list_id, list_level
        The list that its paragraphs belong to; None without one.
    """

    heading: int = 0
    is_code: bool = False
    is_quote: bool = False
    list_id: str | None = None
    list_level: int = 0
    tags: frozenset[str] = frozenset()


class WordStyles:
    """The styles of a document by their ids."""

    def __init__(self, root: XmlElement | None) -> None:
        styles = children(root, "style")
        self._elements = {attribute(style, "styleId") or "": style for style in styles}
        self._styles: dict[str, WordStyle] = {}

    def __getitem__(self, style_id: str | None) -> WordStyle:
        key = style_id or ""
        if key in self._styles:
            return self._styles[key]
        chain: list[XmlElement] = []
        base: str | None = key
        while base in self._elements and len(chain) < _MAX_BASES:
            chain.append(self._elements[base])
            base = value_of(chain[-1], "basedOn")
        style = WordStyle()
        for element in reversed(chain):
            style = _apply(style, element, key)
        if chain and (value_of(chain[0], "name") or key).lower() == "title":
            # Not inherited: the styles of subtitles, authors and dates are based on this one.
            style = replace(style, heading=1)
        self._styles[key] = style
        return style

    def list_of(self, style_id: str) -> str | None:
        """Return the list of a numbering style."""
        return value_of(self._elements.get(style_id), "pPr", "numPr", "numId")


def _apply(style: WordStyle, element: XmlElement, style_id: str) -> WordStyle:
    """Return a style after the declarations of one style element."""
    name = (value_of(element, "name") or style_id).lower()
    properties = child(element, "pPr")
    outline = value_of(properties, "outlineLvl")
    heading = _HEADING.fullmatch(name)
    level = style.heading
    if heading is not None:
        level = int(heading[1])
    elif outline is not None:
        level = heading_level(outline)
    list_name = _LIST_STYLE.fullmatch(name)
    list_level = value_of(properties, "numPr", "ilvl")
    style = replace(
        style,
        heading=level,
        is_code=style.is_code or _CODE.fullmatch(name) is not None,
        is_quote=style.is_quote or name in _QUOTE,
        list_id=value_of(properties, "numPr", "numId") or style.list_id,
        list_level=to_int(list_level, int(list_name[1]) - 1 if list_name else style.list_level),
    )
    if attribute(element, "type") == "character":
        style = replace(style, tags=style.tags | run_tags(child(element, "rPr")))
        if style.is_code:
            style = replace(style, tags=style.tags | {"code"})
    return style


def heading_level(outline: str) -> int:
    """Return the level of a heading for an outline level, which counts from 0."""
    level = to_int(outline, _BODY_TEXT)
    return 0 if level >= _BODY_TEXT else level + 1


def run_tags(properties: XmlElement | None) -> frozenset[str]:
    """Return the HTML tags of the character formatting of a run."""
    tags = {tag for name, tag in (("b", "strong"), ("i", "em")) if is_on(properties, name)}
    if is_on(properties, "strike") or is_on(properties, "dstrike"):
        tags.add("s")
    position = value_of(properties, "vertAlign")
    if position in {"subscript", "superscript"}:
        tags.add(position[:3])
    return frozenset(tags)


@dataclass(frozen=True, slots=True)
class _ListLevel:
    number_format: str
    start: int
    has_sign: bool = True


class WordNumbering:
    """The lists of a document, and the numbers of their items."""

    def __init__(self, root: XmlElement | None, styles: WordStyles) -> None:
        self._styles = styles
        self._lists = {attribute(num, "numId") or "": num for num in children(root, "num")}
        self._definitions = {
            attribute(definition, "abstractNumId") or "": definition
            for definition in children(root, "abstractNum")
        }
        self._counts: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._started: set[str] = set()

    def next_item(self, list_id: str, level: int) -> tuple[bool, int | None]:
        """Return whether the next item of a list has a bullet or number, and its number.

        The number is None for a bullet.
        """
        definition_id = value_of(self._lists.get(list_id), "abstractNumId") or ""
        definition = self._definitions.get(definition_id)
        style_id = value_of(definition, "numStyleLink")
        if style_id is not None:  # the definition is that of a numbering style
            other_id = self._styles.list_of(style_id) or ""
            definition_id = value_of(self._lists.get(other_id), "abstractNumId") or ""
            definition = self._definitions.get(definition_id)
        if definition is None:
            return list_id in self._lists, None
        settings = _level_of(definition, level)
        if not settings.has_sign:
            return False, None
        counts = self._counts[definition_id]
        if list_id not in self._started:
            self._started.add(list_id)
            starts = {
                to_int(attribute(override, "ilvl")): value_of(override, "startOverride")
                for override in children(self._lists.get(list_id), "lvlOverride")
            }
            counts.update(
                (each, to_int(start, 1) - 1) for each, start in starts.items() if start is not None
            )
        counts[level] = counts.get(level, settings.start - 1) + 1
        for deeper in [each for each in counts if each > level]:
            del counts[deeper]
        return True, None if settings.number_format == "bullet" else max(0, counts[level])


def _level_of(definition: XmlElement, level: int) -> _ListLevel:
    for element in children(definition, "lvl"):
        if to_int(attribute(element, "ilvl")) == level:
            number_format = value_of(element, "numFmt") or "decimal"
            sign = value_of(element, "lvlText")
            has_sign = number_format != "none" and (sign is None or bool(sign.strip()))
            return _ListLevel(number_format, to_int(value_of(element, "start"), 1), has_sign)
    return _ListLevel("bullet", 1)


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


def convert_word(body: bytes) -> ConvertedDocument:
    """Convert a document.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``.
    """
    return _WordReader(OfficePackage(DocumentArchive(body))).convert()


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
        counts = {"page_count": properties.page_count} if properties.page_count else {}
        return properties.to_document(html, truncated=limit.is_reached, **counts)

    def _blocks(self, container: XmlElement | None, part: str) -> Iterator[Block]:
        for element in container.iterchildren() if container is not None else ():
            name = local_name(element)
            if name == "p":
                paragraph = _Paragraph(part)
                self._inline(element, paragraph, None)
                html = write_spans(paragraph.spans).strip()
                if html or value_of(element, "pPr", "pStyle") is not None:
                    yield from self._styled(element, html, "".join(paragraph.plain_text))
                yield from paragraph.blocks
            elif name == "tbl":
                rows = [self._row(row, part) for row in _table_parts(element, "tr")]
                yield write_table(merge_downwards(rows))
            elif name in _WRAPPERS:
                yield from self._blocks(element, part)
            elif name == "AlternateContent":
                yield from self._blocks(_alternative(element), part)
            elif name in {"oMathPara", "oMath"}:
                yield math_to_html(element, is_block=True)

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
                properties = child(element, "rPr")
                if not is_on(properties, "vanish"):
                    style = self._styles[value_of(properties, "rStyle")]
                    tags = run_tags(properties) | style.tags
                    self._run_content(element, paragraph, tags, href)
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

    def _run_content(
        self, run: XmlElement, paragraph: _Paragraph, tags: frozenset[str], href: str | None
    ) -> None:
        for element in run.iterchildren():
            name = local_name(element)
            if name == "fldChar":
                kind = attribute(element, "fldCharType")
                if kind == "begin" and len(self._fields) < _MAX_OPEN_FIELDS:
                    self._fields.append(_Field())
                elif kind == "separate" and self._fields:
                    self._fields[-1].href = _link_of(self._fields[-1].code)
                elif kind == "end" and self._fields:
                    self._fields.pop()
            elif name == "instrText":
                if self._fields:
                    self._fields[-1].code += element.text or ""
            elif name == "AlternateContent":
                self._run_content(_alternative(element), paragraph, tags, href)
            elif name in {"drawing", "pict", "object"}:
                self._drawing(element, paragraph, href)
            elif name in {"footnoteReference", "endnoteReference"}:
                key = f"{name.removesuffix('Reference')}:{attribute(element, 'id')}"
                paragraph.spans.append(TextSpan(self._footnotes.refer(key)))
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
        described = next(descendants(element, "docPr", "shape"), None)
        texts = (attribute(described, name) for name in ("descr", "alt", "title"))
        image = write_image(source, next(filter(None, texts), None))
        paragraph.spans.append(TextSpan(image, href=href))

    def _read_note(self, key: str) -> str:
        kind, _, identifier = key.partition(":")
        part = next(iter(self._package.related_parts(self._main, f"{kind}s")), "")
        if kind not in self._notes:
            notes = children(self._package.read(part), kind)
            self._notes[kind] = {attribute(note, "id") or "": note for note in notes}
        return write_blocks(self._blocks(self._notes[kind].get(identifier), part))

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


def _table_parts(parent: XmlElement, name: str) -> Iterator[XmlElement]:
    """Yield the rows or the cells of a table, also those in content controls."""
    for element in parent.iterchildren():
        if local_name(element) == name:
            yield element
        elif local_name(element) in _WRAPPERS:
            yield from _table_parts(element, name)
