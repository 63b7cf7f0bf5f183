"""Reads the text bodies of shapes (DrawingML)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webdata_nb.page.documents.office.html_blocks import (
    Block,
    ListItem,
    TextSpan,
    write_spans,
    write_text,
)
from webdata_nb.page.documents.office.office_math import math_to_html
from webdata_nb.page.documents.office.xml_parts import (
    attribute,
    child,
    children,
    descendants,
    local_name,
    relationship_id,
    to_int,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.documents.office.package import OfficePackage
    from webdata_nb.page.documents.office.xml_parts import XmlElement

_ON: Final = frozenset({"1", "true"})


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
        return TextSpan(html, _tags(properties), href)


def _tags(properties: XmlElement | None) -> frozenset[str]:
    tags = {
        tag for name, tag in (("b", "strong"), ("i", "em")) if attribute(properties, name) in _ON
    }
    if attribute(properties, "strike") in {"sngStrike", "dblStrike"}:
        tags.add("s")
    baseline = to_int((attribute(properties, "baseline") or "").removesuffix("%"))
    if baseline:
        tags.add("sup" if baseline > 0 else "sub")
    return frozenset(tags)


def _bullet(properties: XmlElement | None, *, is_outline: bool) -> str:
    """Return ``none``, ``bullet`` or ``number``."""
    if child(properties, "buNone") is not None:
        return "none"
    if child(properties, "buAutoNum") is not None:
        return "number"
    if is_outline or any(True for _ in children(properties, "buChar", "buBlip")):
        return "bullet"
    return "none"
