"""What a sitemap lists: XML in any namespace or none, RSS, Atom, or one URL a line. Pure.

XML is read as a stream, and a document that declares entities is refused before any is expanded;
so is one that nests deeply or has a tag of many attributes. Whatever came before a fault counts.
Page workers read sitemaps, within the time and memory of a page.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, Final
from xml.parsers import expat

from webdata_nb.service.errors import FetchError
from webdata_nb.service.web.urls import canonical_url

# The protocol's own bounds for one file.
MAX_URLS: Final = 50_000
MAX_BYTES: Final = 50 * 1024 * 1024
MAX_URL_LENGTH: Final = 2048
MAX_DEPTH: Final = 64
MAX_TAG_BYTES: Final = 256 * 1024
_PART: Final = 64 * 1024
# Pieces in which one text comes: a line or an entity is one, so that no address has as many.
_PIECES: Final = 4 * MAX_URL_LENGTH
_GZIP: Final = b"\x1f\x8b"
_WITH_HEADER: Final = 31  # zlib's number for "gzip, and nothing else"
# Which text is a page's address, and which a further sitemap's, by element and its parent.
_PAGES: Final = frozenset({("url", "loc"), ("item", "link")})
_SITEMAPS: Final = frozenset({("sitemap", "loc")})


SITEMAP_FORMAT: Final = "sitemap"
"""The format under which a page worker answers with a `ParsedSitemap`, as its fields."""


@dataclass(frozen=True, slots=True)
class ParsedSitemap:
    """The canonical URLs of a file, in its order, and what was wrong with it."""

    pages: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()
    problem: str = ""


def sitemap_from_fields(fields: dict[str, Any]) -> ParsedSitemap:
    """Return the listing whose fields a page worker gave."""
    return ParsedSitemap(tuple(fields["pages"]), tuple(fields["sitemaps"]), fields["problem"])


def parse_sitemap(body: bytes) -> ParsedSitemap:
    """Read a sitemap of any of the known kinds, gzipped or not."""
    problem = ""
    if body.startswith(_GZIP):
        body, problem = _unpacked(body)
    reader = _SitemapParser()
    if body.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in {b"<", b"\xff", b"\xfe"}:
        found = reader.xml(body)
    else:
        found = reader.lines(body.decode("utf-8-sig", "replace"))
    return ParsedSitemap(tuple(reader.pages), tuple(reader.sitemaps), problem or found)


def _unpacked(body: bytes) -> tuple[bytes, str]:
    unpacker = zlib.decompressobj(_WITH_HEADER)
    try:
        data = unpacker.decompress(body, MAX_BYTES)
    except zlib.error:
        return b"", "it is damaged gzip"
    if unpacker.unconsumed_tail:
        return data, "it unpacks to more than 50 MB"
    return data, "" if unpacker.eof else "it is cut off"


class _UrlLimitError(Exception):
    """Enough was read."""


class _SitemapParser:
    """Collects URLs as elements and lines go by."""

    def __init__(self) -> None:
        self.pages: dict[str, None] = {}
        self.sitemaps: dict[str, None] = {}
        self._names: list[str] = [""]
        self._text: list[str] = []

    def lines(self, text: str) -> str:
        """Read one URL a line; return what was wrong."""
        try:
            for line in text.splitlines():
                if line.lstrip()[:4].lower() == "http":
                    self._take(self.pages, line)
        except _UrlLimitError:
            return f"it lists more than {MAX_URLS:,} URLs"
        return "" if self.pages or not text.strip() else "it is no sitemap"

    def xml(self, body: bytes) -> str:
        """Read elements; return what was wrong."""
        parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._say
        parser.EntityDeclHandler = _refuse_entities
        try:
            _feed(parser, body)
        except _UrlLimitError:
            return f"it lists more than {MAX_URLS:,} URLs"
        except expat.ExpatError as error:
            return f"it is no valid XML ({expat.ErrorString(error.code)}, line {error.lineno})"
        except _UnsafeXmlError as refusal:
            return str(refusal)
        return ""

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._names) > MAX_DEPTH:
            raise _UnsafeXmlError(f"it nests deeper than {MAX_DEPTH} elements")
        local = _local(name)
        atom = local == "link" and self._names[-1] == "entry"
        if atom and attributes.get("rel", "alternate") == "alternate":
            self._take(self.pages, attributes.get("href", ""))
        self._names.append(local)
        self._text.clear()

    def _say(self, text: str) -> None:
        if len(self._text) < _PIECES:
            self._text.append(text)

    def _end(self, _name: str) -> None:
        inner = self._names.pop()
        place = (self._names[-1], inner)
        into = self.pages if place in _PAGES else self.sitemaps if place in _SITEMAPS else None
        if into is not None and len(self._text) < _PIECES:
            self._take(into, "".join(self._text))
        self._text.clear()

    @staticmethod
    def _take(into: dict[str, None], url: str) -> None:
        url = url.strip()
        if len(url) > MAX_URL_LENGTH:
            return
        try:
            into.setdefault(canonical_url(url))
        except FetchError:
            return
        if len(into) > MAX_URLS:
            into.popitem()
            raise _UrlLimitError


class _UnsafeXmlError(Exception):
    """The document has something that no sitemap needs."""


def _refuse_entities(*_declared: object) -> None:
    raise _UnsafeXmlError("it declares entities, which no sitemap needs")


def _feed(parser: expat.XMLParserType, body: bytes) -> None:
    """Parse part by part; a tag that does not end would be read again with each part."""
    for start in range(0, len(body), _PART):
        end = start + _PART
        parser.Parse(body[start:end], False)  # noqa: FBT003 - the parser takes no names
        if end - parser.CurrentByteIndex > MAX_TAG_BYTES:
            raise _UnsafeXmlError(f"it has a tag of more than {MAX_TAG_BYTES // 1024} KiB")
    parser.Parse(b"", True)  # noqa: FBT003 - the parser takes no names


def _local(name: str) -> str:
    return name.rpartition(":")[2]
