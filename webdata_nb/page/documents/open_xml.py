"""Office Open XML: the parts and relationships of packages, and formulas (OMML)."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

from webdata_nb.page.documents.archive import (
    attribute,
    child,
    children,
    is_on,
    local_name,
    read_part,
    text_below,
    to_int,
    value_of,
)
from webdata_nb.page.documents.converted_document import DocumentProperties
from webdata_nb.page.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from webdata_nb.page.documents.archive import DocumentArchive, XmlElement


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
        if part not in self._relationships:
            self._relationships[part] = dict(self._read_relationships(part))
        return self._relationships[part]

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

    def _read_relationships(self, part: str) -> Iterator[tuple[str, Relationship]]:
        folder, name = posixpath.split(part)
        root = read_part(self.archive, posixpath.join(folder, "_rels", f"{name}.rels"))
        for element in children(root, "Relationship"):
            target = attribute(element, "Target") or ""
            is_external = attribute(element, "TargetMode") == "External"
            if not is_external:
                target = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            kind = (attribute(element, "Type") or "").rpartition("/")[2]
            yield attribute(element, "Id") or "", Relationship(kind, target, is_external)


_TOKEN: Final = re.compile(r"\d+(?:[.,]\d+)*|\s+|.", re.DOTALL)


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
    return "".join(map(_token, _TOKEN.findall(text)))


def _token(text: str) -> str:
    if text.isspace():
        return ""
    tag = "mn" if text[0].isdecimal() else "mi" if text.isalpha() else "mo"
    return f"<{tag}>{escape(text)}</{tag}>"


def _fraction(element: XmlElement) -> str:
    thickness = ' linethickness="0"' if value_of(element, "fPr", "type") == "noBar" else ""
    return f"<mfrac{thickness}>{_argument(element, 'num')}{_argument(element, 'den')}</mfrac>"


def _scripts(tag: str, *names: str) -> Callable[[XmlElement], str]:
    def convert(element: XmlElement) -> str:
        return f"<{tag}>{''.join(_argument(element, name) for name in names)}</{tag}>"

    return convert


def _left_scripts(element: XmlElement) -> str:
    return f"<msubsup><mi></mi>{_argument(element, 'sub')}{_argument(element, 'sup')}</msubsup>" + (
        _argument(element, "e")
    )


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
    names = [name for name in ("sub", "sup") if _has_content(child(element, name))]
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


def _function(element: XmlElement) -> str:
    return f"<mrow>{_argument(element, 'fName')}<mo>&#x2061;</mo>{_argument(element, 'e')}</mrow>"


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


def _content(element: XmlElement) -> str:
    return _argument(element, "e")


def _has_content(element: XmlElement | None) -> bool:
    return element is not None and next(children(element, *_CONVERTERS), None) is not None


_CONVERTERS: Final[dict[str, Callable[[XmlElement], str]]] = {
    "oMath": _row,
    "r": _run,
    "f": _fraction,
    "sSup": _scripts("msup", "e", "sup"),
    "sSub": _scripts("msub", "e", "sub"),
    "sSubSup": _scripts("msubsup", "e", "sub", "sup"),
    "sPre": _left_scripts,
    "rad": _root,
    "nary": _large_operator,
    "d": _delimiters,
    "func": _function,
    "limLow": _scripts("munder", "e", "lim"),
    "limUpp": _scripts("mover", "e", "lim"),
    "acc": _accent,
    "bar": _bar,
    "groupChr": _brace,
    "eqArr": _equations,
    "m": _matrix,
    "box": _content,
    "borderBox": _content,
}
