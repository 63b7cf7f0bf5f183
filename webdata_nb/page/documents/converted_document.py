"""Defines a document that was converted to HTML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ConvertedDocument:
    """A document as HTML, from which all formats are made.

    Attributes
    ----------
    html
        The document as an HTML page.
    markdown
        The document as Markdown, where its own text is better than Markdown written from `html`.
    text
        Its text for full-text search, where that is better than the text of `html`.
    metadata
        Fields that the page's metadata has in addition.
    """

    html: str
    markdown: str | None = None
    text: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
