"""Writes the properties of a document as the head of an HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Final

# What the programs write when the author gives no title.
_DEFAULT_TITLES: Final = frozenset({"powerpoint presentation", "word document", "untitled"})


@dataclass(frozen=True, slots=True)
class DocumentProperties:
    """The properties of a document; texts that it does not declare are empty.

    Attributes
    ----------
    created, modified
        ISO 8601.
    page_count
        Pages or slides; None if the document does not say.
    """

    title: str = ""
    author: str = ""
    description: str = ""
    language: str = ""
    created: str = ""
    modified: str = ""
    page_count: int | None = None

    def to_html(self, body: str) -> str:
        """Return an HTML page with these properties."""
        title = "" if self.title.lower() in _DEFAULT_TITLES else self.title
        metas = (
            ("author", self.author),
            ("description", self.description),
            ("date", self.created),
            ("article:modified_time", self.modified),
        )
        head = f"<title>{escape(title)}</title>" if title else ""
        head += "".join(
            f'<meta name="{name}" content="{escape(text)}">' for name, text in metas if text
        )
        language = f' lang="{escape(self.language)}"' if self.language else ""
        return f"<!doctype html><html{language}><head>{head}</head><body>{body}</body></html>"
