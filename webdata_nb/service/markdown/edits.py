"""Changes of Markdown that several steps find first and make at once, save in code."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Edit: TypeAlias = tuple[int, int, str]
"""From where, to where, and what is written instead."""

_FENCE = re.compile(r"[ >]*(`{3,})[^`\n]*$", re.MULTILINE)


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Make changes that stand in order and do not overlap."""
    written: list[str] = []
    done = 0
    for start, end, instead in edits:
        written += text[done:start], instead
        done = end
    return "".join([*written, text[done:]])


def fenced(markdown: str) -> list[tuple[int, int]]:
    """Find the fenced blocks: where the line of each fence starts and where its last one ends."""
    blocks = []
    end = opening = start = 0
    while end >= 0 and (at := markdown.find("```", end)) >= 0:
        line = markdown.rfind("\n", 0, at) + 1
        fence = _FENCE.match(markdown, line)
        ticks = len(fence[1]) if fence else 0
        if not opening and ticks:
            opening, start = ticks, line
        elif opening and ticks >= opening and fence and fence[0].endswith("`"):
            blocks.append((start, fence.end()))
            opening = 0
        end = fence.end() if fence else markdown.find("\n", at)
    return blocks


def outside(markdown: str, edits: list[Edit]) -> list[Edit]:
    """Return those of `edits` that begin in no fenced block."""
    first = markdown.find("```") if edits else -1
    if first < 0:
        return edits
    last = markdown.rfind("```")
    if not any(first <= each[0] < last for each in edits):
        return edits  # to find the blocks takes longer
    bounds = [0, *(bound for block in fenced(markdown) for bound in block)]
    return [each for each in edits if bisect_right(bounds, each[0]) % 2]
