"""Finds the text of a page that names the product."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.parser import Element
from webdata_nb.page.extract.visible.element_names import ASIDE, HIDDEN, LINK, OVERLAY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webdata_nb.page.extract.visible.page_text import VisibleText

_WORD: Final = re.compile(r"\w+")
_HEADINGS: Final = frozenset({"h1", "h2", "h3"})
_TITLE_NAME: Final = re.compile(r"title|headline|(?<![a-z])name(?![a-z])|heading")
_HEADING_LEVELS: Final = 3
_MAX_NAMES: Final = 4
_MAX_PIECES: Final = 6
_MAX_TITLE_LENGTH: Final = 300
_MIN_SHARE_OF_TEXT: Final = 0.6
_MIN_SHARE_OF_NAME: Final = 0.1
_FIRST_LEVEL: Final = 0.5
_OTHER_LEVEL: Final = 0.1
_ASIDE: Final = 0.4
_LINK: Final = 0.3


def find_title(texts: Sequence[VisibleText], names: Sequence[str]) -> int | None:
    """Return the index of the heading that best repeats a declared name, else of the first h1."""
    word_sets = [set(_WORD.findall(name.casefold())) for name in names[:_MAX_NAMES]]
    best, best_rank, first_heading = None, 0.0, None
    for index, text in enumerate(texts):
        if text.flags & (HIDDEN | OVERLAY) or len(text.text) > _MAX_TITLE_LENGTH:
            continue
        heading = _heading_of(text.element)
        if heading is None and not _TITLE_NAME.search(text.names):
            continue
        if first_heading is None and not text.flags & ASIDE and _level(heading) == 1:
            first_heading = index
        rank = _rank(texts, index, heading, word_sets)
        if rank > best_rank:
            best, best_rank = index, rank
    return first_heading if best is None else best


def _rank(
    texts: Sequence[VisibleText], index: int, heading: Element | None, names: list[set[str]]
) -> float:
    """Return how likely a text is the title; 0 if it repeats no name."""
    words = set(_WORD.findall(_text_of_heading(texts, index, heading).casefold()))
    likeness = max((_likeness(words, name) for name in names), default=0.0)
    if not likeness:
        return 0.0
    level = _level(heading)
    weight = _FIRST_LEVEL if level == 1 else _OTHER_LEVEL * bool(level)
    flags = texts[index].flags
    return likeness + weight - _ASIDE * bool(flags & ASIDE) - _LINK * bool(flags & LINK)


def _likeness(words: set[str], name: set[str]) -> float:
    """Return how well a text repeats a name, 0 to 1; 0 if many of its words are others."""
    common = len(words & name)
    if common < _MIN_SHARE_OF_TEXT * len(words) or common < _MIN_SHARE_OF_NAME * len(name):
        return 0.0
    return 2 * common / max(1, len(words) + len(name))


def _text_of_heading(texts: Sequence[VisibleText], index: int, heading: Element | None) -> str:
    """Return a text together with the following texts of the same heading."""
    pieces = [texts[index].text]
    for text in texts[index + 1 : index + _MAX_PIECES] if heading is not None else ():
        if _heading_of(text.element) != heading:
            break
        pieces.append(text.text)
    return " ".join(pieces)


def _level(heading: Element | None) -> int:
    return 0 if heading is None else int(heading.tag[1])


def _heading_of(element: Element) -> Element | None:
    """Return the heading that an element is or is in, at most two levels up."""
    current: object = element
    for _ in range(_HEADING_LEVELS):
        if not isinstance(current, Element):
            return None
        if current.tag in _HEADINGS:
            return current
        current = current.parent
    return None
