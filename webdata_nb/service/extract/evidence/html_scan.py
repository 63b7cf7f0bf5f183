"""Scans the source of an HTML page into a tree of elements that know their place in it.

The parser of `content` knows no positions of text. This scanner is linear in the length of the
source, also where markup is broken: patterns do not backtrack, and the search for the ends of tags
with a `<` or `>` in an attribute is limited.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Final

from webdata_nb.service.content.class_names import word_set
from webdata_nb.service.extract.evidence.json_scan import scan_json
from webdata_nb.service.extract.evidence.page_tree import (
    MAX_DEPTH,
    MAX_TAG_LENGTH,
    ROOT,
    PageTree,
    TextPiece,
)

MAX_ELEMENTS: Final = 200_000
_MAX_LONG_TAG_CHARACTERS: Final = 10_000_000
"""Characters that are searched for the ends of long tags, on one page."""
_MAX_OPEN: Final = 60
_MAX_IMPLIED: Final = 20

_SCAN: Final = re.compile(
    r"<(?:(?P<close>/?)(?P<name>[a-zA-Z][^\s/<>\"']{0,60})"
    r"(?P<rest>[^<>\"']*+(?:\"[^\"<>]*+\"[^<>\"']*+|'[^'<>]*+'[^<>\"']*+)*+>)?|!--|[!?])"
)
_LONG_TAG: Final = re.compile(r"[^\"'>]*+(?:\"[^\"]*+\"[^\"'>]*+|'[^']*+'[^\"'>]*+)*+>")
_VOID: Final = word_set(
    "area base br col embed frame hr img input link meta param source track wbr"
)
_RAW_TEXT: Final = frozenset({"script", "style", "textarea", "title"})
_JSON_LD: Final = "application/ld+json"
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
        self._text_start = 0
        self._gap = "\n"
        self._long_tag_characters = _MAX_LONG_TAG_CHARACTERS

    def scan(self) -> PageTree:
        source, skip_to = self._tree.source, 0
        for match in _SCAN.finditer(source):
            start = match.start()
            if start < skip_to:
                continue
            if len(self._tree.names) >= MAX_ELEMENTS:
                break
            name = match["name"]
            if name is None:
                skip_to = self._end_of_comment(match)
                self._add_text(start, skip_to)
                continue
            end = match.end() if match["rest"] else self._end_of_long_tag(match.end())
            if end is not None:
                self._add_text(start, end)
                skip_to = self._add_tag(name.lower(), start, end, is_closing=bool(match["close"]))
        self._add_text(len(source), len(source))
        self._close_to(0, len(source))
        return self._tree

    def _end_of_comment(self, match: re.Match[str]) -> int:
        closing = "-->" if match[0] == "<!--" else ">"
        end = self._tree.source.find(closing, match.end())
        return len(self._tree.source) if end < 0 else end + len(closing)

    def _end_of_long_tag(self, start: int) -> int | None:
        """Return the end of a tag with `<` or `>` in an attribute; None if it has no end."""
        if self._long_tag_characters <= 0:
            return None
        limit = min(len(self._tree.source), start + MAX_TAG_LENGTH)
        match = _LONG_TAG.match(self._tree.source, start, limit)
        self._long_tag_characters -= (match.end() if match else limit) - start
        return match.end() if match else None

    def _add_text(self, start: int, end: int) -> None:
        source = self._tree.source
        if start > self._text_start and not source[self._text_start : start].isspace():
            element = self._stack[-1] if self._stack else ROOT
            self._tree.pieces.append(TextPiece(self._text_start, start, element, gap=self._gap))
            self._gap = ""
        elif start > self._text_start:
            self._gap = self._gap or " "
        self._text_start = end

    def _add_tag(self, name: str, start: int, end: int, *, is_closing: bool) -> int:
        """Add a tag; return the place where the next one may begin."""
        if name not in _INLINE:
            self._gap = "\n"
        if is_closing:
            self._close(name, end)
            return end
        if name in _CLOSED_BY:
            self._close_implied(name, start)
        number = self._tree.add(name, start, end, self._stack[-1] if self._stack else ROOT)
        if name == "meta" or self._tree.source.find("itemprop", start, end) >= 0:
            self._add_declared_value(number)
        if name in _RAW_TEXT:
            return self._skip_raw_text(name, number, end)
        is_empty = name in _VOID or self._tree.source[end - 2] == "/"
        if not is_empty and len(self._stack) < MAX_DEPTH:
            self._stack.append(number)
        return end

    def _add_declared_value(self, number: int) -> None:
        """Add the value that a tag declares in its attributes: of a meta tag or of microdata."""
        attributes = self._tree.attributes(number)
        label = attributes.get("itemprop") or attributes.get("property") or attributes.get("name")
        value = next((attributes[n] for n in _VALUE_ATTRIBUTES if attributes.get(n)), "")
        if label and value:
            start = self._tree.opening(number).find(value) + self._tree.starts[number]
            declared = TextPiece(start, start + len(value), number, unescape(label))
            self._tree.pieces.append(declared)
            self._gap = "\n"

    def _skip_raw_text(self, name: str, number: int, start: int) -> int:
        lower = self._tree.lower_source
        end = lower.find(f"</{name}", start)
        end = len(lower) if end < 0 else end
        if name == "script" and _JSON_LD in self._tree.opening(number).lower():
            scan_json(self._tree, number, end)
        if name in {"title", "textarea"} and end > start:
            self._tree.pieces.append(TextPiece(start, end, number))
        self._tree.close(number, end)
        self._gap = "\n"
        self._text_start = end
        return end

    def _close(self, name: str, end: int) -> None:
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
