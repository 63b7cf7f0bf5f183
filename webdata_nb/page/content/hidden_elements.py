"""Removes hidden elements and code from content, and makes its links absolute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webdata_nb.page.content.class_names import NOT_CONTENT, traits_of
from webdata_nb.page.content.parser import (
    HEADINGS,
    NOT_RENDERED,
    ROOTS,
    Element,
    element_before,
    elements_with_tags,
)

if TYPE_CHECKING:
    from webdata_nb.page.content.links import AnchorTable
    from webdata_nb.page.content.parser import Document

MIN_SECTION_WORDS = 8
"""A hidden element with links, headings or items is content from this many words on."""
MIN_MENU_LINKS = 2
"""A hidden element with fewer words is content if it has this many links: a menu."""
MIN_TEXT_WORDS = 30
"""A hidden element of plain text is content above this many words."""

MAY_BE_HIDDEN = "[style],[hidden]"
_HIDING_ATTRIBUTES = ("hidden", "style", "aria-hidden")
_HIDDEN_PANELS = '[hidden],[aria-hidden="true"],[style*=none i],[style*=hidden i]'
_PANEL_ROLES = frozenset({"tabpanel", "region"})
_NO_PANELS = (
    "nav,header,footer,dialog,aside,form,button,svg,[role=dialog],[role=alertdialog],[role=menu],"
    "[role=navigation],[role=listbox],[role=tooltip],[role=search],[aria-modal=true]"
)
_MAX_PANEL_LINKS = 0.5  # of the characters of a panel
_HIDING_STYLES = ("display:none", "visibility:hidden")
_STRUCTURE = "a[href],h1,h2,h3,h4,h5,h6,li"
_PERMALINK_SIGNS = frozenset("¶#§🔗⚓∞")
_PERMALINK_PARENTS = frozenset({*HEADINGS, "dt", "caption", "p", "span", "figcaption"})
_OTHER_LINK_SCHEMES = ("mailto:", "tel:", "sms:", "ftp:", "geo:")


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


def reveal_panels(document: Document) -> None:
    """Show the panels of accordions and tabs, which wait for a click.

    These are hidden elements that a control names by ``aria-controls``, those with the role of a
    panel, and those right after a heading or a ``dt``. Menus, dialogs and lists of links are none.
    """
    hidden = [element for element in document.select(_HIDDEN_PANELS) if is_concealed(element)]
    if not hidden:
        return
    controls = document.select("[aria-controls]")
    names = {name for each in controls for name in (each.attr("aria-controls") or "").split()}
    for element in hidden:
        if _is_panel(element, names) and not _is_menu(element):
            for name in _HIDING_ATTRIBUTES:
                if element.attr(name) is not None:
                    del element.attrs[name]


def find_permalinks(anchors: AnchorTable) -> list[int]:
    """Return the indexes of links whose only text is a sign such as "#" beside a heading."""
    return [
        index
        for index, text in enumerate(anchors.texts)
        if len(text) <= 1 and _is_permalink(anchors.elements[index], anchors.hrefs[index], text)
    ]


def make_links_absolute(anchors: AnchorTable) -> None:
    """Write absolute URLs into the tree; remove the href of links that cannot be opened."""
    columns = anchors.elements, anchors.hrefs, anchors.targets
    for link, href, target in zip(*columns, strict=True):
        if target is not None:
            if target != href:
                link.attrs["href"] = target
        elif href is not None and not href.lstrip()[:7].lower().startswith(_OTHER_LINK_SCHEMES):
            del link.attrs["href"]


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


def _is_panel(hidden: Element, names: set[str]) -> bool:
    if hidden.attr("id") in names or hidden.attr("role") in _PANEL_ROLES or hidden.tag == "dd":
        return True
    before = element_before(hidden)
    return before is not None and before.tag in {*HEADINGS, "dt"}


def _is_menu(hidden: Element) -> bool:
    if hidden.closest(_NO_PANELS) is not None or traits_of(_name_of(hidden)) & NOT_CONTENT:
        return True
    length = len("".join(hidden.text.split()))
    links = sum(len("".join(link.text.split())) for link in hidden.select("a[href]"))
    return links > _MAX_PANEL_LINKS * length


def _name_of(element: Element) -> str:
    return f"{element.attr('class') or ''} {element.attr('id') or ''}"


def _is_section(hidden: Element) -> bool:
    """Return whether a hidden element has enough text for a section that a click would show."""
    if hidden.tag == "tr":
        return True
    words = len(hidden.text.split(None, MIN_TEXT_WORDS))
    if words < MIN_SECTION_WORDS:
        return len(hidden.select("a[href]")) >= MIN_MENU_LINKS
    return words > MIN_TEXT_WORDS or hidden.select_one(_STRUCTURE) is not None


def _is_permalink(link: Element, href: str | None, text: str) -> bool:
    if not href or href[0] != "#":
        return False
    parent = link.parent
    if not isinstance(parent, Element) or parent.tag not in _PERMALINK_PARENTS:
        return False
    return text in _PERMALINK_SIGNS or not (text.strip() or len(link))
