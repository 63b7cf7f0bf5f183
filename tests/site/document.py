"""Small HTML documents for the test sites: a title, prose that differs, and links."""

from __future__ import annotations

import random
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORDS: Final = (
    *("harbour", "morning", "lamp", "copper", "window", "garden", "letter", "river", "winter"),
    *("kettle", "stone", "ladder", "cloud", "engine", "paper", "island", "candle", "market"),
    *("bridge", "feather", "meadow", "signal", "bottle", "corner", "thunder"),
)


def prose(seed: str, words: int = 60) -> str:
    """Return sentences that are the same for the same seed, and hardly ever for another."""
    chosen = random.Random(seed).choices(_WORDS, k=words)
    sentences = (chosen[start : start + 9] for start in range(0, words, 9))
    return " ".join(" ".join(sentence).capitalize() + "." for sentence in sentences)


def document(
    title: str, *, links: Iterable[str] = (), text: str | None = None, head: str = ""
) -> str:
    """Return an HTML page whose main element holds a heading, a paragraph and the links."""
    items = "\n".join(f'<li><a href="{escape(link)}">{escape(link)}</a></li>' for link in links)
    paragraph = prose(title) if text is None else text
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>{head}</head>\n<body><main>\n<h1>{escape(title)}</h1>\n"
        f"<p>{paragraph}</p>\n<ul>\n{items}\n</ul>\n</main></body>\n</html>\n"
    )
