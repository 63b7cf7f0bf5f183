"""The `structured_data` format: what a page says for machines, by the way it says it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson

from webdata_nb.service.content.parser import MicrodataItem, RdfaItem, microdata_of, rdfa_of

if TYPE_CHECKING:
    from webdata_nb.service.content.parsed_page import ParsedPage

MAX_DEPTH = 100
"""Levels of lists and objects in a JSON-LD block or an item; what is deeper is null."""
# An item, its properties, and the list of a property's values.
_LEVELS_OF_AN_ITEM = 3
_OPENINGS = ("<!--", "//<![CDATA[", "/*<![CDATA[*/", "<![CDATA[")
_CLOSINGS = ("-->", "//]]>", "/*]]>*/", "]]>", "//", ";")


def structured_data(page: ParsedPage) -> dict[str, Any]:
    """Return what the whole page declares, each syntax under its own key.

    Keys: `json_ld` (each block that is JSON, as it stands); `microdata` (top-level items with
    `type`, `id` and `properties`, a name's values as a list); `opengraph` (``og:`` and
    ``twitter:`` names); `rdfa` (top-level resources with `vocab`, `type`, `resource` and
    `properties`); `meta` (every named ``meta``). In `opengraph` and `meta` a name that is given
    several times has a list. What nests deeper than `MAX_DEPTH` levels is null.
    """
    base, metas = page.link_resolver.base, page.head.metas
    return {
        "json_ld": decode_json_ld(page.head.json_ld),
        "microdata": [_microdata(each, MAX_DEPTH) for each in microdata_of(page.document, base)],
        "opengraph": {
            name: _one_or_all(values)
            for name, values in metas.items()
            if name.startswith(("og:", "twitter:"))
        },
        "rdfa": [_rdfa(each, MAX_DEPTH) for each in rdfa_of(page.document, base)],
        "meta": {name: _one_or_all(values) for name, values in metas.items()},
    }


def decode_json_ld(blocks: list[str]) -> list[Any]:
    """Decode JSON-LD blocks; one that is not JSON even without its wrapping is left out."""
    found = []
    for block in blocks:
        try:
            values = [orjson.loads(block)]
        except orjson.JSONDecodeError:
            values = _lenient(_unwrapped(block))
        if block.count("{") + block.count("[") > MAX_DEPTH:
            values = [_cut(value, MAX_DEPTH) for value in values]
        found += values
    return found


def _cut(value: Any, levels: int) -> Any:
    if isinstance(value, dict):
        return {name: _cut(each, levels - 1) for name, each in value.items()} if levels else None
    if isinstance(value, list):
        return [_cut(each, levels - 1) for each in value] if levels else None
    return value


def _lenient(text: str) -> list[Any]:
    """Read JSON that browsers' consumers accept too: raw line breaks in strings, NaN."""
    try:
        return [json.loads(text, strict=False, parse_constant=lambda _: None)]
    except (ValueError, RecursionError):
        return []


def _unwrapped(block: str) -> str:
    text = block.strip()
    for opening in _OPENINGS:
        text = text.removeprefix(opening).lstrip()
    for closing in _CLOSINGS:
        text = text.removesuffix(closing).rstrip()
    return text


def _microdata(item: MicrodataItem, levels: int) -> dict[str, Any] | None:
    levels -= _LEVELS_OF_AN_ITEM
    if levels < 0:
        return None
    properties = {
        name: [
            _microdata(each, levels) if isinstance(each, MicrodataItem) else each for each in values
        ]
        for name, values in item.properties.items()
    }
    return {"type": item.type, "id": item.id, "properties": properties}


def _rdfa(item: RdfaItem, levels: int) -> dict[str, Any] | None:
    levels -= _LEVELS_OF_AN_ITEM
    if levels < 0:
        return None
    properties = {
        name: [_rdfa(each, levels) if isinstance(each, RdfaItem) else each for each in values]
        for name, values in item.properties.items()
    }
    return {
        "vocab": item.vocab,
        "type": item.type,
        "resource": item.resource,
        "properties": properties,
    }


def _one_or_all(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else values
