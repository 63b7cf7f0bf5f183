"""Finds URLs in text that no markup marks as links."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BARE_URLS = 20_000
"""URLs of one text that become links."""

_URL = re.compile(
    r"(?<![A-Za-z0-9])https?://(?:[^\s<>\"`{}|\\^\]\x00-\x20\x7f]|\](?!\()){1,2000}", re.IGNORECASE
)
_CLOSING = {")": "(", "]": "[", "\u00bb": "\u00ab"}
_PUNCTUATION = ".,;:!?'*_~\u2026\u201c\u201d\u2018\u2019"


def find_urls(text: str) -> Iterator[tuple[int, int]]:
    """Return start and end of each http and https URL, without punctuation of the sentence."""
    for count, match in enumerate(_URL.finditer(text)):
        if count == MAX_BARE_URLS:
            return
        end = _end_of_url(text, *match.span())
        if end > match.start() + len("https://"):
            yield match.start(), end


def link_urls(text: str) -> str:
    """Return a text as HTML in which its URLs are links."""
    pieces: list[str] = []
    position = 0
    for start, end in find_urls(text):
        url = escape(text[start:end])
        pieces += escape(text[position:start]), f'<a href="{url}">{url}</a>'
        position = end
    return "".join([*pieces, escape(text[position:])])


def _end_of_url(text: str, start: int, end: int) -> int:
    """Return where a URL ends whose match may include punctuation that follows it."""
    while end > start:
        last = text[end - 1]
        opening = _CLOSING.get(last)
        unbalanced = opening is not None and (
            text.count(last, start, end) > text.count(opening, start, end)
        )
        if not unbalanced and last not in _PUNCTUATION:
            break
        end -= 1
    return end
