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
from typing import Any, Final

from webdata_nb.page.content.json_ld import local_name
from webdata_nb.page.extract.field_names import normalize_name, normalize_short_name, singular
from webdata_nb.page.extract.vocabulary import (
    INVERSE_PROPERTIES,
    MAIN_NODE_PROPERTIES,
    PAGE_TYPES,
    TRAVERSED_PROPERTIES,
)

MAX_NODES: Final = 20_000
MAX_VALUES: Final = 200_000
MAX_REACHABLE: Final = 400
MAX_TEXT_LENGTH: Final = 100_000
_MAX_DISTANCE: Final = 3
_MAX_SIBLINGS: Final = 20
_TEXT_KEYS: Final = ("@value", "@list", "@set")


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

    def reach(self) -> dict[str, list[ReachableValues]]:
        """Return the values of its properties and of nodes near it by name, nearest first."""
        if self.reachable is None:
            self.reachable = _reachable_values(self)
        return self.reachable


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
        self._queue: deque[tuple[DataNode, Any]] = deque()
        self._value_count = 0
        for origin in ("json_ld", "microdata", "rdfa"):
            blocks = structured.get(origin)
            for block in _flatten(blocks if isinstance(blocks, list) else []):
                self._add_block(block, origin)
        while self._queue:
            self._read_properties(*self._queue.popleft())
        self._merge_same_nodes()

    def _add_block(self, block: Any, origin: str) -> None:
        members = block.get("@graph") if isinstance(block, dict) else None
        if members is not None:
            for member in _flatten([members]):
                self._add_node(member, origin, main=True)
        if members is None or "@type" in block:
            self._add_node(block, origin, main=True)

    def _add_node(self, data: Any, origin: str, *, main: bool) -> DataNode | None:
        if not isinstance(data, dict) or len(self.nodes) >= MAX_NODES:
            return None
        key = {"json_ld": "@id", "microdata": "id", "rdfa": "resource"}[origin]
        node_id = data.get(key, data.get("id") if origin == "json_ld" else None)
        types = data.get("@type" if origin == "json_ld" else "type", data.get("type"))
        node = DataNode(origin, _types(types), node_id if isinstance(node_id, str) else None, main)
        self.nodes.append(node)
        self._queue.append((node, data))
        return node

    def _read_properties(self, node: DataNode, data: dict[str, Any]) -> None:
        properties = data if node.origin == "json_ld" else data.get("properties")
        for label, value in properties.items() if isinstance(properties, dict) else ():
            if not isinstance(label, str) or label.startswith("@"):
                continue
            local = local_name(label)
            name = normalize_short_name(local[:100])
            values = list(
                self._read_values(
                    value, node, name, main=node.main and name in MAIN_NODE_PROPERTIES
                )
            )
            if not name or not values:
                continue
            if name in node.properties:
                node.properties[name][1].extend(values)
            else:
                node.properties[name] = (local[:100], values)

    def _read_values(self, value: Any, node: DataNode, name: str, *, main: bool) -> Iterator[Any]:
        for item in _flatten([value]):
            self._value_count += 1
            if self._value_count > MAX_VALUES:
                return
            if isinstance(item, dict):
                inner = self._add_node(item, node.origin, main=main)
                if inner is not None:
                    if not inner.types and not main and len(item) > 1:
                        inner.types = (singular(name),)
                    yield inner
            elif isinstance(item, str):
                if text := unescape(item[:MAX_TEXT_LENGTH]).strip():
                    yield text
            elif item is not None:
                yield item

    def _merge_same_nodes(self) -> None:
        """Merge the nodes with the same identifier, so that references resolve."""
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
        self._replace_references(nodes)

    def _replace_references(self, nodes: list[DataNode]) -> None:
        for node in nodes:
            for _, values in node.properties.values():
                for index, value in enumerate(values):
                    if isinstance(value, DataNode) and value.id is not None:
                        values[index] = self._ids.get(value.id, value)
        self._resolve_list_items(nodes)
        self._add_inverse_properties(nodes)

    def _resolve_list_items(self, nodes: list[DataNode]) -> None:
        """Replace the URL of a list item by the node that has it as its identifier or URL."""
        items = [node for node in nodes if node.is_a("listitem") and not _has_node(node, "item")]
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

    def _add_inverse_properties(self, nodes: list[DataNode]) -> None:
        """Let a whole list the parts that name it, unless it lists parts itself."""
        added: dict[tuple[DataNode, str], list[DataNode]] = {}
        for node in nodes:
            for name in INVERSE_PROPERTIES.keys() & node.properties.keys() if node.main else ():
                for whole in node.values(name):
                    label = INVERSE_PROPERTIES[name]
                    if isinstance(whole, DataNode) and whole.main and whole is not node:
                        added.setdefault((whole, label), []).append(node)
        for (whole, label), parts in added.items():
            whole.properties.setdefault(normalize_name(label), (label, list(parts)))


@lru_cache(maxsize=4096)
def _have_ending(types: tuple[str, ...], endings: tuple[str, ...]) -> bool:
    return any(type_name.lower().endswith(endings) for type_name in types)


def _has_node(node: DataNode, name: str) -> bool:
    return any(isinstance(value, DataNode) for value in node.values(name))


def _flatten(values: list[Any]) -> Iterator[Any]:
    """Yield the values of nested lists and of JSON-LD's value, list and set objects."""
    stack = list(reversed(values[:MAX_VALUES]))
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            key = next((name for name in _TEXT_KEYS if name in item), None)
            if key is None:
                yield item
            else:
                stack.append(item[key])
        elif isinstance(item, list):
            stack += reversed(item)
        else:
            yield item


def _types(value: Any) -> tuple[str, ...]:
    names = value if isinstance(value, list) else str(value or "").split()
    return tuple(local_name(name)[:100] for name in names[:10] if isinstance(name, str) and name)


def _reachable_values(node: DataNode) -> dict[str, list[ReachableValues]]:
    reachable: dict[str, list[ReachableValues]] = {}
    queue: deque[tuple[DataNode, tuple[str, ...], frozenset[str] | None]] = deque(
        [(node, (), None)]
    )
    visited = {node}
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
            if name in TRAVERSED_PROPERTIES and len(path) < _MAX_DISTANCE:
                for inner in [value for value in values if isinstance(value, DataNode)][
                    :_MAX_SIBLINGS
                ]:
                    if inner not in visited:
                        visited.add(inner)
                        queue.append((inner, (*path, label), TRAVERSED_PROPERTIES[name]))
    if node.address is not None and "url" not in reachable:
        reachable["url"] = [ReachableValues(("@id",), [node.address])]
    _add_additional_properties(node, reachable)
    return reachable


def _add_additional_properties(node: DataNode, reachable: dict[str, list[ReachableValues]]) -> None:
    """Add the properties that a node declares as pairs of a name and a value."""
    for own_name, values in (node.properties.get("additionalproperty", ("", [])),):
        for pair in values[:MAX_REACHABLE]:
            names = pair.values("name") if isinstance(pair, DataNode) else []
            if names and isinstance(names[0], str) and pair.values("value"):
                label = names[0][:100]
                inner = ReachableValues((own_name, label), pair.values("value"))
                reachable.setdefault(normalize_name(label), []).append(inner)
