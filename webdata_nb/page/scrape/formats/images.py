"""The `images` format: the images of the content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webdata_nb.page.content.links import best_source
from webdata_nb.page.content.parser import collapse_whitespace, text_of

if TYPE_CHECKING:
    from webdata_nb.page.content.page_content import PageContent
    from webdata_nb.page.content.parsed_page import ParsedPage
    from webdata_nb.page.content.parser import Element

CAPTION_LIMIT = 1000
"""Maximum characters of a caption; the rest is cut."""


def images(page: ParsedPage, content: PageContent) -> list[dict[str, Any]]:
    """List the images of the content in order, without duplicate URLs.

    Each row has `url` (absolute, of the largest variant), `alt`, `width` and `height` (CSS
    pixels, as declared) and `caption`; values that the page does not declare are None. ``data:``
    images are omitted.
    """
    rows: dict[str, dict[str, Any]] = {}
    for image in content.element.select("img"):
        source = best_source(image)
        url = page.link_resolver[source] if source is not None else None
        if url is not None and url not in rows:
            rows[url] = {
                "url": url,
                "alt": collapse_whitespace(image.attr("alt") or "") or None,
                "width": _pixels(image.attr("width")),
                "height": _pixels(image.attr("height")),
                "caption": _caption(image),
            }
    return list(rows.values())


def _pixels(value: str | None) -> int | None:
    digits = (value or "").strip().lower().removesuffix("px")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 6 else None  # noqa: PLR2004 - no picture is a million pixels wide


def _caption(image: Element) -> str | None:
    figure = image.closest("figure")
    caption = figure.select_one("figcaption") if figure is not None else None
    return text_of(caption)[:CAPTION_LIMIT] or None if caption is not None else None
