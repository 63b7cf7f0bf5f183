"""Recognises the marks of footnotes: their labels, the links to them and the links back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.parser import Element, Text, nearest_ancestor
from webdata_nb.page.content.tags import HEADINGS

if TYPE_CHECKING:
    from webdata_nb.page.content.parser import Node

MAX_MARK_CHARACTERS: Final = 16

_MARK = re.compile(
    r"([\[(]?)\s*((?:note|nb|fn|n)?\.?\s?\d{1,4}|[a-z]|[ivxl]{1,6}|[*†‡§‖]{1,4})\s*[\])]?[.:]?",
    re.IGNORECASE,
)
_LEADING_MARK = re.compile(
    r"\s*(?:[\[(]\s*(?P<bracketed>[^\W_]{1,4}|[*†‡§¶‖]{1,4})\s*[\])][.:]?"
    r"|(?P<dotted>\d{1,4})[.:)\]]|(?P<bare>\d{1,4}|[*†‡§¶‖]{1,4})(?=\s|\Z))\s*"
)
_LEADING_ARROW = re.compile(r"\s*[\^↑⇑⤴↩]\ufe0e?\s*")
_ARROWS: Final = frozenset("^↑⇑⇧⤴↩↵⏎↶⬑⮐⮌↖⇗☝⤶▲◂«⬆")
_VARIATION_SELECTORS = str.maketrans("", "", "\ufe0e\ufe0f\xa0 []()")
_REFERENCE = re.compile(r"foot-?_?note|note-?_?ref|fn-?_?ref|end-?_?note|sidenote", re.IGNORECASE)
_BACK_LINK = re.compile(r"back-?_?(?:ref|link)|reversefootnote|-back\b|return", re.IGNORECASE)
_TYPE_ATTRIBUTES: Final = ("role", "epub:type", "data-type")
_NAME = re.compile(r"[A-Za-z0-9]{1,8}")


def mark_of(text: str) -> str | None:
    """Return the label of a footnote without its brackets, None if the text is something else."""
    if len(text) > MAX_MARK_CHARACTERS:
        return None
    match = _MARK.fullmatch(text.strip())
    return match[2] if match is not None else None


def is_bracketed(text: str) -> bool:
    """Return whether a label stands in square brackets."""
    return text.lstrip().startswith("[")


def leading_mark(text: str) -> tuple[str, int, bool] | None:
    """Return the mark at the start of a text, its length, and whether it is more than a number."""
    match = _LEADING_MARK.match(text)
    if match is None:
        return None
    mark = match["bracketed"] or match["dotted"]
    mark = mark or match["bare"]
    return mark, match.end(), match["bare"] is None or not mark.isdigit()


def leading_arrow_length(text: str) -> int:
    """Return the length of an arrow back to the text at the start of a note."""
    match = _LEADING_ARROW.match(text)
    return match.end() if match is not None else 0


def declares_reference(element: Element) -> bool:
    """Return whether attributes say that an element refers to a footnote, or is one."""
    if not len(element.attrs):
        return False
    if any("note" in (element.attr(name) or "") for name in _TYPE_ATTRIBUTES):
        return True
    if element.attr("data-footnote-ref") is not None:
        return True
    names = f"{element.attr('class') or ''} {element.attr('id') or ''}"
    return _REFERENCE.search(names) is not None


def is_back_link(link: Element, text: str) -> bool:
    """Return whether a link leads from a note back to the text."""
    sign = text.translate(_VARIATION_SELECTORS)
    if sign and all(character in _ARROWS for character in sign):
        return True
    if link.attr("data-footnote-backref") is not None:
        return True
    if link.attr("role") == "doc-backlink":  # of headings, it leads to the table of contents
        return nearest_ancestor(link, HEADINGS, levels=2) is None
    return len(text) <= MAX_MARK_CHARACTERS and bool(_BACK_LINK.search(link.attr("class") or ""))


def usable_name(mark: str) -> str | None:
    """Return the name of a footnote for its mark, if Markdown can write it."""
    return mark if _NAME.fullmatch(mark) is not None else None


def fragment_of(link: Element) -> str:
    """Return the fragment that a link leads to, '' without one."""
    return (link.attr("href") or "").partition("#")[2]


def is_blank(node: Node) -> bool:
    """Return whether a node has no text."""
    if type(node) is Text:
        return node.data.isspace() or not node.data
    return not isinstance(node, Element) or (
        not node.text.strip() and node.select_one("img,math") is None
    )
