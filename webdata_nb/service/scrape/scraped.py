"""What a scrape gives back."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import orjson

from webdata_nb.service.scrape.links import outlinks_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webdata_nb.service.scrape.links import Outlink


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
        formats = {name: orjson.dumps(value) for name, value in self.formats.items()}
        return replace(self, formats=formats, text="" if "markdown" in formats else self.text)

    def __reduce__(self) -> tuple[Any, ...]:
        # What a dataclass with slots does by itself takes longer than the page's text; so do
        # named tuples, which travel as their columns.
        return _arrived, (tuple(zip(*self.outlinks, strict=True)), *_REST(self))


_REST: Final = attrgetter(*(each.name for each in fields(Scraped) if each.name != "outlinks"))


def _arrived(columns: Sequence[Sequence[Any]], *rest: Any) -> Scraped:
    title, formats, metadata, quality, *others = rest
    return Scraped(title, formats, metadata, quality, outlinks_of(columns), *others)
