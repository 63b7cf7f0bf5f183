"""The `headings` format: the outline of the content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webdata_nb.service.content.parser import Element, text_of

if TYPE_CHECKING:
    from webdata_nb.service.content.page_content import PageContent
    from webdata_nb.service.content.parsed_page import ParsedPage


def headings(page: ParsedPage, content: PageContent) -> list[dict[str, Any]]:  # noqa: ARG001 - every format takes both
    """List the headings in tree order: `level` 1 to 6, `text`, and `anchor`.

    The anchor is the id by which the heading can be linked (its own, that of a link in it, or
    that of the section it opens), None when there is none. Headings without text are left out.
    """
    return [
        {"level": int(each.tag[1]), "text": text, "anchor": _anchor(each)}
        for each in content.element.select("h1,h2,h3,h4,h5,h6")
        if (text := text_of(each))
    ]


def _anchor(heading: Element) -> str | None:
    if own := heading.attr("id"):
        return own
    for inner in heading.select("[id],a[name]"):
        if named := inner.attr("id") or inner.attr("name"):
            return named
    parent = heading.parent
    if isinstance(parent, Element) and parent.tag in {"section", "div", "header", "article"}:
        opening = next((each for each in parent.children if isinstance(each, Element)), None)
        if opening == heading:
            return parent.attr("id") or None
    return None
