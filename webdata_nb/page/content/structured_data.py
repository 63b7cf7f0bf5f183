"""The `structured_data` format: JSON-LD, microdata, OpenGraph, RDFa and meta tags of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from webdata_nb.foreign_json import MalformedJson, decode_json
from webdata_nb.page.content.json_repair import repair_json
from webdata_nb.page.content.parser import MicrodataItem, RdfaItem, microdata_of, rdfa_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from webdata_nb.page.content.parsed_page import ParsedPage

MAX_DEPTH = 100
"""Levels of lists and objects in a JSON-LD block or an item; deeper values are null."""
_PARSED_DEPTH = 1000
# The item, its properties, and the list of values of a property.
_LEVELS_PER_ITEM = 3
_ItemT = TypeVar("_ItemT", MicrodataItem, RdfaItem)
_OPENINGS = ("<!--", "//<![CDATA[", "/*<![CDATA[*/", "<![CDATA[")
_CLOSINGS = ("-->", "//]]>", "/*]]>*/", "]]>", "//", ";")


def structured_data(page: ParsedPage) -> dict[str, Any]:
    """Return the structured data of the whole page, each syntax under its own key.

    Keys: `json_ld` (the valid blocks, those of an array one by one); `microdata` (top-level
    items with `type`, `id` and `properties`, which map names to lists); `opengraph` (``og:``
    and ``twitter:`` names); `rdfa` (top-level resources with `vocab`, `type`, `resource` and
    `properties`); `meta` (every named ``meta``). Repeated names in `opengraph` and `meta` have
    a list. Values below `MAX_DEPTH` levels are null. `json_ld_repaired`, the number of JSON-LD
    blocks that were decoded after a repair, is present if there are any.
    """
    base, metas = page.link_resolver.base, page.head.metas
    json_ld, repaired = _decode_blocks(page.head.json_ld)
    return {
        "json_ld": json_ld,
        "microdata": [
            _microdata_item(item, MAX_DEPTH) for item in microdata_of(page.document, base)
        ],
        "opengraph": {
            name: _single_or_list(values)
            for name, values in metas.items()
            if name.startswith(("og:", "twitter:"))
        },
        "rdfa": [_rdfa_resource(item, MAX_DEPTH) for item in rdfa_of(page.document, base)],
        "meta": {name: _single_or_list(values) for name, values in metas.items()},
        **({"json_ld_repaired": repaired} if repaired else {}),
    }


def decode_json_ld(blocks: list[str]) -> list[Any]:
    """Decode JSON-LD blocks, also slightly broken ones; skip those that stay invalid."""
    return _decode_blocks(blocks)[0]


def _decode_blocks(blocks: list[str]) -> tuple[list[Any], int]:
    """Return the decoded blocks, and how many of them were repaired."""
    decoded: list[Any] = []
    repaired = 0
    for block in blocks:
        try:
            values = [decode_json(block, max_depth=_PARSED_DEPTH)]
        except MalformedJson:
            text = strip_wrapping(block)
            values = _decode_or_nothing(text)
            if not values and (values := _decode_or_nothing(repair_json(text) or "")):
                repaired += 1
        if block.count("{") + block.count("[") > MAX_DEPTH:
            values = [_limit_depth(value, MAX_DEPTH) for value in values]
        for value in values:
            decoded += value if isinstance(value, list) else [value]
    return decoded, repaired


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


def _decode_or_nothing(text: str) -> list[Any]:
    try:
        return [decode_json(text, max_depth=_PARSED_DEPTH)]
    except MalformedJson:
        return []


def strip_wrapping(block: str) -> str:
    """Return a JSON-LD block without the comment or CDATA marks around it."""
    text = block.strip()
    for opening in _OPENINGS:
        text = text.removeprefix(opening).lstrip()
    for closing in _CLOSINGS:
        text = text.removesuffix(closing).rstrip()
    return text


def _microdata_item(item: MicrodataItem, levels: int) -> dict[str, Any] | None:
    properties = _properties(item, levels, MicrodataItem, _microdata_item)
    if properties is None:
        return None
    return {"type": item.type, "id": item.id, "properties": properties}


def _rdfa_resource(item: RdfaItem, levels: int) -> dict[str, Any] | None:
    properties = _properties(item, levels, RdfaItem, _rdfa_resource)
    if properties is None:
        return None
    return {
        "vocab": item.vocab,
        "type": item.type,
        "resource": item.resource,
        "properties": properties,
    }


def _properties(
    item: _ItemT,
    levels: int,
    item_type: type[_ItemT],
    convert: Callable[[_ItemT, int], dict[str, Any] | None],
) -> dict[str, list[Any]] | None:
    """Return the properties of an item, with nested items converted; None below `levels`."""
    levels -= _LEVELS_PER_ITEM
    if levels < 0:
        return None
    return {
        name: [
            convert(value, levels) if isinstance(value, item_type) else value for value in values
        ]
        for name, values in item.properties.items()
    }


def _single_or_list(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else values
