"""Renders one value of a frame as HTML: escaped text, a link to a web page, or a small picture.

Nothing that a page said becomes markup. Links lead to http and https URLs only.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time
from typing import Any, Final
from urllib.parse import urlsplit

from webdata_nb.toolkit.display import thumbnails

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
ROW: Final = "background:none"  # not the stripes of a front end, on which its links are pale
_CELL: Final = "padding:3px 6px;vertical-align:top;max-width:none;border:0 solid #8886;"
SHORT: Final = f"{_CELL}border-bottom-width:1px;white-space:nowrap;text-align:left"
NUMBER: Final = f"{_CELL}border-bottom-width:1px;white-space:nowrap;text-align:right"
# Some front ends give links no style.
_LINK: Final = "text-decoration:underline #8888"
_FILES: Final = ("assets", "preview")
_SECONDS: Final = ("time_taken", "resting_s")


def header(name: str, style: str = SHORT) -> str:
    """Return the header of a column, which never wraps."""
    return f'<th scope="col" style="{style};font-weight:600">{html.escape(name)}</th>'


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
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, float):
        return f"{value:,.2f} s" if column in _SECONDS else decimal(value, decimals)
    return str(value)


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


def link(text: str, *, longest: int) -> str | None:
    """Return a link where `text` is a URL that a browser would open as a page.

    A URL of more than `longest` characters is cut in the middle; the pointer shows all of it.
    """
    if not is_web_address(text):
        return None
    cut = middle(text, longest)
    hover = f' title="{html.escape(text)}"' if cut != text else ""
    return (
        f'<a href="{html.escape(text)}"{hover} style="{_LINK}" '
        f'rel="noopener noreferrer" target="_blank">{html.escape(cut)}</a>'
    )


def middle(text: str, longest: int) -> str:
    """Return `text` with an ellipsis in place of its middle if it is longer than `longest`."""
    if len(text) <= longest:
        return text
    tail = longest * 6 // 10  # the ends of URLs tell them apart
    return f"{text[: longest - tail - 1]}…{text[-tail:]}"


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
    side: int = thumbnails.SIDE

    def picture(self, column: str, value: Any) -> str | None:
        """Return the picture in a cell: bytes, or a downloaded file of a creative."""
        values = self._candidates(column, value)
        if self.left <= 0 or not values:
            return None
        drawn = thumbnails.first_of(values, side=self.side)
        self.left -= drawn is not None
        return drawn

    def _candidates(self, column: str, value: Any) -> list[Any]:
        if isinstance(value, bytes):
            return [value]
        values = value if isinstance(value, list) else [value]
        return values if column in _FILES else []
