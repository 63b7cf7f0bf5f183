"""Line breaks that stand for more: a run sets paragraphs apart, one behind a block is nothing.

Markdown's hard break is for one line after another. Where there is no line to end, the writer puts
a backslash on a line of its own, which readers show as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webdata_nb.service.content.parser import Element, Text, above
from webdata_nb.service.content.tags import HEADINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webdata_nb.service.content.parser import Node

# A paragraph cannot end within these.
_KEPT: Final = frozenset(
    {*HEADINGS, "a", "b", "strong", "i", "em", "del", "s", "strike", "u", "ins", "mark", "q"}
    | {"td", "th", "pre", "code", "dt", "summary", "label", "sub", "sup"}
)
_BLOCKS: Final = frozenset(
    {
        *HEADINGS,
        "p",
        "div",
        "section",
        "article",
        "main",
        "header",
        "footer",
        "aside",
        "nav",
        "body",
    }
    | {"ul", "ol", "li", "dl", "dd", "table", "pre", "blockquote", "figure", "figcaption", "hr"}
    | {"form", "fieldset", "details", "address", "center"}
)

_IDLE: Final = frozenset({"span", "font", "i", "b", "em", "strong", "small", "u", "wbr"})
_LEVELS: Final = 8


def prepare_breaks(breaks: Iterable[Element]) -> None:
    """Turn a run of line breaks, and one that follows a block, into an empty block."""
    idle: set[Node] = set()  # those that turned out to do nothing
    for each in breaks:
        if each.parent is None:
            continue
        first = _follows_block(each, idle)
        again = list(_breaks_after(each))
        if not (first or again):
            continue
        kept = above(each, _KEPT) is not None
        for other in again[1:] if kept else again:  # the writer takes long over many in a row
            other.decompose()
        if kept:
            if first:
                each.tag = "wbr"
                idle.add(each)
            continue
        each.tag = "div"


def _breaks_after(first: Element) -> Iterator[Element]:
    """Give the line breaks that follow with nothing but white space between."""
    node = first.next_sibling
    while node is not None:
        if isinstance(node, Element):
            if node.tag == "br":
                yield node
            elif len(node) or node.tag not in _IDLE:
                return
        elif isinstance(node, Text) and node.data.strip():
            return
        node = node.next_sibling


def _follows_block(each: Element, idle: set[Node]) -> bool:
    """Tell whether a line break stands first in a block, or right behind one."""
    for _ in range(_LEVELS):
        node = each.previous_sibling
        while isinstance(node, Text) and not node.data.strip():
            node = node.previous_sibling
        beside = each.parent if node is None else node
        if not isinstance(beside, Element):
            return False
        if node is not None or beside.tag in _BLOCKS:
            return beside.tag in _BLOCKS or beside in idle
        each = beside
    return False
