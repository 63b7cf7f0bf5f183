"""Numbers the footnotes and endnotes of a document, and writes them at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_NOTES: Final = 10_000


class Footnotes:
    """The notes of a document, numbered in the order of their first references."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._keys: list[str] = []

    def refer(self, key: str) -> str:
        """Return a reference to a note as HTML."""
        if key not in self._numbers:
            self._keys.append(key)
            self._numbers[key] = len(self._keys)
        number = self._numbers[key]
        return (
            f'<sup><a href="#fn{number}" id="fnref{number}" class="footnote-ref"'
            f' role="doc-noteref">{number}</a></sup>'
        )

    def write(self, read_note: Callable[[str], str]) -> str:
        """Write the notes; `read_note` returns the HTML of one. A note may refer to others."""
        items: list[str] = []
        while len(items) < min(len(self._keys), MAX_NOTES):
            key = self._keys[len(items)]
            items.append(f'<li id="fn{len(items) + 1}">{read_note(key)}</li>')
        if not items:
            return ""
        notes = "".join(items)
        return f'<section class="footnotes" role="doc-endnotes"><ol>{notes}</ol></section>'
