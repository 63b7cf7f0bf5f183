"""Opens the ZIP archives of documents and parses their XML parts, with limits on both.

The second part is Office Open XML: the parts and relationships of packages, and formulas (OMML).
"""

from __future__ import annotations

import posixpath
import re
import zlib
from dataclasses import dataclass
from html import escape
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, Self
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from webdata_nb.page.documents.converted_document import DocumentProperties
from webdata_nb.page.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
        try:
            file = self._zip.open(info)
        except _DAMAGED as error:
            raise _damaged_member() from error
        return MemberStream(self, file)

    def count_unpacked(self, size: int) -> None:
        """Count unpacked bytes towards the limit of the whole archive."""
        self._unpacked_bytes += size
        if self._unpacked_bytes > MAX_UNPACKED_BYTES:
            max_mib = MAX_UNPACKED_BYTES // 1024**2
            raise ScrapeError("parse", f"the document unpacks to more than {max_mib} MiB")


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


def read_part(archive: DocumentArchive, name: str) -> XmlElement | None:
    """Parse a member of an archive as XML; None if the archive has no such member.

    Raises
    ------
    ScrapeError
        `kind` is ``parse``: malformed, or it declares entities; ``unsupported_type``: the extra
        is not installed.
    """
    data = archive.read(name)
    if data is None:
        return None
    etree = _etree()
    try:
        root: XmlElement = etree.fromstring(data, etree.XMLParser(**_SAFE))
    except etree.XMLSyntaxError as error:
        raise _malformed(error) from error
    _refuse_entities(root)
    return root


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


@dataclass(frozen=True, slots=True)
class Relationship:
    """A relationship of a part.

    Attributes
    ----------
    kind
        The last part of its type, such as ``hyperlink``.
    target
        The name of a part, or the URL of an external target.
    is_external
        Whether the target is outside of the package.
    """

    kind: str
    target: str
    is_external: bool


class OfficePackage:
    """The parts of one document."""

    def __init__(self, archive: DocumentArchive) -> None:
        self.archive = archive
        self._relationships: dict[str, dict[str, Relationship]] = {}

    def main_part(self, default: str) -> str:
        """Return the name of the part with the content."""
        related = self.related_parts("", "officeDocument")
        name = next((part for part in related if part in self.archive), default)
        if name not in self.archive:
            raise ScrapeError("parse", f"the document has no part {default}")
        return name

    def read(self, name: str | None) -> XmlElement | None:
        """Parse a part; None without it."""
        return read_part(self.archive, name) if name else None

    def relationships(self, part: str) -> dict[str, Relationship]:
        """Return the relationships of a part by id; those of the package for ``""``."""
        if part in self._relationships:
            return self._relationships[part]
        relationships: dict[str, Relationship] = {}
        folder, name = posixpath.split(part)
        root = read_part(self.archive, posixpath.join(folder, "_rels", f"{name}.rels"))
        for element in children(root, "Relationship"):
            target = attribute(element, "Target") or ""
            is_external = attribute(element, "TargetMode") == "External"
            if not is_external:
                target = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            kind = (attribute(element, "Type") or "").rpartition("/")[2]
            identifier = attribute(element, "Id") or ""
            relationships[identifier] = Relationship(kind, target, is_external)
        self._relationships[part] = relationships
        return relationships

    def related_parts(self, part: str, kind: str) -> list[str]:
        """Return the names of the parts to which a part has relationships of a kind."""
        relationships = self.relationships(part).values()
        return [each.target for each in relationships if each.kind == kind and not each.is_external]

    def related(self, part: str, kind: str) -> XmlElement | None:
        """Parse the first related part of a kind; None without one."""
        return self.read(next(iter(self.related_parts(part, kind)), None))

    def external_target(self, part: str, identifier: str | None) -> str | None:
        """Return the URL of an external relationship of a part."""
        relationship = self.relationships(part).get(identifier or "")
        return relationship.target if relationship and relationship.is_external else None

    def image_source(self, part: str, identifier: str | None) -> str:
        """Return the URL of a picture: its own if linked, else the document's with its part."""
        relationship = self.relationships(part).get(identifier or "")
        if relationship is None:
            return "#"
        return relationship.target if relationship.is_external else f"#{relationship.target}"

    def properties(self) -> DocumentProperties:
        """Return the properties of the document."""
        core = self._property_part("core-properties", "docProps/core.xml")
        extended = self._property_part("extended-properties", "docProps/app.xml")
        texts = {
            name: text_below(child(core, name))
            for name in ("title", "creator", "description", "subject", "language")
        }
        return DocumentProperties(
            title=texts["title"],
            author=texts["creator"],
            description=texts["description"] or texts["subject"],
            language=texts["language"],
            created=text_below(child(core, "created")),
            modified=text_below(child(core, "modified")),
            page_count=to_int(text_below(child(extended, "Pages"))) or None,
        )

    def _property_part(self, kind: str, default: str) -> XmlElement | None:
        return self.read(next(iter(self.related_parts("", kind)), default))


_TOKEN: Final = re.compile(r"\d+(?:[.,]\d+)*|\S")
_PLACE: Final = re.compile(r"\{(\w+)\}")


def math_to_html(element: XmlElement, *, is_block: bool) -> str:
    """Return a formula as a ``math`` element, a block or part of a line."""
    display = "block" if is_block else "inline"
    return f'<math display="{display}">{_row(element)}</math>'


def _row(element: XmlElement | None) -> str:
    """Convert all children of an element to one row."""
    if element is None:
        return "<mrow></mrow>"
    pieces = []
    for part in element.iterchildren():
        convert = _CONVERTERS.get(local_name(part))
        if convert is not None:
            pieces.append(convert(part))
    return f"<mrow>{''.join(pieces)}</mrow>"


def _argument(element: XmlElement, name: str) -> str:
    return _row(child(element, name))


def _run(run: XmlElement) -> str:
    text = "".join(part.text or "" for part in children(run, "t"))
    if value_of(run, "rPr", "sty") == "p" and text.strip().isalpha() and len(text.strip()) > 1:
        return f"<mi>{escape(text.strip())}</mi>"
    pieces = []
    for token in _TOKEN.findall(text):
        tag = "mn" if token[0].isdecimal() else "mi" if token.isalpha() else "mo"
        pieces.append(f"<{tag}>{escape(token)}</{tag}>")
    return "".join(pieces)


def _fraction(element: XmlElement) -> str:
    thickness = ' linethickness="0"' if value_of(element, "fPr", "type") == "noBar" else ""
    return f"<mfrac{thickness}>{_argument(element, 'num')}{_argument(element, 'den')}</mfrac>"


def _from_template(template: str) -> Callable[[XmlElement], str]:
    """Return what writes a template with an element's arguments in the places of their names."""
    return lambda element: _PLACE.sub(lambda place: _argument(element, place[1]), template)


def _root(element: XmlElement) -> str:
    degree = child(element, "deg")
    if (
        is_on(element, "radPr", "degHide")
        or degree is None
        or next(degree.iterchildren(), None) is None
    ):
        return f"<msqrt>{_argument(element, 'e')}</msqrt>"
    return f"<mroot>{_argument(element, 'e')}{_row(degree)}</mroot>"


def _large_operator(element: XmlElement) -> str:
    sign = value_of(element, "naryPr", "chr") or "∫"
    is_beside = value_of(element, "naryPr", "limLoc") == "subSup" or sign in "∫∬∭∮"
    names = [
        name
        for name in ("sub", "sup")
        if next(children(child(element, name), *_CONVERTERS), None) is not None
    ]
    operator = f"<mo>{escape(sign)}</mo>"
    if names:
        tag = {"sub": "munder", "sup": "mover", "subsup": "munderover"}["".join(names)]
        tag = (
            {"munder": "msub", "mover": "msup", "munderover": "msubsup"}[tag] if is_beside else tag
        )
        arguments = "".join(_argument(element, name) for name in names)
        operator = f"<{tag}>{operator}{arguments}</{tag}>"
    return f"<mrow>{operator}{_argument(element, 'e')}</mrow>"


def _delimiters(element: XmlElement) -> str:
    properties = child(element, "dPr")
    start, separator, end = (
        default if (sign := value_of(properties, name)) is None else sign
        for name, default in (("begChr", "("), ("sepChr", "|"), ("endChr", ")"))
    )
    inner = _operator(separator).join(map(_row, children(element, "e")))
    return f"<mrow>{_operator(start)}{inner}{_operator(end)}</mrow>"


def _operator(sign: str) -> str:
    return f'<mo stretchy="true">{escape(sign)}</mo>' if sign else ""


def _accent(element: XmlElement) -> str:
    sign = value_of(element, "accPr", "chr") or "\u0302"
    return f'<mover accent="true">{_argument(element, "e")}<mo>{escape(sign)}</mo></mover>'


def _bar(element: XmlElement) -> str:
    tag = "mover" if value_of(element, "barPr", "pos") == "top" else "munder"
    return f"<{tag}>{_argument(element, 'e')}<mo>¯</mo></{tag}>"


def _brace(element: XmlElement) -> str:
    sign = value_of(element, "groupChrPr", "chr") or "⏟"
    tag = "mover" if value_of(element, "groupChrPr", "pos") == "top" else "munder"
    return f"<{tag}>{_argument(element, 'e')}<mo>{escape(sign)}</mo></{tag}>"


def _equations(element: XmlElement) -> str:
    rows = (f"<mtr><mtd>{_row(row)}</mtd></mtr>" for row in children(element, "e"))
    return f"<mtable>{''.join(rows)}</mtable>"


def _matrix(element: XmlElement) -> str:
    rows = (
        "".join(f"<mtd>{_row(cell)}</mtd>" for cell in children(row, "e"))
        for row in children(element, "mr")
    )
    return f"<mtable>{''.join(f'<mtr>{row}</mtr>' for row in rows)}</mtable>"


_CONVERTERS: Final[dict[str, Callable[[XmlElement], str]]] = {
    "oMath": _row,
    "r": _run,
    "f": _fraction,
    "sSup": _from_template("<msup>{e}{sup}</msup>"),
    "sSub": _from_template("<msub>{e}{sub}</msub>"),
    "sSubSup": _from_template("<msubsup>{e}{sub}{sup}</msubsup>"),
    "sPre": _from_template("<msubsup><mi></mi>{sub}{sup}</msubsup>{e}"),
    "rad": _root,
    "nary": _large_operator,
    "d": _delimiters,
    "func": _from_template("<mrow>{fName}<mo>&#x2061;</mo>{e}</mrow>"),
    "limLow": _from_template("<munder>{e}{lim}</munder>"),
    "limUpp": _from_template("<mover>{e}{lim}</mover>"),
    "acc": _accent,
    "bar": _bar,
    "groupChr": _brace,
    "eqArr": _equations,
    "m": _matrix,
    "box": _from_template("{e}"),
    "borderBox": _from_template("{e}"),
}
