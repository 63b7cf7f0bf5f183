"""Renders rows as an HTML table with links, pictures and collapsible long texts.

All values are escaped. The table contains no scripts, event handlers or external resources, and
its links lead to http and https URLs only.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from webdata_nb.toolkit.display import cell_html
from webdata_nb.toolkit.display.cell_html import PictureBudget

_SUMMARY: Final = 80
_FOLDED: Final = 4000
_SHOWN_URL: Final = 60
_ONE_LINE: Final = 28
_PICTURES: Final = 40
# Narrower boxes would break words, wider ones lines that nobody reads to their end.
_TEXT_BOX: Final = "min-width:22em;max-width:32em;overflow-wrap:anywhere"
_FOLD: Final = (
    "max-height:24em;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere;"
    "font-family:monospace"
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """The result of `show`, which notebooks display as a table."""

    rows: int
    markup: str

    def __repr__(self) -> str:
        return f"Sheet of {self.rows} rows"

    def _repr_html_(self) -> str:
        return self.markup


def render(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, line: str = "", left_out: int = 0
) -> Sheet:
    """Render `rows`; columns that are empty in all rows are listed below the table."""
    visible = [
        n
        for n in range(len(columns))
        if not rows or not all(cell_html.is_missing(row[n]) for row in rows)
    ]
    empty = [name for n, name in enumerate(columns) if n not in visible]
    budget = PictureBudget(_PICTURES)
    head = "".join(cell_html.header(columns[n]) for n in visible)
    body = "".join(
        f'<tr style="{cell_html.ROW}">'
        f"{''.join(_cell(columns[n], row[n], budget) for n in visible)}</tr>"
        for row in rows
    )
    notes = [
        f"{left_out:,} more rows" if left_out else "",
        f"empty here: {', '.join(empty)}" if empty else "",
        line,
    ]
    return Sheet(len(rows), table_markup(head, body, notes))


def table_markup(head: str, body: str, notes: Sequence[str]) -> str:
    """Return a table that scrolls sideways if it is too wide, with notes below."""
    table = (
        f'<table style="{cell_html.TABLE}"><thead><tr style="{cell_html.ROW}">{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )
    below = "".join(
        f'<div style="{cell_html.NOTE}">{html.escape(note)}</div>' for note in notes if note
    )
    markup = f'<div><div style="{cell_html.SCROLLER}">{table}</div>{below}</div>'
    # Half a surrogate pair, which a frame from elsewhere may hold, is in no file of a notebook.
    return markup.encode(errors="replace").decode()


def _cell(column: str, value: Any, budget: PictureBudget) -> str:
    style = cell_html.NUMBER if cell_html.is_number(value) else cell_html.SHORT
    return f'<td style="{style}">{_content(column, value, budget)}</td>'


def _content(column: str, value: Any, budget: PictureBudget) -> str:
    if cell_html.is_missing(value):
        return ""
    if (picture := budget.picture(column, value)) is not None:
        return picture
    if isinstance(value, str):
        return cell_html.link(value, longest=_SHOWN_URL) or _text(value)
    if isinstance(value, list | dict):
        summary = cell_html.counted(column, value) if isinstance(value, list) else None
        return _text(json.dumps(value, ensure_ascii=False, default=str), summary)
    return html.escape(cell_html.plain(column, value))


def _text(text: str, summary: str | None = None) -> str:
    """Return a short text as it is, and a long one behind its beginning."""
    if summary is None:
        if len(text) <= _SUMMARY:
            return html.escape(text) if len(text) <= _ONE_LINE else _boxed(html.escape(text))
        summary = f"{' '.join(text[: _SUMMARY * 2].split())[:_SUMMARY]}…"
    more = f"… {len(text) - _FOLDED:,} characters more" if len(text) > _FOLDED else ""
    return _boxed(
        f"<details><summary>{html.escape(summary)}</summary>"
        f'<div style="{_FOLD}">{html.escape(text[:_FOLDED])}{more}</div></details>'
    )


def _boxed(markup: str) -> str:
    return f'<div style="{_TEXT_BOX};white-space:normal">{markup}</div>'
