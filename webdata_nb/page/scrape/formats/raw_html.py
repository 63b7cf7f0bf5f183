"""The `raw_html` format: the page as received."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webdata_nb.page.charset import decode_text

if TYPE_CHECKING:
    from webdata_nb.page.content.parsed_page import ParsedPage


def raw_html(page: ParsedPage) -> str:
    """Return the body as received, decoded to text; '' if the body is not text."""
    return decode_text(page.source.body, page.charset) if page.charset is not None else ""
