"""Reads what a page declares about itself for programs: JSON-LD, microdata, RDFa and meta tags.

Nothing else reads these syntaxes. JSON-LD is decoded once for each page, and repaired if needed:
metadata, the kind of a page, the audit, the `structured_data` format and, through it, extraction
read the decoded blocks. Evidence needs the place of each value in the source, also in blocks that
stay invalid, and gets it from `scan_json`. `extract.node_graph` makes a graph of the nodes of all
syntaxes, which are taken apart here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from html import unescape
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.content.parser import (
    MicrodataItem,
    RdfaItem,
    collapse_whitespace,
    microdata_of,
    rdfa_of,
)

if TYPE_CHECKING:
    from webdata_nb.page.content.parser import Document

MAX_NODES: Final = 1000
"""JSON-LD nodes of a page that are read for its metadata and its types."""
MAX_DEPTH: Final = 100
"""Levels of lists and objects in a block; deeper values are null."""
MAX_REPAIRED_LENGTH: Final = 500_000
"""Characters of a text that is repaired; longer ones are left as they are."""

_TYPE: Final = "@type"
_GRAPH: Final = "@graph"
_ID: Final = "@id"
_VALUE: Final = "@value"
_CONTAINERS: Final = (_VALUE, "@list", "@set")
_ID_KEYS: Final = {"json_ld": _ID, "microdata": "id", "rdfa": "resource"}
_MAX_TYPES: Final = 10
_MAX_NAME_LENGTH: Final = 100

_MEDIA_TYPE: Final = "application/ld+json"
_PARSED_DEPTH: Final = 1000
_WORKS: Final = (
    "article",
    "posting",
    "report",
    "webpage",
    "product",
    "recipe",
    "videoobject",
    "book",
)
_OPENINGS: Final = ("<!--", "//<![CDATA[", "/*<![CDATA[*/", "<![CDATA[")
_CLOSINGS: Final = ("-->", "//]]>", "/*]]>*/", "]]>", "//", ";")
_TYPE_IN_TEXT: Final = re.compile(r'"@type"\s*:\s*(?:\[\s*)?"([^"]{1,200})"')
_STRING: Final = r'"(?:[^"\\]|\\.)*"'
# An unclosed comment ends with the text, so that no character is read twice.
_COMMENT: Final = r"/\*(?:.*?\*/|.*\Z)|//[^\n]*|<!--|-->"
_STRING_OR_COMMENT: Final = re.compile(f"({_STRING})|{_COMMENT}", re.DOTALL)
_STRING_OR_COMMAS: Final = re.compile(rf"({_STRING})|,[\s,]*", re.DOTALL)
_BAD_ESCAPE: Final = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|(.))', re.DOTALL)
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufeff\u2028\u2029]")


def is_json_ld(script_type: str | None) -> bool:
    """Return whether a script with this `type` is JSON-LD."""
    return script_type is not None and script_type.split(";")[0].strip().lower() == _MEDIA_TYPE


# The item, its properties, and the list of values of a property.
_LEVELS_PER_ITEM: Final = 3


class _Decoded(NamedTuple):
    blocks: list[Any]
    repaired: int
    invalid: list[str]


class JsonLd:
    """What the JSON-LD of a page declares; it is decoded when it is first needed.

    Attributes
    ----------
    texts
        The texts of the blocks.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []

    @property
    def blocks(self) -> list[Any]:
        """The decoded blocks, those of an array one by one, without those that stay invalid."""
        return self._decoded.blocks

    @property
    def repaired(self) -> int:
        """The number of blocks that were decoded after a repair."""
        return self._decoded.repaired

    @cached_property
    def types(self) -> frozenset[str]:
        """The local names of all types, also of those in blocks that stay invalid."""
        if not self.texts:
            return frozenset()
        nodes = _walk(self.blocks, None)
        in_text = (name for text in self._decoded.invalid for name in _TYPE_IN_TEXT.findall(text))
        return frozenset(
            (*(name for node in nodes for name in _types(node)), *map(local_name, in_text))
        )

    def strict_errors(self) -> Iterator[str]:
        """Yield why strict readers cannot read a block, or what says of nothing what it is."""
        for number, block in enumerate(self.texts, 1):
            try:
                value = json.loads(strip_wrapping(block))  # noqa: TID251 - reports what strict readers refuse
            except (ValueError, RecursionError) as error:
                yield f"block {number}: {error}"
                continue
            items = value if isinstance(value, list) else [value]
            if not all(isinstance(each, dict) and {_TYPE, _GRAPH} & each.keys() for each in items):
                yield f"block {number}: an item has no {_TYPE}"

    def text(self, *names: str) -> str | None:
        """Return the first text of the properties `names` in any creative work."""
        texts = (_text(work.get(name)) for work in self._works for name in names)
        return next((text for text in texts if text), None)

    def names(self, *names: str) -> list[str]:
        """Return the names of the objects in the first property of `names` that a work has."""
        for work in self._works:
            for name in names:
                if object_names := list(self._object_names(work.get(name))):
                    return object_names
        return []

    @cached_property
    def _decoded(self) -> _Decoded:
        """The decoded blocks, also slightly broken ones."""
        decoded: list[Any] = []
        invalid: list[str] = []
        repaired = 0
        for text in self.texts:
            values = _decode_one(text)
            if not values:
                bare = strip_wrapping(text)
                values = _decode_one(bare)
                if not values and (values := _decode_one(repair_json(bare) or "")):
                    repaired += 1
            if not values:
                invalid.append(text)
            if text.count("{") + text.count("[") > MAX_DEPTH:
                values = [_limit_depth(value, MAX_DEPTH) for value in values]
            for value in values:
                decoded += value if isinstance(value, list) else [value]
        return _Decoded(decoded, repaired, invalid)

    @cached_property
    def _nodes(self) -> list[dict[str, Any]]:
        return list(_walk(self.blocks, ("mainEntity", _GRAPH)))

    @cached_property
    def _works(self) -> list[dict[str, Any]]:
        """The nodes that describe creative works, articles first."""
        return sorted((node for node in self._nodes if _rank(node) < len(_WORKS)), key=_rank)

    @cached_property
    def _named_by_id(self) -> dict[str, dict[str, Any]]:
        return {
            identifier: node
            for node in reversed(self._nodes)
            if isinstance(identifier := node.get(_ID), str) and "name" in node
        }

    def _object_names(self, value: Any) -> Iterator[str]:
        """Yield the names of objects, also of those that stand elsewhere under their `@id`."""
        for item in value if isinstance(value, list) else [value]:
            node = item
            if isinstance(item, dict) and "name" not in item:
                node = self._named_by_id.get(str(item.get(_ID)), item)
            name = _text(node["name"] if isinstance(node, dict) and "name" in node else node)
            if name:
                yield name


def local_name(name: str) -> str:
    """Return the local part of a name that may be a URL or have a prefix."""
    return name.rstrip("/#").replace("#", "/").replace(":", "/").rpartition("/")[2]


def _walk(blocks: list[Any], keys: tuple[str, ...] | None) -> Iterator[dict[str, Any]]:
    """Return the nodes of blocks and those below them; of the properties `keys`, else of all."""
    stack: list[Any] = list(reversed(blocks))
    for _ in range(MAX_NODES):
        if not stack:
            return
        node = stack.pop()
        if isinstance(node, list):
            stack += reversed(node)
        elif isinstance(node, dict):
            yield node
            inner = (node[key] for key in keys if key in node) if keys else node.values()
            stack += [value for value in inner if isinstance(value, dict | list)]


def _rank(node: dict[str, Any]) -> int:
    """Return the position of the node type in the list of works."""
    words = [name.lower() for name in _types(node)]
    ranks = [rank for rank, work in enumerate(_WORKS) for word in words if word.endswith(work)]
    return min(ranks, default=len(_WORKS))


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, dict):
        value = value.get(_VALUE)
    return collapse_whitespace(value) or None if isinstance(value, str) else None


def _decode_one(text: str) -> list[Any]:
    try:
        return [decode_json(text, max_depth=_PARSED_DEPTH)]
    except MalformedJson:
        return []


def _limit_depth(value: Any, levels: int) -> Any:
    if isinstance(value, dict):
        return (
            {name: _limit_depth(item, levels - 1) for name, item in value.items()}
            if levels
            else None
        )
    if isinstance(value, list):
        return [_limit_depth(item, levels - 1) for item in value] if levels else None
    return value


def strip_wrapping(block: str) -> str:
    """Return a JSON-LD block without the comment or CDATA marks around it."""
    text = block.strip()
    for opening in _OPENINGS:
        text = text.removeprefix(opening).lstrip()
    for closing in _CLOSINGS:
        text = text.removesuffix(closing).rstrip()
    return text


def repair_json(text: str) -> str | None:
    """Return a text with what JSON does not allow removed; None if the text is too long.

    Removed are comments, superfluous commas, invalid escapes and entities.

    Examples
    --------
    >>> repair_json('{"a": [1, 2,], /* note */ "b": 3,}')
    '{"a": [1, 2], "b": 3}'
    """
    if len(text) > MAX_REPAIRED_LENGTH:
        return None
    if "&quot;" in text and text.count('"') < text.count("&quot;"):
        text = unescape(text)
    text = _CONTROL.sub(" ", text)
    text = _STRING_OR_COMMENT.sub(_fix_string, text)
    return _STRING_OR_COMMAS.sub(_fix_commas, text).strip()


def _fix_string(match: re.Match[str]) -> str:
    string = match[1]
    if string is None:
        return ""
    return _BAD_ESCAPE.sub(lambda escape: escape[2] or escape[0], string)


def _fix_commas(match: re.Match[str]) -> str:
    """Return a string as it is, one comma for several, and none before a closing bracket."""
    is_last = match.string[match.end() : match.end() + 1] in {"}", "]", ""}
    return match[1] or ("" if is_last else ", ")


class SyntaxNode(NamedTuple):
    """One object as its syntax writes it, taken apart.

    Attributes
    ----------
    types
        The local names of its types.
    id
        Its identifier; None without one.
    properties
        What it declares, by the names as written.
    """

    types: tuple[str, ...]
    id: str | None
    properties: Mapping[Any, Any]


def top_objects(structured: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the objects of the `structured_data` format that no other one contains.

    Each comes with its syntax: ``json_ld``, ``microdata`` or ``rdfa``.
    """
    for syntax in _ID_KEYS:
        blocks = structured.get(syntax)
        for block in flatten(blocks if isinstance(blocks, list) else []):
            members = block.get(_GRAPH) if isinstance(block, dict) else None
            if members is not None:
                yield from ((syntax, member) for member in flatten([members]))
            if members is None or _TYPE in block:
                yield syntax, block


def read_node(data: Mapping[str, Any], syntax: str) -> SyntaxNode:
    """Take an object of one of the syntaxes apart."""
    is_json = syntax == "json_ld"
    node_id = data.get(_ID_KEYS[syntax], data.get("id") if is_json else None)
    properties = data if is_json else data.get("properties")
    return SyntaxNode(
        _types(data) if is_json and _TYPE in data else _local_names(data.get("type")),
        node_id if isinstance(node_id, str) else None,
        properties if isinstance(properties, dict) else {},
    )


def flatten(values: list[Any]) -> Iterator[Any]:
    """Yield the values of nested lists and of JSON-LD's value, list and set objects."""
    stack = list(reversed(values))
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            key = next((name for name in _CONTAINERS if name in item), None)
            if key is None:
                yield item
            else:
                stack.append(item[key])
        elif isinstance(item, list):
            stack += reversed(item)
        else:
            yield item


def _types(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the local names of the types of a node of JSON-LD."""
    return _local_names(node.get(_TYPE))


def _local_names(value: Any) -> tuple[str, ...]:
    names = value if isinstance(value, list) else value.split() if isinstance(value, str) else ()
    found = (name for name in names[:_MAX_TYPES] if isinstance(name, str) and name)
    return tuple(local_name(name)[:_MAX_NAME_LENGTH] for name in found)


def microdata_types(document: Document) -> list[str]:
    """Return the types of the microdata of a page as written, without reading its items."""
    return [item.attr("itemtype") or "" for item in document.select("[itemtype]")]


_TOKEN: Final = re.compile(
    r"\"(?:[^\"\\]++|\\.)*+(?:\"|\\?\Z)|[{}\[\],:]|[^\s{}\[\],:\"]++", re.DOTALL
)
_OPENING: Final[dict[str, Literal["object", "array"]]] = {"{": "object", "[": "array"}
_CLOSING: Final = {",": False, "}": True, "]": True}
"""Characters that end a value, and whether they end an object or an array."""


class JsonPart(NamedTuple):
    """A part of a JSON text, with its place in the source.

    Attributes
    ----------
    kind
        The beginning or the end of an object or array, a scalar, or the scalar that is the type of
        an object.
    key
        The key before it; empty in an array and for an end.
    start, end
        Its place; of a text, without its quotes.
    """

    kind: Literal["object", "array", "end", "value", "type"]
    key: str
    start: int
    end: int


def scan_json(source: str, start: int, end: int) -> Iterator[JsonPart]:
    """Yield the parts of a JSON text between two places of a source, except null.

    Errors of syntax are ignored, since a value is evidence wherever it stands.
    """
    key = ""
    last: tuple[str, int] | None = None
    for match in _TOKEN.finditer(source, start, end):
        lexeme, at = match[0], match.start()
        if lexeme == ":":
            key, last = (last or ("", 0))[0].strip('"'), None
        elif lexeme in _OPENING:
            yield JsonPart(_OPENING[lexeme], key, at, match.end())
            key, last = "", None
        elif lexeme in _CLOSING:
            if last is not None:
                text, begin = last
                is_text = text.startswith('"')
                place = (begin + is_text, begin + len(text) - is_text)
                if key in {_TYPE, "type"} and is_text:
                    yield JsonPart("type", key, *place)
                elif place[0] < place[1] and text != "null":
                    yield JsonPart("value", key, *place)
            key, last = "", None
            if _CLOSING[lexeme]:
                yield JsonPart("end", "", at, match.end())
        else:
            last = lexeme, at


def structured_data(
    document: Document, base: str, *, json_ld: JsonLd, metas: Mapping[str, list[str]]
) -> dict[str, Any]:
    """Return the structured data of the whole page, each syntax under its own key.

    Keys: `json_ld` (the valid blocks, those of an array one by one); `microdata` (top-level
    items with `type`, `id` and `properties`, which map names to lists); `opengraph` (``og:``
    and ``twitter:`` names); `rdfa` (top-level resources with `vocab`, `type`, `resource` and
    `properties`); `meta` (every named ``meta``). Repeated names in `opengraph` and `meta` have
    a list. Values below `MAX_DEPTH` levels are null. `json_ld_repaired`, the number of JSON-LD
    blocks that were decoded after a repair, is present if there are any.
    """
    repaired = json_ld.repaired
    return {
        "json_ld": json_ld.blocks,
        "microdata": [_nested_item(item, MAX_DEPTH) for item in microdata_of(document, base)],
        "opengraph": {
            name: _single_or_list(values)
            for name, values in metas.items()
            if name.startswith(("og:", "twitter:"))
        },
        "rdfa": [_nested_item(item, MAX_DEPTH) for item in rdfa_of(document, base)],
        "meta": {name: _single_or_list(values) for name, values in metas.items()},
        **({"json_ld_repaired": repaired} if repaired else {}),
    }


def _nested_item(item: MicrodataItem | RdfaItem, levels: int) -> dict[str, Any] | None:
    """Return an item of microdata or RDFa with those nested in it; None below `levels`."""
    levels -= _LEVELS_PER_ITEM
    if levels < 0:
        return None
    properties = {
        name: [
            _nested_item(value, levels) if isinstance(value, MicrodataItem | RdfaItem) else value
            for value in values
        ]
        for name, values in item.properties.items()
    }
    if isinstance(item, MicrodataItem):
        return {"type": item.type, "id": item.id, "properties": properties}
    own = {"vocab": item.vocab, "type": item.type, "resource": item.resource}
    return {**own, "properties": properties}


def _single_or_list(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else values
