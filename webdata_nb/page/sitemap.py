"""Parses sitemaps: XML with or without namespaces, RSS, Atom, or one URL per line.

XML is parsed as a stream. Entity declarations, deep nesting and oversized tags end the parse;
the URLs before the error count.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final
from xml.parsers import expat

from webdata_nb.page.errors import FetchError
from webdata_nb.page.urls import canonical_url

# Limits of the sitemap protocol for one file.
MAX_URLS: Final = 50_000
MAX_BYTES: Final = 50 * 1024 * 1024
MAX_URL_LENGTH: Final = 2048
MAX_DEPTH: Final = 64
MAX_TAG_BYTES: Final = 256 * 1024
_CHUNK_BYTES: Final = 64 * 1024
# expat delivers text in chunks, one per line or entity; no URL needs as many.
_MAX_TEXT_CHUNKS: Final = 4 * MAX_URL_LENGTH
_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_WBITS: Final = 31  # zlib's value for gzip only
# (parent, element) pairs whose text is the URL of a page or of another sitemap.
_PAGE_ELEMENTS: Final = frozenset({("url", "loc"), ("item", "link")})
_SITEMAP_ELEMENTS: Final = frozenset({("sitemap", "loc")})

SITEMAP_FORMAT: Final = "sitemap"
"""The format name for which a page worker returns the fields of a `ParsedSitemap`."""


@dataclass(frozen=True, slots=True)
class ParsedSitemap:
    """The canonical URLs of a sitemap in document order, and what was wrong with the file."""

    pages: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()
    problem: str = ""


def parse_sitemap(body: bytes) -> ParsedSitemap:
    """Parse a sitemap of any supported type, gzipped or not."""
    gzip_problem = ""
    if body.startswith(_GZIP_MAGIC):
        decompressor = zlib.decompressobj(_GZIP_WBITS)
        try:
            body = decompressor.decompress(body, MAX_BYTES)
        except zlib.error:
            body, gzip_problem = b"", "it is damaged gzip"
        else:
            if decompressor.unconsumed_tail:
                gzip_problem = "it unpacks to more than 50 MB"
            elif not decompressor.eof:
                gzip_problem = "it is cut off"
    parser = _SitemapParser()
    if body.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in {b"<", b"\xff", b"\xfe"}:
        problem = parser.parse_xml(body)
    else:
        problem = parser.parse_lines(body.decode("utf-8-sig", "replace"))
    return ParsedSitemap(tuple(parser.pages), tuple(parser.sitemaps), gzip_problem or problem)


class _UrlLimitError(Exception):
    """The sitemap lists more URLs than the protocol allows."""


class _SitemapParser:
    """Collects URLs from XML events or lines."""

    def __init__(self) -> None:
        self.pages: dict[str, None] = {}
        self.sitemaps: dict[str, None] = {}
        self._open_elements: list[str] = [""]
        self._text: list[str] = []

    def parse_lines(self, text: str) -> str:
        """Parse one URL per line; return the problem, empty without one."""
        try:
            for line in text.splitlines():
                if line.lstrip()[:4].lower() == "http":
                    self._add(self.pages, line)
        except _UrlLimitError:
            return f"it lists more than {MAX_URLS:,} URLs"
        return "" if self.pages or not text.strip() else "it is no sitemap"

    def parse_xml(self, body: bytes) -> str:
        """Parse XML; return the problem, empty without one."""
        parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text_chunk
        parser.EntityDeclHandler = _refuse_entities
        try:
            # expat rescans an unfinished tag with each chunk, so the size of tags is limited.
            for start in range(0, len(body), _CHUNK_BYTES):
                end = start + _CHUNK_BYTES
                parser.Parse(body[start:end], False)  # noqa: FBT003 - positional only
                if end - parser.CurrentByteIndex > MAX_TAG_BYTES:
                    return f"it has a tag of more than {MAX_TAG_BYTES // 1024} KiB"
            parser.Parse(b"", True)  # noqa: FBT003 - positional only
        except _UrlLimitError:
            return f"it lists more than {MAX_URLS:,} URLs"
        except expat.ExpatError as error:
            return f"it is no valid XML ({expat.ErrorString(error.code)}, line {error.lineno})"
        except _UnsafeXmlError as error:
            return str(error)
        except (LookupError, ValueError):
            return "it declares an encoding that cannot be read"
        return ""

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open_elements) > MAX_DEPTH:
            raise _UnsafeXmlError(f"it nests deeper than {MAX_DEPTH} elements")
        local = name.rpartition(":")[2]
        atom = local == "link" and self._open_elements[-1] == "entry"
        if atom and attributes.get("rel", "alternate") == "alternate":
            self._add(self.pages, attributes.get("href", ""))
        self._open_elements.append(local)
        self._text.clear()

    def _text_chunk(self, text: str) -> None:
        if len(self._text) < _MAX_TEXT_CHUNKS:
            self._text.append(text)

    def _end(self, _name: str) -> None:
        inner = self._open_elements.pop()
        path = (self._open_elements[-1], inner)
        urls = None
        if path in _PAGE_ELEMENTS:
            urls = self.pages
        elif path in _SITEMAP_ELEMENTS:
            urls = self.sitemaps
        if urls is not None and len(self._text) < _MAX_TEXT_CHUNKS:
            self._add(urls, "".join(self._text))
        self._text.clear()

    @staticmethod
    def _add(urls: dict[str, None], url: str) -> None:
        url = url.strip()
        if len(url) > MAX_URL_LENGTH:
            return
        try:
            urls.setdefault(canonical_url(url))
        except FetchError:
            return
        if len(urls) > MAX_URLS:
            urls.popitem()
            raise _UrlLimitError


class _UnsafeXmlError(Exception):
    """The document has XML features that no sitemap needs."""


def _refuse_entities(*_declared: object) -> None:
    raise _UnsafeXmlError("it declares entities, which no sitemap needs")
