"""Reads JSON-LD, microdata and RDFa of a page into one graph of nodes.

The reader works breadth first without recursion and stops at fixed limits, so neither depth nor
size nor reference cycles can make it slow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Any, Final

from webdata_nb.service.extract.field_names import normalize_name, singular
from webdata_nb.service.extract.vocabulary import LEADS, THROUGH

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
    reached
        What can be read from it by name; None until that is asked. It is kept here, so that it
        ends with its node.
    """

    origin: str
    types: tuple[str, ...] = ()
    id: str | None = None
    main: bool = False
    properties: dict[str, tuple[str, list[Any]]] = field(default_factory=dict)
    number: int = 1
    reached: dict[str, list[ReachableValues]] | None = field(default=None, repr=False)

    def is_a(self, *endings: str) -> bool:
        """Return whether the name of one of its types has one of these endings."""
        return any(each.lower().endswith(endings) for each in self.types)

    @property
    def address(self) -> str | None:
        """Its identifier, if that is the URL of a page and not a mere name in the form of a URL."""
        given = self.id or ""
        return given if given.startswith(("http://", "https://")) and "#" not in given else None

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
        """Return what can be read from it by name, nearest first; its properties are complete."""
        if self.reached is None:
            self.reached = _reach(self)
        return self.reached


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
        self._waiting: deque[tuple[DataNode, Any]] = deque()
        self._values = 0
        for origin in ("json_ld", "microdata", "rdfa"):
            blocks = structured.get(origin)
            for block in _flat(blocks if isinstance(blocks, list) else []):
                self._block(block, origin)
        while self._waiting:
            self._describe(*self._waiting.popleft())
        self._join()

    def _block(self, block: Any, origin: str) -> None:
        inside = block.get("@graph") if isinstance(block, dict) else None
        if inside is not None:
            for each in _flat([inside]):
                self._start(each, origin, main=True)
        if inside is None or "@type" in block:
            self._start(block, origin, main=True)

    def _start(self, given: Any, origin: str, *, main: bool) -> DataNode | None:
        if not isinstance(given, dict) or len(self.nodes) >= MAX_NODES:
            return None
        key = {"json_ld": "@id", "microdata": "id", "rdfa": "resource"}[origin]
        name = given.get(key, given.get("id") if origin == "json_ld" else None)
        types = given.get("@type" if origin == "json_ld" else "type", given.get("type"))
        node = DataNode(origin, _types(types), name if isinstance(name, str) else None, main)
        self.nodes.append(node)
        self._waiting.append((node, given))
        return node

    def _describe(self, node: DataNode, given: dict[str, Any]) -> None:
        inner = given if node.origin == "json_ld" else given.get("properties")
        for written, value in inner.items() if isinstance(inner, dict) else ():
            if not isinstance(written, str) or written.startswith("@"):
                continue
            local = _local(written)
            name = normalize_name(local[:100])
            values = list(self._read(value, node, name, main=node.main and name in LEADS))
            if not name or not values:
                continue
            if name in node.properties:
                node.properties[name][1].extend(values)
            else:
                node.properties[name] = (local[:100], values)

    def _read(self, value: Any, node: DataNode, name: str, *, main: bool) -> Iterator[Any]:
        for each in _flat([value]):
            self._values += 1
            if self._values > MAX_VALUES:
                return
            if isinstance(each, dict):
                inner = self._start(each, node.origin, main=main)
                if inner is not None:
                    if not inner.types and not main and len(each) > 1:
                        inner.types = (singular(name),)
                    yield inner
            elif isinstance(each, str):
                if text := unescape(each[:MAX_TEXT_LENGTH]).strip():
                    yield text
            elif each is not None:
                yield each

    def _join(self) -> None:
        """Merge the nodes with the same identifier, so that references resolve."""
        kept = []
        for node in self.nodes:
            first = self._ids.setdefault(node.id, node) if node.id else node
            if first is node:
                kept.append(node)
                continue
            for name, given in node.properties.items():
                first.properties.setdefault(name, given)
            first.types = first.types or node.types
            first.main = first.main or node.main
            node.types, node.properties = first.types, first.properties
        self.nodes = sorted(kept, key=lambda each: not each.main)
        numbers: dict[tuple[str, tuple[str, ...]], int] = {}
        for node in self.nodes:
            key = (node.origin, node.types[:1])
            numbers[key] = node.number = numbers.get(key, 0) + 1
        # A reference stands for its node, so it carries that node's number as well.
        self._aliases(kept)

    def _aliases(self, kept: list[DataNode]) -> None:
        for node in kept:
            for _, values in node.properties.values():
                for at, each in enumerate(values):
                    if isinstance(each, DataNode) and each.id is not None:
                        values[at] = self._ids.get(each.id, each)


def _flat(values: list[Any]) -> Iterator[Any]:
    """Yield the values of nested lists and of JSON-LD's value, list and set objects."""
    waiting = list(reversed(values[:MAX_VALUES]))
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            key = next((name for name in _TEXT_KEYS if name in each), None)
            if key is None:
                yield each
            else:
                waiting.append(each[key])
        elif isinstance(each, list):
            waiting += reversed(each)
        else:
            yield each


def _types(given: Any) -> tuple[str, ...]:
    written = given if isinstance(given, list) else str(given or "").split()
    return tuple(_local(each)[:100] for each in written[:10] if isinstance(each, str) and each)


def _local(name: str) -> str:
    """Return the local part of a name that may be a URL or have a prefix."""
    return name.rstrip("/#").replace("#", "/").replace(":", "/").rpartition("/")[2]


def _reach(node: DataNode) -> dict[str, list[ReachableValues]]:
    found: dict[str, list[ReachableValues]] = {}
    waiting: deque[tuple[DataNode, tuple[str, ...], frozenset[str] | None]] = deque(
        [(node, (), None)]
    )
    seen = {node}
    left = MAX_REACHABLE
    while waiting and left > 0:
        here, path, allowed = waiting.popleft()
        for name, (written, values) in here.properties.items():
            left -= 1
            if left <= 0:
                break
            if allowed is not None and name not in allowed:
                continue
            found.setdefault(name, []).append(ReachableValues((*path, written), values))
            if name in THROUGH and len(path) < _MAX_DISTANCE:
                for inner in [each for each in values if isinstance(each, DataNode)][
                    :_MAX_SIBLINGS
                ]:
                    if inner not in seen:
                        seen.add(inner)
                        waiting.append((inner, (*path, written), THROUGH[name]))
    if node.address is not None and "url" not in found:
        found["url"] = [ReachableValues(("@id",), [node.address])]
    _add_labelled(node, found)
    return found


def _add_labelled(node: DataNode, found: dict[str, list[ReachableValues]]) -> None:
    """Add the properties that a node declares as pairs of a name and a value."""
    for written, values in (node.properties.get("additionalproperty", ("", [])),):
        for each in values[:MAX_REACHABLE]:
            names = each.values("name") if isinstance(each, DataNode) else []
            if names and isinstance(names[0], str) and each.values("value"):
                label = names[0][:100]
                inner = ReachableValues((written, label), each.values("value"))
                found.setdefault(normalize_name(label), []).append(inner)
