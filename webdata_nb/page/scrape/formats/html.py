"""Writes the `html` format: the content as HTML without active code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webdata_nb.page.content.parser import (
    comments_of,
    elements_of,
    rewrite_links,
    serialize,
    unwrap_all,
)

if TYPE_CHECKING:
    from webdata_nb.page.content.page_content import PageContent
    from webdata_nb.page.content.parsed_page import ParsedPage
    from webdata_nb.page.content.parser import Element

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
