"""Reads the styles and the list numbering of Word documents."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from webdata_nb.page.documents.office.xml_parts import (
    attribute,
    child,
    children,
    is_on,
    to_int,
    value_of,
)

if TYPE_CHECKING:
    from webdata_nb.page.documents.office.xml_parts import XmlElement

_MAX_BASES: Final = 20  # styles that are based on each other
_BODY_TEXT: Final = 9  # the outline level of a paragraph that is no heading
_HEADING: Final = re.compile(r"heading ([1-9])")
_LIST_STYLE: Final = re.compile(r"list (?:bullet|number|continue) ([2-9])")
_CODE: Final = re.compile(
    r"(?:source |verbatim |inline |html )?(?:code|verbatim|preformatted)(?: char| text)?"
)
_QUOTE: Final = frozenset({"quote", "intense quote", "block text", "quotations"})


@dataclass(frozen=True, slots=True)
class WordStyle:
    """A style with what it takes from the styles that it is based on.

    Attributes
    ----------
    heading
        The level of the heading, 0 for none.
    list_id, list_level
        The list that its paragraphs belong to; None without one.
    """

    heading: int = 0
    is_code: bool = False
    is_quote: bool = False
    list_id: str | None = None
    list_level: int = 0
    tags: frozenset[str] = frozenset()


class WordStyles:
    """The styles of a document by their ids."""

    def __init__(self, root: XmlElement | None) -> None:
        styles = children(root, "style")
        self._elements = {attribute(style, "styleId") or "": style for style in styles}
        self._styles: dict[str, WordStyle] = {}

    def __getitem__(self, style_id: str | None) -> WordStyle:
        key = style_id or ""
        if key not in self._styles:
            self._styles[key] = self._resolve(key)
        return self._styles[key]

    def list_of(self, style_id: str) -> str | None:
        """Return the list of a numbering style."""
        return value_of(self._elements.get(style_id), "pPr", "numPr", "numId")

    def _resolve(self, style_id: str) -> WordStyle:
        chain: list[XmlElement] = []
        key: str | None = style_id
        while key in self._elements and len(chain) < _MAX_BASES:
            chain.append(self._elements[key])
            key = value_of(chain[-1], "basedOn")
        style = WordStyle()
        for element in reversed(chain):
            style = _apply(style, element, style_id)
        if chain and (value_of(chain[0], "name") or style_id).lower() == "title":
            # Not inherited: the styles of subtitles, authors and dates are based on this one.
            style = replace(style, heading=1)
        return style


def _apply(style: WordStyle, element: XmlElement, style_id: str) -> WordStyle:
    """Return a style after the declarations of one style element."""
    name = (value_of(element, "name") or style_id).lower()
    properties = child(element, "pPr")
    outline = value_of(properties, "outlineLvl")
    heading = _HEADING.fullmatch(name)
    level = style.heading
    if heading is not None:
        level = int(heading[1])
    elif outline is not None:
        level = heading_level(outline)
    list_name = _LIST_STYLE.fullmatch(name)
    list_level = value_of(properties, "numPr", "ilvl")
    style = replace(
        style,
        heading=level,
        is_code=style.is_code or _CODE.fullmatch(name) is not None,
        is_quote=style.is_quote or name in _QUOTE,
        list_id=value_of(properties, "numPr", "numId") or style.list_id,
        list_level=to_int(list_level, int(list_name[1]) - 1 if list_name else style.list_level),
    )
    if attribute(element, "type") == "character":
        style = replace(style, tags=style.tags | run_tags(child(element, "rPr")))
        if style.is_code:
            style = replace(style, tags=style.tags | {"code"})
    return style


def heading_level(outline: str) -> int:
    """Return the level of a heading for an outline level, which counts from 0."""
    level = to_int(outline, _BODY_TEXT)
    return 0 if level >= _BODY_TEXT else level + 1


def run_tags(properties: XmlElement | None) -> frozenset[str]:
    """Return the HTML tags of the character formatting of a run."""
    tags = {tag for name, tag in (("b", "strong"), ("i", "em")) if is_on(properties, name)}
    if is_on(properties, "strike") or is_on(properties, "dstrike"):
        tags.add("s")
    position = value_of(properties, "vertAlign")
    if position in {"subscript", "superscript"}:
        tags.add(position[:3])
    return frozenset(tags)


@dataclass(frozen=True, slots=True)
class _ListLevel:
    number_format: str
    start: int
    has_sign: bool = True


class WordNumbering:
    """The lists of a document, and the numbers of their items."""

    def __init__(self, root: XmlElement | None, styles: WordStyles) -> None:
        self._styles = styles
        self._lists = {attribute(num, "numId") or "": num for num in children(root, "num")}
        self._definitions = {
            attribute(definition, "abstractNumId") or "": definition
            for definition in children(root, "abstractNum")
        }
        self._counts: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._started: set[str] = set()

    def next_item(self, list_id: str, level: int) -> tuple[bool, int | None]:
        """Return whether the next item of a list has a bullet or number, and its number.

        The number is None for a bullet.
        """
        definition_id, definition = self._definition(list_id)
        if definition is None:
            return list_id in self._lists, None
        settings = _level_of(definition, level)
        if not settings.has_sign:
            return False, None
        counts = self._counts[definition_id]
        if list_id not in self._started:
            self._started.add(list_id)
            counts.update(self._restarts(list_id))
        counts[level] = counts.get(level, settings.start - 1) + 1
        for deeper in [each for each in counts if each > level]:
            del counts[deeper]
        return True, None if settings.number_format == "bullet" else max(0, counts[level])

    def _definition(self, list_id: str) -> tuple[str, XmlElement | None]:
        """Return the definition of a list, by way of a numbering style if it names one."""
        definition_id = value_of(self._lists.get(list_id), "abstractNumId") or ""
        definition = self._definitions.get(definition_id)
        style_id = value_of(definition, "numStyleLink")
        if style_id is not None:
            other_id = self._styles.list_of(style_id) or ""
            definition_id = value_of(self._lists.get(other_id), "abstractNumId") or ""
            definition = self._definitions.get(definition_id)
        return definition_id, definition

    def _restarts(self, list_id: str) -> dict[int, int]:
        overrides = children(self._lists.get(list_id), "lvlOverride")
        starts = {
            to_int(attribute(override, "ilvl")): value_of(override, "startOverride")
            for override in overrides
        }
        return {level: to_int(start, 1) - 1 for level, start in starts.items() if start is not None}


def _level_of(definition: XmlElement, level: int) -> _ListLevel:
    for element in children(definition, "lvl"):
        if to_int(attribute(element, "ilvl")) == level:
            number_format = value_of(element, "numFmt") or "decimal"
            sign = value_of(element, "lvlText")
            has_sign = number_format != "none" and (sign is None or bool(sign.strip()))
            return _ListLevel(number_format, to_int(value_of(element, "start"), 1), has_sign)
    return _ListLevel("bullet", 1)
