"""Marks code blocks as ``pre`` that a page builds from other elements."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.parser import Element, Text, make_element, nearest_ancestor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webdata_nb.page.content.parser import Document

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
