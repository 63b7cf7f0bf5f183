"""The `structured_data` format: what a page says for machines, by the way it says it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson

from webdata_nb.service.content.parser import MicrodataItem, RdfaItem, microdata_of, rdfa_of

if TYPE_CHECKING:
    from webdata_nb.service.content.parsed_page import Reading

_OPENINGS = ("<!--", "//<![CDATA[", "/*<![CDATA[*/", "<![CDATA[")
_CLOSINGS = ("-->", "//]]>", "/*]]>*/", "]]>", "//", ";")


def structured_data(reading: Reading) -> dict[str, Any]:
    """Return what the whole page declares, each syntax under its own key.

    Keys: `json_ld` (each block that is JSON, as it stands); `microdata` (top-level items with
    `type`, `id` and `properties`, a name's values as a list); `opengraph` (``og:`` and
    ``twitter:`` names); `rdfa` (top-level resources with `vocab`, `type`, `resource` and
    `properties`); `meta` (every named ``meta``). In `opengraph` and `meta` a name that is given
    several times has a list.
    """
    base, metas = reading.links.base, reading.head.metas
    return {
        "json_ld": json_ld(reading.head.json_ld),
        "microdata": [_microdata(each) for each in microdata_of(reading.document, base)],
        "opengraph": {
            name: _one_or_all(values)
            for name, values in metas.items()
            if name.startswith(("og:", "twitter:"))
        },
        "rdfa": [_rdfa(each) for each in rdfa_of(reading.document, base)],
        "meta": {name: _one_or_all(values) for name, values in metas.items()},
    }


def json_ld(blocks: list[str]) -> list[Any]:
    """Decode JSON-LD blocks; one that is not JSON even without its wrapping is left out."""
    found = []
    for block in blocks:
        try:
            found.append(orjson.loads(block))
        except orjson.JSONDecodeError:
            found += _lenient(_unwrapped(block))
    return found


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


def _microdata(item: MicrodataItem) -> dict[str, Any]:
    properties = {
        name: [_microdata(each) if isinstance(each, MicrodataItem) else each for each in values]
        for name, values in item.properties.items()
    }
    return {"type": item.type, "id": item.id, "properties": properties}


def _rdfa(item: RdfaItem) -> dict[str, Any]:
    properties = {
        name: [_rdfa(each) if isinstance(each, RdfaItem) else each for each in values]
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
