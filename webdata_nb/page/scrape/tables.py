"""Reads the tables of pages as plain text: of HTML and, later, of texts that were kept."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.page.content.main_content import find_content
from webdata_nb.page.content.page_source import ConversionOptions, PageSource
from webdata_nb.page.content.parsed_page import parse_converted_page
from webdata_nb.page.content.parser import Element, nearest_ancestor, parse
from webdata_nb.page.content.tables import (
    TableTexts,
    cell_text,
    child_elements,
    find_tables,
    table_texts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it import MarkdownIt

    from webdata_nb.page.content.parsed_page import ParsedPage
    from webdata_nb.page.content.tables import PageTable


TABLES: Final = "tables"
"""The key of the tables in the formats that `scrape` returns; no request can name it."""
MAX_TABLES = 200
MAX_CELLS = 20_000
"""Maximum cells of all tables of a page, including repeated ones."""
MAX_CELL_CHARACTERS = 500
"""Maximum characters of a cell; the rest is cut."""

_MAX_ANCESTORS = 64  # ancestors that are searched for an outer table
_PAIR = 2
_MAX_NAMES = 5  # names that share one value


def read_tables(page: ParsedPage) -> list[dict[str, Any]]:
    """Read the tables of the whole page, in document order.

    A table has `header`, the names of its columns (empty without a header), `rows`, lists of texts,
    and `totals`, the indexes of the rows that add up others. A definition list has an empty header
    and a row of two texts for each pair of name and value.
    """
    tables: list[dict[str, Any]] = []
    max_cells = MAX_CELLS
    for element, data in _tables_and_lists(page):
        if data is None:
            table = _read_definition_list(element, max_cells)
        else:
            table = _read_data(data, max_cells)
        if table["rows"]:
            tables.append(table)
            max_cells -= sum(len(row) for row in (table["header"], *table["rows"]))
        if len(tables) == MAX_TABLES or max_cells <= 0:
            break
    return tables


def _tables_and_lists(page: ParsedPage) -> Iterator[tuple[Element, PageTable | None]]:
    """Yield tables, and definition lists that contain no list or table, in document order."""
    data = dict(find_tables(page.document, lenient=True))
    number = 0
    for element in page.document.iter_elements({"table", "dl"}):
        if element.tag == "table":
            if (table := data.get(element)) is None:
                continue
            yield element, table
        elif element.select_one("dl,table") is None and not _is_in(element, data):
            yield element, None
        number += 1
        if number == 2 * MAX_TABLES:
            break


def _is_in(element: Element, tables: dict[Element, PageTable]) -> bool:
    table = nearest_ancestor(element, {"table"}, levels=_MAX_ANCESTORS)
    while table is not None and table not in tables:
        table = nearest_ancestor(table, {"table"}, levels=_MAX_ANCESTORS)
    return table is not None


def _read_data(table: PageTable, max_cells: int) -> dict[str, Any]:
    table.rows[max(0, max_cells // max(1, table.width)) :] = []
    texts = table_texts(table)
    rows = [[text[:MAX_CELL_CHARACTERS] for text in row] for row in texts.rows]
    data = {"header": texts.header, "rows": rows, "totals": texts.totals}
    if any(len(names) > 1 for names in table.header):
        data["inner_header"] = [cell_text(names[-1]) if names else "" for names in table.header]
    return data


def _read_definition_list(definitions: Element, max_cells: int) -> dict[str, Any]:
    """Read a definition list, also one with its pairs in ``div`` elements."""
    rows: list[list[str]] = []
    names: list[str] = []
    last_tag = ""
    for part in _terms(definitions):
        if len(rows) * _PAIR >= max_cells:
            break
        if part.tag == "dt":
            names = (
                [*names, cell_text(part)[:MAX_CELL_CHARACTERS]][-_MAX_NAMES:]
                if last_tag == "dt"
                else [cell_text(part)[:MAX_CELL_CHARACTERS]]
            )
        else:
            value = cell_text(part)[:MAX_CELL_CHARACTERS]
            rows += ([name, value] for name in names)
        last_tag = part.tag
    return {"header": [], "rows": rows, "totals": []}


def _terms(definitions: Element) -> Iterator[Element]:
    for element in child_elements(definitions, {"dt", "dd", "div"}):
        if element.tag == "div":
            yield from child_elements(element, {"dt", "dd"})
        else:
            yield element


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
    # Page workers read HTML, and load no parser of Markdown for it.
    from markdown_it import MarkdownIt  # noqa: PLC0415

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
