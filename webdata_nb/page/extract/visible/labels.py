"""Reads the values that the text of a page has behind a label and a colon: ``Language: Estonian``.

The label begins a block, a line of it, or a part after ``|``. Its value is the rest of the line, or
the block beside it. Navigation, forms, headings and choosers of languages are no content. Rows of
tables and definition lists are read with the tables.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, cast

from webdata_nb.page.content.parser import (
    BLOCKS,
    HEADINGS,
    NOT_RENDERED,
    Element,
    Text,
    body_of,
    collapse_whitespace,
    element_before,
)
from webdata_nb.page.extract.field_names import normalize_short_name
from webdata_nb.page.extract.visible.page_text import (
    ASIDE,
    CHOICE,
    HIDDEN,
    OVERLAY,
    STRUCK,
    flags_of,
    name_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.content.parsed_page import ParsedPage
    from webdata_nb.page.content.parser import Node

LABELS: Final = "labels"
"""The key of the labels in the formats that `scrape` returns; no request can name it."""
MAX_NODES: Final = 60_000
"""Nodes of a page that are read; the rest of a larger page is ignored."""
MAX_CANDIDATES: Final = 500
"""Texts with a colon that are looked at."""

_MAX_LABEL_LENGTH: Final = 40
_MAX_VALUE_LENGTH: Final = 100
_MAX_VALUE_WORDS: Final = 12
_MAX_PIECES: Final = 12
_MAX_LEVELS: Final = 24
_LABEL: Final = re.compile(r"([^\W\d_][^:\uff1a|]{0,39}?)\s*(?::(?!//)|\uff1a)\s*(.*)")
_PART: Final = re.compile(r"\s+[|\u00b7\u2022\u2013\u2014]\s+")
_INVISIBLE: Final = re.compile("[\u200b-\u200f\u202a-\u202e\u2060\ufeff]")
_SENTENCE: Final = re.compile(r"(?:\S+\s+){5,}\S+[.!?]$")
_OTHER_LABEL: Final = re.compile(r"[^\W\d_][:\uff1a]\s")
_CHOOSER: Final = re.compile(
    r"(?<![a-z])(?:lang(?:uage)?|locale|country|currency|i18n|translations?)s?"
    r"-?(?:switch|select|pick|choos|menu|nav|list|bar|toggle|links?(?![a-z])|dropdown)"
)
_NO_CONTENT: Final = frozenset(
    {"nav", "footer", "aside", "form", "label", "button", "select", "dialog"}
    | {*HEADINGS, "figcaption", "blockquote", "pre", "code", "textarea"}
    | NOT_RENDERED
)
_CONTENT: Final = frozenset({"main", "article"})
_NO_CONTENT_FLAGS: Final = ASIDE | CHOICE | HIDDEN | OVERLAY
_BLOCKS: Final = BLOCKS | {"pre"}
_COLONS: Final = frozenset(":\uff1a")
_SEPARATORS: Final = frozenset("|;\u00b7\u2022\u2013\u2014")
_VALUE_BLOCKS: Final = frozenset({"p", "div", "li"})


def read_labels(page: ParsedPage) -> dict[str, list[str]]:
    """Return the values by their label as it is written.

    A value is its text, and the machine-readable form of a ``time`` in it. A label with several
    values is of parts of the page, such as its teasers, and is left out.
    """
    found: dict[str, tuple[str, list[str]]] = {}
    several: set[str] = set()
    for text in _texts_with_colon(page):
        for label, values in _labelled_values(text):
            name = normalize_short_name(label)
            if name and found.setdefault(name, (label, values))[1][0] != values[0]:
                several.add(name)
    return dict(named for name, named in found.items() if name not in several)


def _texts_with_colon(page: ParsedPage) -> Iterator[Text]:
    body = body_of(page.document)
    candidates = 0
    for number, node in enumerate(body.descendants if body is not None else ()):
        if number >= MAX_NODES or candidates >= MAX_CANDIDATES:
            return
        if isinstance(node, Text) and (":" in node.data or "\uff1a" in node.data):
            candidates += 1
            yield node


def _labelled_values(text: Text) -> Iterator[tuple[str, list[str]]]:
    """Return the labels in a text with their values."""
    own, start = _clean(text.data[: 4 * _MAX_VALUE_LENGTH]), cast("Node", text)
    if own[:1] in _COLONS:
        before = element_before(text)
        if before is None or before.tag in _BLOCKS:
            return
        own, start = _clean(before.text[: 2 * _MAX_LABEL_LENGTH]) + own, before
    parts = _PART.split(own)
    for number, part in enumerate(parts):
        match = _LABEL.fullmatch(part)
        if match is None:
            continue
        if (not number and not _begins_line(start)) or not _is_content(text):
            return
        is_last = number == len(parts) - 1
        pieces = _following(text, has_value=bool(match[2])) if is_last else []
        value = collapse_whitespace(" ".join([match[2], *(piece for piece, _ in pieces)]))
        value = _PART.split(value)[0].replace(" ,", ",").strip(" ;|")
        if value and _is_value(value):
            times = [machine for _, machine in pieces if machine]
            yield match[1], [value, *times[:1]]


def _clean(text: str) -> str:
    """Collapse white space and drop the marks of writing directions, which some shops add."""
    return collapse_whitespace(_INVISIBLE.sub("", text))


def _is_value(value: str) -> bool:
    if len(value) > _MAX_VALUE_LENGTH or value.count(" ") >= _MAX_VALUE_WORDS:
        return False
    return not _OTHER_LABEL.search(value) and not _SENTENCE.search(value)


def _begins_line(start: Node) -> bool:
    """Return whether no other text is right before a node in its block or line."""
    node = start
    for _ in range(_MAX_LEVELS):
        before = node.previous_sibling
        while isinstance(before, Text) and not before.data.strip():
            before = before.previous_sibling
        if before is not None:
            return not isinstance(before, Text) or before.data.rstrip()[-1] in _SEPARATORS
        parent = node.parent
        if not isinstance(parent, Element) or parent.tag in _BLOCKS:
            return True
        node = parent
    return False


def _is_content(text: Text) -> bool:
    """Return whether a text belongs to the content of the page."""
    current, in_header = text.parent, False
    for _ in range(_MAX_LEVELS):
        if not isinstance(current, Element) or current.tag == "body":
            return not in_header
        name = name_of(current)
        if current.tag in _NO_CONTENT or (current.tag == "a" and current.attr("href")):
            return False
        if flags_of(current, name) & _NO_CONTENT_FLAGS or _CHOOSER.search(name):
            return False
        if current.tag in _CONTENT:
            return True
        in_header = in_header or current.tag == "header"
        current = current.parent
    return not in_header


def _following(text: Text, *, has_value: bool) -> list[tuple[str, str]]:
    """Return the texts after a label in its line, with the machine-readable times.

    Those are beside the label in its element, else in the elements around it; if the label is alone
    in its block, those of the block beside it.
    """
    pieces: list[tuple[str, str]] = []
    node: Node = text
    for _ in range(_MAX_LEVELS):
        after = node.next_sibling
        while after is not None and len(pieces) <= _MAX_PIECES:
            if isinstance(after, Element) and (after.tag in _BLOCKS or after.tag == "br"):
                return pieces
            pieces += _pieces(after)
            after = after.next_sibling
        parent = node.parent
        if has_value or pieces or not isinstance(parent, Element):
            return pieces
        if parent.tag in _BLOCKS:
            return _beside(parent)
        node = parent
    return pieces


def _beside(block: Element) -> list[tuple[str, str]]:
    """Return the texts of the block after one that has only a label."""
    beside = block.next_sibling
    while isinstance(beside, Text) and not beside.data.strip():
        beside = beside.next_sibling
    is_value = isinstance(beside, Element) and {block.tag, beside.tag} <= _VALUE_BLOCKS
    return _pieces(beside) if is_value and beside is not None else []


def _pieces(node: Node) -> list[tuple[str, str]]:
    if isinstance(node, Text):
        data = _clean(node.data)
        return [(data, "")] if data else []
    if not isinstance(node, Element) or node.tag in NOT_RENDERED:
        return []
    if flags_of(node, name_of(node)) & (STRUCK | HIDDEN):
        return []
    data = _clean(node.text)
    times = [node] if node.tag == "time" else node.iter_elements({"time"})
    machine = next((value for time in times if (value := time.attr("datetime"))), "")
    return [(data, machine)] if data else []
