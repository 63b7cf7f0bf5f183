"""What a sitemap lists: XML in any namespace or none, RSS, Atom, or one URL a line. Pure.

XML is read as a stream, and a document that declares entities is refused before any is expanded.
Whatever came before a fault counts.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final
from xml.parsers import expat

from webdata_nb.service.errors import FetchError
from webdata_nb.service.web.urls import canonical

# The protocol's own bounds for one file.
URLS: Final = 50_000
BYTES: Final = 50 * 1024 * 1024
_GZIP: Final = b"\x1f\x8b"
_WITH_HEADER: Final = 31  # zlib's number for "gzip, and nothing else"
# Which text is a page's address, and which a further sitemap's, by element and its parent.
_PAGES: Final = frozenset({("url", "loc"), ("item", "link")})
_SITEMAPS: Final = frozenset({("sitemap", "loc")})


@dataclass(frozen=True, slots=True)
class Listing:
    """The canonical URLs of a file, in its order, and what was wrong with it."""

    pages: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()
    problem: str = ""


def read(body: bytes) -> Listing:
    """Read a sitemap of any of the known kinds, gzipped or not."""
    problem = ""
    if body.startswith(_GZIP):
        body, problem = _unpacked(body)
    reader = _Reader()
    if body.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in {b"<", b"\xff", b"\xfe"}:
        found = reader.xml(body)
    else:
        found = reader.lines(body.decode("utf-8-sig", "replace"))
    return Listing(tuple(reader.pages), tuple(reader.sitemaps), problem or found)


def _unpacked(body: bytes) -> tuple[bytes, str]:
    unpacker = zlib.decompressobj(_WITH_HEADER)
    try:
        data = unpacker.decompress(body, BYTES)
    except zlib.error:
        return b"", "it is damaged gzip"
    if unpacker.unconsumed_tail:
        return data, "it unpacks to more than 50 MB"
    return data, "" if unpacker.eof else "it is cut off"


class _Full(Exception):
    """Enough was read."""


class _Reader:
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
        except _Full:
            return f"it lists more than {URLS:,} URLs"
        return "" if self.pages or not text.strip() else "it is no sitemap"

    def xml(self, body: bytes) -> str:
        """Read elements; return what was wrong."""
        parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append
        parser.EntityDeclHandler = _refuse_entities
        try:
            parser.Parse(body, True)  # noqa: FBT003 - the parser takes no names
        except _Full:
            return f"it lists more than {URLS:,} URLs"
        except expat.ExpatError as error:
            return f"it is no valid XML ({expat.ErrorString(error.code)}, line {error.lineno})"
        except _Entities:
            return "it declares entities, which no sitemap needs"
        return ""

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        local = _local(name)
        atom = local == "link" and self._names[-1] == "entry"
        if atom and attributes.get("rel", "alternate") == "alternate":
            self._take(self.pages, attributes.get("href", ""))
        self._names.append(local)
        self._text.clear()

    def _end(self, _name: str) -> None:
        inner = self._names.pop()
        place = (self._names[-1], inner)
        if place in _PAGES:
            self._take(self.pages, "".join(self._text))
        elif place in _SITEMAPS:
            self._take(self.sitemaps, "".join(self._text))
        self._text.clear()

    @staticmethod
    def _take(into: dict[str, None], url: str) -> None:
        try:
            into.setdefault(canonical(url.strip()))
        except FetchError:
            return
        if len(into) > URLS:
            into.popitem()
            raise _Full


class _Entities(Exception):
    """The document declares entities."""


def _refuse_entities(*_declared: object) -> None:
    raise _Entities


def _local(name: str) -> str:
    return name.rpartition(":")[2]
