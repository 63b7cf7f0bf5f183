"""Which part of a page is its content: all of it, its main content, or what was asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from webdata_nb.service.content.hidden_elements import clean, make_absolute
from webdata_nb.service.content.links import Anchors, Links, anchors_of
from webdata_nb.service.content.main_content import main_content
from webdata_nb.service.content.parser import body_of, by_tag, drop_all, element
from webdata_nb.service.content.tags import READ

if TYPE_CHECKING:
    from webdata_nb.service.content.parsed_page import Reading
    from webdata_nb.service.content.parser import Document, Element
    from webdata_nb.service.content.source import ScrapeOptions

MOST_LINKS = 100_000
"""Links of a page beyond which its main content is not searched: it is a list, or a trap."""


@dataclass(frozen=True, slots=True)
class Content:
    """A part of a page, cleaned, the targets of its links absolute.

    Attributes
    ----------
    element
        The element that holds it.
    rung
        How it was found: ``"article"``, ``"main"`` or ``"full"`` by the search for the main
        content, ``"page"`` when the whole page was wanted, ``"selected"`` by `include_tags`.
    parts
        Its elements that formats look at, by tag; some may have been dropped since.
    anchors
        Its links, as they were before cleaning, without the marks by which headings are linked.
    """

    element: Element
    rung: str
    parts: dict[str, list[Element]]
    anchors: Anchors


def find_content(
    reading: Reading, document: Document, options: ScrapeOptions, *, main: bool
) -> Content:
    """Find the content of a page and clean it; the tree is pruned.

    Parameters
    ----------
    reading
        The page.
    document
        Its tree, or a copy of that.
    options
        Whose `include_tags` and `exclude_tags` say what may be content.
    main
        Look for the main content; False takes the whole page.
    """
    for selector in options.exclude_tags:
        drop_all(document.select(selector))
    if options.include_tags:
        content = _survey(_selected(document, options.include_tags), "selected", reading.links)
    elif main and len(reading.anchors) > MOST_LINKS:
        content = replace(_whole(reading, document), rung="full")
    elif main:
        found = main_content(document)
        content = _survey(found.element, found.rung, reading.links)
    else:
        content = _whole(reading, document)
    marks = clean(content.element, content.parts, content.anchors)
    anchors = content.anchors.without(marks)
    make_absolute(anchors)
    return Content(content.element, content.rung, content.parts, anchors)


def _whole(reading: Reading, document: Document) -> Content:
    """Take the page as it is; what is known of its tree need not be looked for again."""
    body = body_of(document) or element("body")
    if document is reading.document:
        return Content(body, "page", reading.parts, reading.anchors)
    return _survey(body, "page", reading.links)


def _survey(content: Element, rung: str, links: Links) -> Content:
    parts = by_tag(content, READ)
    return Content(content, rung, parts, anchors_of(parts.get("a", ()), links))


def _selected(document: Document, selectors: tuple[str, ...]) -> Element:
    """Gather what `include_tags` match, outermost elements only, in document order."""
    selector = ",".join(selectors)
    matches = document.select(selector)
    return element(
        "div",
        [each for each in matches if each.parent is None or each.parent.closest(selector) is None],
    )
