"""Opens the ZIP archives of documents and parses their XML parts, with limits on both."""

from __future__ import annotations

import zlib
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, Self
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from webdata_nb.page.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_MEMBERS: Final = 10_000
MAX_MEMBER_BYTES: Final = 64 * 1024 * 1024
"""Unpacked bytes of one member that is read whole."""
MAX_UNPACKED_BYTES: Final = 256 * 1024 * 1024
"""Unpacked bytes of all members that are read."""

_MEMBER_HEADER: Final = b"PK\x01\x02"
_ENCRYPTED: Final = 0x1
_METHODS: Final = frozenset({ZIP_STORED, ZIP_DEFLATED})
_DAMAGED: Final = (BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError)


class DocumentArchive:
    """The archive of one document. Names of members are compared without regard to case.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``: it is no readable archive, or it has too many members.
    """

    def __init__(self, body: bytes) -> None:
        # Counted first, because ZipFile creates an object for each member.
        if body.count(_MEMBER_HEADER) > MAX_MEMBERS:
            raise ScrapeError("parse", f"the document has more than {MAX_MEMBERS:,} members")
        try:
            self._zip = ZipFile(BytesIO(body))
        except _DAMAGED as error:
            raise ScrapeError("parse", "the document is no readable ZIP archive") from error
        self._members = {_part_name(info.filename): info for info in self._zip.infolist()}
        self._unpacked_bytes = 0

    @property
    def names(self) -> list[str]:
        """The names of the members in lower case, without a leading slash."""
        return list(self._members)

    def __contains__(self, name: str) -> bool:
        return _part_name(name) in self._members

    def read(self, name: str) -> bytes | None:
        """Return the content of a member; None if the archive has no such member."""
        member = self.open(name)
        if member is None:
            return None
        with member:
            content = member.read(MAX_MEMBER_BYTES + 1)
        if len(content) > MAX_MEMBER_BYTES:
            max_mib = MAX_MEMBER_BYTES // 1024**2
            raise ScrapeError("parse", f"a part of the document unpacks to more than {max_mib} MiB")
        return content

    def open(self, name: str) -> MemberStream | None:
        """Open a member to be read in pieces; None if the archive has no such member."""
        info = self._members.get(_part_name(name))
        if info is None:
            return None
        if info.flag_bits & _ENCRYPTED:
            raise ScrapeError("parse", "the document is encrypted with a password")
        if info.compress_type not in _METHODS:
            raise ScrapeError("parse", "the document uses an unsupported compression method")
        return MemberStream(self, self._open(info))

    def count_unpacked(self, size: int) -> None:
        """Count unpacked bytes towards the limit of the whole archive."""
        self._unpacked_bytes += size
        if self._unpacked_bytes > MAX_UNPACKED_BYTES:
            max_mib = MAX_UNPACKED_BYTES // 1024**2
            raise ScrapeError("parse", f"the document unpacks to more than {max_mib} MiB")

    def _open(self, info: ZipInfo) -> IO[bytes]:
        try:
            return self._zip.open(info)
        except _DAMAGED as error:
            raise _damaged_member() from error


class MemberStream:
    """A member of an archive that is read in pieces; its bytes count towards the limit."""

    def __init__(self, archive: DocumentArchive, file: IO[bytes]) -> None:
        self._archive, self._file = archive, file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """Return up to `size` unpacked bytes; empty at the end."""
        try:
            content = self._file.read(size)
        except _DAMAGED as error:
            raise _damaged_member() from error
        self._archive.count_unpacked(len(content))
        return content


def _part_name(name: str) -> str:
    return name.replace("\\", "/").removeprefix("/").lower()


def _damaged_member() -> ScrapeError:
    return ScrapeError("parse", "the document's ZIP archive is damaged")


_INSTALL: Final = 'pip install "webdata_nb[documents]"'
# `huge_tree=False` limits depth, text length and the expansion of entities.
_SAFE: Final = {
    "resolve_entities": False,
    "load_dtd": False,
    "no_network": True,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
}


class XmlElement(Protocol):
    """What is used of an element of lxml."""

    tag: str
    text: str | None
    tail: str | None

    def get(self, name: str) -> str | None:
        """Return an attribute without namespace."""

    def items(self) -> list[tuple[str, str]]:
        """Return names and values of all attributes."""

    def iterchildren(self, *tags: str) -> Iterator[XmlElement]:
        """Iterate over children."""

    def iter(self, *tags: str) -> Iterator[XmlElement]:
        """Iterate over this element and its descendants."""

    def itertext(self) -> Iterator[str]:
        """Iterate over the texts below this element."""

    def getroottree(self) -> Any:
        """Return the tree, which has the document type declaration."""

    def getprevious(self) -> XmlElement | None:
        """Return the sibling before this element."""

    def getparent(self) -> Any:
        """Return the parent."""

    def clear(self) -> None:
        """Remove attributes, text and children."""


def parse_xml(data: bytes) -> XmlElement:
    """Parse an XML part.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``: malformed, or it declares entities; ``unsupported_type``: the extra
        is not installed.
    """
    etree = _etree()
    try:
        root: XmlElement = etree.fromstring(data, etree.XMLParser(**_SAFE))
    except etree.XMLSyntaxError as error:
        raise _malformed(error) from error
    _refuse_entities(root)
    return root


def read_part(archive: DocumentArchive, name: str) -> XmlElement | None:
    """Parse a member of an archive; None if the archive has no such member."""
    data = archive.read(name)
    return parse_xml(data) if data is not None else None


def stream_elements(stream: MemberStream, *names: str) -> Iterator[XmlElement]:
    """Parse a part in pieces and yield the elements with these names, which are then freed.

    An element with one of the names that is inside another of them is not supported.
    """
    etree = _etree()
    tags = [f"{{*}}{name}" for name in names]
    try:
        for number, (_, element) in enumerate(etree.iterparse(stream, tag=tags, **_SAFE)):
            if number == 0:
                _refuse_entities(element)
            yield element
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]
    except etree.XMLSyntaxError as error:
        raise _malformed(error) from error


def local_name(element: XmlElement) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def attribute(element: XmlElement | None, name: str) -> str | None:
    """Return the attribute with this local name, in any namespace but that of relationships."""
    for key, value in element.items() if element is not None else ():
        space, _, local = key.rpartition("}")
        if local == name and not space.endswith("/relationships"):
            return value
    return None


def relationship_id(element: XmlElement, name: str = "id") -> str | None:
    """Return the attribute of the namespace of relationships, such as ``r:id``."""
    for key, value in element.items():
        space, _, local = key.rpartition("}")
        if local == name and space.endswith("/relationships"):
            return value
    return None


def child(element: XmlElement | None, *path: str) -> XmlElement | None:
    """Return the first child of a name, and its first child of the next name, and so on."""
    for name in path:
        if element is None:
            return None
        element = next(element.iterchildren(f"{{*}}{name}"), None)
    return element


def children(element: XmlElement | None, *names: str) -> Iterator[XmlElement]:
    """Iterate over the children with one of `names`."""
    return (
        iter(()) if element is None else element.iterchildren(*(f"{{*}}{name}" for name in names))
    )


def descendants(element: XmlElement | None, *names: str) -> Iterator[XmlElement]:
    """Iterate over the element and its descendants with one of `names`."""
    return iter(()) if element is None else element.iter(*(f"{{*}}{name}" for name in names))


def value_of(element: XmlElement | None, *path: str) -> str | None:
    """Return the attribute ``val`` of the element at a path."""
    return attribute(child(element, *path), "val")


def is_on(element: XmlElement | None, *path: str) -> bool:
    """Return whether a switch such as ``<w:b/>`` is present and not off."""
    found = child(element, *path)
    return found is not None and attribute(found, "val") not in {"0", "false", "off", "none"}


def text_below(element: XmlElement | None) -> str:
    """Return the text below an element with collapsed white space."""
    return " ".join("".join(element.itertext()).split()) if element is not None else ""


def to_int(text: str | None, default: int = 0) -> int:
    """Return a number of up to nine digits; `default` for any other text."""
    digits = (text or "").strip()
    is_number = digits.removeprefix("-").isdecimal() and digits.isascii() and len(digits) < 10  # noqa: PLR2004
    return int(digits) if is_number else default


def _etree() -> Any:
    # Imported late: most pages do not need the library. It has no types.
    try:
        from lxml import etree  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError as error:
        raise ScrapeError(
            "unsupported_type", f"reading office documents and e-books needs {_INSTALL}"
        ) from error
    return etree


def _malformed(error: Exception) -> ScrapeError:
    reason = str(error).partition(", line")[0][:200]
    return ScrapeError("parse", f"a part of the document is no valid XML: {reason}")


def _refuse_entities(element: XmlElement) -> None:
    declaration = element.getroottree().docinfo.internalDTD
    if declaration is not None and next(declaration.iterentities(), None) is not None:
        raise ScrapeError("parse", "a part of the document declares entities")
