"""The `structured_data` format: JSON-LD, microdata, OpenGraph, RDFa and meta tags of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from webdata_nb.page.content.json_ld import MAX_DEPTH
from webdata_nb.page.content.parser import MicrodataItem, RdfaItem, microdata_of, rdfa_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from webdata_nb.page.content.parsed_page import ParsedPage

# The item, its properties, and the list of values of a property.
_LEVELS_PER_ITEM = 3
_ItemT = TypeVar("_ItemT", MicrodataItem, RdfaItem)


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
    repaired = page.head.json_ld.repaired
    return {
        "json_ld": page.head.json_ld.blocks,
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
