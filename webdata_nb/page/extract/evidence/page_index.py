"""The elements of a page with their places in its source, and its folded text to search in.

The parser's tokenizer reads the markup. The parser's tree does not serve: it has the positions of
elements but of no text, and it moves elements out of tables and repeats those that are nested
wrongly, whereas a piece of the source is in one place. The objects, arrays and scalars of JSON-LD
are part of the tree.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property, lru_cache
from html import unescape
from html.entities import html5
from itertools import islice
from typing import Final, NamedTuple

from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.content.block_tree import INLINE
from webdata_nb.page.content.dates import find_dates
from webdata_nb.page.content.parser import VOID_ELEMENTS, read_markup
from webdata_nb.page.content.structured_data import is_json_ld, scan_json
from webdata_nb.page.extract.coerce import parse_number
from webdata_nb.page.extract.prices import CENTS, makes_cents
from webdata_nb.page.extract.results import ValueEvidence, Verdict

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

    def evidence(self, pointer: str, verdict: Verdict, span: Span, reason: str) -> ValueEvidence:
        """Return evidence that quotes a place of the source, at most `MAX_QUOTE` characters."""
        start, end = span
        quote = self.source[start : min(end, start + MAX_QUOTE)]
        return ValueEvidence(pointer, verdict, start, end, quote, reason)

    def class_name(self, element: int) -> str:
        """Return the first class of an element; empty without one."""
        match = _CLASS.search(self.opening(element))  # faster than to read all attributes
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

_RAW_TEXT: Final = frozenset({"script", "style", "textarea", "title"})
_INLINE: Final = INLINE - {"br", "img", "input", "label"} | {"rp", "rt", "ruby"}
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
            closed, limits = _CLOSED_BY[name]
            for depth in range(len(stack) - 1, max(-1, len(stack) - _MAX_IMPLIED), -1):
                open_name = tree.names[stack[depth]]
                if open_name in limits:
                    break
                if open_name in closed:
                    self._close_to(depth, start)
                    break
        number = tree.add(name, start, end, stack[-1] if stack else ROOT)
        is_declared = name == "meta" or (
            self._has_microdata and tree.source.find("itemprop", start, end) >= 0
        )
        if is_declared:
            attributes = tree.attributes(number)
            label = (
                attributes.get("itemprop") or attributes.get("property") or attributes.get("name")
            )
            value = next((attributes[n] for n in _VALUE_ATTRIBUTES if attributes.get(n)), "")
            is_declared = bool(label and value)
            if label and value:
                at = tree.opening(number).find(value) + tree.starts[number]
                tree.pieces.append(TextPiece(at, at + len(value), number, unescape(label)))
        if name in _RAW_TEXT:
            self._raw = number
        elif name not in VOID_ELEMENTS and tree.source[end - 2] != "/" and len(stack) < MAX_DEPTH:
            stack.append(number)
        return is_declared or self._raw is not None

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

    def _close_to(self, depth: int, end: int) -> None:
        for number in self._stack[depth:]:
            self._tree.close(number, end)
        del self._stack[depth:]


_ZEROS: Final = (
    "\u0660\u06f0\u07c0\u0966\u09e6\u0a66\u0ae6\u0b66\u0be6"
    "\u0c66\u0ce6\u0d66\u0e50\u0ed0\u0f20\u1040\u17e0"
)
"""The zeros of scripts with digits of their own, such as Arabic, Devanagari and Thai."""
_PLAIN: Final = str.maketrans(
    {
        **{chr(ord(zero) + digit): str(digit) for zero in _ZEROS for digit in range(10)},
        "\u066b": ".",
        "\u066c": ",",
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u2032\u00b4`", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff"),
        **dict.fromkeys(map(chr, range(0x300, 0x370))),
    }
)
"""One form of digits, quotes and dashes; no accents, soft hyphens or characters without width."""
_BARE_ENTITIES: Final = "|".join(
    sorted((name for name in html5 if not name.endswith(";")), key=len, reverse=True)
)
"""Entities that are also decoded without a semicolon, such as `&copy`."""
_TOKEN: Final = re.compile(
    r"\s+|\\u[dD][89abAB]\w\w\\u\w{4}|\\u[0-9a-fA-F]{4}|\\."
    rf"|&(?:\w{{1,32}};|#(?:[0-9]+|[xX][0-9a-fA-F]+);?|{_BARE_ENTITIES})|.",
    re.DOTALL,
)
_SPACE: Final = re.compile(r"\s+")
_FIRST_MARK: Final = "\u0300"
_MARKS: Final = "".join(
    mark
    for mark in map(chr, (*range(0x300, 0x1B00), 0x3099, 0x309A))
    if unicodedata.category(mark).startswith("M")
)
WORD: Final = re.compile(rf"[\w{_MARKS}]+")
"""A word, with the marks that are letters of Indic scripts and Thai."""
_KOREAN_REST: Final = "\u1160", "\u11ff"
"""The letters of a folded Korean syllable behind its first."""


def is_in_word(character: str) -> bool:
    """Return whether a folded character is a letter, a digit, or a mark on one."""
    return character.isalnum() or (
        character >= _FIRST_MARK and unicodedata.category(character).startswith("M")
    )


def is_inside_character(character: str) -> bool:
    """Return whether a folded character belongs to the one before it, as marks do."""
    if character < _FIRST_MARK:
        return False
    is_rest = _KOREAN_REST[0] <= character <= _KOREAN_REST[1]
    return is_rest or unicodedata.category(character).startswith("M")


def fold(text: str) -> str:
    """Return a text without differences of case, Unicode form, quotes, dashes and white space.

    Examples
    --------
    >>> fold("Caf\u00e9\u00a0\u2013  \u201cOpen\u201d")
    'cafe - "open"'
    """
    if not text.isascii():
        # Compatibility forms first: some of them contain characters that `_PLAIN` maps.
        text = unicodedata.normalize("NFKD", text).translate(_PLAIN).casefold()
    else:
        text = text.lower().replace("`", "'")
    return _SPACE.sub(" ", text)


def fold_source(raw: str, *, is_json: bool = False) -> str:
    """Fold a text of a page's source, whose entities and JSON escapes are decoded."""
    if is_json and "\\" in raw:
        with suppress(MalformedJson):
            raw = str(decode_json(f'"{_SPACE.sub(" ", raw)}"'))
    return fold(unescape(raw) if "&" in raw else raw)


class FoldedOffsets:
    """Maps positions in `fold_source(raw)` to positions in `raw`."""

    def __init__(self, raw: str, *, is_json: bool = False) -> None:
        self._raw_ends: list[int] = [0]
        self._folded_ends: list[int] = [0]
        self._length = len(raw)
        has_escapes = "&" in raw or (is_json and "\\" in raw)
        self._is_identical = raw.isascii() and not has_escapes and _SPACE.sub(" ", raw) == raw
        if not self._is_identical:
            folded_end, in_space = 0, False
            for match in _TOKEN.finditer(raw):
                folded = _fold_token(match[0], is_json=is_json)
                is_space = folded == " "
                folded_end += 0 if is_space and in_space else len(folded)
                in_space = is_space if folded else in_space
                self._raw_ends.append(match.end())
                self._folded_ends.append(folded_end)

    def start(self, offset: int) -> int:
        """Return where the folded character at `offset` begins in the source."""
        if self._is_identical:
            return min(offset, self._length)
        return self._raw_ends[bisect_right(self._folded_ends, offset) - 1]

    def end(self, offset: int) -> int:
        """Return where the folded character before `offset` ends in the source."""
        if self._is_identical:
            return min(offset, self._length)
        place = bisect_right(self._folded_ends, offset - 1)
        return self._raw_ends[min(place, len(self._raw_ends) - 1)]


@lru_cache(maxsize=1 << 14)
def _fold_token(token: str, *, is_json: bool) -> str:
    return " " if token.isspace() else fold_source(token, is_json=is_json)


MAX_MATCHES: Final = 64
"""Places of one value that are looked at."""
_MAX_JOINED: Final = 60
_MAX_TRIES: Final = 1000
_MAX_NUMBERS: Final = 50_000
_DIGITS: Final = r"\d{1,40}+(?!\d)"
_NUMBER: Final = re.compile(
    rf"(?:(?<![\w.,])[.,]?|(?<=[^\d\W])){_DIGITS}(?:[.,' ]{_DIGITS}){{0,6}}(?![.,]\d)"
)
_CENT_DIGITS: Final = 2
_MAX_WHOLE: Final = 20
_WHOLE_BEFORE_CENTS: Final = re.compile(r"(?<![\w.,])\d{1,3}(?:[.,' ]\d{3})*$|(?<![\w.,])\d{1,9}$")
# Chinese, Japanese, Thai and others have no spaces between words; in Korean, endings follow a word.
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\U0010ffff]"
)
_SCALE: Final = re.compile(r"\s?(k|m|mio|mln|million|bn|billion|thousand|tsd)\b")
_FACTORS: Final = {"k": 1e3, "thousand": 1e3, "tsd": 1e3, "bn": 1e9, "billion": 1e9}

Span = tuple[int, int]


@dataclass(frozen=True)
class PageIndex:
    """The pieces of a page, folded and joined to one text, with a line for each block.

    Attributes
    ----------
    tree
        The elements of the page.
    text
        The folded text. A line break separates blocks, and values of attributes and JSON.
    starts
        The place in `text` where each piece begins.
    """

    tree: PageTree = field(repr=False)
    text: str = field(repr=False)
    starts: list[int] = field(repr=False)
    _offsets: dict[int, tuple[FoldedOffsets, int]] = field(default_factory=dict, repr=False)

    @classmethod
    def of_tree(cls, tree: PageTree) -> PageIndex:
        """Fold the text of a page."""
        parts: list[str] = []
        starts: list[int] = []
        length = 0
        for piece in tree.pieces:
            raw = tree.source[piece.start : piece.end]
            folded = fold_source(raw, is_json=piece.is_json)
            if piece.gap:
                folded = piece.gap + folded.lstrip()
            if piece.gap == "\n" and parts:
                length -= len(parts[-1]) - len(parts[-1].rstrip(" "))
                parts[-1] = parts[-1].rstrip(" ")
            parts.append(folded)
            starts.append(length + len(piece.gap))
            length += len(folded)
        return cls(tree, "".join(parts), starts)

    def piece_at(self, offset: int) -> int:
        """Return the number of the piece at a place of the text."""
        return max(bisect_right(self.starts, offset) - 1, 0)

    def element_at(self, offset: int) -> int:
        """Return the element of the piece at a place of the text."""
        return self.tree.pieces[self.piece_at(offset)].element

    def text_of(self, element: int) -> str:
        """Return the folded text of an element."""
        return self.text[slice(*self.text_span(element))].strip()

    def text_span(self, element: int) -> Span:
        """Return the place in the text of an element's pieces."""
        first, end = self._piece_range(element)
        if first >= end:
            return 0, 0
        after = self.starts[end] if end < len(self.starts) else len(self.text)
        return self.starts[first], after

    def place_of(self, element: int) -> Span:
        """Return the first character of an element, or of its innermost ancestor with text."""
        for each in self.tree.ancestors(element):
            start, end = self.text_span(each)
            if start < end:
                return start, start + 1
        return 0, 0

    def pieces_of(self, element: int) -> list[TextPiece]:
        """Return the pieces in an element."""
        return self.tree.pieces[slice(*self._piece_range(element))]

    def _piece_range(self, element: int) -> Span:
        tree = self.tree
        first = bisect_left(self.piece_starts, tree.starts[element])
        return first, bisect_left(self.piece_starts, tree.ends[element])

    @cached_property
    def piece_starts(self) -> list[int]:
        """The place in the source where each piece begins."""
        return [piece.start for piece in self.tree.pieces]

    def line(self, span: Span) -> Span:
        """Return the line that contains a span."""
        end = self.text.find("\n", span[1])
        return self.text.rfind("\n", 0, span[0] + 1) + 1, len(self.text) if end < 0 else end

    def find(self, needle: str, within: Span | None = None) -> list[Span]:
        """Return the places of a folded text that does not begin or end within a word."""
        return self._whole_words(self.find_anywhere(needle, within)) if needle else []

    def find_anywhere(self, needle: str, within: Span | None = None) -> Iterator[Span]:
        """Return the places of a folded text, also within words."""
        return _places(self.text, needle, within or (0, len(self.text)))

    def find_across_lines(self, needle: str) -> list[Span]:
        """Return the places of a long text, of which blocks of the page are parts."""
        return self._whole_words(_places(self._one_line, needle, (0, len(self.text))))

    def _whole_words(self, spans: Iterator[Span]) -> list[Span]:
        whole = (span for span in spans if self.is_boundary(span[0]) and self.is_boundary(span[1]))
        return list(islice(whole, MAX_MATCHES))

    @cached_property
    def _one_line(self) -> str:
        return self.text.replace("\n", " ")

    def is_boundary(self, at: int) -> bool:
        """Return whether no word continues at a place; an element may end within a word."""
        if not 0 < at < len(self.text):
            return True
        before, after = self.text[at - 1], self.text[at]
        if is_inside_character(after):
            return False
        if not (is_in_word(before) and is_in_word(after)):
            return True
        if _UNSPACED.match(before) or _UNSPACED.match(after):
            return True
        return self.starts[self.piece_at(at)] == at

    def search(self, pattern: re.Pattern[str], within: Span | None = None) -> list[Span]:
        """Return the places of a pattern that begins with a literal text."""
        matches = pattern.finditer(self.text, *(within or (0, len(self.text))))
        return [match.span() for match in islice(matches, MAX_MATCHES)]

    def numbers_at(self, value: float, within: Span | None = None) -> list[Span]:
        """Return the places of a number."""
        spans = self.numbers.get(value, [])
        if within is None:
            return spans[:MAX_MATCHES]
        return [span for span in spans if within[0] <= span[0] and span[1] <= within[1]]

    @cached_property
    def pieces_by_label(self) -> dict[str, list[int]]:
        """The numbers of the pieces that have each name for programs."""
        by_label: dict[str, list[int]] = {}
        for number, piece in enumerate(self.tree.pieces):
            if piece.label:
                by_label.setdefault(piece.label, []).append(number)
        return by_label

    @cached_property
    def numbers(self) -> dict[float, list[Span]]:
        """The places of each number, in every way in which its separators can be read."""
        by_value: dict[float, list[Span]] = {}
        for count, (text, at) in enumerate(self._number_texts()):
            if count >= _MAX_NUMBERS:
                break
            scale = _SCALE.match(self.text, at + len(text))
            # A minus sign is no hyphen in a word or range.
            has_sign = self.text[at - 1 : at] == "-"
            is_negative = has_sign and not is_in_word(self.text[max(at - 2, 0)])
            for value, start, end in _readings(text):
                by_value.setdefault(value, []).append((at + start, at + end))
                if is_negative and not start:
                    by_value.setdefault(-value, []).append((at - 1, at + end))
                if scale is not None:
                    scaled = round(value * _FACTORS.get(scale[1], 1e6), 6)
                    by_value.setdefault(scaled, []).append((at + start, scale.end()))
        # Amounts whose decimals are raised or small have no point.
        for start in self._starts_of_cents:
            first = max(start - _MAX_WHOLE, 0)
            if whole := _WHOLE_BEFORE_CENTS.search(self.text[first:start].rstrip()):
                end = start + _CENT_DIGITS
                point = "," if "." in whole[0] else "."
                for value, _, _ in _readings(f"{whole[0]}{point}{self.text[start:end]}"):
                    by_value.setdefault(value, []).append((first + whole.start(), end))
        return by_value

    @cached_property
    def _starts_of_cents(self) -> list[int]:
        """The places of two digits behind others in an element that makes them smaller."""
        tree, found = self.tree, []
        ends = (*self.starts[1:], len(self.text))
        for piece, start, end in zip(tree.pieces, self.starts, ends, strict=False):
            if end - start > _CENT_DIGITS + 1 or not CENTS.fullmatch(
                self.text, start, start + _CENT_DIGITS
            ):
                continue
            is_behind_digit = self.text[max(start - 2, 0) : start].rstrip(" ")[-1:].isdecimal()
            if is_behind_digit and not piece.label and piece.element != ROOT:
                names = tree.class_and_id(piece.element).lower()
                if makes_cents(tree.names[piece.element], names):
                    found.append(start)
        return found

    def _number_texts(self) -> Iterator[tuple[str, int]]:
        """Return the numbers of the text, and those of elements that continue a word."""
        cents = self._starts_of_cents
        for match in _NUMBER.finditer(self.text):
            start = match.start()
            # Digits and the cents behind them are no number without a point.
            for cut in cents[bisect_right(cents, start) : bisect_left(cents, match.end())]:
                yield self.text[start:cut].rstrip(), start
                start = cut
            yield self.text[start : match.end()], start
        for number, piece in enumerate(self.tree.pieces):
            start = self.starts[number]
            end = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.text)
            joins = not piece.gap or (
                number + 1 < len(self.starts) and not self.tree.pieces[number + 1].gap
            )
            if joins and end - start <= _MAX_JOINED:
                for match in _NUMBER.finditer(self.text[start:end]):
                    yield match[0], start + match.start()

    @cached_property
    def dates(self) -> dict[date, list[Span]]:
        """The places of each date with a year, where a date may be ambiguous in both readings."""
        by_day: dict[date, list[Span]] = {}
        for day_first in (True, False):
            for found in find_dates(self.text, day_first=day_first):
                span = found.start, found.end
                spans = by_day.setdefault(found.day, [])
                if span not in spans[-2:] and len(spans) < MAX_MATCHES:
                    spans.append(span)
        return by_day

    def source_span(self, span: Span) -> Span:
        """Return the place in the source of a place in the text."""
        first, last = self.piece_at(span[0]), self.piece_at(max(span[1] - 1, span[0]))
        start = self._source_offset(first, span[0], is_end=False)
        return start, max(start, self._source_offset(last, span[1], is_end=True))

    def _source_offset(self, number: int, offset: int, *, is_end: bool) -> int:
        piece = self.tree.pieces[number]
        if number not in self._offsets:
            raw = self.tree.source[piece.start : piece.end]
            # Folded characters that the line omits.
            folded = fold_source(raw, is_json=piece.is_json) if piece.gap else ""
            skipped = len(folded) - len(folded.lstrip())
            self._offsets[number] = FoldedOffsets(raw, is_json=piece.is_json), skipped
        offsets, skipped = self._offsets[number]
        within = offset - self.starts[number] + skipped
        place = offsets.end(within) if is_end else offsets.start(within)
        return piece.start + place


def _places(text: str, needle: str, within: Span) -> Iterator[Span]:
    """Return the places of one text in a part of another."""
    start = text.find(needle, *within)
    for _ in range(_MAX_TRIES):
        if start < 0:
            return
        end = start + len(needle)
        yield start, end
        start = text.find(needle, end, within[1])


@lru_cache(maxsize=1 << 14)
def _readings(text: str) -> tuple[tuple[float, int, int], ...]:
    """Return the numbers that a text may mean, each with its place in the text."""
    found: dict[tuple[float, int, int], None] = {}
    for decimal_comma in (False, True):
        for integer in (False, True):
            value = parse_number(text, decimal_comma=decimal_comma, integer=integer)
            if value is not None:
                found[value, 0, len(text)] = None
    if not found or " " in text:
        for match in re.finditer(r"[^ ]+", text):
            if match[0] != text:
                for value, _, _ in _readings(match[0]):
                    found[value, match.start(), match.end()] = None
    return tuple(found)
