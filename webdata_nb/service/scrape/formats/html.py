"""The `html` format: the content as HTML that runs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webdata_nb.service.content.parser import (
    comments_of,
    elements_of,
    rewrite_links,
    serialize,
    unwrap_all,
)

if TYPE_CHECKING:
    from webdata_nb.service.content.page_content import PageContent
    from webdata_nb.service.content.parsed_page import ParsedPage
    from webdata_nb.service.content.parser import Element

# fmt: off
_URLS = frozenset({
    "action", "background", "cite", "data", "formaction", "href", "longdesc", "ping", "poster",
    "src", "srcset", "xlink:href",
})
# fmt: on
MOST_HANDLERS = 200
"""Handlers on one element beyond which it is taken for a trap and only what it holds is kept:
taking off attributes one by one costs the square of their number."""

_RUNNING = ("javascript:", "vbscript:", "data:text/", "data:application/", "data:image/svg")


def html(page: ParsedPage, content: PageContent) -> str:
    """Return the content as HTML: no scripts, styles, handlers or comments; links absolute."""
    rewrite_links(content.element, page.link_resolver.__getitem__)
    for comment in comments_of(content.element):
        comment.extract()
    overloaded: list[Element] = []
    for each in elements_of(content.element):
        active = [name for name in each.attrs if _is_active(each, name)]
        if len(active) > MOST_HANDLERS and each != content.element:
            overloaded.append(each)
        else:
            _take_off(each, active)
    unwrap_all(overloaded)
    return serialize(content.element)


def _take_off(each: Element, names: list[str]) -> None:
    for name in names:
        del each.attrs[name]


def _is_active(each: Element, name: str) -> bool:
    if name.startswith("on") or name in {"style", "srcdoc"}:
        return True
    if name not in _URLS:
        return False
    value = each.attr(name) or ""
    scheme = "".join(character for character in value[:100].lower() if character > " ")
    return scheme.startswith(_RUNNING)
