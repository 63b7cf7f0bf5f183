"""Which part of a page is its content: all of it, its main content, or what was asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from webdata_nb.service.content.hidden_elements import make_links_absolute, remove_hidden_elements
from webdata_nb.service.content.links import AnchorTable, LinkResolver, read_anchors
from webdata_nb.service.content.main_content import main_content
from webdata_nb.service.content.parser import body_of, group_by_tag, make_element, remove_all
from webdata_nb.service.content.tags import INDEXED

if TYPE_CHECKING:
    from webdata_nb.service.content.parsed_page import ParsedPage
    from webdata_nb.service.content.parser import Document, Element
    from webdata_nb.service.content.source import ConversionOptions

MAX_LINKS_SEARCHED = 100_000
"""Links of a page beyond which its main content is not searched: it is a list, or a trap."""


@dataclass(frozen=True, slots=True)
class PageContent:
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
    anchors: AnchorTable


def find_content(
    reading: ParsedPage, document: Document, options: ConversionOptions, *, main: bool
) -> PageContent:
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
        remove_all(document.select(selector))
    if options.include_tags:
        content = _survey(_selected(document, options.include_tags), "selected", reading.links)
    elif main and len(reading.anchors) > MAX_LINKS_SEARCHED:
        content = replace(_whole(reading, document), rung="full")
    elif main:
        found = main_content(document)
        content = _survey(found.element, found.rung, reading.links)
    else:
        content = _whole(reading, document)
    marks = remove_hidden_elements(content.element, content.parts, content.anchors)
    anchors = content.anchors.without(marks)
    make_links_absolute(anchors)
    return PageContent(content.element, content.rung, content.parts, anchors)


def _whole(reading: ParsedPage, document: Document) -> PageContent:
    """Take the page as it is; what is known of its tree need not be looked for again."""
    body = body_of(document) or make_element("body")
    if document is reading.document:
        return PageContent(body, "page", reading.parts, reading.anchors)
    return _survey(body, "page", reading.links)


def _survey(content: Element, rung: str, links: LinkResolver) -> PageContent:
    parts = group_by_tag(content, INDEXED)
    return PageContent(content, rung, parts, read_anchors(parts.get("a", ()), links))


def _selected(document: Document, selectors: tuple[str, ...]) -> Element:
    """Gather what `include_tags` match, outermost elements only, in document order."""
    selector = ",".join(selectors)
    matches = document.select(selector)
    return make_element(
        "div",
        [each for each in matches if each.parent is None or each.parent.closest(selector) is None],
    )
