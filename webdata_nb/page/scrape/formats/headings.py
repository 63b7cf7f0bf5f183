"""The `headings` format: the outline of the content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webdata_nb.page.content.parser import Element, text_of

if TYPE_CHECKING:
    from webdata_nb.page.content.page_content import PageContent
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
