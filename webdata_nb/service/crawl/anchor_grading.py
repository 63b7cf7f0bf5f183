"""What a link itself says about the page it leads to, before anybody has read that page. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# How much of a page's importance a link passes on, by the grade of its text: none at all, a word
# of navigation or a number, and words that name something.
WEIGHTS: Final = {"0": 0.6, "1": 0.8, "2": 1.0}
_DEEPER: Final = 0.97
_QUERIED: Final = 0.8
_NAVIGATION: Final = frozenset(
    (
        *("back", "first", "here", "home", "index", "last", "less", "link", "more", "next"),
        *("prev", "previous", "read", "skip", "top", "up"),
    )
)


def anchor_grade(anchor: str) -> str:
    """Return one digit for what the text of a link tells, 0 to 2."""
    words = anchor.lower().split()
    if not words:
        return "0"
    return "2" if any(len(w) > 1 and w.isalpha() and w not in _NAVIGATION for w in words) else "1"


def anchor_grades(anchors: Iterable[str]) -> str:
    """Return the grades of many link texts, a digit each: how the journal keeps them."""
    return "".join(map(anchor_grade, anchors))


def url_prior(url: str) -> float:
    """Return how likely a URL is to be a page of note, by its form alone: at most 1.

    Pages of note lie higher up in a site, and seldom behind a query.
    """
    path, _, query = url.partition("?")
    return float(_DEEPER ** max(0, path.count("/") - 3)) * (_QUERIED if query else 1.0)
