"""Selects the content of a page (main content, CSS selection or whole page) and cleans it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.footnotes import append_footnotes, take_footnotes
from webdata_nb.page.content.formulas import mark_formulas
from webdata_nb.page.content.hidden_elements import (
    make_links_absolute,
    remove_hidden_elements,
    reveal_panels,
)
from webdata_nb.page.content.links import AnchorTable, read_anchors
from webdata_nb.page.content.main_content import extract_main_content
from webdata_nb.page.content.parser import (
    INDEXED,
    Element,
    Text,
    body_of,
    group_by_tag,
    make_element,
    nearest_ancestor,
    remove_all,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webdata_nb.page.content.footnotes import FootnoteSection
    from webdata_nb.page.content.page_source import ConversionOptions
    from webdata_nb.page.content.parsed_page import ParsedPage
    from webdata_nb.page.content.parser import Document

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
        elements_by_tag = group_by_tag(element, INDEXED)
        anchors = read_anchors(elements_by_tag.get("a", ()), page.link_resolver)
        content = PageContent(element, rung, elements_by_tag, anchors)
    return _clean(replace(content, is_fallback=is_fallback, footnotes=footnotes))


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


_BLOCK_CODE: Final = (
    'code[style*="white-space"]',
    'code[style*="display"]',
    'code[class*="block" i]',
    "code[data-lang]",
    "code[data-language]",
)
_BLOCK_STYLE: Final = re.compile(
    r"white-space\s*:\s*(?:pre(?!-line)|break-spaces)|display\s*:\s*(?:block|grid)"
)
_BLOCK_CLASS: Final = re.compile(r"(?:^|\s)(?:code[_-]?)?block(?=\s|$)", re.IGNORECASE)
_TEXT_BLOCKS: Final = (
    "div[data-lang]",
    "div[data-language]",
    'div[class^="code"]',
)
_CODE_CLASS: Final = re.compile(r"code|highlight|source|snippet", re.IGNORECASE)
_STRUCTURE: Final = "pre,code,p,div,ul,ol,dl,table,textarea,h1,h2,h3,h4,h5,h6,img"
_TABLES: Final = ('table[class*="highlight"]', 'table[class*="code" i]', "td.gutter")
_CODE_CELL: Final = re.compile(r"code", re.IGNORECASE)
_NUMBER_CELL: Final = re.compile(r"gutter|num|line-?no", re.IGNORECASE)
_LINES: Final = "div.line"
_MAX_ROWS: Final = 20_000


def mark_code_blocks(document: Document) -> None:
    """Turn code blocks of other elements into ``pre``.

    ``code`` that is styled as a block, ``div`` with the text of a program, and tables with one line
    of code per row or per element.
    """
    for table in document.select("code table"):
        _unwrap_code(table)
    for code in _matches(document, _BLOCK_CODE):
        if _is_block_code(code):
            code.tag = "pre"
    for element in _matches(document, _TEXT_BLOCKS):
        if _holds_program(element):
            element.tag = "pre"
    for element in _matches(document, _TABLES):
        grid = element if element.tag == "table" else nearest_ancestor(element, {"table"})
        if grid is not None and grid.parent is not None:
            _replace_table(grid)


def _matches(document: Document, selectors: Iterable[str]) -> Iterator[Element]:
    for selector in selectors:  # one by one: a selector of one tag costs next to nothing
        yield from document.select(selector)


def _unwrap_code(table: Element) -> None:
    """Remove ``code`` around a table of numbers and lines; a ``pre`` keeps it."""
    code = nearest_ancestor(table, {"code", "pre"})
    if code is not None and code.tag == "code" and nearest_ancestor(code, {"pre"}) is None:
        code.unwrap()


def _is_block_code(code: Element) -> bool:
    """Return whether ``code`` is shown as a block; its text is then without outer white space."""
    if nearest_ancestor(code, {"pre", "code", "table", "a"}) is not None:
        return False
    text = code.text
    has_lines = "\n" in text.strip() or code.select_one("br") is not None
    style = _BLOCK_STYLE.search(code.attr("style") or "")
    if not text.strip() or (style is None and not _is_block_class(code) and not has_lines):
        return False
    if style is not None and style[0].startswith("display") and not has_lines:
        return False
    _trim_start(code, keep_indentation=has_lines)
    return True


def _is_block_class(code: Element) -> bool:
    return _BLOCK_CLASS.search(code.attr("class") or "") is not None


def _trim_start(code: Element, *, keep_indentation: bool) -> None:
    for node in code.descendants:
        if type(node) is Text:
            text = node.data.lstrip()
            blank = node.data[: len(node.data) - len(text)]
            indentation = blank.rpartition("\n")[2] if keep_indentation else ""
            node.data = indentation + text
            if text:
                return


def _holds_program(element: Element) -> bool:
    """Return whether a ``div`` holds nothing but the text of a program."""
    classes = element.attr("class") or ""
    has_language = element.attr("data-lang") or element.attr("data-language")
    if not (_CODE_CLASS.search(classes) if has_language else _BLOCK_CLASS.search(classes)):
        return False
    text = element.text.strip()
    if not text or element.select_one(_STRUCTURE) is not None:
        return False
    return bool(has_language) or "\n" in text or element.select_one("br") is not None


def _replace_table(table: Element) -> None:
    """Replace a table of line numbers and lines by ``pre``."""
    if table.select_one("table,pre") is not None or nearest_ancestor(table, {"pre"}) is not None:
        return
    rows = table.select("tr")
    if not 0 < len(rows) <= _MAX_ROWS:
        return
    lines: list[str] = []
    for row in rows:
        cells = [cell for cell in row.children if isinstance(cell, Element)]
        code = [cell for cell in cells if _CODE_CELL.search(cell.attr("class") or "")]
        if len(code) != 1 or not all(_is_number(cell) for cell in cells if cell not in code):
            return
        lines += _lines_of(code[0])
    text = "\n".join(lines).replace("\xa0", " ")
    if text.strip():
        table.replace_with(make_element("pre", [Text(text)]))


def _is_number(cell: Element) -> bool:
    """Return whether a cell holds line numbers or nothing."""
    text = cell.text
    return not text.strip() or (
        not any(map(str.isalpha, text))
        and (_NUMBER_CELL.search(cell.attr("class") or "") is not None or text.strip().isdigit())
    )


def _lines_of(cell: Element) -> list[str]:
    lines = cell.select(_LINES) or [cell]
    return [line.text.strip("\n") for line in lines]
