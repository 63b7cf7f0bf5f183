"""Reads the styles of OpenDocument files: character formatting, roles of paragraphs, lists."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from webdata_nb.page.documents.office.xml_parts import (
    attribute,
    child,
    children,
    local_name,
    to_int,
)

if TYPE_CHECKING:
    from webdata_nb.page.documents.office.xml_parts import XmlElement

_MAX_PARENTS: Final = 20
_BOLD_WEIGHT: Final = 600
_CODE: Final = re.compile(r"(?:source|preformatted|verbatim|code|teletype)")
_QUOTE: Final = re.compile(r"(?:quotations?|quote|block quotation)")


@dataclass(frozen=True, slots=True)
class OpenDocumentStyle:
    """A style with what it takes from its parents.

    Attributes
    ----------
    list_style
        The list style of its paragraphs; None without one.
    """

    tags: frozenset[str] = frozenset()
    is_title: bool = False
    is_code: bool = False
    is_quote: bool = False
    is_hidden: bool = False
    list_style: str | None = None


class OpenDocumentStyles:
    """The styles of a document by name, those of ``content.xml`` before those of the others."""

    def __init__(self, *roots: XmlElement | None) -> None:
        self._elements: dict[str, XmlElement] = {}
        self._lists: dict[str, dict[int, int | None]] = {}
        self._styles: dict[str, OpenDocumentStyle] = {}
        for root in roots:
            for group in children(root, "automatic-styles", "styles"):
                for element in children(group, "style", "list-style"):
                    self._add(element)

    def __getitem__(self, name: str | None) -> OpenDocumentStyle:
        key = name or ""
        if key not in self._styles:
            self._styles[key] = self._resolve(key)
        return self._styles[key]

    def list_start(self, name: str | None, level: int) -> int | None:
        """Return the first number of a list level, which counts from 0; None for bullets."""
        levels = self._lists.get(name or "", {})
        defined = [each for each in levels if each <= level]
        return levels[max(defined)] if defined else None

    def _add(self, element: XmlElement) -> None:
        name = attribute(element, "name") or ""
        if local_name(element) == "style":
            self._elements.setdefault(name, element)
        else:
            self._lists.setdefault(name, dict(map(_list_level, element.iterchildren())))

    def _resolve(self, name: str) -> OpenDocumentStyle:
        chain: list[XmlElement] = []
        key: str | None = name
        while key in self._elements and len(chain) < _MAX_PARENTS:
            chain.append(self._elements[key])
            key = attribute(chain[-1], "parent-style-name")
        # The last name is that of a style that the document does not define.
        style = _named(OpenDocumentStyle(), key or "")
        for element in reversed(chain):
            style = _named(style, attribute(element, "name") or "")
            style = _formatted(style, element)
        return style


def _list_level(element: XmlElement) -> tuple[int, int | None]:
    level = to_int(attribute(element, "level"), 1) - 1
    is_number = local_name(element) == "list-level-style-number" and attribute(
        element, "num-format"
    )
    return level, to_int(attribute(element, "start-value"), 1) if is_number else None


def _named(style: OpenDocumentStyle, name: str) -> OpenDocumentStyle:
    words = name.replace("_20_", " ").lower()
    return replace(
        style,
        is_title=style.is_title or words == "title",
        is_code=style.is_code or _CODE.match(words) is not None,
        is_quote=style.is_quote or _QUOTE.match(words) is not None,
    )


def _formatted(style: OpenDocumentStyle, element: XmlElement) -> OpenDocumentStyle:
    text = child(element, "text-properties")
    is_text = attribute(element, "family") == "text"
    name = (attribute(element, "name") or "").lower()
    tags = set(style.tags)
    if (weight := attribute(text, "font-weight")) is not None:
        is_bold = weight == "bold" or to_int(weight) >= _BOLD_WEIGHT
        tags = tags | {"strong"} if is_bold else tags - {"strong"}
    if (slant := attribute(text, "font-style")) is not None:
        tags = tags - {"em"} if slant == "normal" else tags | {"em"}
    if attribute(text, "text-line-through-style") not in {None, "none"}:
        tags.add("s")
    position = attribute(text, "text-position") or ""
    if position.startswith(("super", "sub")):
        tags.add("sup" if position.startswith("super") else "sub")
    tags |= {
        tag for part, tag in (("strong", "strong"), ("emphasis", "em")) if name.startswith(part)
    }
    if is_text and style.is_code:
        tags.add("code")
    return replace(
        style,
        tags=frozenset(tags),
        is_hidden=style.is_hidden or attribute(text, "display") == "none",
        list_style=attribute(element, "list-style-name") or style.list_style,
    )
