"""Recognizes hidden elements, and removes those that are no content."""

from __future__ import annotations

from webdata_nb.page.content.parser import NOT_RENDERED, ROOTS, Element, elements_with_tags

MIN_SECTION_WORDS = 8
"""A hidden element with links, headings or items is content from this many words on."""
MIN_MENU_LINKS = 2
"""A hidden element with fewer words is content if it has this many links: a menu."""
MIN_TEXT_WORDS = 30
"""A hidden element of plain text is content above this many words."""

MAY_BE_HIDDEN = "[style],[hidden]"

_HIDING_STYLES = ("display:none", "visibility:hidden")
_STRUCTURE = "a[href],h1,h2,h3,h4,h5,h6,li"


def remove_hidden_elements(content: Element, elements_by_tag: dict[str, list[Element]]) -> None:
    """Remove elements that are never rendered, and short hidden ones.

    Menus, tabs and dialogs are hidden until a click, and many pages hide everything until a
    script runs. Only short hidden elements go: status messages, bot traps, labels.
    """
    elements = [element for element in content.select(MAY_BE_HIDDEN) if is_hidden_part(element)]
    dialogs = elements_by_tag.get("dialog", ())
    elements += [
        dialog for dialog in dialogs if dialog.attr("open") is None and not _is_section(dialog)
    ]
    elements += elements_with_tags(elements_by_tag, NOT_RENDERED)
    for element in elements:
        element.decompose()


def is_hidden_part(element: Element) -> bool:
    """Return whether an element is hidden, and too short to be a section that a click shows."""
    return _is_hidden(element) and not _is_section(element)


def _is_hidden(element: Element) -> bool:
    if element.tag in ROOTS:
        return False
    hidden = element.attr("hidden")
    if hidden is not None and hidden.lower() != "until-found":
        return True
    style = "".join((element.attr("style") or "").lower().split())
    return any(declaration in style for declaration in _HIDING_STYLES)


def is_concealed(element: Element) -> bool:
    """Return whether an element is hidden from people or from screen readers."""
    return _is_hidden(element) or element.attr("aria-hidden") == "true"


def _is_section(hidden: Element) -> bool:
    """Return whether a hidden element has enough text for a section that a click would show."""
    if hidden.tag == "tr":
        return True
    words = len(hidden.text.split(None, MIN_TEXT_WORDS))
    if words < MIN_SECTION_WORDS:
        return len(hidden.select("a[href]")) >= MIN_MENU_LINKS
    return words > MIN_TEXT_WORDS or hidden.select_one(_STRUCTURE) is not None
