"""Parses the XML parts of documents without entities, external files or network access.

Elements and attributes are looked up by their local names, because the strict and the transitional
variants of Office Open XML differ in namespaces only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from webdata_nb.page.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.documents.office.archive import DocumentArchive, MemberStream

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
