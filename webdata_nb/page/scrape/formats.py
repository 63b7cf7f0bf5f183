"""Makes each output format of a page, and maps their names to these functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webdata_nb.page.charset import decode_text
from webdata_nb.page.content import structured_data as declared
from webdata_nb.page.content.links import best_source
from webdata_nb.page.content.page_source import SOURCE
from webdata_nb.page.content.parser import (
    Element,
    collapse_whitespace,
    comments_of,
    elements_of,
    rewrite_links,
    serialize,
    text_of,
    unwrap_all,
)
from webdata_nb.page.extract.visible_values import LABELS, VISIBLE, read_labels, read_visible_values
from webdata_nb.page.markdown import MarkdownWriter, write_with_footnotes
from webdata_nb.page.scrape.tables import TABLES, read_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from webdata_nb.page.content.main_content import PageContent
    from webdata_nb.page.content.parsed_page import ParsedPage


def headings(page: ParsedPage, content: PageContent) -> list[dict[str, Any]]:  # noqa: ARG001 - every format takes both
    """List the headings in tree order: `level` 1 to 6, `text`, and `anchor`.

    The anchor is the id for links to the heading: its own, that of an element in it, or that of the
    section that begins with it; None without one. Headings without text are omitted.
    """
    return [
        {"level": int(heading.tag[1]), "text": text, "anchor": _anchor(heading)}
        for heading in content.element.select("h1,h2,h3,h4,h5,h6")
        if (text := text_of(heading))
    ]


def _anchor(heading: Element) -> str | None:
    if heading_id := heading.attr("id"):
        return heading_id
    for inner in heading.select("[id],a[name]"):
        if inner_id := inner.attr("id") or inner.attr("name"):
            return inner_id
    parent = heading.parent
    if isinstance(parent, Element) and parent.tag in {"section", "div", "header", "article"}:
        first_child = next((child for child in parent.children if isinstance(child, Element)), None)
        if first_child == heading:
            return parent.attr("id") or None
    return None


# fmt: off
_URL_ATTRIBUTES = frozenset({
    "action", "background", "cite", "data", "formaction", "href", "longdesc", "ping", "poster",
    "src", "srcset", "xlink:href",
})
# fmt: on
MAX_HANDLERS = 200
"""Maximum event handlers of an element. An element with more is replaced by its content, because
the time to remove attributes one by one is quadratic in their number."""

_ACTIVE_SCHEMES = ("javascript:", "vbscript:", "data:text/", "data:application/", "data:image/svg")


def html(page: ParsedPage, content: PageContent) -> str:
    """Return the content as HTML: no scripts, styles, handlers or comments; links absolute."""
    rewrite_links(content.element, page.link_resolver.__getitem__)
    for comment in comments_of(content.element):
        comment.extract()
    overloaded: list[Element] = []
    for element in elements_of(content.element):
        active = [name for name in element.attrs if _is_active(element, name)]
        if len(active) > MAX_HANDLERS and element != content.element:
            overloaded.append(element)
        else:
            _remove_attributes(element, active)
    unwrap_all(overloaded)
    return serialize(content.element)


def _remove_attributes(element: Element, names: list[str]) -> None:
    for name in names:
        del element.attrs[name]


def _is_active(element: Element, name: str) -> bool:
    if name.startswith("on") or name in {"style", "srcdoc"}:
        return True
    if name not in _URL_ATTRIBUTES:
        return False
    value = element.attr(name) or ""
    scheme = "".join(character for character in value[:100].lower() if character > " ")
    return scheme.startswith(_ACTIVE_SCHEMES)


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
            figure = image.closest("figure")
            caption = figure.select_one("figcaption") if figure is not None else None
            rows[url] = {
                "url": url,
                "alt": collapse_whitespace(image.attr("alt") or "") or None,
                "width": _pixels(image.attr("width")),
                "height": _pixels(image.attr("height")),
                "caption": (
                    text_of(caption)[:CAPTION_LIMIT] or None if caption is not None else None
                ),
            }
    return list(rows.values())


def _pixels(value: str | None) -> int | None:
    digits = (value or "").strip().lower().removesuffix("px")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 6 else None  # noqa: PLR2004 - no picture is a million pixels wide


def links(page: ParsedPage, content: PageContent) -> list[str]:
    """List the http and https links of the content, absolute, unique, in order.

    A link to an anchor of another page keeps its fragment; links within this page are omitted.
    """
    own_anchor_prefix = page.source.final_url.partition("#")[0] + "#"
    targets = dict(zip(content.anchors.elements, content.anchors.targets, strict=True))
    for area in content.elements_by_tag.get("area", ()):
        targets[area] = page.link_resolver[area.attr("href")]
    urls = map(targets.get, content.element.select("a[href],area[href]"))
    return [
        url
        for url in dict.fromkeys(urls)
        if url is not None and not url.startswith(own_anchor_prefix)
    ]


def markdown(page: ParsedPage, content: PageContent) -> str:
    """Write the content as Markdown."""
    if content.footnotes is not None:
        return write_with_footnotes(content, page.link_resolver)
    return MarkdownWriter(page.link_resolver, content.anchors).write(content.element)


def raw_html(page: ParsedPage) -> str:
    """Return the body as received, decoded to text; '' if the body is not text."""
    return decode_text(page.source.body, page.charset) if page.charset is not None else ""


def structured_data(page: ParsedPage) -> dict[str, Any]:
    """Return what the page declares for programs, each syntax under its own key."""
    head, base = page.head, page.link_resolver.base
    return declared.structured_data(page.document, base, json_ld=head.json_ld, metas=head.metas)


PAGE_FORMATS: dict[str, Callable[[ParsedPage], Any]] = {
    "raw_html": raw_html,
    SOURCE: raw_html,
    "structured_data": structured_data,
    TABLES: read_tables,
    LABELS: read_labels,
    VISIBLE: read_visible_values,
}
"""Formats of the whole page, made before its tree is pruned; not all of them are public."""

CONTENT_FORMATS: dict[str, Callable[[ParsedPage, PageContent], Any]] = {
    "links": links,
    "images": images,
    "headings": headings,
    "html": html,
    "markdown": markdown,
}
"""Formats of the content, in the order in which they are made."""
