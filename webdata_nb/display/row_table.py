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
from urllib.parse import urlsplit

from webdata_nb.display import thumbnails

_SUMMARY: Final = 90
_FOLDED: Final = 4000
_SHOWN_URL: Final = 60
_PICTURES: Final = 40
_FILES: Final = ("assets", "preview")
_TABLE: Final = "border-collapse:collapse;font:13px sans-serif;text-align:left"
_CELL: Final = (
    "padding:3px 8px;border-bottom:1px solid #8884;vertical-align:top;text-align:left;"
    "max-width:28em;overflow-wrap:anywhere;white-space:normal"
)
_FOLD: Final = "max-height:24em;overflow:auto;white-space:pre-wrap;font-family:monospace"
_NOTE: Final = "font:12px sans-serif;opacity:.75;margin:4px 8px"


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
    kept = [n for n in range(len(columns)) if not rows or any(not _bare(row[n]) for row in rows)]
    empty = [name for n, name in enumerate(columns) if n not in kept]
    head = "".join(f'<th style="{_CELL}">{html.escape(columns[n])}</th>' for n in kept)
    budget = _PictureBudget(_PICTURES)
    body = "".join(
        f"<tr>{''.join(_cell(columns[n], row[n], budget) for n in kept)}</tr>" for row in rows
    )
    table = f'<table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    notes = [
        f"{left_out:,} more rows" if left_out else "",
        f"empty here: {', '.join(empty)}" if empty else "",
        line,
    ]
    below = "".join(f'<div style="{_NOTE}">{html.escape(note)}</div>' for note in notes if note)
    # Half a surrogate pair, which a frame from elsewhere may hold, is in no file of a notebook.
    markup = f"<div>{table}{below}</div>".encode(errors="replace").decode()
    return Sheet(len(rows), markup)


@dataclass(slots=True)
class _PictureBudget:
    """Limits the number of pictures, since they are saved with the notebook."""

    left: int

    def picture(self, values: Sequence[Any]) -> str | None:
        if self.left <= 0:
            return None
        drawn = thumbnails.first_of(values)
        self.left -= drawn is not None
        return drawn


def _cell(column: str, value: Any, budget: _PictureBudget) -> str:
    return f'<td style="{_CELL}">{_content(column, value, budget)}</td>'


def _content(column: str, value: Any, budget: _PictureBudget) -> str:
    if _bare(value):
        return ""
    if (picture := budget.picture(_possible_pictures(column, value))) is not None:
        return picture
    if isinstance(value, str):
        return _link(value) or _text(value)
    if isinstance(value, list | dict):
        summary = _counted(column, value) if isinstance(value, list) else None
        return _text(json.dumps(value, ensure_ascii=False, default=str), summary)
    return html.escape(_plain(value))


def _possible_pictures(column: str, value: Any) -> list[Any]:
    if isinstance(value, bytes):
        return [value]
    values = value if isinstance(value, list) else [value]
    return values if column in _FILES else []


def _counted(column: str, values: list[Any]) -> str:
    one = len(values) == 1 and column.endswith("s")
    return f"{len(values):,} {column[:-1] if one else column}"


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def _bare(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def _text(text: str, summary: str | None = None) -> str:
    """Return a short text as it is, and a long one behind its beginning."""
    if summary is None:
        if len(text) <= _SUMMARY:
            return html.escape(text)
        summary = f"{' '.join(text[: _SUMMARY * 2].split())[:_SUMMARY]}…"
    more = f"… {len(text) - _FOLDED:,} characters more" if len(text) > _FOLDED else ""
    return (
        f"<details><summary>{html.escape(summary)}</summary>"
        f'<div style="{_FOLD}">{html.escape(text[:_FOLDED])}{more}</div></details>'
    )


def _link(text: str) -> str | None:
    """Return a link where `text` is an address that a browser would open as a page."""
    if not is_web_address(text):
        return None
    shown = text if len(text) <= _SHOWN_URL else f"{text[: _SHOWN_URL - 1]}…"
    return (
        f'<a href="{html.escape(text)}" rel="noopener noreferrer" target="_blank">'
        f"{html.escape(shown)}</a>"
    )


def is_web_address(text: str) -> bool:
    """Whether `text` is an absolute http or https URL, with nothing that browsers would drop."""
    if not text.isprintable() or " " in text or "\\" in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.username
