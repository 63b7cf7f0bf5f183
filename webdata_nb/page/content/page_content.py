"""Selects the content of a page (main content, CSS selection or whole page) and cleans it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from webdata_nb.page.content.code_elements import mark_code_blocks
from webdata_nb.page.content.footnotes import append_footnotes, take_footnotes
from webdata_nb.page.content.formulas import mark_formulas
from webdata_nb.page.content.hidden_elements import (
    make_links_absolute,
    remove_hidden_elements,
    reveal_panels,
)
from webdata_nb.page.content.links import AnchorTable, LinkResolver, read_anchors
from webdata_nb.page.content.main_content import extract_main_content
from webdata_nb.page.content.parser import body_of, group_by_tag, make_element, remove_all
from webdata_nb.page.content.tags import INDEXED

if TYPE_CHECKING:
    from webdata_nb.page.content.footnotes import FootnoteSection
    from webdata_nb.page.content.page_source import ConversionOptions
    from webdata_nb.page.content.parsed_page import ParsedPage
    from webdata_nb.page.content.parser import Document, Element

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
    is_fallback
        Main-content extraction left next to nothing: this is the visible page.
    footnotes
        The footnotes at its end; None without any.
    """

    element: Element
    rung: str
    elements_by_tag: dict[str, list[Element]]
    anchors: AnchorTable
    is_fallback: bool = False
    footnotes: FootnoteSection | None = None


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
    reveal_panels(document)
    mark_formulas(document)
    mark_code_blocks(document)
    notes = take_footnotes(document, page.anchors)
    is_fallback = False
    if options.include_tags:
        element, rung = _select(document, options.include_tags), "selected"
    elif main and len(page.anchors) <= MAX_LINKS_SEARCHED:
        result = extract_main_content(document, page.head.json_ld)
        element, rung, is_fallback = result.element, result.rung, result.is_fallback
    else:
        element, rung = body_of(document) or make_element("body"), "full" if main else "page"
    footnotes = append_footnotes(element, notes, unreferenced=rung in {"full", "page"})
    if document is page.document and rung == "page" and footnotes is None:  # already indexed
        content = PageContent(element, rung, page.elements_by_tag, page.anchors)
    else:
        content = _index(element, rung, page.link_resolver)
    return _clean(replace(content, is_fallback=is_fallback, footnotes=footnotes))


def _index(element: Element, rung: str, link_resolver: LinkResolver) -> PageContent:
    elements_by_tag = group_by_tag(element, INDEXED)
    anchors = read_anchors(elements_by_tag.get("a", ()), link_resolver)
    return PageContent(element, rung, elements_by_tag, anchors)


def _clean(content: PageContent) -> PageContent:
    remove_hidden_elements(content.element, content.elements_by_tag)
    make_links_absolute(content.anchors)
    return content


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
