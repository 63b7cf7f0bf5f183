"""Estimates a page's importance from its URL and the anchor texts of the links to it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# The weight of a link by the grade of its anchor text: no text; a navigation word or a number;
# descriptive words.
LINK_WEIGHTS: Final = {"0": 0.6, "1": 0.8, "2": 1.0}
_FACTOR_PER_FOLDER: Final = 0.97
_FACTOR_FOR_QUERY: Final = 0.8
_NAVIGATION_WORDS: Final = frozenset(
    (
        *("back", "first", "here", "home", "index", "last", "less", "link", "more", "next"),
        *("prev", "previous", "read", "skip", "top", "up"),
    )
)


def anchor_grade(anchor: str) -> str:
    """Grade an anchor text from "0" (empty) to "2" (descriptive)."""
    words = anchor.lower().split()
    if not words:
        return "0"
    descriptive = any(len(w) > 1 and w.isalpha() and w not in _NAVIGATION_WORDS for w in words)
    return "2" if descriptive else "1"


def anchor_grades(anchors: Iterable[str]) -> str:
    """Return one digit for each anchor text, the form that the journal stores."""
    return "".join(map(anchor_grade, anchors))


def url_prior(url: str) -> float:
    """Return a factor of at most 1: deep paths and queries make an important page less likely."""
    path, _, query = url.partition("?")
    folder_factor = _FACTOR_PER_FOLDER ** max(0, path.count("/") - 3)
    return float(folder_factor) * (_FACTOR_FOR_QUERY if query else 1.0)
