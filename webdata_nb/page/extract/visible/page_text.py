"""Reads the visible text and the controls of a page in document order, with their surroundings."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.parser import NOT_RENDERED, Element, Text, body_of, collapse_whitespace
from webdata_nb.page.extract.visible.element_names import flags_of, name_of
from webdata_nb.page.extract.visible.wording import RELATED, fold

if TYPE_CHECKING:
    from webdata_nb.page.content.parsed_page import ParsedPage
    from webdata_nb.page.content.parser import Node

MAX_NODES: Final = 60_000
"""Nodes of a page that are read; the rest of a larger page is ignored."""
MAX_TEXTS: Final = 12_000
MAX_CONTROLS: Final = 3000
MAX_TEXT_LENGTH: Final = 400

_SKIPPED: Final = NOT_RENDERED | {"iframe", "video", "audio", "canvas", "map", "select", "textarea"}
_CONTROLS: Final = frozenset({"button", "input", "a"})
_NEAR_NAMES: Final = 3
_MAX_NAMES: Final = 6
_MAX_LEVELS: Final = 8
_MAX_HEADING_LENGTH: Final = 60
_DIGIT: Final = re.compile(r"\d")


@dataclass(eq=False, slots=True)
class VisibleText:
    """A text node, or a control of a form.

    Attributes
    ----------
    element
        The element that contains it, or the control.
    text
        The text with collapsed white space, at most 400 characters; empty for a control.
    flags
        What its ancestors say of it, as in `element_names`.
    ancestor_names
        Class and id of its six nearest ancestors, nearest first.
    has_digit
        Whether the text contains a digit.
    """

    element: Element
    text: str
    flags: int
    ancestor_names: tuple[str, ...]
    has_digit: bool = False

    @property
    def names(self) -> str:
        """Class and id of its three nearest ancestors."""
        return " ".join(self.ancestor_names[:_NEAR_NAMES])

    @property
    def all_names(self) -> str:
        """Class and id of its six nearest ancestors."""
        return " ".join(self.ancestor_names)


@dataclass(slots=True)
class PageText:
    """The texts and the controls of a page.

    Attributes
    ----------
    texts
        All texts in document order.
    controls
        Buttons, fields and links, each with the index of the next text.
    title
        The index of the text that names the subject of the page; None without one.
    related
        The index of the first heading of a section about other products, else of the end.
    """

    texts: list[VisibleText] = field(default_factory=list)
    controls: list[tuple[int, VisibleText]] = field(default_factory=list)
    title: int | None = None
    related: int = 0

    def own_flags(self, text: VisibleText) -> int:
        """Return the flags of a text that the title does not have."""
        title_flags = self.texts[self.title].flags if self.title is not None else 0
        return text.flags & ~title_flags


def read_page_text(page: ParsedPage) -> PageText:
    """Read the texts and controls of a page; `title` and `related` are not set."""
    result = PageText()
    body = body_of(page.document)
    pending: list[tuple[Node, int, tuple[str, ...]]] = [] if body is None else [(body, 0, ())]
    for _ in range(MAX_NODES):
        if not pending or len(result.texts) >= MAX_TEXTS:
            break
        node, flags, names = pending.pop()
        if isinstance(node, Text):
            _add_text(result, node, flags, names)
        elif isinstance(node, Element) and node.tag not in _SKIPPED:
            name = name_of(node)
            flags |= flags_of(node, name)
            names = (name, *names[: _MAX_NAMES - 1])
            if node.tag in _CONTROLS and len(result.controls) < MAX_CONTROLS:
                result.controls.append((len(result.texts), VisibleText(node, "", flags, names)))
            pending += [(child, flags, names) for child in reversed(node.children)]
    return result


def _add_text(result: PageText, node: Text, flags: int, names: tuple[str, ...]) -> None:
    text = collapse_whitespace(node.data[: 4 * MAX_TEXT_LENGTH])[:MAX_TEXT_LENGTH]
    parent = node.parent
    if text and isinstance(parent, Element):
        has_digit = _DIGIT.search(text) is not None
        result.texts.append(VisibleText(parent, text, flags, names, has_digit))


def is_within(text: VisibleText, element: Element) -> bool:
    """Return whether a text is in an element, at most eight levels below it."""
    current: object = text.element
    for _ in range(_MAX_LEVELS):
        if current == element:
            return True
        if not isinstance(current, Element):
            return False
        current = current.parent
    return False


def find_related(texts: list[VisibleText], start: int) -> int:
    """Return the index of the first heading of a section about other products, else of the end."""
    for index in range(start, len(texts)):
        text = texts[index].text
        if len(text) <= _MAX_HEADING_LENGTH and RELATED.match(fold(text)):
            return index
    return len(texts)
