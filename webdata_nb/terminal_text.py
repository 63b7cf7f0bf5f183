"""Makes text from web sites safe to print on a terminal."""

from __future__ import annotations


def printable_line(value: object) -> str:
    """Return the value as one line of text without control characters."""
    text = "".join(char if char.isprintable() else " " for char in str(value))
    return text.strip()
