"""Decides which nodes and tables match the items of a list field. Pure.

The name of a list such as ``items`` or ``specs`` does not say what its items are, so their fields
decide. Nodes that share only a name or an image with the items, as nearly all nodes do, do not
match.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.service.extract.field_names import kind_of_name, name_readings, normalize_name
from webdata_nb.service.extract.node_graph import DataNode
from webdata_nb.service.extract.root_node import is_of_kind
from webdata_nb.service.extract.vocabulary import COMMON_PROPERTIES, PAGE_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from webdata_nb.service.extract.declared import DataTable
    from webdata_nb.service.extract.schema import FieldSchema

MAX_ITEMS: Final = 1000
_MAX_GROUPS: Final = 100
_UNIT_WORDS: Final = ("unit", "unitcode", "currency")
_ELEMENTS: Final = "itemlistelement"
_BREADCRUMB: Final = "breadcrumblist"


def open_lists(values: Sequence[Any]) -> list[Any]:
    """Return at most `MAX_ITEMS` values, with the lists among them that are nodes opened."""
    items: list[Any] = []
    for value in values[:MAX_ITEMS]:
        elements = value.values(_ELEMENTS) if isinstance(value, DataNode) else []
        room = MAX_ITEMS - len(items)
        items += [_entry_object(entry) for entry in (elements or [value])[:room]]
    return items


def group_item_nodes(nodes: Sequence[DataNode]) -> list[list[DataNode]]:
    """Group the main nodes that do not describe the page itself: by list, else by type.

    Entries of different lists may have the same type, so each list is a group of its own. The
    entries of a breadcrumb are not part of the page.
    """
    groups: dict[tuple[DataNode | None, tuple[str, ...]], dict[DataNode, None]] = {}
    entries: set[DataNode] = set()
    main = [node for node in nodes if node.main and not node.is_a(*PAGE_TYPES)]
    for node in main:
        elements = [value for value in node.values(_ELEMENTS) if isinstance(value, DataNode)]
        entries.update(elements, [node] if elements else [])
        for item in open_lists([node]) if elements and not node.is_a(_BREADCRUMB) else ():
            if isinstance(item, DataNode):
                groups.setdefault((node, item.types), {})[item] = None
    for node in main:
        if node.types and node not in entries:
            groups.setdefault((None, node.types), {})[node] = None
    return [list(group) for group in groups.values()][:_MAX_GROUPS]


def count_matching_fields(
    nodes: Sequence[DataNode],
    items: Sequence[Mapping[str, Any]],
    provenance: Mapping[str, str],
    item: FieldSchema,
) -> int:
    """Count the fields of items that nodes of one type provide; 0 if the nodes do not match.

    Parameters
    ----------
    nodes
        The nodes.
    items, provenance
        The items that were filled from them, and the source of each value.
    item
        The schema of an item.
    """
    filled_names = {name for values in items for name, value in values.items() if value is not None}
    if not filled_names or 2 * len(filled_names) < len(item.properties):
        return 0
    kinds = {reading.kind for name in item.properties for reading in name_readings(name)} - {""}
    if any(is_of_kind(node, kind) for kind in kinds for node in nodes[:1]):
        return len(filled_names)
    steps = {origin.split("/")[1] for origin in provenance.values() if "/" in origin}
    distinctive_names = {normalize_name(step) for step in steps - {"@id"}} - COMMON_PROPERTIES
    return len(filled_names) if distinctive_names or all(map(_is_common, item.properties)) else 0


def rank_tables(grids: Sequence[DataTable], item: FieldSchema) -> list[tuple[int, DataTable]]:
    """Return the tables with enough of an item's fields and their number, most fields first."""
    matches = [(_count_columns(grid, item), grid) for grid in grids]
    return sorted((match for match in matches if match[0]), key=lambda pair: -pair[0])


def _count_columns(grid: DataTable, item: FieldSchema) -> int:
    """Count the fields that a table has columns for; 0 if they are too few."""
    if grid.pairs:
        # Without a header, the fields must have the usual names of a label and a value.
        fields = {normalize_name(name) for name in item.properties}
        return sum(bool(fields & set(column)) for column in grid.columns) // len(grid.columns)
    column_names = {name for column in grid.columns for name in column}
    matched = [name for name in item.properties if _properties(name) & column_names]
    if 2 * len(matched) < len(item.properties):
        return 0
    is_distinctive = not all(map(_is_common, matched)) or all(map(_is_common, item.properties))
    return len(matched) if is_distinctive else 0


def row_properties(grid: DataTable, row: Sequence[str]) -> dict[str, tuple[str, list[Any]]]:
    """Return the cells of a row as the properties of a node, grouped by column name.

    The unit of a column is a property too; one of the only column with a unit is that of the row.
    """
    properties: dict[str, tuple[str, list[Any]]] = {}
    for column, cell in zip(grid.columns, row, strict=False):
        for name in column if cell else ():
            if name:
                properties.setdefault(name, (column[0], []))[1].append(cell)
    only = sum(map(bool, grid.units)) == 1
    for column, unit, cell in zip(grid.columns, grid.units, row, strict=False):
        if unit and cell:
            own = [f"{name}{word}" for name in column for word in _UNIT_WORDS]
            for name in (*own, *(_UNIT_WORDS if only else ())):
                properties.setdefault(name, (column[0], [unit]))
    return properties


def node_pairs(node: DataNode, origin: str) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """Return the pairs of name and value that a node declares as additional properties."""
    own_name, values = node.properties.get("additionalproperty", ("", []))
    pairs: list[tuple[str, Any]] = []
    for pair in values[:MAX_ITEMS]:
        name = next(iter(pair.values("name")), None) if isinstance(pair, DataNode) else None
        value = next(iter(pair.values("value")), None) if isinstance(pair, DataNode) else None
        if isinstance(name, str) and value is not None:
            pairs.append((name, value))
    if pairs:
        yield f"{origin}/{own_name}", pairs


def _entry_object(value: Any) -> Any:
    """Return the object of a list entry, unless the entry itself has a name."""
    if not isinstance(value, DataNode) or value.values("name"):
        return value
    inner = (item for item in value.values("item") if isinstance(item, DataNode))
    return next(inner, value)


@lru_cache(maxsize=4096)
def _properties(name: str) -> frozenset[str]:
    """Return the properties that a field may be read from directly."""
    return frozenset(reading.chain[0] for reading in name_readings(name))


@lru_cache(maxsize=4096)
def _is_common(name: str) -> bool:
    """Return whether a field is one that nearly every object has."""
    readings = (
        reading for reading in name_readings(name) if len(reading.chain) == 1 and not reading.kind
    )
    return not kind_of_name(name) and any(
        reading.chain[0] in COMMON_PROPERTIES for reading in readings
    )
