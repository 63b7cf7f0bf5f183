"""A footnote of a page as found: its mark, the elements that refer to it, and its text."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.parser import Element, Text, nearest_ancestor
from webdata_nb.page.content.tags import HEADINGS

if TYPE_CHECKING:
    from webdata_nb.page.content.parser import Document, Node

MAX_NOTE_CHARACTERS: Final = 5000
"""A longer element is a part of the page, not a note."""
MAX_ANCESTORS: Final = 30

# fmt: off
BLOCKS: Final = frozenset({
    *HEADINGS, "article", "aside", "blockquote", "body", "dd", "div", "dt", "figcaption", "li",
    "main", "p", "section", "table", "td", "th", "tr",
})
# fmt: on


@dataclass(slots=True)
class Note:
    """A footnote.

    Attributes
    ----------
    mark
        Its label in the text.
    references
        The elements that refer to it, in document order.
    content
        Adjacent nodes that hold its text.
    remainder
        An element that goes with it, such as the block of its number; None without one.
    """

    mark: str
    references: list[Element]
    content: list[Node] = field(default_factory=list)
    remainder: Element | None = None


class MarkedElements:
    """The elements of a page that may belong to footnotes, in document order.

    Parameters
    ----------
    document
        The page.

    Attributes
    ----------
    elements
        The elements, in document order.
    positions
        The index of each.
    targets
        The elements that links can lead to, by id or name.
    """

    SELECTOR: Final = "sup,a,[id]"

    def __init__(self, document: Document) -> None:
        self.elements = document.select(self.SELECTOR)
        self.positions = {element: index for index, element in enumerate(self.elements)}
        self.targets: dict[str, Element] = {}
        for element in self.elements:
            for name in ("id", "name"):
                if value := element.attr(name):
                    self.targets.setdefault(value, element)


class TextBudget:
    """Bounds the characters that are read from blocks that may be nested in one another."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def text_of(self, element: Element) -> str | None:
        """Return the text of an element; None once the budget is spent."""
        if self._left < 0:
            return None
        text = element.text
        self._left -= len(text) + 1
        return text


def block_of(element: Element) -> Element | None:
    """Return the element itself if it is a block, otherwise the block around it."""
    return element if element.tag in BLOCKS else nearest_ancestor(element, BLOCKS)


def contains(outer: Element, inner: Element) -> bool:
    """Return whether an element contains another, at most 30 levels deep."""
    return outer == inner or outer in islice(inner.ancestors, MAX_ANCESTORS)


def text_before(node: Node) -> str:
    """Return the text directly before a node, '' without one."""
    previous = node.previous_sibling
    return previous.data if type(previous) is Text else ""
