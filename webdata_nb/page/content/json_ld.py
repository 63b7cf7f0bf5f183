"""Reads the JSON-LD of a page: decodes and repairs its blocks, and finds types and works in them.

Metadata, the kind of a page, the `structured_data` format and extraction read the blocks that are
decoded here, once for each page. Extraction makes a graph of them (`extract.node_graph`), with
microdata and RDFa. Evidence needs the place of each value in the source, also in blocks that stay
invalid, and reads only which scripts are JSON-LD from here.
"""

from __future__ import annotations

import re
from functools import cached_property
from html import unescape
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.content.parser import collapse_whitespace

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NODES: Final = 1000
"""JSON-LD nodes of a page that are read for its metadata and its types."""
MAX_DEPTH: Final = 100
"""Levels of lists and objects in a block; deeper values are null."""
MAX_REPAIRED_LENGTH: Final = 500_000
"""Characters of a text that is repaired; longer ones are left as they are."""

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
        names = (name for node in nodes for name in type_names(node.get("@type")))
        in_text = (name for text in self._decoded.invalid for name in _TYPE_IN_TEXT.findall(text))
        return frozenset(map(local_name, (*names, *in_text)))

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
        return _decode(self.texts)

    @cached_property
    def _nodes(self) -> list[dict[str, Any]]:
        return list(_walk(self.blocks, ("mainEntity", "@graph")))

    @cached_property
    def _works(self) -> list[dict[str, Any]]:
        """The nodes that describe creative works, articles first."""
        return sorted((node for node in self._nodes if _rank(node) < len(_WORKS)), key=_rank)

    @cached_property
    def _named_by_id(self) -> dict[str, dict[str, Any]]:
        return {
            identifier: node
            for node in reversed(self._nodes)
            if isinstance(identifier := node.get("@id"), str) and "name" in node
        }

    def _object_names(self, value: Any) -> Iterator[str]:
        """Yield the names of objects, also of those that stand elsewhere under their `@id`."""
        for item in value if isinstance(value, list) else [value]:
            node = item
            if isinstance(item, dict) and "name" not in item:
                node = self._named_by_id.get(str(item.get("@id")), item)
            name = _text(node["name"] if isinstance(node, dict) and "name" in node else node)
            if name:
                yield name


def type_names(value: Any) -> list[str]:
    """Return the types of a node, whose `@type` is a name or a list of names."""
    names = value if isinstance(value, list) else [value]
    return [name for name in names if isinstance(name, str)]


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
    words = [name.lower() for name in type_names(node.get("@type"))]
    ranks = [rank for rank, work in enumerate(_WORKS) for word in words if word.endswith(work)]
    return min(ranks, default=len(_WORKS))


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, dict):
        value = value.get("@value")
    return collapse_whitespace(value) or None if isinstance(value, str) else None


def _decode(texts: list[str]) -> _Decoded:
    """Decode blocks, also slightly broken ones."""
    decoded: list[Any] = []
    invalid: list[str] = []
    repaired = 0
    for text in texts:
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
