"""The elements of a page and its pieces of text, with their places in its source."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import Final, NamedTuple

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
        The `@type` of each JSON object that has one.
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
        """Return what repeated elements have in common: tag and first class, or the `@type`."""
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
