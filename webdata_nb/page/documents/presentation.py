"""Converts PowerPoint presentations (.pptx) to HTML: a heading for each slide, and its notes."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from webdata_nb.page.documents.archive import (
    DocumentArchive,
    OfficePackage,
    attribute,
    child,
    children,
    descendants,
    local_name,
    math_to_html,
    relationship_id,
    text_below,
    to_int,
)
from webdata_nb.page.documents.converted_document import (
    Block,
    Cell,
    ConvertedDocument,
    ListItem,
    OutputLimit,
    TextSpan,
    write_blocks,
    write_image,
    write_spans,
    write_table,
    write_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.documents.archive import XmlElement

_MAIN_PART: Final = "ppt/presentation.xml"
_TITLES: Final = frozenset({"title", "ctrTitle"})
_FURNITURE: Final = frozenset({"sldNum", "dt", "ftr", "hdr", "sldImg"})
_OUTLINES: Final = frozenset({"body", "obj"})
_ON: Final = frozenset({"1", "true"})


def convert_presentation(body: bytes) -> ConvertedDocument:
    """Convert a presentation; hidden slides are left out.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``.
    """
    package = OfficePackage(DocumentArchive(body))
    main = package.main_part(_MAIN_PART)
    relationships = package.relationships(main)
    identifiers = children(child(package.read(main), "sldIdLst"), "sldId")
    related = (relationships.get(relationship_id(each) or "") for each in identifiers)
    parts = [slide.target for slide in related if slide is not None]
    slides = [
        (number, part, slide)
        for number, part in enumerate(parts, 1)
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
    properties = package.properties()
    return properties.to_document(html, truncated=limit.is_reached, page_count=len(slides))


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
                name = local_name(shape)
                if name == "sp":
                    is_outline = _placeholder(shape) in _OUTLINES
                    yield from self._text.blocks(child(shape, "txBody"), is_outline=is_outline)
                elif name == "pic":
                    described = child(shape, "nvPicPr", "cNvPr")
                    blip = child(shape, "blipFill", "blip")
                    identifier = None
                    if blip is not None:
                        identifier = relationship_id(blip, "embed") or relationship_id(blip, "link")
                    source = self._package.image_source(self._part, identifier)
                    image = write_image(source, attribute(described, "descr"))
                    yield (f"<p>{image}</p>" if image else "")
                elif name == "graphicFrame":
                    yield from self._graphic(shape)
        notes_part = next(iter(self._package.related_parts(self._part, "notesSlide")), None)
        tree = child(self._package.read(notes_part), "cSld", "spTree")
        for shape in _shapes(tree):
            if notes_part is not None and _placeholder(shape) == "body" and text_below(shape):
                yield "<h3>Notes</h3>"
                text = DrawingText(self._package, notes_part)
                yield from text.blocks(child(shape, "txBody"), is_outline=False)

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
            if attribute(element, "hMerge") in _ON or attribute(element, "vMerge") in _ON:
                continue
            blocks = list(self._text.blocks(child(element, "txBody"), is_outline=False))
            width = max(1, to_int(attribute(element, "gridSpan"), 1))
            height = max(1, to_int(attribute(element, "rowSpan"), 1))
            cells.append(Cell(column, blocks, width, height))
        return cells

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
        elif name in {"sp", "pic", "graphicFrame"}:
            properties = next(descendants(element, "cNvPr"), None)
            if attribute(properties, "hidden") not in _ON:
                yield element


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


class DrawingText:
    """Reads texts of one part, whose relationships have the targets of links."""

    def __init__(self, package: OfficePackage, part: str) -> None:
        self._package, self._part = package, part

    def blocks(self, body: XmlElement | None, *, is_outline: bool) -> Iterator[Block]:
        """Yield the paragraphs of a text body.

        Parameters
        ----------
        body
            The text body.
        is_outline
            Its paragraphs are list items unless they say otherwise; else the reverse.
        """
        paragraphs = [
            (paragraph, html)
            for paragraph in children(body, "p")
            if (html := self._inline(paragraph).strip())
        ]
        numbers: dict[int, int] = {}
        for paragraph, html in paragraphs:
            properties = child(paragraph, "pPr")
            level = to_int(attribute(properties, "lvl"))
            bullet = _bullet(properties, is_outline=is_outline and len(paragraphs) > 1)
            for deeper in [each for each in numbers if each > level or bullet != "number"]:
                del numbers[deeper]
            if bullet == "number":
                start = to_int(attribute(child(properties, "buAutoNum"), "startAt"), 1)
                numbers[level] = numbers.get(level, start - 1) + 1
            yield (
                f"<p>{html}</p>" if bullet == "none" else ListItem(html, level, numbers.get(level))
            )

    def _inline(self, paragraph: XmlElement) -> str:
        spans = []
        for element in paragraph.iterchildren():
            name = local_name(element)
            if name in {"r", "fld"}:
                spans.append(self._run(element))
            elif name == "br":
                spans.append(TextSpan("<br>"))
            elif name in {"m", "AlternateContent"}:
                formula = next(descendants(element, "oMath"), None)
                if formula is not None:
                    spans.append(TextSpan(math_to_html(formula, is_block=False)))
        return write_spans(spans)

    def _run(self, run: XmlElement) -> TextSpan:
        properties = child(run, "rPr")
        text = child(run, "t")
        link = child(properties, "hlinkClick")
        href = None
        if link is not None:
            href = self._package.external_target(self._part, relationship_id(link))
        html = write_text((text.text if text is not None else None) or "")
        tags = {
            tag
            for name, tag in (("b", "strong"), ("i", "em"))
            if attribute(properties, name) in _ON
        }
        if attribute(properties, "strike") in {"sngStrike", "dblStrike"}:
            tags.add("s")
        baseline = to_int((attribute(properties, "baseline") or "").removesuffix("%"))
        if baseline:
            tags.add("sup" if baseline > 0 else "sub")
        return TextSpan(html, frozenset(tags), href)


def _bullet(properties: XmlElement | None, *, is_outline: bool) -> str:
    """Return ``none``, ``bullet`` or ``number``."""
    if child(properties, "buNone") is not None:
        return "none"
    if child(properties, "buAutoNum") is not None:
        return "number"
    if is_outline or any(True for _ in children(properties, "buChar", "buBlip")):
        return "bullet"
    return "none"


MAX_POINTS: Final = 1000
MAX_SERIES: Final = 50


def chart_to_html(root: XmlElement | None) -> str:
    """Convert a chart; nothing for one without values."""
    chart = child(root, "chart")
    series = list(descendants(child(chart, "plotArea"), "ser"))[:MAX_SERIES]
    if not series:
        return ""
    title = "".join(text.text or "" for text in descendants(child(chart, "title"), "t"))
    heading = f"<p><strong>{escape(title.strip())}</strong></p>" if title.strip() else ""
    names = [
        (text_below(next(descendants(child(each, "tx"), "v"), None)) or f"Series {number}")
        for number, each in enumerate(series, 1)
    ]
    categories = _points(next(children(series[0], "cat", "xVal"), None))
    values = [_points(next(children(each, "val", "yVal"), None)) for each in series]
    indexes = sorted({index for points in (categories, *values) for index in points})
    rows = [["", *names]]
    rows += [
        [categories.get(index, ""), *(points.get(index, "") for points in values)]
        for index in indexes
    ]
    return heading + write_table(
        [Cell(column, [escape(text)]) for column, text in enumerate(row)] for row in rows
    )


def _points(data: XmlElement | None) -> dict[int, str]:
    """Return the cached values of an axis or a series by their indexes."""
    points: dict[int, str] = {}
    for point in descendants(data, "pt"):
        if len(points) == MAX_POINTS:
            break
        points.setdefault(to_int(attribute(point, "idx")), text_below(child(point, "v")))
    return points
