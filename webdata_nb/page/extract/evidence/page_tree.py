"""The elements of a page and its pieces of text, with their places in its source.

The parser's tokenizer reads the markup. The parser's tree does not serve: it has the positions of
elements but of no text, and it moves elements out of tables and repeats those that are nested
wrongly, whereas a piece of the source is in one place.

The objects, arrays and scalars of JSON-LD are part of it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from html import unescape
from itertools import islice
from typing import Final, NamedTuple

from webdata_nb.page.content.class_names import word_set
from webdata_nb.page.content.parser import read_markup
from webdata_nb.page.content.structured_data import is_json_ld, scan_json

ROOT: Final = -1
"""The parent of elements without one."""
MAX_DEPTH: Final = 500
MAX_TAG_LENGTH: Final = 50_000
MAX_QUOTE: Final = 300
JSON_OBJECT: Final = "{}"
JSON_ARRAY: Final = "[]"

_MAX_NAME_LENGTH: Final = 200
_ATTRIBUTE: Final = re.compile(
    r"([^\s\"'<>/=]{1,100}+)\s{0,20}+=\s{0,20}+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++))"
)
_CLASS: Final = re.compile(
    r"(?<![\w-])class\s{0,20}=\s{0,20}(?:\"\s*+([^\s\"]++)|'\s*+([^\s']++)|([^\s\"'>]++))",
    re.IGNORECASE,
)


class TextPiece(NamedTuple):
    """A run of text, or a value of an attribute or a JSON block.

    Attributes
    ----------
    start, end
        Its place in the source.
    element
        The element that contains it.
    label
        The name under which the page declares it, such as ``offers/price``; empty for text.
    gap
        What is between it and the piece before it: a line break where a block begins, a space, or
        nothing.
    is_json
        Whether it is written as JSON.
    """

    start: int
    end: int
    element: int
    label: str = ""
    gap: str = "\n"
    is_json: bool = False


@dataclass(slots=True)
class PageTree:
    """The elements of a page in document order, and its pieces of text.

    Each list has an entry for each element. The descendants of an element follow it, up to
    `last`, which is the number of the last one. Objects and arrays of JSON-LD are elements too.

    Attributes
    ----------
    labels
        The key of each JSON element that has one.
    types
        The type of each JSON object that has one.
    comments
        The place of each comment.
    """

    source: str = field(repr=False)
    names: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    opening_ends: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    pieces: list[TextPiece] = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)
    types: dict[int, str] = field(default_factory=dict)
    comments: list[tuple[int, int]] = field(default_factory=list, repr=False)
    _signatures: dict[int, str] = field(default_factory=dict)
    _attributes: dict[int, dict[str, str]] = field(default_factory=dict)
    _children: dict[int, list[int]] | None = None
    _lower_source: str | None = field(default=None, repr=False)

    @property
    def lower_source(self) -> str:
        """The source in lower case, with the same positions."""
        if self._lower_source is None:
            self._lower_source = self.source.replace("\u0130", "I").lower()
        return self._lower_source

    def add(self, name: str, start: int, opening_end: int, parent: int) -> int:
        """Add an element without content, and return its number."""
        number = len(self.names)
        self.names.append(name)
        self.starts.append(start)
        self.opening_ends.append(opening_end)
        self.ends.append(opening_end)
        self.parents.append(parent)
        self.last.append(number)
        return number

    def close(self, element: int, end: int) -> None:
        """Set the end of an element, whose descendants are all that were added after it."""
        self.ends[element] = end
        self.last[element] = len(self.names) - 1

    def element_at(self, offset: int) -> int:
        """Return the innermost element at a place of the source; `ROOT` outside of all."""
        element = bisect_right(self.starts, offset) - 1
        while element >= 0 and self.ends[element] <= offset:
            element = self.parents[element]
        return element

    def is_in_comment(self, offset: int) -> bool:
        """Return whether a place of the source is in a comment."""
        number = bisect_right(self.comments, (offset, len(self.source)))
        return number > 0 and offset < self.comments[number - 1][1]

    def children(self, element: int) -> list[int]:
        """Return the child elements of an element."""
        if self._children is None:
            self._children = {}
            for number, parent in enumerate(self.parents):
                self._children.setdefault(parent, []).append(number)
        return self._children.get(element, [])

    def siblings_near(self, element: int, distance: int) -> list[int]:
        """Return the siblings of an element that are at most so many siblings away."""
        children = self.children(self.parents[element])
        at = bisect_left(children, element)
        return [*children[max(at - distance, 0) : at], *children[at + 1 : at + distance + 1]]

    def is_json(self, element: int) -> bool:
        """Return whether an element is an object or array of JSON-LD."""
        return element != ROOT and self.names[element] in {JSON_OBJECT, JSON_ARRAY}

    def opening(self, element: int) -> str:
        """Return the opening tag of an element."""
        return self.source[self.starts[element] : self.opening_ends[element]][:MAX_TAG_LENGTH]

    def attributes(self, element: int) -> dict[str, str]:
        """Return the attributes of an element that have a value, as written."""
        if element not in self._attributes:
            values: dict[str, str] = {}
            for m in _ATTRIBUTE.finditer(self.opening(element)):
                # Of two attributes with one name the first counts.
                values.setdefault(m[1].lower(), m[2] or m[3] or m[4] or "")
            self._attributes[element] = values
        return self._attributes[element]

    def class_and_id(self, element: int) -> str:
        """Return the classes and the id of an element, as written."""
        attributes = self.attributes(element)
        return f"{attributes.get('class', '')} {attributes.get('id', '')}"

    def quote(self, start: int, end: int) -> str:
        """Return the source between two places, cut after `MAX_QUOTE` characters."""
        return self.source[start : min(end, start + MAX_QUOTE)]

    def class_name(self, element: int) -> str:
        """Return the first class of an element; empty without one."""
        match = _CLASS.search(self.opening(element))
        name = next(filter(None, match.groups()), "") if match else ""
        return name[:_MAX_NAME_LENGTH]

    def signature(self, element: int) -> str:
        """Return what repeated elements have in common: tag and first class, or the type."""
        if element not in self._signatures:
            own = self.types.get(element) if self.is_json(element) else self.class_name(element)
            self._signatures[element] = f"{self.names[element]}.{own or ''}"
        return self._signatures[element]

    def ancestors(self, element: int) -> list[int]:
        """Return an element and its ancestors, innermost first."""
        chain: list[int] = []
        while element != ROOT and len(chain) < MAX_DEPTH:
            chain.append(element)
            element = self.parents[element]
        return chain


MAX_PIECES: Final = 50_000
_MAX_KEYS: Final = 3


def _add_json(tree: PageTree, script: int, end: int) -> None:
    """Add the content of a script of JSON-LD, which ends at `end`, to a tree."""
    stack = [script]
    for kind, key, at, after in scan_json(tree.source, tree.opening_ends[script], end):
        if kind == "end":
            if len(stack) > 1:
                tree.close(stack.pop(), after)
        elif kind in {"object", "array"}:
            if len(stack) < MAX_DEPTH:
                name = JSON_OBJECT if kind == "object" else JSON_ARRAY
                stack.append(tree.add(name, at, after, stack[-1]))
                if key:
                    tree.labels[stack[-1]] = key
        elif len(tree.pieces) < MAX_PIECES:
            if kind == "type":
                tree.types.setdefault(stack[-1], tree.source[at:after])
                continue
            # The label of a value is the last keys of the path to it.
            above = (tree.labels[each] for each in reversed(stack) if each in tree.labels)
            keys = [*((key,) if key else ()), *islice(above, _MAX_KEYS - bool(key))]
            label = "/".join(reversed(keys)) or "json"
            tree.pieces.append(TextPiece(at, after, stack[-1], label, is_json=True))
    for element in reversed(stack[1:]):
        tree.close(element, end)


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
            _add_json(tree, number, end)
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
