"""Selects the content of a page (main content, CSS selection or whole page) and cleans it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from webdata_nb.service.content.hidden_elements import (
    find_permalinks,
    make_links_absolute,
    remove_hidden_elements,
)
from webdata_nb.service.content.links import AnchorTable, LinkResolver, read_anchors
from webdata_nb.service.content.main_content import extract_main_content
from webdata_nb.service.content.parser import body_of, group_by_tag, make_element, remove_all
from webdata_nb.service.content.tags import INDEXED

if TYPE_CHECKING:
    from webdata_nb.service.content.page_source import ConversionOptions
    from webdata_nb.service.content.parsed_page import ParsedPage
    from webdata_nb.service.content.parser import Document, Element

MAX_LINKS_SEARCHED = 100_000
"""A page with more links is a list or a crawler trap: its main content is not searched."""


@dataclass(frozen=True, slots=True)
class PageContent:
    """The selected part of a page, without hidden elements and with absolute links.

    Attributes
    ----------
    element
        The root element of the content.
    rung
        How it was selected: ``"article"``, ``"main"`` or ``"full"`` by main-content extraction,
        ``"page"`` for the whole page, ``"selected"`` by `include_tags`.
    elements_by_tag
        Its elements with a tag of ``tags.INDEXED``; some may have left the tree since.
    anchors
        Its links, read before cleaning, without the permalinks of headings.
    """

    element: Element
    rung: str
    elements_by_tag: dict[str, list[Element]]
    anchors: AnchorTable


def find_content(
    page: ParsedPage, document: Document, options: ConversionOptions, *, main: bool
) -> PageContent:
    """Select the content of a page and clean it. This changes the tree.

    Parameters
    ----------
    page
        The page.
    document
        Its tree, or a copy of it.
    options
        Only `include_tags` and `exclude_tags` are read.
    main
        Search the main content; False takes the whole page.
    """
    for selector in options.exclude_tags:
        remove_all(document.select(selector))
    if options.include_tags:
        selection = _select(document, options.include_tags)
        content = _index(selection, "selected", page.link_resolver)
    elif main and len(page.anchors) > MAX_LINKS_SEARCHED:
        content = replace(_whole_page(page, document), rung="full")
    elif main:
        result = extract_main_content(document)
        content = _index(result.element, result.rung, page.link_resolver)
    else:
        content = _whole_page(page, document)
    return _clean(content)


def _whole_page(page: ParsedPage, document: Document) -> PageContent:
    body = body_of(document) or make_element("body")
    if document is page.document:  # already indexed
        return PageContent(body, "page", page.elements_by_tag, page.anchors)
    return _index(body, "page", page.link_resolver)


def _index(element: Element, rung: str, link_resolver: LinkResolver) -> PageContent:
    elements_by_tag = group_by_tag(element, INDEXED)
    anchors = read_anchors(elements_by_tag.get("a", ()), link_resolver)
    return PageContent(element, rung, elements_by_tag, anchors)


def _clean(content: PageContent) -> PageContent:
    permalinks = find_permalinks(content.anchors)
    remove_hidden_elements(content.element, content.elements_by_tag)
    remove_all(content.anchors.elements[index] for index in permalinks)
    anchors = content.anchors.without(permalinks)
    make_links_absolute(anchors)
    return replace(content, anchors=anchors)


def _select(document: Document, selectors: tuple[str, ...]) -> Element:
    """Move the outermost elements that match `include_tags` into one element."""
    selector = ",".join(selectors)
    matches = document.select(selector)
    return make_element(
        "div",
        [
            match
            for match in matches
            if match.parent is None or match.parent.closest(selector) is None
        ],
    )
