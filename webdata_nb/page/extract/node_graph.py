"""Reads JSON-LD, microdata and RDFa of a page into one graph of nodes.

The reader works breadth first without recursion and stops at fixed limits, so neither depth nor
size nor reference cycles can make it slow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from html import unescape
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.page.content.structured_data import flatten, local_name, read_node, top_objects
from webdata_nb.page.extract.field_names import (
    COMMON_PROPERTIES,
    GENERIC_NAMES,
    INVERSE_PROPERTIES,
    MAIN_NODE_PROPERTIES,
    PAGE_TYPES,
    SECONDARY_TYPES,
    SYNONYMS_BY_TYPE,
    TRAVERSED_PROPERTIES,
    TYPES_BY_KIND,
    kind_of_name,
    name_readings,
    normalize_name,
    normalize_short_name,
    singular,
    split_words,
)

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from webdata_nb.page.extract.schema import FieldSchema


MAX_NODES: Final = 20_000
MAX_VALUES: Final = 200_000
MAX_REACHABLE: Final = 400
MAX_TEXT_LENGTH: Final = 100_000
_MAX_DISTANCE: Final = 3
_MAX_SIBLINGS: Final = 20


@dataclass(eq=False, slots=True)
class DataNode:
    """One object that a page describes.

    Attributes
    ----------
    origin
        The syntax, by its key in `structured_data`.
    types
        Local names of its types, as written.
    id
        Its identifier, or None.
    main
        Whether it is not part of the description of another node.
    properties
        By normalized name: the name as written, and the values.
    number
        Its position among the nodes of its syntax and type, from 1.
    reachable
        The cached result of `reach`; None before the first call.
    """

    origin: str
    types: tuple[str, ...] = ()
    id: str | None = None
    main: bool = False
    properties: dict[str, tuple[str, list[Any]]] = field(default_factory=dict)
    number: int = 1
    reachable: dict[str, list[ReachableValues]] | None = field(default=None, repr=False)

    def is_a(self, *endings: str) -> bool:
        """Return whether the name of one of its types has one of these endings."""
        return _have_ending(self.types, endings)

    @property
    def address(self) -> str | None:
        """Its identifier, if it is the URL of a page rather than a URI with a fragment."""
        uri = self.id or ""
        return uri if uri.startswith(("http://", "https://")) and "#" not in uri else None

    @property
    def label(self) -> str:
        """Its name in the provenance: syntax and type, and its number from the second node on."""
        return self.kind + (f"[{self.number}]" if self.number > 1 else "")

    @property
    def kind(self) -> str:
        """Its syntax and type."""
        return f"{self.origin}:{self.types[0] if self.types else 'Thing'}"

    def values(self, name: str) -> list[Any]:
        """Return the values of one property."""
        return self.properties.get(name, ("", []))[1]

    def nodes(self, name: str) -> list[DataNode]:
        """Return the nodes among the values of one property."""
        return [value for value in self.values(name) if isinstance(value, DataNode)]

    def reach(self) -> dict[str, list[ReachableValues]]:
        """Return the values of its properties and of nodes near it by name, nearest first."""
        if self.reachable is not None:
            return self.reachable
        reachable: dict[str, list[ReachableValues]] = {}
        queue: deque[tuple[DataNode, tuple[str, ...], frozenset[str] | None]] = deque(
            [(self, (), None)]
        )
        visited = {self}
        remaining = MAX_REACHABLE
        while queue and remaining > 0:
            current, path, allowed = queue.popleft()
            for name, (label, values) in current.properties.items():
                remaining -= 1
                if remaining <= 0:
                    break
                if allowed is not None and name not in allowed:
                    continue
                reachable.setdefault(name, []).append(ReachableValues((*path, label), values))
                if name not in TRAVERSED_PROPERTIES or len(path) >= _MAX_DISTANCE:
                    continue
                nodes = [value for value in values if isinstance(value, DataNode)]
                for inner in nodes[:_MAX_SIBLINGS]:
                    if inner not in visited:
                        visited.add(inner)
                        queue.append((inner, (*path, label), TRAVERSED_PROPERTIES[name]))
        if self.address is not None and "url" not in reachable:
            reachable["url"] = [ReachableValues(("@id",), [self.address])]
        own_name, pairs = self.pairs(MAX_REACHABLE)
        for name, values in pairs:
            found = ReachableValues((own_name, name[:100]), values)
            reachable.setdefault(normalize_name(name[:100]), []).append(found)
        self.reachable = reachable
        return reachable

    def pairs(self, limit: int) -> tuple[str, list[tuple[str, list[Any]]]]:
        """Return the properties that are declared as pairs of a name and a value.

        The name of the property that has them comes first.
        """
        own_name, declared = self.properties.get("additionalproperty", ("", []))
        nodes = (pair for pair in declared[:limit] if isinstance(pair, DataNode))
        named = ((next(iter(node.values("name")), None), node.values("value")) for node in nodes)
        return own_name, [(name, own) for name, own in named if isinstance(name, str) and own]


@dataclass(frozen=True, slots=True)
class ReachableValues:
    """Values and their path from a node, as written on the page."""

    path: tuple[str, ...]
    values: list[Any]


class NodeGraph:
    """All nodes of a page in document order, main nodes first."""

    def __init__(self, structured: Mapping[str, Any]) -> None:
        self.nodes: list[DataNode] = []
        self._ids: dict[str, DataNode] = {}
        self._queue: deque[tuple[DataNode, Mapping[Any, Any]]] = deque()
        self._value_count = 0
        for syntax, data in top_objects(structured):
            self._add_node(data, syntax, main=True)
        while self._queue:
            self._read_properties(*self._queue.popleft())
        self._merge_same_nodes()

    def _add_node(self, data: Any, origin: str, *, main: bool) -> DataNode | None:
        if not isinstance(data, dict) or len(self.nodes) >= MAX_NODES:
            return None
        types, node_id, properties = read_node(data, origin)
        node = DataNode(origin, types, node_id, main)
        self.nodes.append(node)
        self._queue.append((node, properties))
        return node

    def _read_properties(self, node: DataNode, properties: Mapping[Any, Any]) -> None:
        for label, value in properties.items():
            if not isinstance(label, str) or label.startswith("@"):
                continue
            local = local_name(label)
            name = normalize_short_name(local[:100])
            main = node.main and name in MAIN_NODE_PROPERTIES
            values: list[Any] = []
            for item in flatten([value]):
                self._value_count += 1
                if self._value_count > MAX_VALUES:
                    break
                if isinstance(item, dict):
                    inner = self._add_node(item, node.origin, main=main)
                    if inner is not None:
                        if not inner.types and not main and len(item) > 1:
                            inner.types = (singular(name),)
                        values.append(inner)
                elif isinstance(item, str):
                    if text := unescape(item[:MAX_TEXT_LENGTH]).strip():
                        values.append(text)
                elif item is not None:
                    values.append(item)
            if not name or not values:
                continue
            if name in node.properties:
                node.properties[name][1].extend(values)
            else:
                node.properties[name] = (local[:100], values)

    def _merge_same_nodes(self) -> None:
        """Merge the nodes with the same identifier, and resolve the references between nodes."""
        nodes = []
        for node in self.nodes:
            first = self._ids.setdefault(node.id, node) if node.id else node
            if first is node:
                nodes.append(node)
                continue
            for name, values in node.properties.items():
                first.properties.setdefault(name, values)
            first.types = first.types or node.types
            first.main = first.main or node.main
            node.types, node.properties = first.types, first.properties
        self.nodes = sorted(nodes, key=lambda node: not node.main)
        numbers: dict[tuple[str, tuple[str, ...]], int] = {}
        for node in self.nodes:
            key = (node.origin, node.types[:1])
            numbers[key] = node.number = numbers.get(key, 0) + 1
        for node in nodes:
            for _, own in node.properties.values():
                for index, value in enumerate(own):
                    if isinstance(value, DataNode) and value.id is not None:
                        own[index] = self._ids.get(value.id, value)
        self._resolve_list_items(nodes)
        # A whole has the parts that name it, unless it lists parts itself.
        added: dict[tuple[DataNode, str], list[DataNode]] = {}
        for node in nodes:
            for name in INVERSE_PROPERTIES.keys() & node.properties.keys() if node.main else ():
                for whole in node.values(name):
                    label = INVERSE_PROPERTIES[name]
                    if isinstance(whole, DataNode) and whole.main and whole is not node:
                        added.setdefault((whole, label), []).append(node)
        for (whole, label), parts in added.items():
            whole.properties.setdefault(normalize_name(label), (label, list(parts)))

    def _resolve_list_items(self, nodes: list[DataNode]) -> None:
        """Replace the URL of a list item by the node that has it as its identifier or URL."""
        items = [node for node in nodes if node.is_a("listitem") and not node.nodes("item")]
        crumbs = {
            value
            for node in nodes
            if node.is_a("breadcrumblist")
            for value in node.values("itemlistelement")
        }
        items = [node for node in items if node not in crumbs]
        if not items:
            return
        by_url = {
            url: node
            for node in reversed(nodes)
            if node.main and node.types and not node.is_a(*PAGE_TYPES, "listitem", "list")
            for url in (*node.values("url"), node.id)
            if isinstance(url, str)
        }
        for item in items:
            for url in (*item.values("item"), *item.values("url")):
                if isinstance(url, str) and url in by_url:
                    item.properties["item"] = ("item", [by_url[url]])
                    break


@lru_cache(maxsize=4096)
def _have_ending(types: tuple[str, ...], endings: tuple[str, ...]) -> bool:
    return any(type_name.lower().endswith(endings) for type_name in types)


MAX_CANDIDATES: Final = 200
MAX_TWINS: Final = 5


def is_of_kind(node: DataNode, kind: str) -> bool:
    """Return whether a node is of the kind that a word names."""
    return node.is_a(*TYPES_BY_KIND[kind])


def find_values(node: DataNode, chain: tuple[str, ...]) -> Iterator[ReachableValues]:
    """Return the values of a chain's first property, starting from a node."""
    reach, first = node.reach(), chain[0]
    synonyms = (
        names[first]
        for ending, names in SYNONYMS_BY_TYPE.items()
        if first in names
        if node.is_a(ending)
    )
    for name in (*next(synonyms, ()), first):
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


def find_root(graph: NodeGraph, schema: FieldSchema, title: str) -> DataNode | None:
    """Select the node that a schema describes: of the kind in its title, else with most fields.

    Of equal nodes, the one that the page's title names wins, then the first. A node of a secondary
    type, such as the publisher, is selected only if it has fields that are not common to all.
    """
    kinds = [kind for word in split_words(schema.title) if (kind := kind_of_name(word))]
    titled_nodes = [node for node in graph.nodes if any(is_of_kind(node, kind) for kind in kinds)]
    candidates = titled_nodes or [node for node in graph.nodes if node.main]
    # The first properties of each field's readings, with the kinds that have them.
    fields = [
        {}
        if inner.kind in {"object", "array"} and normalize_name(name) in GENERIC_NAMES
        else dict.fromkeys((reading.chain[0], reading.kind) for reading in name_readings(name))
        for name, inner in schema.properties.items()
    ]
    normalized_title = normalize_name(title)
    best_node: tuple[tuple[int, ...], DataNode] | None = None
    for node in candidates[:MAX_CANDIDATES]:
        # How many fields the node can fill: distinctive fields first, then common ones.
        reach = node.reach()
        names = [
            next(
                (n for n, kind in heads if n in reach and (not kind or is_of_kind(node, kind))),
                None,
            )
            for heads in fields
        ]
        common = sum(name in COMMON_PROPERTIES for name in names)
        special = sum(name is not None for name in names) - common
        aside = node.is_a(*SECONDARY_TYPES)
        if not special and (not common or (aside and not titled_nodes)):
            continue  # the schema cannot describe the node
        rank = 0 if aside else 1 if node.is_a(*PAGE_TYPES) or not node.types else 2
        own_names = (own for key in ("name", "headline") for own in node.values(key))
        is_named = any(
            isinstance(own, str) and own and normalize_name(own) in normalized_title
            for own in own_names
        )
        score = special, rank, common, is_named
        if best_node is None or score > best_node[0]:
            best_node = score, node
    return best_node[1] if best_node is not None else None


def find_twin_nodes(graph: NodeGraph, root: DataNode) -> list[DataNode]:
    """Return the other nodes that describe the same object as `root`, in any block or syntax."""
    same_type = [
        node
        for node in graph.nodes[:MAX_CANDIDATES]
        if node.main and node is not root and set(node.types) & set(root.types)
    ]
    names = [normalize_name(value) for value in root.values("name") if isinstance(value, str)]
    same_name = []
    for node in same_type:
        first = next((value for value in node.values("name") if isinstance(value, str)), "")
        if (name := normalize_name(first)) and name in names:
            same_name.append(node)
    if same_name or any(node.origin == root.origin for node in same_type):
        return same_name[:MAX_TWINS]
    origins = [node.origin for node in same_type]
    return [node for node in same_type if origins.count(node.origin) == 1]
