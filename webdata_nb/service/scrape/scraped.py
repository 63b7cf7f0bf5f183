"""What a scrape gives back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from webdata_nb.service.scrape.plain_json import dumps

if TYPE_CHECKING:
    from webdata_nb.service.content.links import Outlink


@dataclass(frozen=True, slots=True)
class Scraped:
    """A page as data; what was not asked for is empty.

    Attributes
    ----------
    title
        The page's title, None when it has none.
    formats
        The formats asked for, by the contract's names; values are JSON, and where the options
        say `encoded` its bytes.
    metadata
        As described in ``metadata``; where ``"metadata"`` is among the facts asked for.
    quality
        As described in ``quality``; where ``"quality"`` is among them.
    outlinks
        Where the whole page leads, unique by URL, in document order.
    canonical
        The canonical URL the page declares, absolute, without fragment.
    robots
        Which of noindex, nofollow and none the page says to crawlers.
    content_hash
        SHA-256 of the body, the first 32 hex digits; with the metadata.
    text
        The content as text, for full-text search; encoded Markdown has it already.
    sketch
        Title and text as ``sketch.sketch`` gives them; where ``"sketch"`` is among the facts.
    shape
        The same as ``sketch.shape`` gives them; where ``"shape"`` is among them.
    """

    title: str | None
    formats: dict[str, Any]
    metadata: dict[str, Any]
    quality: dict[str, Any]
    outlinks: tuple[Outlink, ...]
    canonical: str | None
    robots: frozenset[str]
    content_hash: str
    text: str
    sketch: bytes = b""
    shape: bytes = b""

    def encoded(self) -> Scraped:
        """Return the same with its formats as JSON bytes."""
        formats, metadata = self.encode_formats()
        text = "" if "markdown" in formats else self.text
        return replace(self, formats=dict(formats), metadata=metadata, text=text)

    def encode_formats(self) -> tuple[dict[str, bytes], dict[str, Any]]:
        """Return the formats as JSON, and the metadata.

        A format that JSON cannot hold is null, and `formats_omitted` in the metadata says why.
        """
        encoded, omitted = {}, {}
        for name, value in self.formats.items():
            try:
                encoded[name] = value if isinstance(value, bytes) else dumps(value)
            except (TypeError, RecursionError):
                encoded[name] = b"null"
                omitted[name] = "it nests too deeply"
        note = {"formats_omitted": omitted} if omitted else {}
        return encoded, {**self.metadata, **note}
