"""Converts PowerPoint presentations (.pptx) to HTML: a heading for each slide, and its notes."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.page.documents.converted_document import ConvertedDocument
from webdata_nb.page.documents.office.chart import chart_to_html
from webdata_nb.page.documents.office.drawing_text import DrawingText
from webdata_nb.page.documents.office.html_blocks import (
    Block,
    Cell,
    OutputLimit,
    write_blocks,
    write_image,
    write_table,
)
from webdata_nb.page.documents.office.package import OfficePackage
from webdata_nb.page.documents.office.xml_parts import (
    attribute,
    child,
    children,
    descendants,
    local_name,
    relationship_id,
    text_below,
    to_int,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.documents.office.archive import DocumentArchive
    from webdata_nb.page.documents.office.xml_parts import XmlElement

_MAIN_PART: Final = "ppt/presentation.xml"
_TITLES: Final = frozenset({"title", "ctrTitle"})
_FURNITURE: Final = frozenset({"sldNum", "dt", "ftr", "hdr", "sldImg"})
_OUTLINES: Final = frozenset({"body", "obj"})


def convert_presentation(archive: DocumentArchive) -> ConvertedDocument:
    """Convert a presentation; hidden slides are left out.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``.
    """
    package = OfficePackage(archive)
    main = package.main_part(_MAIN_PART)
    slides = [
        (number, part, slide)
        for number, part in enumerate(_slide_parts(package, main), 1)
        if (slide := package.read(part)) is not None
        and attribute(slide, "show") not in {"0", "false"}
    ]
    limit = OutputLimit()
    blocks = (
        block
        for number, part, slide in slides
        for block in _SlideReader(package, part).read(slide, number)
    )
    html = write_blocks(limit.take(blocks))
    metadata: dict[str, Any] = {"page_count": len(slides)}
    if limit.is_reached:
        metadata["truncated"] = True
    return ConvertedDocument(package.properties().to_html(html), metadata=metadata)


def _slide_parts(package: OfficePackage, main: str) -> list[str]:
    """Return the parts of the slides in their order."""
    relationships = package.relationships(main)
    identifiers = children(child(package.read(main), "sldIdLst"), "sldId")
    slides = (relationships.get(relationship_id(each) or "") for each in identifiers)
    return [slide.target for slide in slides if slide is not None]


class _SlideReader:
    """Reads one slide."""

    def __init__(self, package: OfficePackage, part: str) -> None:
        self._package, self._part = package, part
        self._text = DrawingText(package, part)

    def read(self, slide: XmlElement, number: int) -> Iterator[Block]:
        shapes = list(_shapes(child(slide, "cSld", "spTree")))
        title = next((shape for shape in shapes if _placeholder(shape) in _TITLES), None)
        heading = text_below_lines(title) or f"Slide {number}"
        yield f"<h2>{escape(heading)}</h2>"
        for shape in shapes:
            if shape is not title and _placeholder(shape) not in _FURNITURE:
                yield from self._shape(shape)
        yield from self._notes()

    def _shape(self, shape: XmlElement) -> Iterator[Block]:
        name = local_name(shape)
        if name == "sp":
            is_outline = _placeholder(shape) in _OUTLINES
            yield from self._text.blocks(child(shape, "txBody"), is_outline=is_outline)
        elif name == "pic":
            yield self._picture(shape)
        elif name == "graphicFrame":
            yield from self._graphic(shape)

    def _picture(self, shape: XmlElement) -> str:
        described = child(shape, "nvPicPr", "cNvPr")
        blip = child(shape, "blipFill", "blip")
        identifier = None
        if blip is not None:
            identifier = relationship_id(blip, "embed") or relationship_id(blip, "link")
        source = self._package.image_source(self._part, identifier)
        image = write_image(source, attribute(described, "descr"))
        return f"<p>{image}</p>" if image else ""

    def _graphic(self, frame: XmlElement) -> Iterator[Block]:
        """Yield a table, a chart or the texts of a diagram."""
        data = child(frame, "graphic", "graphicData")
        for element in data.iterchildren() if data is not None else ():
            name = local_name(element)
            if name == "tbl":
                yield write_table(self._row(row) for row in children(element, "tr"))
            elif name == "chart":
                yield chart_to_html(self._related(relationship_id(element)))
            elif name == "relIds":
                root = self._related(relationship_id(element, "dm"))
                for point in children(child(root, "ptLst"), "pt"):
                    yield from self._text.blocks(child(point, "t"), is_outline=True)

    def _row(self, row: XmlElement) -> list[Cell]:
        cells = []
        for column, element in enumerate(children(row, "tc")):
            if attribute(element, "hMerge") in {"1", "true"} or attribute(element, "vMerge") in {
                "1",
                "true",
            }:
                continue
            blocks = list(self._text.blocks(child(element, "txBody"), is_outline=False))
            width = max(1, to_int(attribute(element, "gridSpan"), 1))
            height = max(1, to_int(attribute(element, "rowSpan"), 1))
            cells.append(Cell(column, blocks, width, height))
        return cells

    def _notes(self) -> Iterator[Block]:
        part = next(iter(self._package.related_parts(self._part, "notesSlide")), None)
        tree = child(self._package.read(part), "cSld", "spTree")
        for shape in _shapes(tree):
            if part is not None and _placeholder(shape) == "body" and text_below(shape):
                yield "<h3>Notes</h3>"
                text = DrawingText(self._package, part)
                yield from text.blocks(child(shape, "txBody"), is_outline=False)

    def _related(self, identifier: str | None) -> XmlElement | None:
        relationship = self._package.relationships(self._part).get(identifier or "")
        if relationship is None or relationship.is_external:
            return None
        return self._package.read(relationship.target)


def _shapes(tree: XmlElement | None) -> Iterator[XmlElement]:
    """Yield the shapes of a slide in their order, also those in groups."""
    for element in tree.iterchildren() if tree is not None else ():
        name = local_name(element)
        if name == "grpSp":
            yield from _shapes(element)
        elif name == "AlternateContent":
            yield from _shapes(next(children(element, "Choice", "Fallback"), None))
        elif name in {"sp", "pic", "graphicFrame"} and not _is_hidden(element):
            yield element


def _is_hidden(shape: XmlElement) -> bool:
    properties = next(descendants(shape, "cNvPr"), None)
    return attribute(properties, "hidden") in {"1", "true"}


def _placeholder(shape: XmlElement) -> str | None:
    """Return the type of a placeholder; None for other shapes."""
    for properties in children(shape, "nvSpPr", "nvPicPr", "nvGraphicFramePr"):
        placeholder = child(properties, "nvPr", "ph")
        if placeholder is not None:
            return attribute(placeholder, "type") or "obj"
    return None


def text_below_lines(shape: XmlElement | None) -> str:
    """Return the text of a shape in one line; paragraphs and line breaks become spaces."""
    parts = descendants(shape, "t", "br", "p")
    return " ".join(
        "".join(part.text or "" if local_name(part) == "t" else " " for part in parts).split()
    )
