"""Fills the fields of a schema from the sources of a page, and records the source of each value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.service.extract.declared import DataTable, DeclaredFields, DeclaredValues
from webdata_nb.service.extract.field_names import kind_of_name, normalize_short_name
from webdata_nb.service.extract.item_matching import (
    MAX_ITEMS,
    count_matching_fields,
    group_item_nodes,
    node_pairs,
    open_lists,
    rank_tables,
    row_properties,
)
from webdata_nb.service.extract.node_graph import DataNode, NodeGraph
from webdata_nb.service.extract.root_node import is_of_kind
from webdata_nb.service.extract.validation import pointer_step, satisfies_constraints
from webdata_nb.service.extract.value_lookup import MAX_SIBLINGS, LookupBudget, ValueLookup
from webdata_nb.service.extract.visible.values import NOTHING_VISIBLE
from webdata_nb.service.extract.visible_lookup import VisibleLookup
from webdata_nb.service.extract.vocabulary import GENERIC_NAMES

if TYPE_CHECKING:
    from webdata_nb.service.extract.coerce import ValueCoercion
    from webdata_nb.service.extract.schema import FieldSchema
    from webdata_nb.service.extract.visible.values import VisibleValues

_CHARACTERS_PER_LOOKUP: Final = 1000
_COMMA_SEPARATED: Final = frozenset({"keywords"})
"""Properties that schema.org defines as text with a comma-separated list."""
_URL_SCHEMES: Final = ("http://", "https://")
_SPACE: Final = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class FilledValue:
    """A value with its provenance and its missing fields; the value is None if there is none."""

    value: Any = None
    provenance: dict[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


class SchemaFiller:
    """Fills the fields of one page.

    Parameters
    ----------
    graph
        The page's nodes.
    declared
        The page's declarations outside of nodes.
    coercion
        Converts values to the types of the schema.
    root
        The node that the schema describes; None if there is none.
    visible
        The values that the page shows to people.

    Attributes
    ----------
    conflicts
        By JSON pointer, the declared values that a visible value replaced.
    """

    def __init__(
        self,
        graph: NodeGraph,
        declared: DeclaredFields,
        coercion: ValueCoercion,
        root: DataNode | None,
        visible: VisibleValues = NOTHING_VISIBLE,
    ) -> None:
        self.conflicts: dict[str, list[Any]] = {}
        self._visible = VisibleLookup(visible)
        self._graph = graph
        self._declared = declared
        self._coercion = coercion
        self._budget = LookupBudget()
        self._lookup = ValueLookup(graph, declared, root, self._budget)
        self._item_groups: list[list[DataNode]] | None = None

    def object(
        self, schema: FieldSchema, node: DataNode | None, pointer: str, origin: str, *, page: bool
    ) -> FilledValue:
        """Fill an object from a node and, if `page`, from all other sources of the page."""
        values: dict[str, Any] = {}
        provenance: dict[str, str] = {}
        missing: list[str] = []
        for name, inner in schema.properties.items():
            at = f"{pointer}/{pointer_step(name)}"
            if self._budget.exhausted:
                part = FilledValue(missing=tuple(_leaf_pointers(inner, at)))
            else:
                part = self._field(name, inner, node, at, origin, page=page)
            values[name] = part.value
            provenance |= part.provenance
            missing += part.missing
        return FilledValue(values if provenance else None, provenance, tuple(missing))

    def _field(
        self,
        name: str,
        schema: FieldSchema,
        node: DataNode | None,
        pointer: str,
        origin: str,
        *,
        page: bool,
    ) -> FilledValue:
        self._budget.fields -= 1
        if schema.values is not None:
            return self._map(schema.values, node, pointer, origin, page=page)
        for alias in dict.fromkeys((name, schema.title) if schema.title else (name,)):
            for source in self._lookup.values(alias, schema, node, origin, page=page):
                if self._budget.exhausted:
                    break
                part = self._fill_from_source(alias, schema, source, pointer)
                if part.value is not None:
                    return self._shown_instead(alias, schema, part, pointer) if page else part
            if page and (visible := self._visible.value(alias, schema)) is not None:
                part = self._fill_from_source(alias, schema, visible, pointer)
                if part.value is not None:
                    return part
            part = self._fill_without_property(alias, schema, node, pointer, origin, page=page)
            if part.value is not None:
                return part
        missing = tuple(_leaf_pointers(schema, pointer))
        self._budget.fields -= len(missing) - 1
        return FilledValue(missing=missing)

    def _shown_instead(
        self, name: str, schema: FieldSchema, declared: FilledValue, pointer: str
    ) -> FilledValue:
        """Return the visible value instead of a declared one that the page contradicts."""
        visible = self._visible.contradiction(name, schema, declared.value)
        part = (
            FilledValue()
            if visible is None
            else self._fill_from_source(name, schema, visible, pointer)
        )
        if part.value is None or part.value == declared.value:
            return declared
        self.conflicts[pointer] = [declared.value]
        return part

    def _fill_from_source(
        self, name: str, schema: FieldSchema, source: DeclaredValues, pointer: str
    ) -> FilledValue:
        if schema.kind == "array":
            return self._array(name, schema, source, pointer)
        for value in _expand_values(source)[:MAX_SIBLINGS]:
            if self._budget.exhausted:
                break
            part = self._convert(name, schema, value, source, pointer)
            if part.value is not None:
                return part
        return FilledValue()

    def _convert(
        self, name: str, schema: FieldSchema, value: Any, source: DeclaredValues, pointer: str
    ) -> FilledValue:
        self._budget.lookups -= 1
        if isinstance(value, str):
            self._budget.lookups -= len(value) // _CHARACTERS_PER_LOOKUP
        if schema.kind == "object":
            node = _to_node(value)
            if node is None:
                return FilledValue()
            return self.object(schema, node, pointer, source.origin, page=False)
        if not isinstance(value, DataNode) and not _is_plausible(name, source.name, value, schema):
            return FilledValue()
        value_name = name if _is_link(name) else source.name
        converted = self._coercion.scalar(
            value, schema, name=normalize_short_name(value_name), prose=source.prose
        )
        if converted is None or (
            isinstance(converted, str) and not _is_plausible(name, source.name, converted, schema)
        ):
            return FilledValue()
        return FilledValue(converted, {pointer: source.origin})

    def _array(
        self, name: str, schema: FieldSchema, source: DeclaredValues, pointer: str
    ) -> FilledValue:
        inner = schema.items
        if inner is None or inner.kind == "array":
            return FilledValue()
        values: list[Any] = []
        provenance: dict[str, str] = {}
        missing: list[str] = []
        scalars: set[Any] = set()
        for value in _expand_values(source, split=inner.kind in {"string", "any"})[:MAX_ITEMS]:
            if self._budget.exhausted:
                break
            part = self._convert(name, inner, value, source, f"{pointer}/{len(values)}")
            earlier = values if inner.kind == "object" else scalars
            if part.value is not None and not (schema.unique and part.value in earlier):
                values.append(part.value)
                if inner.kind != "object":
                    scalars.add(part.value)
                provenance |= part.provenance if inner.kind == "object" else {}
                missing += part.missing
        if not values or not satisfies_constraints(values, schema):
            return FilledValue()
        return FilledValue(values, {pointer: source.origin} | provenance, tuple(missing))

    def _map(
        self, schema: FieldSchema, node: DataNode | None, pointer: str, origin: str, *, page: bool
    ) -> FilledValue:
        """Fill a map from a node's pairs of name and value, else from the table with most pairs."""
        sources = [*node_pairs(node, origin)] if node is not None else []
        sources += self._declared.pair_tables() if page else []
        for source, pairs in sources:
            values = {}
            for label, value in pairs[:MAX_ITEMS]:
                self._budget.lookups -= 1
                scalar = self._coercion.scalar(value, schema, name="", prose=True)
                if label and scalar is not None and label not in values:
                    values[label] = scalar
            if values:
                return FilledValue(values, {pointer: source})
        return FilledValue(missing=(pointer,))

    def _fill_without_property(
        self,
        name: str,
        schema: FieldSchema,
        node: DataNode | None,
        pointer: str,
        origin: str,
        *,
        page: bool,
    ) -> FilledValue:
        """Fill groups of fields, and lists of all nodes of a kind, which no property contains."""
        if not page or self._budget.exhausted:
            return FilledValue()
        if schema.kind == "object":
            return self._nested_object(name, schema, node, pointer, origin)
        if schema.kind == "array" and schema.items is not None:
            if schema.items.kind == "object":
                return self._list(name, schema, schema.items, pointer)
            if nodes := self._lookup.nodes_named(name)[:MAX_ITEMS] if kind_of_name(name) else []:
                return self._array(name, schema, DeclaredValues(nodes[0].kind, "", nodes), pointer)
        return FilledValue()

    def _nested_object(
        self, name: str, schema: FieldSchema, node: DataNode | None, pointer: str, origin: str
    ) -> FilledValue:
        kind = kind_of_name(name)
        if normalize_short_name(name) in GENERIC_NAMES or (
            kind and node is not None and is_of_kind(node, kind)
        ):
            return self.object(schema, node, pointer, origin, page=True)
        main_node = next(iter(self._lookup.main_nodes_of_kind(kind) if kind else ()), None)
        if main_node is None:
            return FilledValue()
        return self.object(schema, main_node, pointer, main_node.label, page=False)

    def _list(
        self, name: str, schema: FieldSchema, inner: FieldSchema, pointer: str
    ) -> FilledValue:
        """Fill a list of objects from all nodes of a kind, or from a table."""
        is_generic = normalize_short_name(name) in GENERIC_NAMES
        if not is_generic:
            best_list = self._items(schema, inner, self._lookup.nodes_named(name), pointer)
            kind = bool(kind_of_name(name))
            return (
                best_list
                if best_list.value is not None
                else self._table(schema, inner, pointer, kind=kind)
            )
        best_list, match_count = FilledValue(), 0
        if self._item_groups is None:
            self._item_groups = group_item_nodes(self._graph.nodes)
        for nodes in self._item_groups:
            if self._budget.exhausted:
                break
            part = self._items(schema, inner, nodes, pointer)
            if len(part.provenance) > len(best_list.provenance):
                matched = count_matching_fields(nodes, part.value or (), part.provenance, inner)
                best_list, match_count = (part, matched) if matched else (best_list, match_count)
        table = self._table(schema, inner, pointer, fields_to_beat=match_count)
        return best_list if table.value is None else table

    def _table(
        self,
        schema: FieldSchema,
        inner: FieldSchema,
        pointer: str,
        *,
        fields_to_beat: int = 0,
        kind: bool = False,
    ) -> FilledValue:
        """Fill a list from the table with the most fields, if it has more than `fields_to_beat`."""
        for count, table in rank_tables(self._declared.grids, inner):
            # Labels with values describe one object, and are no list of objects.
            if count > fields_to_beat and not (table.pairs and kind):
                part = self._rows(schema, inner, table, pointer)
                if part.value is not None:
                    return part
        return FilledValue()

    def _items(
        self, schema: FieldSchema, inner: FieldSchema, nodes: list[DataNode], pointer: str
    ) -> FilledValue:
        parts: list[FilledValue] = []
        for node in open_lists(nodes):
            if self._budget.exhausted:
                break
            at, origin = f"{pointer}/{len(parts)}", node.label
            part = self.object(inner, node, at, origin, page=False)
            if part.value is not None:
                parts.append(part)
        return _join_items(parts, schema)

    def _rows(
        self, schema: FieldSchema, inner: FieldSchema, table: DataTable, pointer: str
    ) -> FilledValue:
        parts: list[FilledValue] = []
        for origin, row in table.rows[:MAX_ITEMS]:
            if self._budget.exhausted:
                break
            node = DataNode("table", properties=row_properties(table, row))
            at = f"{pointer}/{len(parts)}"
            part = self.object(inner, node, at, origin, page=False)
            if part.value is not None:
                parts.append(part)
        return _join_items(parts, schema)


def _join_items(parts: list[FilledValue], schema: FieldSchema) -> FilledValue:
    values = [part.value for part in parts]
    if not values or not satisfies_constraints(values, schema):
        return FilledValue()
    provenance: dict[str, str] = {}
    for part in parts:
        provenance |= part.provenance
    return FilledValue(values, provenance, tuple(at for part in parts for at in part.missing))


def _expand_values(source: DeclaredValues, *, split: bool = False) -> list[Any]:
    """Return values with the entries of list nodes and of comma-separated text."""
    if not split or source.name not in _COMMA_SEPARATED:
        return open_lists(source.values)
    lists = (value.split(",") if isinstance(value, str) else [value] for value in source.values)
    parts = (part for parts in lists for part in parts)
    return [part.strip() if isinstance(part, str) else part for part in parts if part]


def _to_node(value: Any) -> DataNode | None:
    """Return a value as a node; a text becomes a node with this name or URL."""
    if isinstance(value, DataNode):
        return value
    if not isinstance(value, str):
        return None
    names = ("url",) if value.startswith(_URL_SCHEMES) else ("name", "text")
    # The text is in the place of the node, so its fields add no step to the provenance.
    return DataNode("", properties={name: ("", [value]) for name in names})


def _is_link(name: str) -> bool:
    return normalize_short_name(name).endswith(("url", "link", "uri", "href"))


def _is_plausible(name: str, property_name: str, value: Any, schema: FieldSchema) -> bool:
    """Return whether a text can be a value of this name: a link is no name, and vice versa."""
    if not isinstance(value, str) or schema.kind not in {"string", "any"}:
        return True
    if _is_link(name):
        return not _SPACE.search(value) and ("/" in value or "." in value)
    return not (
        value.startswith(_URL_SCHEMES)
        and property_name in {"author", "creator", "publisher", "brand"}
    )


def _leaf_pointers(schema: FieldSchema, pointer: str) -> Iterator[str]:
    if schema.kind != "object" or schema.values is not None:
        yield pointer
    for name, inner in schema.properties.items():
        yield from _leaf_pointers(inner, f"{pointer}/{pointer_step(name)}")
