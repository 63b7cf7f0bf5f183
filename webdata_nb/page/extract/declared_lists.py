"""Opens the lists that a page declares into their entries, wherever they stand. Pure.

A list is a property with things as its values (``hasVariant``, ``offers``, ``track``), an ItemList,
or all things of one type that stand by themselves, as in ``@graph``. Things under several holders,
such as the dishes of the sections of a menu, are one list in the order of the page. A list in a
list is opened: the items of list items, the offers of an aggregate offer, catalogs of catalogs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.page.extract.node_graph import DataNode
from webdata_nb.page.extract.numbers import parse_number
from webdata_nb.page.extract.schema import pointer_step
from webdata_nb.page.extract.vocabulary import (
    ASIDE_PROPERTIES,
    COMMON_PROPERTIES,
    LIST_ELEMENT_PROPERTIES,
    PAGE_TYPES,
    PART_PROPERTIES,
    RELATION_PHRASES,
    RELATION_PROPERTIES,
    TYPES_BY_KIND,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_ITEMS: Final = 1000
"""Entries of a list that are read."""
_MAX_OPENED: Final = 5
"""Levels of lists in lists that are opened."""
_MAX_STEPS: Final = 5
"""Properties between a thing that stands by itself and a list."""
_MAX_LISTS: Final = 500
_MAX_VISITS: Final = 20_000
_MAX_COMPARED: Final = 200
_ATOMS_OF_ENTRY: Final = 500
_ATOMS_OF_TOP: Final = 20_000
"""Names and values that are compared to find out whether a page declares a thing twice."""
_BREADCRUMB: Final = "breadcrumblist"
_VARIANTS: Final = "hasvariant"


@dataclass(frozen=True, slots=True)
class ListEntry:
    """An entry of a list.

    Attributes
    ----------
    thing
        A node, or a text.
    origin
        Its source, for the provenance.
    around
        Nodes that say more about it: its list item, or the product that it is a variant of.
    """

    thing: Any
    origin: str
    around: tuple[DataNode, ...] = ()


@dataclass(eq=False, slots=True)
class DeclaredList:
    """A list of things.

    Attributes
    ----------
    syntax
        The syntax, by its key in `structured_data`.
    path
        The properties that lead to it, as written; empty for things that stand by themselves.
    entries
        Its entries in the order of the page; at most `MAX_ITEMS`.
    count
        The number of its entries, counted up to one more than `MAX_ITEMS`.
    holders
        The nodes that have the property.
    explicit
        Whether it is an ItemList.
    main
        Whether the page declares it as what it is about.
    aside
        Whether its entries are no part of what holds them: breadcrumbs, similar products.
    near
        Whether the node that a schema describes holds it.
    """

    syntax: str
    path: tuple[str, ...] = ()
    entries: list[ListEntry] = field(default_factory=list)
    count: int = 0
    holders: list[DataNode] = field(default_factory=list)
    explicit: bool = False
    main: bool = False
    aside: bool = False
    near: bool = False

    def add(self, holder: DataNode | None, entries: Sequence[ListEntry]) -> None:
        """Append the entries that a node holds."""
        self.count += len(entries)
        self.entries += entries[: MAX_ITEMS - len(self.entries)]
        if holder is not None:
            self.holders.append(holder)

    @property
    def nodes(self) -> list[DataNode]:
        """Its entries that are nodes."""
        return [entry.thing for entry in self.entries if isinstance(entry.thing, DataNode)]


def open_lists(values: Sequence[Any]) -> list[Any]:
    """Return at most `MAX_ITEMS` values, with the lists among them that are nodes opened."""
    entries = islice(_open_all(values[:MAX_ITEMS], "", offers=False), MAX_ITEMS)
    # A text is made of what names the thing: the list item, if the item has no name of its own.
    return [
        entry.around[0] if entry.around and not _is_named(entry.thing) else entry.thing
        for entry in entries
    ]


def lists_below(node: DataNode, origin: str) -> list[DeclaredList]:
    """Return the lists that a node and the nodes below it hold."""
    collector = _ListCollector()
    collector.visit(node, node, (), origin, near=True)
    return collector.found()


def lists_of_page(
    nodes: Sequence[DataNode], subjects: Sequence[DataNode] = ()
) -> list[DeclaredList]:
    """Return all lists of a page, those of its subjects first.

    Parameters
    ----------
    nodes
        The nodes of the page.
    subjects
        The nodes of the thing that a schema describes. The lists of other things of one type are
        joined, as those of several courses.
    """
    collector = _ListCollector()
    main = [node for node in nodes if node.main]
    elsewhere = _related_nodes(main)
    for subject in subjects:
        collector.visit(subject, subject, (), subject.label, near=True)
    repeated = _repeated_nodes(main)
    for node in main:
        if node in repeated:
            collector.listed.update(_nodes_of_list(node) if _is_list(node) else ())
        elif node not in elsewhere and (_holds_lists(node) or _is_list(node)):
            collector.visit(node, (node.origin, node.types), (), node.label)
    return [*collector.found(), *_standing_alone(main, collector.listed | elsewhere)]


def _related_nodes(main: list[DataNode]) -> set[DataNode]:
    """Return the nodes that main nodes name as other things, such as similar products."""
    related: set[DataNode] = set()
    for node in main:
        if _is_list(node) and _is_aside(node):
            related.update(_nodes_of_list(node))
            related.discard(node)
        for name in RELATION_PROPERTIES & node.properties.keys():
            related.update(value for value in node.values(name) if isinstance(value, DataNode))
    return related


def _repeated_nodes(main: list[DataNode]) -> set[DataNode]:
    """Return the holders of lists that declare what an earlier one does, nodes below included."""
    alike: dict[Any, list[DataNode]] = {}
    for node in main:
        if _holds_lists(node):
            alike.setdefault(_outline(node), []).append(node)
    repeated: set[DataNode] = set()
    atoms = _ATOMS_OF_TOP
    for nodes in alike.values():
        contents: set[Any] = set()
        for node in nodes if len(nodes) > 1 else ():
            content = content_of(node, atoms)
            atoms -= len(content) if isinstance(content, tuple) else 0
            if content in contents:
                repeated.add(node)
            contents.add(content)
    return repeated


class _ListCollector:
    """Collects lists by the properties that lead to them."""

    def __init__(self) -> None:
        self.listed: set[DataNode] = set()
        """The entries of item lists, and these lists."""
        self._lists: dict[Any, DeclaredList] = {}
        self._visited: set[DataNode] = set()

    def found(self) -> list[DeclaredList]:
        """Return the lists, each once even if several properties lead to it."""
        unique: dict[tuple[int, ...], DeclaredList] = {}
        for declared in self._lists.values():
            if declared.entries:
                unique.setdefault(tuple(id(entry.thing) for entry in declared.entries), declared)
        return list(unique.values())

    def visit(
        self, node: DataNode, key: Any, path: tuple[str, ...], origin: str, *, near: bool = False
    ) -> None:
        """Collect the lists that a node and the nodes below it hold."""
        if node in self._visited or len(path) > _MAX_STEPS or len(self._visited) >= _MAX_VISITS:
            return
        self._visited.add(node)
        for name, (label, values) in node.properties.items():
            explicit = name in LIST_ELEMENT_PROPERTIES
            if not explicit and not any(isinstance(value, DataNode) for value in values):
                continue
            opened = [node] if explicit else values
            lists = [value for value in opened if isinstance(value, DataNode) and _is_list(value)]
            aside = name in ASIDE_PROPERTIES or any(map(_is_aside, lists))
            below = (*path, label)
            at = f"{origin}/{pointer_step(label)}"
            entries = list(islice(_open_all(opened, at), MAX_ITEMS + 1))
            if name == _VARIANTS:
                entries = [_with_group(entry, node) for entry in entries]
            if explicit:
                self.listed.update(_nodes_of_list(node))
            declared = DeclaredList(
                node.origin,
                below,
                explicit=bool(lists),
                near=near,
                main=name == "mainentity",
                aside=aside,
            )
            self._add(declared, node, entries, (node if explicit else key, *below))
            for entry in () if aside else entries:
                if _holds_lists(entry.thing):
                    self.visit(entry.thing, key, below, entry.origin, near=near)

    def _add(
        self, declared: DeclaredList, holder: DataNode, entries: list[ListEntry], key: Any
    ) -> None:
        if key in self._lists or len(self._lists) < _MAX_LISTS:
            self._lists.setdefault(key, declared).add(holder, entries)


def _standing_alone(main: list[DataNode], listed: set[DataNode]) -> list[DeclaredList]:
    """Return the things that stand by themselves, of each syntax.

    A thing with parts of its own kind, such as a product with variants, is replaced by them.
    """
    lists: dict[str, dict[DataNode, ListEntry]] = {}
    for node in main:
        if node.types and node not in listed and not node.is_a(*PAGE_TYPES):
            entries = lists.setdefault(node.origin, {})
            for entry in _parts(node) or [ListEntry(node, node.label)]:
                entries.setdefault(entry.thing, entry)
    found = []
    for syntax, entries in lists.items():
        declared = DeclaredList(syntax)
        declared.add(None, list(entries.values()))
        found.append(declared)
    return found


def _parts(node: DataNode) -> list[ListEntry]:
    """Return the parts of a thing that are of its own kind."""
    parts: list[ListEntry] = []
    for name, (label, values) in node.properties.items():
        opened = values if name in PART_PROPERTIES else ()
        at = f"{node.label}/{pointer_step(label)}"
        parts += [
            _with_group(entry, node) if name == _VARIANTS else entry
            for entry in islice(_open_all(opened, at), MAX_ITEMS)
            if isinstance(entry.thing, DataNode) and _are_alike(entry.thing, node)
        ]
    return parts


def _are_alike(first: DataNode, second: DataNode) -> bool:
    return bool(set(first.types) & set(second.types)) or any(
        first.is_a(*endings) and second.is_a(*endings) for endings in TYPES_BY_KIND.values()
    )


def _with_group(entry: ListEntry, group: DataNode) -> ListEntry:
    """Let a variant have what its group declares for all variants."""
    shared = {
        name: values
        for name, values in group.properties.items()
        if name not in COMMON_PROPERTIES and name != _VARIANTS
    }
    return replace(entry, around=(*entry.around, replace(group, properties=shared, reachable=None)))


def _open_all(
    values: Sequence[Any], origin: str, *, offers: bool = True, level: int = 0
) -> Iterator[ListEntry]:
    for value in values:
        yield from _open(value, origin, (), offers=offers, level=level)


def _open(
    value: Any, origin: str, around: tuple[DataNode, ...], *, offers: bool, level: int
) -> Iterator[ListEntry]:
    """Yield the entries of a value if it is a list or a list item, else the value itself."""
    if not isinstance(value, DataNode):
        yield ListEntry(value, origin, around)
        return
    elements = _elements(value, offers=offers) if level < _MAX_OPENED else []
    item = _item(value) if level < _MAX_OPENED else None
    if elements:
        yield from _open_all(elements, origin, offers=offers, level=level + 1)
    elif item is not None:
        yield from _open(item, origin, (value,), offers=offers, level=level + 1)
    else:
        yield ListEntry(value, value.label if value.main else origin, around)


def _elements(node: DataNode, *, offers: bool) -> list[Any]:
    for name in LIST_ELEMENT_PROPERTIES:
        if values := node.values(name):
            return _in_order(values) if node.origin == "json_ld" else values
    if offers and node.is_a("aggregateoffer"):
        return [value for value in node.values("offers") if isinstance(value, DataNode)]
    return []


def _is_list(node: DataNode) -> bool:
    return any(node.values(name) for name in LIST_ELEMENT_PROPERTIES)


def _item(node: DataNode) -> DataNode | None:
    """Return the object of a list item, unless it is no more than an address."""
    items = [value for value in node.values("item") if isinstance(value, DataNode)]
    return items[0] if items and items[0].properties else None


def _in_order(values: list[Any]) -> list[Any]:
    """Sort list items by their positions.

    JSON-LD says nothing about the order of what it lists, so positions decide, unless they count
    down, or one is missing or occurs twice. Microdata and RDFa stand in the order of the page.
    """
    positions = [_position(value) for value in values]
    numbers = [number for number in positions if number is not None]
    if len(set(numbers)) < len(values) or all(a > b for a, b in pairwise(numbers)):
        return values
    return [value for _, value in sorted(zip(numbers, values, strict=True), key=lambda at: at[0])]


def _position(value: Any) -> float | None:
    position = next(iter(value.values("position")), None) if isinstance(value, DataNode) else None
    if isinstance(position, str):
        return parse_number(position)
    return None if isinstance(position, bool) or not isinstance(position, int | float) else position


def without_repeats(entries: list[ListEntry]) -> list[ListEntry]:
    """Return entries without repeats of all of them, as of a script that a page has twice."""
    count = len(entries)
    if count > _MAX_COMPARED:
        return entries
    if _period([_outline(entry.thing) for entry in entries]) == count:
        return entries
    return entries[: _period([content_of(entry.thing) for entry in entries])]


def _period(values: list[Any]) -> int:
    """Return the length of the shortest list that, repeated, gives `values`."""
    count = len(values)
    lengths = (length for length in range(1, count // 2 + 1) if count % length == 0)
    return next(
        (length for length in lengths if values == values[:length] * (count // length)), count
    )


def _outline(thing: Any) -> Any:
    """Return the first value of each property, as a cheap comparison before `content_of`."""
    if not isinstance(thing, DataNode):
        return thing
    firsts = (values[0] for _, values in thing.properties.values())
    first_values = (None if isinstance(value, DataNode) else value for value in firsts)
    return (thing.origin, thing.types, *thing.properties, *first_values)


def content_of(thing: Any, limit: int = _ATOMS_OF_ENTRY) -> Any:
    """Return what a node and the nodes below it declare, for comparisons.

    If that is more than `limit` names and values, it equals nothing.
    """
    atoms: list[Any] = []
    stack = [thing]
    while stack:
        if len(atoms) + len(stack) > limit:
            return object()
        value = stack.pop()
        if not isinstance(value, DataNode):
            atoms.append(value)
            continue
        atoms.append(value.types)
        for name, (_, values) in value.properties.items():
            stack += (*values, name)
    return tuple(atoms)


def _holds_lists(thing: Any) -> bool:
    return isinstance(thing, DataNode) and any(
        isinstance(value, DataNode) for _, values in thing.properties.values() for value in values
    )


def _nodes_of_list(node: DataNode) -> Iterator[DataNode]:
    """Yield an item list, its list items and their objects.

    What a breadcrumb names may be the thing that the page is about, so it is left out.
    """
    yield node
    for entry in islice(_open_all([node], ""), MAX_ITEMS):
        yield from entry.around
        thing = entry.thing
        if isinstance(thing, DataNode) and not (
            node.is_a(_BREADCRUMB) and thing.types and not thing.is_a("listitem", "thing")
        ):
            yield thing


def _is_aside(node: DataNode) -> bool:
    """Return whether an item list is a breadcrumb, or its name says that it is of other things."""
    names = [value[:200].lower() for value in node.values("name") if isinstance(value, str)]
    return node.is_a(_BREADCRUMB) or any(
        phrase in name for name in names for phrase in RELATION_PHRASES
    )


def _is_named(thing: Any) -> bool:
    return not isinstance(thing, DataNode) or any(
        thing.values(name) for name in ("name", "headline")
    )
