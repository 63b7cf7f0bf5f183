"""Builds a tree of the elements of a page with their positions in its source.

The parser reads the markup. Its tree does not serve: it has the positions of elements but of no
text, and it moves elements out of tables and repeats those that are nested wrongly, whereas a piece
of the source is in one place.
"""

from __future__ import annotations

from html import unescape
from typing import Final

from webdata_nb.page.content.class_names import word_set
from webdata_nb.page.content.json_ld import is_json_ld
from webdata_nb.page.content.parser import read_markup
from webdata_nb.page.extract.evidence.json_scan import scan_json
from webdata_nb.page.extract.evidence.page_tree import (
    MAX_DEPTH,
    ROOT,
    PageTree,
    TextPiece,
)

MAX_ELEMENTS: Final = 200_000
_MAX_OPEN: Final = 60
_MAX_IMPLIED: Final = 20

_VOID: Final = word_set(
    "area base br col embed frame hr img input link meta param source track wbr"
)
_RAW_TEXT: Final = frozenset({"script", "style", "textarea", "title"})
_INLINE: Final = word_set(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd mark q rp rt ruby s samp"
    " small span strike strong sub sup time tt u var wbr"
)
_CLOSED_BY: Final = {
    "li": (frozenset({"li"}), frozenset({"ul", "ol", "menu"})),
    "dt": (frozenset({"dt", "dd"}), frozenset({"dl"})),
    "dd": (frozenset({"dt", "dd"}), frozenset({"dl"})),
    "tr": (frozenset({"tr"}), frozenset({"table", "tbody", "thead", "tfoot"})),
    "td": (frozenset({"td", "th"}), frozenset({"tr", "table"})),
    "th": (frozenset({"td", "th"}), frozenset({"tr", "table"})),
    "p": (frozenset({"p"}), frozenset({"div", "td", "li", "section", "article", "body"})),
    "option": (frozenset({"option"}), frozenset({"select", "datalist"})),
}
"""Elements that a new one closes, and those that it does not leave."""
_VALUE_ATTRIBUTES: Final = ("content", "datetime", "href", "src", "value")


def scan_html(source: str) -> PageTree:
    """Scan an HTML page."""
    return _HtmlScanner(source).scan()


class _HtmlScanner:
    def __init__(self, source: str) -> None:
        self._tree = PageTree(source)
        self._stack: list[int] = []
        self._has_microdata = "itemprop" in source
        self._raw: int | None = None

    def scan(self) -> PageTree:
        """Add the elements and the texts between their tags."""
        tree, source = self._tree, self._tree.source
        text_start, gap = 0, "\n"
        for kind, name, start, end in read_markup(source):
            if len(tree.names) >= MAX_ELEMENTS:
                text_start, self._raw = len(source), None  # what is not scanned is no text
                break
            if self._raw is not None:
                self._close_raw_text(self._raw, start)
            elif start > text_start:
                gap = self._add_text(text_start, start, gap)
            text_start = end
            if kind == "start":
                opens = self._open(name, start, end)
            elif kind == "end":
                opens = False
                self._close(name, end)
            else:
                if kind == "comment":
                    tree.comments.append((start, end))
                continue
            if opens or name not in _INLINE:
                gap = "\n"
        if self._raw is not None:
            self._close_raw_text(self._raw, len(source))
        elif text_start < len(source):
            self._add_text(text_start, len(source), gap)
        self._close_to(0, len(source))
        return tree

    def _add_text(self, start: int, end: int, gap: str) -> str:
        """Add a text unless it is white space, and return the gap behind it."""
        if self._tree.source[start:end].isspace():
            return gap or " "
        element = self._stack[-1] if self._stack else ROOT
        self._tree.pieces.append(TextPiece(start, end, element, "", gap))
        return ""

    def _open(self, name: str, start: int, end: int) -> bool:
        """Add an element; return whether it declares a value or has raw text."""
        tree, stack = self._tree, self._stack
        if name in _CLOSED_BY:
            self._close_implied(name, start)
        number = tree.add(name, start, end, stack[-1] if stack else ROOT)
        is_declared = name == "meta" or (
            self._has_microdata and tree.source.find("itemprop", start, end) >= 0
        )
        if is_declared:
            is_declared = self._add_declared_value(number)
        if name in _RAW_TEXT:
            self._raw = number
        elif name not in _VOID and tree.source[end - 2] != "/" and len(stack) < MAX_DEPTH:
            stack.append(number)
        return is_declared or self._raw is not None

    def _add_declared_value(self, number: int) -> bool:
        """Add the value that a tag declares in its attributes: of a meta tag or of microdata."""
        attributes = self._tree.attributes(number)
        label = attributes.get("itemprop") or attributes.get("property") or attributes.get("name")
        value = next((attributes[n] for n in _VALUE_ATTRIBUTES if attributes.get(n)), "")
        if label and value:
            start = self._tree.opening(number).find(value) + self._tree.starts[number]
            declared = TextPiece(start, start + len(value), number, unescape(label))
            self._tree.pieces.append(declared)
        return bool(label and value)

    def _close_raw_text(self, number: int, end: int) -> None:
        """Close an element without elements in it, and add its text if it is one for people."""
        tree, start = self._tree, self._tree.opening_ends[number]
        if tree.names[number] == "script" and is_json_ld(tree.attributes(number).get("type")):
            scan_json(tree, number, end)
        if tree.names[number] in {"title", "textarea"} and end > start:
            tree.pieces.append(TextPiece(start, end, number))
        tree.close(number, end)
        self._raw = None

    def _close(self, name: str, end: int) -> None:
        stack = self._stack
        if stack and self._tree.names[stack[-1]] == name:
            self._tree.close(stack.pop(), end)
            return
        for depth in range(len(self._stack) - 1, max(-1, len(self._stack) - _MAX_OPEN), -1):
            if self._tree.names[self._stack[depth]] == name:
                self._close_to(depth, end)
                return

    def _close_implied(self, name: str, at: int) -> None:
        closed, limits = _CLOSED_BY[name]
        for depth in range(len(self._stack) - 1, max(-1, len(self._stack) - _MAX_IMPLIED), -1):
            open_name = self._tree.names[self._stack[depth]]
            if open_name in limits:
                return
            if open_name in closed:
                self._close_to(depth, at)
                return

    def _close_to(self, depth: int, end: int) -> None:
        for number in self._stack[depth:]:
            self._tree.close(number, end)
        del self._stack[depth:]
