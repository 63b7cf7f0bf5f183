"""Changes of a text that several steps find first and make at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Edit: TypeAlias = tuple[int, int, str]
"""From where, to where, and what is written instead."""


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Make changes that stand in order and do not overlap."""
    written: list[str] = []
    done = 0
    for start, end, instead in edits:
        written += text[done:start], instead
        done = end
    return "".join([*written, text[done:]])
