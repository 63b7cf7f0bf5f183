"""Emphasis that the writer gives up on, written by CommonMark's own rule.

The writer falls back to HTML tags where it is not sure that ``*`` would be read as emphasis; one
such place next to a character beyond ASCII makes it use tags in the rest of the page too. These
converters decide each place by itself: markup where it is read as such, plain text elsewhere.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from webdata_nb.service.scrape.parser import Element, Text, above

if TYPE_CHECKING:
    from collections.abc import Callable

    from webdata_nb.service.scrape.parser import Node

FALLBACKS = ("<strong>", "<em>", "<b>", "<i>", "<del>", "<s>", "<strike>")
"""What a page's Markdown holds where the writer gave up."""

_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "del": "~~", "s": "~~", "strike": "~~"}
_INLINE = frozenset(
    {"a", "span", "font", "small", "u", "ins", "sub", "sup", "mark", "label", *_MARKS}
)
_CELLS = frozenset({"td", "th"})
_SAME = {
    tag: frozenset(each for each in _MARKS if _MARKS[each] == mark) for tag, mark in _MARKS.items()
}
_LEVELS = 8


def emphasise(element: Element, inner: str) -> str:
    """Write one element of emphasis around its Markdown `inner`."""
    tag = element.tag
    text = inner.strip()
    if not text or "\n\n" in text or above(element, _SAME[tag]) is not None:
        return inner
    before, _, after = ("", "", "") if text == inner else inner.partition(text)
    if "\\|" in text and above(element, _CELLS) is not None:
        text = text.replace("\\|", "|")  # the cell escapes what its parts return
    read = _opens(before[-1:] or _beside(element, -1), text[0]) and _opens(
        after[:1] or _beside(element, 1), text[-1]
    )
    mark = _MARKS[tag] if read else ""
    return f"{before}{mark}{text}{mark}{after}"


def task(element: Element, inner: str) -> str:
    """Write the check box of a task list, which the writer leaves out beside converters."""
    box = "[x]" if element.attr("checked") is not None else "[ ]"
    return box if _beside(element, 1).isspace() else f"{box} {inner}"


CONVERTERS: dict[str, Callable[[Element, str], str]] = {
    **dict.fromkeys(_MARKS, emphasise),
    "input": task,
}
"""By tag, what writes it."""


def _opens(outer: str, inner: str) -> bool:
    """Tell whether a mark between these characters is read as emphasis (CommonMark 6.2)."""
    if not outer or outer.isspace():
        return True
    if inner.isalnum():
        return True
    return not _is_punctuation(inner) or (_is_punctuation(outer) and outer not in "*_~")


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def _beside(element: Element, direction: int) -> str:
    """Return the character before (-1) or after (1) an element on its line, '' at a line's end."""
    node: Node = element
    for _ in range(_LEVELS):
        sibling = node.previous_sibling if direction < 0 else node.next_sibling
        if sibling is not None:
            if isinstance(sibling, Element) and sibling.tag in _MARKS:
                return "*"
            text = sibling.data if isinstance(sibling, Text) else sibling.text
            if text:
                return text[-1] if direction < 0 else text[0]
            node = sibling
        elif isinstance(node.parent, Element) and node.parent.tag in _INLINE:
            node = node.parent
        else:
            break
    return ""
