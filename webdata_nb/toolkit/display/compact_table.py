"""Renders the first rows and the most useful columns of a result frame as a small HTML table."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from webdata_nb.toolkit.display import tables
from webdata_nb.toolkit.display.tables import PictureBudget, table_markup

MAX_ROWS: Final = 20
_FIRST_ROWS: Final = 10
_MAX_COLUMNS: Final = 7
# In pixels, for a wide font of 13 px: an output has about 830 px in a window of 1000 px.
_WIDTH: Final = 830
_CHARACTER: Final = 7
_BOLD_CHARACTER: Final = 8
_PADDING: Final = 12
_TEXT_WIDTH: Final = 104
_LONGEST_URL: Final = 34
_LONGEST_URL_OF_FEW: Final = 80
_FEW_COLUMNS: Final = 3
_ENOUGH_COLUMNS: Final = 4
_LONGEST_TEXT: Final = 180
_ONE_LINE: Final = 18
_ONE_WORD: Final = 40
_HOVER: Final = 600
_PICTURES: Final = 20
_PICTURE_SIDE: Final = 72
_DECIMALS: Final = 2
# Two lines of a text, in a box that no ordinary word is wider than.
_TEXT_BOX: Final = (
    "min-width:8em;max-width:40em;white-space:normal;overflow-wrap:anywhere;overflow:hidden;"
    "display:-webkit-box;-webkit-line-clamp:2;-webkit-box-orient:vertical"
)

# The columns that readers look at first, and those that they look at last.
_LEADING: Final = (
    *("rank", "job_id", "position", "change", "url", "link", "field", "old", "new", "evidence"),
    *("title", "type", "subject", "error", "extract"),
    *("snippet", "status_code", "depth"),
    *("time_taken", "markdown", "preview", "assets", "headline", "advertiser_name", "format"),
    *("first_shown", "last_shown", "days_shown", "screenshot", "links", "headings", "images"),
    *("status", "total", "completed", "created_at", "advertiser_id", "name", "domain", "region"),
    *("html", "text"),
)
_TRAILING: Final = (
    *("success", "scraped", "fetched_at", "content_hash", "quality", "id"),
    *("structured_data", "raw_html", "metadata", "extra"),
)
_NAMING: Final = ("rank", "position", "change", "url", "title", "field")
_RENDERED: Final = ("markdown",)


@dataclass(frozen=True, slots=True)
class FrameView:
    """The rows of a frame that a table may show, and what it says about the others.

    `known` are the columns that functions of this package return, as opposed to those that
    a user added. `index` holds the labels of the rows unless they are 0, 1, 2 and so on.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    total: int
    empty: Collection[str] = ()
    known: Collection[str] = ()
    index: Sequence[object] | None = None
    line: str = ""


def first_rows(total: int) -> int:
    """Return how many of the rows of a frame are shown."""
    return total if total <= MAX_ROWS else _FIRST_ROWS


def render(view: FrameView) -> str:
    """Return the table, with a note on columns that it leaves out, and the receipt line."""
    places = _choose(view)
    head = "".join(_header(view, place) for place in places)
    if view.index is not None:
        head = f'<td style="{tables.SHORT}"></td>{head}'
    cells = _Cells(
        PictureBudget(_PICTURES, _PICTURE_SIDE),
        _LONGEST_URL if len(places) > _FEW_COLUMNS else _LONGEST_URL_OF_FEW,
        frozenset(view.columns[place] for place in places if _has_fractions(view, place)),
    )
    body = "".join(_row(view, number, places, cells) for number in range(len(view.rows)))
    return table_markup(head, body, [_note(view, places), view.line])


def _note(view: FrameView, places: Sequence[int]) -> str:
    """Return the size of the frame, and the names of the columns that are not shown."""
    hidden = [name for place, name in enumerate(view.columns) if place not in places]
    parts = [f"{view.total:,} row{'s' * (view.total != 1)} of {len(view.columns)} columns"]
    if len(view.rows) < view.total:
        parts.append(f"the first {len(view.rows)} rows are shown")
    if more := [name for name in hidden if name not in view.empty]:
        parts.append(f"more columns: {', '.join(more)}")
    if empty := [name for name in hidden if name in view.empty]:
        parts.append(f"empty: {', '.join(empty)}")
    return "; ".join(parts)


# ------------------------------------------------------------------------------------- columns


def _choose(view: FrameView) -> list[int]:
    """Return the columns to show: all of a few, else the most useful ones that fit."""
    if len(view.columns) <= _MAX_COLUMNS:
        return list(range(len(view.columns)))
    chosen: list[int] = []
    width = 0
    for place in sorted(range(len(view.columns)), key=lambda each: _usefulness(view, each)):
        needed = _width(view, place)
        if not _is_wanted(view, place, len(chosen)) or (chosen and width + needed > _WIDTH):
            continue
        chosen.append(place)
        width += needed
        if len(chosen) == _MAX_COLUMNS:
            break
    return sorted(chosen, key=lambda each: _reading_order(view, each))


def _is_wanted(view: FrameView, place: int, chosen: int) -> bool:
    """Return whether a column is worth its space beside those that are `chosen` already."""
    name = view.columns[place]
    # A row with `success` needs no status, that of a job has nothing else.
    if name == "status" and "success" in view.columns:
        return False
    is_blank = all(tables.is_missing(row[place]) for row in view.rows)
    return not is_blank and (name not in _TRAILING or chosen < _ENOUGH_COLUMNS)


def _usefulness(view: FrameView, place: int) -> tuple[int, int]:
    """Return the rank of a column: those that a user added come first."""
    name = view.columns[place]
    if name not in view.known:
        return 0, place
    if name in _LEADING:
        return 1, _LEADING.index(name)
    return (3, _TRAILING.index(name)) if name in _TRAILING else (2, place)


def _reading_order(view: FrameView, place: int) -> tuple[int, int, int]:
    """Return the position in the table: inputs, what names a row, added columns, and the rest."""
    name = view.columns[place]
    if name in view.known:
        return (1 if name in _NAMING else 3), *_usefulness(view, place)
    known = [at for at, each in enumerate(view.columns) if each in view.known]
    is_input = place < min(known, default=place)
    return (0 if is_input else 2), 0, place


def _width(view: FrameView, place: int) -> int:
    """Return the least width of a column in pixels."""
    name = view.columns[place]
    cells = [row[place] for row in view.rows]
    return _PADDING + max(
        len(name) * _BOLD_CHARACTER, *(_cell_width(name, each) for each in cells), 0
    )


def _cell_width(column: str, value: Any) -> int:
    if isinstance(value, bytes):
        return _PICTURE_SIDE
    if not isinstance(value, str | dict):
        text = "" if tables.is_missing(value) else _plain(column, value)
        return len(text) * _CHARACTER
    if isinstance(value, str) and tables.is_web_address(value):
        return min(len(value), _LONGEST_URL) * _CHARACTER
    is_short = isinstance(value, str) and _is_short(value)
    return len(value) * _CHARACTER if is_short else _TEXT_WIDTH


# --------------------------------------------------------------------------------------- cells


def _has_fractions(view: FrameView, place: int) -> bool:
    """Return whether a column of floats has a number that is shown with decimals."""
    values = [row[place] for row in view.rows]
    return any(isinstance(value, float) and not value.is_integer() for value in values)


def _header(view: FrameView, place: int) -> str:
    numbers = [row[place] for row in view.rows if not tables.is_missing(row[place])]
    is_numeric = bool(numbers) and all(map(tables.is_number, numbers))
    return tables.header(view.columns[place], tables.NUMBER if is_numeric else tables.SHORT)


def _row(view: FrameView, number: int, places: Sequence[int], cells: _Cells) -> str:
    row = view.rows[number]
    markup = "".join(cells.cell(view.columns[place], row[place]) for place in places)
    if view.index is not None:
        label = html.escape(tables.middle(str(view.index[number]), _ONE_LINE))
        markup = f'<th scope="row" style="{tables.SHORT};font-weight:400">{label}</th>{markup}'
    return f'<tr style="{tables.ROW}">{markup}</tr>'


@dataclass(frozen=True, slots=True)
class _Cells:
    """Renders the cells of one table."""

    pictures: PictureBudget
    longest_url: int
    fractional_columns: frozenset[str]

    def cell(self, column: str, value: Any) -> str:
        style = tables.NUMBER if tables.is_number(value) else tables.SHORT
        return f'<td style="{style}">{self._content(column, value)}</td>'

    def _content(self, column: str, value: Any) -> str:
        if tables.is_missing(value):
            return ""
        if (picture := self.pictures.picture(column, value)) is not None:
            return picture
        if isinstance(value, str):
            url = tables.link(value, longest=self.longest_url)
            return url or _text(first_line(value) if column in _RENDERED else value)
        if isinstance(value, dict):
            return _text(json.dumps(value, ensure_ascii=False, default=str))
        decimals = _DECIMALS if column in self.fractional_columns else 0
        return html.escape(_plain(column, value, decimals))


def _plain(column: str, value: Any, decimals: int = 0) -> str:
    if isinstance(value, list):
        return tables.counted(column, value)
    return tables.plain(column, value, decimals=decimals)


def _is_short(words: str) -> bool:
    return len(words) <= (_ONE_LINE if " " in words else _ONE_WORD)


def _text(text: str) -> str:
    """Return the beginning of a text; the pointer shows more of it."""
    words = " ".join(text[: _HOVER * 2].split())
    if _is_short(words):
        return html.escape(words)
    cut = words if len(words) <= _LONGEST_TEXT else f"{words[: _LONGEST_TEXT - 1]}…"
    hover = html.escape(words[:_HOVER])
    return f'<div style="{_TEXT_BOX}" title="{hover}">{html.escape(cut)}</div>'


def first_line(markdown: str) -> str:
    r"""Return the first line below the headline, without the marks of headings and lists.

    The headline itself if nothing follows.

    Examples
    --------
    >>> first_line("\n# The **moss** garden\n\nWelcome, *visitor*")
    'Welcome, visitor'
    """
    beginning = markdown[: _HOVER * 4].lstrip()
    lines = [line for line in beginning.splitlines() if re.search(r"\w", line)]
    below = (line for line in lines if not line.startswith("# "))
    line = next(below, lines[0] if lines else "")
    without_urls = re.sub(r"!?\[([^\[\]]*)\]\([^()]*\)", r"\1", line)
    return re.sub(r"^[\s#>*+-]+|[*`]{1,3}", "", without_urls).strip()
