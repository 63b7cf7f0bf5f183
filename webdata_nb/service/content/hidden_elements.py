"""What no reader of a page sees is taken out of its tree: code, hidden parts, permalinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webdata_nb.service.content.parser import ROOTS, Element, elements_with_tags
from webdata_nb.service.content.tags import HEADINGS, NOT_RENDERED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webdata_nb.service.content.links import AnchorTable

MIN_SECTION_WORDS = 8
"""Words from which a hidden element with links, headings or items is a part of the page."""
MIN_TEXT_WORDS = 30
"""Words from which any hidden element is a part of the page."""

_STYLED = "[style],[hidden]"
_HIDING = ("display:none", "visibility:hidden")
_STRUCTURE = "a[href],h1,h2,h3,h4,h5,h6,li"
_PERMALINK_SIGNS = frozenset("¶#§🔗⚓∞")
_TITLED = frozenset({*HEADINGS, "dt", "caption", "p", "span", "figcaption"})
_OPENABLE = ("mailto:", "tel:", "sms:", "ftp:", "geo:")


def remove_hidden_elements(
    content: Element, parts: dict[str, list[Element]], anchors: AnchorTable
) -> list[int]:
    """Take out of `content` what is not shown, and the marks by which headings are linked.

    A menu, a tab or a dialog is hidden until it is asked for, and many pages hide all they have
    until a script runs. So a hidden element goes only while it is no part of the page in its own
    right: a message, a trap for robots, a label. Returns the places of the marks among the links.
    """
    unseen = _hidden(content, parts.get("dialog", ()))
    unseen += elements_with_tags(parts, NOT_RENDERED)
    marks = [
        place
        for place, text in enumerate(anchors.texts)
        if len(text) <= 1 and _is_permalink(anchors.elements[place], anchors.hrefs[place], text)
    ]
    unseen += map(anchors.elements.__getitem__, marks)
    for each in unseen:
        each.decompose()
    return marks


def _hidden(content: Element, dialogs: Iterable[Element]) -> list[Element]:
    """Return the hidden elements of no weight."""
    hidden = []
    for each in content.select(_STYLED):
        style = _squeeze(each.attr("style") or "")
        if _is_hidden(each, style) and not _is_part(each):
            hidden.append(each)
    return hidden + [each for each in dialogs if each.attr("open") is None and not _is_part(each)]


def make_links_absolute(anchors: AnchorTable) -> None:
    """Write the absolute form of each link into the tree; take off what cannot be opened."""
    columns = anchors.elements, anchors.hrefs, anchors.targets
    for link, href, target in zip(*columns, strict=True):
        if target is not None:
            if target != href:
                link.attrs["href"] = target
        elif href is not None and not href.lstrip()[:7].lower().startswith(_OPENABLE):
            del link.attrs["href"]


def _is_hidden(element: Element, style: str) -> bool:
    """Tell whether the element's own attributes hide it; the page itself is always shown."""
    if element.tag in ROOTS:
        return False
    hidden = element.attr("hidden")
    if hidden is not None and hidden.lower() != "until-found":
        return True
    return any(word in style for word in _HIDING)


def _is_part(hidden: Element) -> bool:
    """Tell whether a hidden element is a part of the page that a click or a script would show."""
    if hidden.tag == "tr":
        return True
    words = len(hidden.text.split(None, MIN_TEXT_WORDS))
    if words < MIN_SECTION_WORDS:
        return False
    return words > MIN_TEXT_WORDS or hidden.select_one(_STRUCTURE) is not None


def _is_permalink(link: Element, href: str | None, text: str) -> bool:
    """Tell whether a link is only the mark by which its own heading can be linked."""
    if not href or href[0] != "#":
        return False
    parent = link.parent
    if not isinstance(parent, Element) or parent.tag not in _TITLED:
        return False
    return text in _PERMALINK_SIGNS or not (text.strip() or len(link))


def _squeeze(style: str) -> str:
    return "".join(style.lower().split())
