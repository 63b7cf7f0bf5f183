"""The result of scraping a page, and its JSON."""

from __future__ import annotations

from typing import Annotated, Any, Final

import orjson
from msgspec import Meta, Struct
from msgspec.structs import replace

from webdata_nb.foreign_json import well_formed
from webdata_nb.page.content.links import Outlink
from webdata_nb.page.content.parsed_page import MAX_DECLARATIONS, PageDeclaration

MAX_TITLE_CHARS: Final = 20_000
MAX_URL_CHARS: Final = 64 * 1024
MAX_SKETCH_BYTES: Final = 4096

_Url = Annotated[str, Meta(max_length=MAX_URL_CHARS)]
_RobotsDirective = Annotated[str, Meta(pattern=r"^(?:noindex|nofollow|none)\Z")]
_Sketch = Annotated[bytes, Meta(max_length=MAX_SKETCH_BYTES)]


class Scraped(Struct, frozen=True):
    """The data of a page; formats and facts that were not requested are empty.

    The bounds are those of a message of a page worker, which a hostile page may control.

    Attributes
    ----------
    title
        The page's title; None without one.
    formats
        The requested formats, by the contract's names, as values or, with the option `encoded`, as
        JSON bytes.
    metadata
        The result of ``build_metadata``, if the fact ``"metadata"`` was requested.
    quality
        The result of ``rate_content``, if the fact ``"quality"`` was requested.
    outlinks
        The links of the whole page, unique by URL, in document order.
    canonical
        The canonical URL that the page declares, absolute, without fragment.
    robots
        The robots directives of the page: noindex, nofollow, none.
    content_hash
        The first 32 hex digits of the SHA-256 of the body; empty without metadata.
    text
        The content as text, for full-text search; empty with encoded Markdown, which contains it.
    sketch
        The result of ``compute_sketch``, if the fact ``"sketch"`` was requested.
    shape
        The result of ``compute_masked_sketch``, if the fact ``"shape"`` was requested.
    audit
        The result of ``audit_facts``, if the fact ``"audit"`` was requested.
    declarations
        What the page declares about its use, if the fact ``"rights"`` was requested.
    """

    title: Annotated[str, Meta(max_length=MAX_TITLE_CHARS)] | None
    formats: dict[str, Any]
    metadata: dict[str, Any]
    quality: dict[str, Any]
    outlinks: tuple[Outlink, ...]
    canonical: _Url | None
    robots: frozenset[_RobotsDirective]
    content_hash: Annotated[str, Meta(pattern=r"^[0-9a-f]{0,64}\Z")]
    text: str
    sketch: _Sketch = b""
    shape: _Sketch = b""
    audit: dict[str, Any] = {}
    declarations: Annotated[tuple[PageDeclaration, ...], Meta(max_length=MAX_DECLARATIONS)] = ()

    def encoded(self) -> Scraped:
        """Return a copy with the formats as JSON bytes."""
        formats, metadata = self.encode_formats()
        text = "" if "markdown" in formats else self.text
        return replace(self, formats=dict(formats), metadata=metadata, text=text)

    def encode_formats(self) -> tuple[dict[str, bytes], dict[str, Any]]:
        """Return the formats as JSON, and the metadata.

        A format that JSON cannot represent is null, with the reason in the metadata's
        `formats_omitted`.
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


def dumps(value: Any) -> bytes:
    """Return a value from a page as JSON.

    orjson refuses two kinds of values that pages contain: lone surrogates, which become U+FFFD,
    and integers beyond 64 bits, which become floats.

    Raises
    ------
    TypeError
        The value is nested too deeply, or is no JSON at all.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, dict):
        return {_plain(str(name)): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
