"""Makes the links of a Markdown text absolute without changing anything else."""

from __future__ import annotations

import re
from bisect import bisect_right
from html import escape, unescape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from markdown_it.token import Token

_HTML_ATTRIBUTE = re.compile(r"""\s(?:href|src)\s*+=\s*+(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_DEFINITION = re.compile(r"\]:\s*+(<[^<>\n]*>|[^\s<]\S*)")
_HAS_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_NEEDS_BRACKETS = re.compile(r"[()\s]")


class _Edit(NamedTuple):
    """A part of a line, and what replaces it."""

    start: int
    end: int
    replacement: str


class LinkRewriter:
    """Collects the relative links of one document while it is parsed, and replaces them.

    A parser reads blocks without the indentation and the marks of quotes and lists, so a position
    in a block is looked up in the line that it comes from.

    Parameters
    ----------
    text
        The document, with line feeds as line ends.
    resolve
        Returns the absolute URL of a link; None for links without one.
    """

    def __init__(self, text: str, resolve: Callable[[str], str | None]) -> None:
        self._lines = text.split("\n")
        self._resolve = resolve
        self._edits: dict[int, set[_Edit]] = {}
        # The inline token in progress: its first line, the offsets of its lines in its text, and
        # the column of each in the document.
        self._first_line = 0
        self._content = ""
        self._offsets: list[int] = []
        self._columns: dict[int, int] = {}
        # Where the next cell of a table row begins at the earliest.
        self._row_ends: dict[int, int] = {}
        self.children: list[Token] | None = None

    def begin(self, token: Token) -> None:
        """Prepare for the links of an inline token."""
        self.children, self._content = token.children, token.content
        self._first_line = token.map[0] if token.map else 0
        self._offsets, self._columns = [], {}
        if "\n" not in token.content:
            earliest = self._row_ends.get(self._first_line, 0)
            column = self._lines[self._first_line].find(token.content, earliest)
            self._columns[0] = column
            if column >= 0:
                self._row_ends[self._first_line] = column + len(token.content)

    def add_destination(self, start: int, end: int, href: str) -> None:
        """Replace the destination of a link between two positions of the inline token."""
        self._replace_inline(start, end, self._markdown_url(href))

    def add_html(self, start: int, end: int) -> None:
        """Replace the URLs in a tag of HTML between two positions of the inline token."""
        for match in _HTML_ATTRIBUTE.finditer(self._content, start, end):
            group = match.lastindex or 1
            self._replace_inline(*match.span(group), self._html_url(match[group]))

    def add_html_block(self, first_line: int, end_line: int) -> None:
        """Replace the URLs in a block of HTML."""
        for number in range(first_line, min(end_line, len(self._lines))):
            for match in _HTML_ATTRIBUTE.finditer(self._lines[number]):
                group = match.lastindex or 1
                self._replace(number, *match.span(group), self._html_url(match[group]))

    def add_definition(self, first_line: int, end_line: int, href: str) -> None:
        """Replace the destination of the reference definition in some lines."""
        lines = self._lines[first_line:end_line]
        match = _DEFINITION.search("\n".join(lines))
        if match is None:
            return
        before = match.string[: match.start(1)]
        row, column = before.count("\n"), match.start(1) - (before.rfind("\n") + 1)
        url = self._markdown_url(href)
        self._replace(first_line + row, column, column + len(match[1]), url)

    def rewritten_text(self) -> str:
        """Return the document with absolute links."""
        lines = list(self._lines)
        for number, edits in self._edits.items():
            lines[number] = "".join(_edited(lines[number], sorted(edits)))
        return "\n".join(lines)

    def _markdown_url(self, href: str) -> str | None:
        url = self._absolute(href)
        return f"<{url}>" if url is not None and _NEEDS_BRACKETS.search(url) else url

    def _html_url(self, attribute: str) -> str | None:
        url = self._absolute(unescape(attribute).strip())
        return None if url is None else escape(url)

    def _absolute(self, href: str) -> str | None:
        """Return the absolute URL of a relative link; None for others, which stay as they are."""
        return None if not href or _HAS_SCHEME.match(href) else self._resolve(href)

    def _replace_inline(self, start: int, end: int, replacement: str | None) -> None:
        if replacement is None:
            return
        if not self._offsets:
            self._offsets = _line_offsets(self._content)
        row = bisect_right(self._offsets, start) - 1
        number = self._first_line + row
        if number >= len(self._lines):
            return
        line, written = self._lines[number], self._content[start:end]
        column = self._column(row)
        position = -1 if column < 0 else column + start - self._offsets[row]
        if line[position : position + len(written)] != written or position < 0:
            # The parser changed the line: it replaced tabs, or escapes in a cell.
            position = line.find(f"({written}") + 1
        if position > 0:
            self._replace(number, position, position + len(written), replacement)

    def _column(self, row: int) -> int:
        """Return where a line of the inline token begins in its line of the document."""
        if row not in self._columns:
            ends = [*self._offsets[row + 1 : row + 2], len(self._content) + 1]
            content = self._content[self._offsets[row] : ends[0] - 1]
            self._columns[row] = self._lines[self._first_line + row].find(content)
        return self._columns[row]

    def _replace(self, number: int, start: int, end: int, replacement: str | None) -> None:
        if replacement is not None:
            self._edits.setdefault(number, set()).add(_Edit(start, end, replacement))


def _edited(line: str, edits: list[_Edit]) -> Iterator[str]:
    position = 0
    for start, end, replacement in edits:
        yield line[position:start]
        yield replacement
        position = end
    yield line[position:]


def _line_offsets(text: str) -> list[int]:
    offsets = [0]
    while position := text.find("\n", offsets[-1]) + 1:
        offsets.append(position)
    return offsets
