"""Tables inside a page's Markdown or HTML, as rows of text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final

Grid = list[list[str]]

# A page may claim spans without end; no table that a person reads has more.
_WIDEST: Final = 500
_TALLEST: Final = 20_000
_DEEPEST: Final = 20
_RULE: Final = re.compile(r"\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")
_BAR: Final = re.compile(r"(?<!\\)\|")
_FENCE: Final = re.compile(r" {0,3}(```|~~~)")


@dataclass(slots=True)
class Table:
    """One table: its header, its rows, all of one width, and its caption if it has one."""

    header: list[str]
    rows: Grid
    caption: str = ""


# ------------------------------------------------------------------------------------- Markdown


def of_markdown(text: str) -> list[Table]:
    """Return the pipe tables of a Markdown text (GitHub's extension), in order."""
    found: list[Table] = []
    lines = text.splitlines()
    fenced, at = False, 0
    while at < len(lines):
        if _FENCE.match(lines[at]):
            fenced = not fenced
        if not fenced and at + 1 < len(lines) and _begins(lines[at], lines[at + 1]):
            end = _end(lines, at + 2)
            found.append(_piped(lines[at], lines[at + 2 : end]))
            at = end
        else:
            at += 1
    return found


def _begins(line: str, rule: str) -> bool:
    ruled = "-" in rule and _RULE.fullmatch(rule.strip()) is not None
    return "|" in line and ruled and len(_cells(line)) == len(_cells(rule))


def _end(lines: list[str], at: int) -> int:
    while at < len(lines) and lines[at].strip() and "|" in lines[at]:
        at += 1
    return at


def _piped(header: str, body: list[str]) -> Table:
    names = _cells(header)
    return Table(names, [_fitted(_cells(line), len(names)) for line in body])


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _BAR.split(inner)]


def _fitted(row: list[str], width: int) -> list[str]:
    return (row + [""] * width)[:width]


# ----------------------------------------------------------------------------------------- HTML


@dataclass(slots=True)
class _Cell:
    text: list[str]
    across: int
    down: int
    head: bool


@dataclass(slots=True)
class _Open:
    """A table that is being read."""

    rows: list[list[_Cell]] = field(default_factory=list)
    caption: list[str] = field(default_factory=list)
    cell: _Cell | None = None
    in_caption: bool = False


class _Reader(HTMLParser):
    """Collects the cells of every table, nested ones apart from those around them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[Table] = []
        self._open: list[_Open] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "style", "template"}:
            self._silent += 1
        elif tag == "table":
            if len(self._open) < _DEEPEST:
                self._open.append(_Open())
        elif self._open:
            self._inside(self._open[-1], tag, dict(attrs))

    @staticmethod
    def _inside(table: _Open, tag: str, attrs: dict[str, str | None]) -> None:
        if tag == "tr":
            table.cell = None
            table.rows.append([])
        elif tag in {"td", "th"} and len(table.rows) <= _TALLEST:
            if not table.rows:
                table.rows.append([])
            across, down = _span(attrs.get("colspan")), _span(attrs.get("rowspan"))
            table.cell = _Cell([], across, down, tag == "th")
            table.rows[-1].append(table.cell)
        elif tag == "caption":
            table.in_caption = True
        elif tag == "br" and table.cell is not None:
            table.cell.text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in {"script", "style", "template"}:
            self._silent = max(0, self._silent - 1)
        elif self._open:
            table = self._open[-1]
            if tag in {"td", "th"}:
                table.cell = None
            elif tag == "caption":
                table.in_caption = False
            elif tag == "table":
                self._close()

    def handle_data(self, data: str) -> None:
        if self._silent or not self._open:
            return
        table = self._open[-1]
        if table.in_caption:
            table.caption.append(data)
        elif table.cell is not None:
            table.cell.text.append(data)

    def close(self) -> None:
        super().close()
        while self._open:
            self._close()

    def _close(self) -> None:
        made = _whole(self._open.pop())
        if made is not None:
            self.found.append(made)


def of_html(text: str) -> list[Table]:
    """Return the tables of an HTML text; spans are filled, a nested table comes first."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.found


def _span(value: str | None) -> int:
    return min(max(int(value), 1), _WIDEST) if value and value.strip().isdecimal() else 1


def _whole(table: _Open) -> Table | None:
    """Return a table with its spans filled, or None where it has no cells."""
    grid = _filled(table.rows)
    width = max(map(len, grid), default=0)
    if not width:
        return None
    grid = [_fitted(row, width) for row in grid]
    headed = bool(table.rows[0]) and all(cell.head for cell in table.rows[0])
    header = grid[0] if headed else [f"column {number}" for number in range(1, width + 1)]
    return Table(header, grid[1:] if headed else grid, _joined(table.caption))


def _filled(rows: list[list[_Cell]]) -> Grid:
    grid: Grid = []
    hanging: dict[int, tuple[int, str]] = {}  # by column: how many more rows, and the text
    for cells in rows:
        row: list[str] = []
        left = iter(cells)
        below: dict[int, tuple[int, str]] = {}
        while len(row) < _WIDEST:
            column = len(row)
            if column in hanging:
                more, text = hanging[column]
                row.append(text)
                if more > 1:
                    below[column] = (more - 1, text)
                continue
            cell = next(left, None)
            if cell is None:
                if not any(further > column for further in hanging):
                    break
                row.append("")
                continue
            text = _joined(cell.text)
            for place in range(column, min(column + cell.across, _WIDEST)):
                row.append(text)
                if cell.down > 1:
                    below[place] = (cell.down - 1, text)
        hanging = below
        grid.append(row)
    return grid


def _joined(pieces: list[str]) -> str:
    return " ".join("".join(pieces).split())
