"""Scans the source of an HTML page into a tree of elements with their positions in it.

The parser of `content` knows no positions of text. This scanner is linear in the length of the
source, also where markup is broken: patterns do not backtrack, and the search for the ends of tags
with a `<` or `>` in an attribute is limited.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Final

from webdata_nb.page.content.class_names import word_set
from webdata_nb.page.extract.evidence.json_scan import scan_json
from webdata_nb.page.extract.evidence.page_tree import (
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
_COMMENT_END: Final = re.compile(r"--!?>")
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
        self._has_microdata = "itemprop" in source
        self._long_tag_characters = _MAX_LONG_TAG_CHARACTERS

    def scan(self) -> PageTree:
        """Scan the source in one loop."""
        tree, stack, source = self._tree, self._stack, self._tree.source
        names, pieces = tree.names, tree.pieces
        text_start, skip_to, gap = 0, 0, "\n"
        for match in _SCAN.finditer(source):
            start = match.start()
            if start < skip_to:
                continue
            if len(names) >= MAX_ELEMENTS:
                text_start = len(source)  # what is not scanned is no text
                break
            end = match.end() if match[3] else self._end_of(match)
            if end is None:
                continue
            skip_to = end
            if start > text_start:
                if not source[text_start:start].isspace():
                    element = stack[-1] if stack else ROOT
                    pieces.append(TextPiece(text_start, start, element, "", gap))
                    gap = ""
                elif not gap:
                    gap = " "
            text_start = end
            if not match[2]:
                continue
            name = match[2].lower()
            if name not in _INLINE:
                gap = "\n"
            if match[1]:
                self._close(name, end)
            elif resumed := self._open(name, start, end):
                gap = "\n"
                text_start = skip_to = resumed
        self._add_last_text(text_start, gap)
        self._close_to(0, len(source))
        return tree

    def _end_of(self, match: re.Match[str]) -> int | None:
        """Return the end of a comment or a long tag; None if it is no tag."""
        return self._end_of_long_tag(match.end()) if match[2] else self._end_of_comment(match)

    def _add_last_text(self, start: int, gap: str) -> None:
        source = self._tree.source
        if start < len(source) and not source[start:].isspace():
            element = self._stack[-1] if self._stack else ROOT
            self._tree.pieces.append(TextPiece(start, len(source), element, "", gap))

    def _end_of_comment(self, match: re.Match[str]) -> int:
        source, start = self._tree.source, match.start()
        if match[0] == "<!--":
            closing = _COMMENT_END.search(source, start + len("<!"))  # `<!-->` is a whole comment
            end = closing.end() if closing else len(source)
            self._tree.comments.append((start, end))
            return end
        end = source.find(">", match.end())
        return len(source) if end < 0 else end + 1

    def _end_of_long_tag(self, start: int) -> int | None:
        """Return the end of a tag with `<` or `>` in an attribute; None if it has no end."""
        if self._long_tag_characters <= 0:
            return None
        limit = min(len(self._tree.source), start + MAX_TAG_LENGTH)
        match = _LONG_TAG.match(self._tree.source, start, limit)
        self._long_tag_characters -= (match.end() if match else limit) - start
        return match.end() if match else None

    def _open(self, name: str, start: int, end: int) -> int:
        """Add an element; return where the text after its content or declared value begins.

        That is 0 for an element without these.
        """
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
            return self._add_raw_text(name, number, end)
        if name not in _VOID and tree.source[end - 2] != "/" and len(stack) < MAX_DEPTH:
            stack.append(number)
        return end if is_declared else 0

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

    def _add_raw_text(self, name: str, number: int, start: int) -> int:
        tree = self._tree
        end = tree.lower_source.find(f"</{name}", start)
        end = len(tree.source) if end < 0 else end
        if name == "script" and _JSON_LD in tree.opening(number).lower():
            scan_json(tree, number, end)
        if name in {"title", "textarea"} and end > start:
            tree.pieces.append(TextPiece(start, end, number))
        tree.close(number, end)
        return end

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
