"""Reads the parts and relationships of Office Open XML packages, and their properties."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webdata_nb.page.documents.office.properties import DocumentProperties
from webdata_nb.page.documents.office.xml_parts import (
    attribute,
    child,
    children,
    read_part,
    text_below,
    to_int,
)
from webdata_nb.page.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webdata_nb.page.documents.office.archive import DocumentArchive
    from webdata_nb.page.documents.office.xml_parts import XmlElement


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
