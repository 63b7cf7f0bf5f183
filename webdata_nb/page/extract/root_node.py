"""Selects the node of a page that a schema describes, and finds values from a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from webdata_nb.page.extract.field_names import (
    kind_of_name,
    name_readings,
    normalize_name,
    split_words,
)
from webdata_nb.page.extract.vocabulary import (
    COMMON_PROPERTIES,
    GENERIC_NAMES,
    PAGE_TYPES,
    SECONDARY_TYPES,
    SYNONYMS_BY_TYPE,
    TYPES_BY_KIND,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from webdata_nb.page.extract.node_graph import DataNode, NodeGraph, ReachableValues
    from webdata_nb.page.extract.schema import FieldSchema

MAX_CANDIDATES: Final = 200
MAX_TWINS: Final = 5


def is_of_kind(node: DataNode, kind: str) -> bool:
    """Return whether a node is of the kind that a word names."""
    return node.is_a(*TYPES_BY_KIND[kind])


def find_values(node: DataNode, chain: tuple[str, ...]) -> Iterator[ReachableValues]:
    """Return the values of a chain's first property, starting from a node."""
    reach = node.reach()
    for name in _names_by_type(node, chain[0]):
        yield from reach.get(name, ())


def findable_names(node: DataNode) -> AbstractSet[str]:
    """Return the names for which `find_values` may have values, starting from a node."""
    reach = node.reach()
    by_type = [names for ending, names in SYNONYMS_BY_TYPE.items() if node.is_a(ending)]
    if not by_type:
        return reach.keys()
    synonyms = (
        name
        for names in by_type
        for name, synonym_names in names.items()
        if reach.keys() & synonym_names
    )
    return reach.keys() | set(synonyms)


def _names_by_type(node: DataNode, name: str) -> tuple[str, ...]:
    synonyms = (
        names[name]
        for ending, names in SYNONYMS_BY_TYPE.items()
        if name in names
        if node.is_a(ending)
    )
    return (*next(synonyms, ()), name)


def find_root(graph: NodeGraph, schema: FieldSchema, title: str) -> DataNode | None:
    """Select the node that a schema describes: of the kind in its title, else with most fields.

    Of equal nodes, the one that the page's title names wins, then the first. A node of a secondary
    type, such as the publisher, is selected only if it has fields that are not common to all.
    """
    kinds = [kind for word in split_words(schema.title) if (kind := kind_of_name(word))]
    titled_nodes = [node for node in graph.nodes if any(is_of_kind(node, kind) for kind in kinds)]
    candidates = titled_nodes or [node for node in graph.nodes if node.main]
    fields = [_heads(name, inner) for name, inner in schema.properties.items()]
    best_node: tuple[tuple[int, ...], DataNode] | None = None
    for node in candidates[:MAX_CANDIDATES]:
        score = _score(node, fields, by_title=bool(titled_nodes))
        if score is not None and (
            best_node is None or (*score, _is_named(node, title)) > best_node[0]
        ):
            best_node = (*score, _is_named(node, title)), node
    return best_node[1] if best_node is not None else None


def _heads(name: str, schema: FieldSchema) -> dict[tuple[str, str], None]:
    """Return the first properties of a field's readings, with the kinds that have them."""
    if schema.kind in {"object", "array"} and normalize_name(name) in GENERIC_NAMES:
        return {}
    return dict.fromkeys((reading.chain[0], reading.kind) for reading in name_readings(name))


def _score(
    node: DataNode, fields: list[dict[tuple[str, str], None]], *, by_title: bool
) -> tuple[int, ...] | None:
    """Count the fields that a node can fill: distinctive fields first, then common ones.

    None if the schema cannot describe the node.
    """
    names = [_first_name(node, heads) for heads in fields]
    common = sum(name in COMMON_PROPERTIES for name in names)
    special = sum(name is not None for name in names) - common
    aside = node.is_a(*SECONDARY_TYPES)
    if not special and (not common or (aside and not by_title)):
        return None
    return special, 0 if aside else 1 if node.is_a(*PAGE_TYPES) or not node.types else 2, common


def _first_name(node: DataNode, heads: dict[tuple[str, str], None]) -> str | None:
    reach = node.reach()
    for name, kind in heads:
        if name in reach and (not kind or is_of_kind(node, kind)):
            return name
    return None


def _is_named(node: DataNode, title: str) -> int:
    names = (name for key in ("name", "headline") for name in node.values(key))
    normalized_title = normalize_name(title)
    return int(
        any(
            isinstance(name, str) and normalize_name(name) in normalized_title
            for name in names
            if name
        )
    )


def find_twin_nodes(graph: NodeGraph, root: DataNode) -> list[DataNode]:
    """Return the other nodes that describe the same object as `root`, in any block or syntax."""
    same_type = [
        node
        for node in graph.nodes[:MAX_CANDIDATES]
        if node.main and node is not root and set(node.types) & set(root.types)
    ]
    names = [normalize_name(value) for value in root.values("name") if isinstance(value, str)]
    same_name = [node for node in same_type if (name := _first_node_name(node)) and name in names]
    if same_name or any(node.origin == root.origin for node in same_type):
        return same_name[:MAX_TWINS]
    origins = [node.origin for node in same_type]
    return [node for node in same_type if origins.count(node.origin) == 1]


def _first_node_name(node: DataNode) -> str:
    return next((normalize_name(name) for name in node.values("name") if isinstance(name, str)), "")
