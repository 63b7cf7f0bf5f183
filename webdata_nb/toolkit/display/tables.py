"""Renders rows as HTML: a table with links, pictures and folded texts, or a gallery of creatives.

All values are escaped: nothing that a page said becomes markup. There are no scripts, event
handlers or external resources, and links lead to http and https URLs only. Pictures are small PNGs
inside data URLs.
"""

from __future__ import annotations

import base64
import html
import io
import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from webdata_nb.toolkit.display.bars import leave_receipt_to_table
from webdata_nb.toolkit.terminal_text import display_width

THUMBNAIL_SIDE: Final = 240
_MOST_PIXELS: Final = 40_000_000
_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP")


def thumbnail(value: Any, *, side: int = THUMBNAIL_SIDE) -> str | None:
    """Return an `img` element for the bytes of a picture or a downloaded file, else None.

    The picture is converted to a PNG of at most `side` by `side` pixels.
    """
    if isinstance(value, bytes):
        return _element(io.BytesIO(value), side)
    file = value.get("file") if isinstance(value, dict) else None
    # Only files of the cache, which are named by their hash: a row must not name any other file.
    if not isinstance(file, str) or Path(file).name != value.get("sha256"):
        return None
    return _element(Path(file), side)


def first_thumbnail(values: Iterable[Any], *, side: int = THUMBNAIL_SIDE) -> str | None:
    """Return the first picture among `values`, as `of` does."""
    pictures = (thumbnail(value, side=side) for value in values)
    return next((picture for picture in pictures if picture is not None), None)


def _element(source: Path | io.BytesIO, side: int) -> str | None:
    from PIL import Image  # noqa: PLC0415 - only where pictures are drawn

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(source, formats=_FORMATS) as image:
                if image.width * image.height > _MOST_PIXELS:
                    return None
                # Crop long screenshots to their top.
                top = image.crop((0, 0, image.width, min(image.height, image.width * 2)))
                top.thumbnail((side, side))
                out = io.BytesIO()
                top.convert("RGBA").save(out, "PNG", optimize=True)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    text = base64.b64encode(out.getvalue()).decode()
    return f'<img alt="" style="max-width:100%" src="data:image/png;base64,{text}">'


# Headers and short values stay on one line; a longer text wraps between words, in a box that is
# wide enough for a word.
TABLE: Final = (
    "border-collapse:collapse;table-layout:auto;margin:0;text-align:left;"
    "font-family:sans-serif;font-size:13px;line-height:1.4;color:inherit"
)
SCROLLER: Final = "overflow-x:auto;max-width:100%;margin:0 0 4px"
NOTE: Final = (
    "font-family:sans-serif;font-size:12px;line-height:1.5;margin:0 6px;overflow-wrap:anywhere"
)
# Front ends would typeset what is between two dollar signs, such as prices and variables.
NO_FORMULAS: Final = "tex2jax_ignore mathjax_ignore"
ROW: Final = "background:none"  # not the stripes of a front end, on which its links are pale
_CELL: Final = "padding:3px 6px;vertical-align:top;max-width:none;border:0 solid #8886;"
SHORT: Final = f"{_CELL}border-bottom-width:1px;white-space:nowrap;text-align:left"
NUMBER: Final = f"{_CELL}border-bottom-width:1px;white-space:nowrap;text-align:right"
# Some front ends give links no style.
_LINK: Final = "text-decoration:underline #8888"
_LEAST_URLS: Final = 2
_ESCAPED_LETTERS: Final = re.compile(r"(?:%[89A-Fa-f][0-9A-Fa-f])+")
_FILES: Final = ("assets", "preview")
_SIZE_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")
_SECONDS: Final = ("time_taken", "resting_s")


# With the background of the front end, as other cells scroll below them; blurred where it is not
# known.
_STICKY: Final = (
    "background:var(--jp-layout-color0,var(--vscode-editor-background,"
    "var(--colab-primary-surface-color,var(--background,transparent))));"
    "backdrop-filter:blur(1em);position:sticky"
)


def header(name: str, style: str = SHORT) -> str:
    """Return the header of a column, which never wraps."""
    return f'<th scope="col" style="{style};font-weight:600">{html.escape(name)}</th>'


def host_note(hosts: Iterable[tuple[str, str]]) -> str:
    """Return the host that the URLs of each column leave out; empty if they are whole."""
    named = {column: host for column, host in hosts if host}
    if len({*named.values()}) == 1:
        return f"URLs below {next(iter(named.values()))}"
    return ", ".join(f"{column} below {host}" for column, host in named.items())


def is_missing(value: Any) -> bool:
    """Return whether a cell stays empty."""
    return value is None or (isinstance(value, str | list | dict) and not value)


def is_number(value: Any) -> bool:
    """Return whether a value is a number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def plain(column: str, value: Any, *, decimals: int = 0) -> str:
    """Return a value that is no text as text: a number, a time, a size.

    A float has at least `decimals` decimals.
    """
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if column == "bytes" and is_number(value):
        return file_size(value)
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, float):
        return f"{value:,.2f} s" if column in _SECONDS else decimal(value, decimals)
    return str(value)


def file_size(size: float) -> str:
    """Return a number of bytes as people say it, such as `222 kB`."""
    rounded = float(f"{size:.3g}")
    power = min((len(f"{rounded:.0f}") - 1) // 3, len(_SIZE_UNITS) - 1)
    return f"{rounded / 1000**power:,.4g} {_SIZE_UNITS[power]}"


def decimal(value: float, decimals: int = 0) -> str:
    """Return a number with as many digits as tell it apart from others of its size."""
    if value.is_integer():
        return f"{value:,.{decimals}f}"
    return f"{value:.2g}" if abs(value) < 0.01 else f"{value:,.2f}"  # noqa: PLR2004 - else it is 0.00


def moment(value: datetime) -> str:
    """Return a date, with the time to the minute unless it is midnight."""
    is_date = value.time() == time()
    return value.strftime("%Y-%m-%d" if is_date else "%Y-%m-%d %H:%M")


def counted(column: str, values: Sequence[Any]) -> str:
    """Return the number of entries of a list, such as `12 links`."""
    one = len(values) == 1 and column.endswith("s")
    return f"{len(values):,} {column[:-1] if one else column}"


def link(text: str, *, longest: int, host: str = "") -> str | None:
    """Return a link where `text` is a URL that a browser would open as a page.

    A URL of more than `longest` characters is cut in the middle, without the `host` that all URLs
    of its column have; the pointer shows all of it.
    """
    if not is_web_address(text):
        return None
    cut = shown_url(text, longest=longest, host=host)
    hover = f' title="{html.escape(text)}"' if cut != text else ""
    return (
        f'<a href="{html.escape(text)}"{hover} style="{_LINK}" '
        f'rel="noopener noreferrer" target="_blank">{isolated(cut)}</a>'
    )


def shown_url(url: str, *, longest: int, host: str = "") -> str:
    """Return a URL as a table shows it: without `host`, in its own letters, its middle cut."""
    return middle(readable(url.removeprefix(host) or "/"), longest)


def common_host(values: Iterable[Any]) -> str:
    """Return the scheme and host that all URLs of a column share; empty if there are none.

    Examples
    --------
    >>> common_host(["https://docs.example.com/a", None, "https://docs.example.com/b?c"])
    'https://docs.example.com'
    """
    urls = [value for value in values if not is_missing(value)]
    if len(urls) < _LEAST_URLS or not all(
        isinstance(url, str) and is_web_address(url) for url in urls
    ):
        return ""
    parts = [urlsplit(url) for url in urls]
    [host, *others] = {f"{each.scheme}://{each.netloc}" for each in parts}
    # A host in other letters, such as capitals, is not a prefix of its URLs.
    return host if not others and all(url.startswith(host) for url in urls) else ""


def readable(url: str) -> str:
    """Return a URL with the letters that its percent signs stand for, as browsers show it.

    Examples
    --------
    >>> readable("/wiki/%E8%8B%94%E5%BA%AD?q=a%20b")
    '/wiki/苔庭?q=a%20b'
    """
    return _ESCAPED_LETTERS.sub(_letters, url)


def _letters(escaped: re.Match[str]) -> str:
    try:
        text = bytes.fromhex(escaped[0].replace("%", "")).decode()
    except UnicodeDecodeError:
        return escaped[0]
    return text if text.isprintable() and not any(map(str.isspace, text)) else escaped[0]


def middle(text: str, longest: int) -> str:
    """Return `text` with an ellipsis in place of its middle if it is longer than `longest`.

    A wide character counts as two.
    """
    if display_width(text) <= longest:
        return text
    tail = longest * 6 // 10  # the ends of URLs tell them apart
    return f"{head(text, longest - tail - 1)}…{head(text[::-1], tail)[::-1]}"


def head(text: str, longest: int) -> str:
    """Return the beginning of a text, of at most `longest` columns."""
    cut = text[:longest]
    while display_width(cut) > longest:
        cut = cut[:-1]
    return cut


def is_web_address(text: str) -> bool:
    """Whether `text` is an absolute http or https URL, with nothing that browsers would drop."""
    if not text.isprintable() or " " in text or "\\" in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.username


@dataclass(slots=True)
class PictureBudget:
    """Limits the number of pictures, since they are saved with the notebook."""

    left: int
    side: int = THUMBNAIL_SIDE

    def picture(self, column: str, value: Any) -> str | None:
        """Return the picture in a cell: bytes, or a downloaded file of a creative."""
        if self.left <= 0 or not (isinstance(value, bytes) or column in _FILES):
            return None
        drawn = first_thumbnail(value if isinstance(value, list) else [value], side=self.side)
        self.left -= drawn is not None
        return drawn


_SUMMARY: Final = 80
_FOLDED: Final = 4000
_SHOWN_URL: Final = 60
_ONE_LINE: Final = 28
_PICTURES: Final = 40
# The first of these that a frame has names its rows.
_NAMING: Final = ("title", "headline", "url", "name", "subject", "query")
_AT_SIDES: Final = "left:0;right:0;"
_HEIGHT: Final = "max-height:40em;overflow-y:auto"
# Narrower boxes would break words, wider ones lines that nobody reads to their end.
_TEXT_BOX: Final = "min-width:22em;max-width:32em;overflow-wrap:anywhere"
_NARROW_BOX: Final = "min-width:11em;max-width:16em;overflow-wrap:anywhere"
_FOLD: Final = (
    "max-height:24em;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere;"
    "font-family:monospace"
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """The result of `show`, which notebooks display as a table."""

    rows: int
    markup: str
    line: str = ""

    def __repr__(self) -> str:
        return f"Sheet of {self.rows} rows"

    def _repr_html_(self) -> str:
        leave_receipt_to_table(self.line)
        return self.markup


def sheet(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, line: str = "", left_out: int = 0
) -> Sheet:
    """Render `rows`; columns that are empty in all rows are listed below the table.

    What names a row stays in view while the table is scrolled sideways, and the names of the
    columns while it is scrolled down.
    """
    visible = [
        n for n in range(len(columns)) if not rows or not all(is_missing(row[n]) for row in rows)
    ]
    empty = [name for n, name in enumerate(columns) if n not in visible]
    budget = PictureBudget(_PICTURES)
    naming = next((name for name in _NAMING if name in map(columns.__getitem__, visible)), "")
    hosts = [common_host(row[n] for row in rows) for n in range(len(columns))]
    head_style = dict.fromkeys(columns, f"{SHORT};{_STICKY};top:0;z-index:2")
    head_style[naming] = f"{SHORT};{_STICKY};top:0;{_AT_SIDES}z-index:3"
    head = "".join(header(columns[n], head_style[columns[n]]) for n in visible)
    body = "".join(
        f'<tr style="{ROW}">'
        f"{''.join(_sheet_cell(columns[n], row[n], budget, hosts[n], naming) for n in visible)}"
        "</tr>"
        for row in rows
    )
    notes = [
        f"{left_out:,} more rows" if left_out else "",
        "" if rows else "no rows",
        f"empty here: {', '.join(empty)}" if empty else "",
        host_note((columns[n], hosts[n]) for n in visible),
        line,
    ]
    return Sheet(len(rows), table_markup(head, body, notes, f"{SCROLLER};{_HEIGHT}"), line)


def table_markup(head: str, body: str, notes: Sequence[str], scroller: str = SCROLLER) -> str:
    """Return a table that scrolls sideways if it is too wide, with notes below."""
    table = (
        f'<table style="{TABLE}"><thead><tr style="{ROW}">{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )
    below = "".join(f'<div style="{NOTE}">{html.escape(note)}</div>' for note in notes if note)
    markup = f'<div class="{NO_FORMULAS}"><div style="{scroller}">{table}</div>{below}</div>'
    # Half a surrogate pair, which a frame from elsewhere may hold, is in no file of a notebook.
    return markup.encode(errors="replace").decode()


def _sheet_cell(column: str, value: Any, budget: PictureBudget, host: str, naming: str) -> str:
    style = NUMBER if is_number(value) else SHORT
    content = _content(column, value, budget, host)
    if column == naming:
        # Narrow, as it covers a part of the other columns.
        content = content.replace(_TEXT_BOX, _NARROW_BOX, 1)
        style = f"{style};{_STICKY};{_AT_SIDES}z-index:1"
    return f'<td style="{style}">{content}</td>'


def _content(column: str, value: Any, budget: PictureBudget, host: str) -> str:
    if is_missing(value):
        return ""
    if (picture := budget.picture(column, value)) is not None:
        return picture
    if column == "heading_path" and isinstance(value, list):
        value = " \u203a ".join(map(str, value))
    if isinstance(value, str):
        return link(value, longest=_SHOWN_URL, host=host) or _text(value)
    if isinstance(value, list | dict):
        summary = counted(column, value) if isinstance(value, list) else None
        return _text(json.dumps(value, ensure_ascii=False, default=str), summary)
    return html.escape(plain(column, value))


def _text(text: str, summary: str | None = None) -> str:
    """Return a short text as it is, and a long one behind its beginning."""
    if summary is None:
        if len(text) <= _SUMMARY:
            return (
                short_text(text) if display_width(text) <= _ONE_LINE else _boxed(html.escape(text))
            )
        summary = f"{' '.join(text[: _SUMMARY * 2].split())[:_SUMMARY]}…"
    more = f"… {len(text) - _FOLDED:,} characters more" if len(text) > _FOLDED else ""
    return _boxed(
        f"<details><summary>{html.escape(summary)}</summary>"
        f'<div style="{_FOLD}">{html.escape(text[:_FOLDED])}{more}</div></details>'
    )


def isolated(text: str) -> str:
    """Return a text whose direction changes nothing around it."""
    return html.escape(text) if text.isascii() else f"<bdi>{html.escape(text)}</bdi>"


def short_text(text: str) -> str:
    """Return a text on one line, which begins where its script begins."""
    if text.isascii():
        return html.escape(text)
    return f'<div dir="auto" style="text-align:start">{html.escape(text)}</div>'


def _boxed(markup: str) -> str:
    return f'<div dir="auto" style="{_TEXT_BOX};white-space:normal;text-align:start">{markup}</div>'


_TEXTS: Final = ("headline", "description", "advertiser_name", "format", "landing_domain")
_CARD: Final = (
    "display:inline-block;vertical-align:top;width:250px;margin:4px;padding:6px;"
    "border:1px solid #8886;border-radius:4px;font:12px sans-serif;overflow-wrap:anywhere"
)


@dataclass(frozen=True, slots=True)
class Gallery:
    """What `gallery` returns; a notebook shows its cards."""

    cards: tuple[str, ...]
    left_out: int = 0

    def __repr__(self) -> str:
        return f"Gallery of {len(self.cards)} creatives"

    def _repr_html_(self) -> str:
        more = f"<p>{self.left_out} more are not shown</p>" if self.left_out else ""
        return f'<div class="{NO_FORMULAS}">{"".join(self.cards)}{more}</div>'


def gallery(rows: Iterable[Mapping[str, Any]], *, left_out: int = 0) -> Gallery:
    """Return the cards of creatives; whatever a source sent is text and never markup."""
    return Gallery(tuple(map(_card, rows)), left_out)


def _card(row: Mapping[str, Any]) -> str:
    texts = [str(row[name]) for name in _TEXTS if isinstance(row.get(name), str)]
    lines = "".join(f"<div>{html.escape(text)}</div>" for text in texts)
    name = html.escape(f"{row.get('position', '')}. {row.get('creative_id', '')}")
    error = row.get("error")
    wrong = f"<div>\u26a0 {html.escape(error)}</div>" if isinstance(error, str) else ""
    assets = row.get("assets")
    files = [row.get("preview"), *(assets if isinstance(assets, list) else [])]
    picture = first_thumbnail(files) or "<div>(no picture here)</div>"
    return f'<div style="{_CARD}">{picture}<div><b>{name}</b></div>{lines}{wrong}</div>'
