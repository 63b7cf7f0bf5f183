"""Reads the tables of pages that are kept as HTML or Markdown texts."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from markdown_it import MarkdownIt

from webdata_nb.page.content.page_content import find_content
from webdata_nb.page.content.page_source import ConversionOptions, PageSource
from webdata_nb.page.content.parsed_page import parse_converted_page
from webdata_nb.page.content.parser import parse
from webdata_nb.page.content.tables import TableTexts, find_tables, table_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

_CODE_FENCE: Final = re.compile(r"[ >]{0,12}(`{3,}|~{3,})")
_DELIMITER_ROW: Final = re.compile(r"[\s>]*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_MARKS: Final = re.compile(r"[\s>]*(?:[-*+]|\d{1,9}[.)])?\s*")
_FOOTNOTE: Final = re.compile(r"(?<!\\)\[\^[^\]\s]{1,100}\]")


def html_tables(text: str, url: str) -> list[TableTexts]:
    """Return the tables of a page's HTML text, as it shows them without scripts."""
    source = PageSource(url, url, HTTPStatus.OK, None, b"", (), datetime.now(UTC))
    page = parse_converted_page(source, text, None)
    content = find_content(page, page.document, ConversionOptions(), main=False)
    return [table_texts(table) for _, table in find_tables(content.element)]


def markdown_tables(text: str) -> list[TableTexts]:
    """Return the tables of a Markdown text, an extension of GitHub's."""
    html = "".join(map(_parser().render, _table_blocks(text)))
    return [table_texts(table) for _, table in find_tables(parse(html))] if html else []


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def _table_blocks(text: str) -> Iterator[str]:
    """Yield the lines of each table, without the marks of a list or quotation around it."""
    lines = text.splitlines()
    fence, at = "", 0
    while at < len(lines):
        line = lines[at]
        mark = _CODE_FENCE.match(line)
        if fence:
            fence = "" if mark is not None and mark[1].startswith(fence) else fence
        elif mark is not None:
            fence = mark[1]
        elif "|" in line and at + 1 < len(lines) and _is_delimiter_row(lines[at + 1]):
            end = at + 2
            while end < len(lines) and "|" in lines[end]:
                end += 1
            block = "\n".join(_row(row) for row in lines[at:end])
            yield _FOOTNOTE.sub("", block) + "\n"
            at = end
            continue
        at += 1


def _is_delimiter_row(line: str) -> bool:
    return "-" in line and _DELIMITER_ROW.fullmatch(line) is not None


def _row(line: str) -> str:
    """Return a row without what stands before it in a list or quotation."""
    start = line.find("|")
    return line[start:] if _MARKS.fullmatch(line, 0, start) is not None else line
