"""Fills a schema from the structured data of a page, without a language model.

The sources in order of precedence: the node of JSON-LD, microdata or RDFa that the schema
describes; other nodes of the same thing; a label in the content, in a table, a definition list or
before a colon; the node of the page; meta tags; metadata; other tables; and what the page of a
product shows: its price, buttons and labels. Values are never derived: a field without a source is
null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from webdata_nb.page.extract.coerce import ValueCoercion, availability_of
from webdata_nb.page.extract.declared import (
    MAX_ITEMS,
    DataTable,
    DeclaredFields,
    DeclaredList,
    DeclaredValues,
    ListEntry,
    ListMatch,
    NameMatch,
    describe_lists,
    lists_below,
    lists_of_page,
    match_name,
    node_pairs,
    open_lists,
    rank_lists,
    rank_tables,
    row_properties,
)
from webdata_nb.page.extract.field_names import (
    GENERIC_NAMES,
    GTIN_NAMES,
    PAGE_PROPERTIES,
    PAGE_TYPES,
    kind_of_name,
    name_readings,
    name_readings_from,
    normalize_name,
    normalize_short_name,
    page_names,
    split_words,
)
from webdata_nb.page.extract.node_graph import (
    DataNode,
    NodeGraph,
    find_root,
    find_twin_nodes,
    find_values,
    findable_names,
    is_of_kind,
)
from webdata_nb.page.extract.results import Extraction
from webdata_nb.page.extract.schema import (
    FieldSchema,
    pointer_step,
    read_schema,
    satisfies_constraints,
)
from webdata_nb.page.extract.visible_values import (
    LABELS,
    NOTHING_VISIBLE,
    VISIBLE,
    VISIBLE_PROPERTIES,
    VisibleValue,
    VisibleValues,
)

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


MAX_FIELDS_PER_PAGE: Final = 20_000
"""Fields that are looked for on one page, including those of array items."""
MAX_LOOKUPS_PER_PAGE: Final = 300_000
"""Properties and values that are tried on one page, for all fields together."""
MAX_SIBLINGS: Final = 100
_MAX_PAGE_NODES: Final = 5


@dataclass(slots=True)
class LookupBudget:
    """The remaining fields and lookups of one page."""

    fields: int = MAX_FIELDS_PER_PAGE
    lookups: int = MAX_LOOKUPS_PER_PAGE

    @property
    def exhausted(self) -> bool:
        """Whether no field can be filled any more."""
        return self.fields <= 0 or self.lookups <= 0


class ValueLookup:
    """Finds values of fields in the nodes, meta tags, metadata and tables of one page.

    Parameters
    ----------
    graph
        The page's nodes.
    declared
        The page's declarations outside of nodes.
    root
        The node that the schema describes; None if there is none.
    budget
        Decremented with each lookup.
    """

    def __init__(
        self,
        graph: NodeGraph,
        declared: DeclaredFields,
        root: DataNode | None,
        budget: LookupBudget,
    ) -> None:
        self.budget = budget
        self._graph = graph
        self._declared = declared
        self._twins = [] if root is None else find_twin_nodes(graph, root)
        self.subjects: list[DataNode] = [] if root is None else [root, *self._twins]
        pages = (node for node in graph.nodes if node.main and node.is_a(*PAGE_TYPES))
        self._pages = [node for node in islice(pages, _MAX_PAGE_NODES) if node is not root]
        self._nodes_by_kind: dict[str, list[DataNode]] = {}
        self._main_nodes_by_kind: dict[str, list[DataNode]] = {}
        self._findable_names: dict[DataNode, AbstractSet[str]] = {}

    def nodes_named(self, name: str) -> list[DataNode]:
        """Return the nodes of the kind that a name denotes, main nodes if there are any."""
        kind = kind_of_name(name)
        return (self.main_nodes_of_kind(kind) or self._nodes_of_kind(kind)) if kind else []

    def main_nodes_of_kind(self, kind: str) -> list[DataNode]:
        """Return the main nodes of a kind."""
        if kind not in self._main_nodes_by_kind:
            self._main_nodes_by_kind[kind] = [
                node for node in self._nodes_of_kind(kind) if node.main
            ]
        return self._main_nodes_by_kind[kind]

    def _nodes_of_kind(self, kind: str) -> list[DataNode]:
        if kind not in self._nodes_by_kind:
            self._nodes_by_kind[kind] = [
                node for node in self._graph.nodes if is_of_kind(node, kind)
            ]
        return self._nodes_by_kind[kind]

    def values(
        self, name: str, schema: FieldSchema, node: DataNode | None, origin: str, *, page: bool
    ) -> Iterator[DeclaredValues]:
        """Return the values of a field, best source first; if `page`, from all sources."""
        may_be_node = schema.kind in {"object", "array"} and bool(kind_of_name(name))
        if schema.kind in {"object", "array"} and normalize_short_name(name) in GENERIC_NAMES:
            return
        is_scalar = schema.kind not in {"object", "array"}
        if page and is_scalar and (node is None or node.is_a(*PAGE_TYPES)):
            yield from self._declared.labelled(name)
        if node is not None:
            yield from self._node_values(name, node, origin, may_be_node=may_be_node)
        if not page:
            return
        if not may_be_node:
            # The name may contain a kind of other nodes, as in `website_name`.
            for reading in name_readings(name):
                if reading.kind:
                    nodes = self.main_nodes_of_kind(reading.kind)[:2]
                    other = next((each for each in nodes if each is not node), None)
                    if other is not None and (node is None or not is_of_kind(node, reading.kind)):
                        yield from self._follow(other, reading.chain, other.label)
        for twin in self._twins:
            yield from self._node_values(name, twin, twin.label, may_be_node=may_be_node)
        if is_scalar:
            yield from self._declared.labelled(name)
        for page_node in self._pages:
            sources = self._node_values(name, page_node, page_node.label, may_be_node=may_be_node)
            yield from (source for source in sources if source.name in PAGE_PROPERTIES)
        if schema.kind != "object" and not may_be_node:
            yield from self._declared.values(name)

    def _node_values(
        self, name: str, node: DataNode, origin: str, *, may_be_node: bool
    ) -> Iterator[DeclaredValues]:
        """Return a node's values for a field, whose name may also denote the node itself."""
        if node not in self._findable_names:
            self._findable_names[node] = findable_names(node)
        for reading in name_readings_from(name, self._findable_names[node]):
            if not reading.kind or (is_of_kind(node, reading.kind) and not may_be_node):
                yield from self._follow(node, reading.chain, origin)

    def _follow(
        self, node: DataNode, chain: tuple[str, ...], origin: str
    ) -> Iterator[DeclaredValues]:
        """Return the values at the end of a chain of properties, grouped by path."""
        by_origin: dict[str, DeclaredValues] = {}
        self.budget.lookups -= 1
        for match in find_values(node, chain):
            at = "/".join((origin, *(pointer_step(step) for step in match.path if step)))
            if len(chain) == 1:
                _add_values(
                    by_origin, at, normalize_short_name(match.path[-1] or chain[0]), match.values
                )
                continue
            nodes = (value for value in match.values if isinstance(value, DataNode))
            for inner in islice(nodes, MAX_SIBLINGS):
                if self.budget.exhausted:
                    break
                for source in self._follow(inner, chain[1:], at):
                    _add_values(by_origin, source.origin, source.name, source.values)
        yield from by_origin.values()


def _add_values(
    by_origin: dict[str, DeclaredValues], at: str, name: str, values: list[Any]
) -> None:
    if at in by_origin:
        by_origin[at].values.extend(values[:MAX_ITEMS])
    else:
        by_origin[at] = DeclaredValues(at, name, list(values[:MAX_ITEMS]))


_TOO_GENERAL: Final = frozenset({"id", "identifier", "model", "value", "code", "number"})
"""Field names that a label of a product's code does not fill."""
_ALIASES: Final = GTIN_NAMES | {
    "minprice": "lowprice", "maxprice": "highprice", "currency": "pricecurrency",
    "manufacturer": "brand", "productid": "sku", "asin": "sku",
}  # fmt: skip


def asks_for_visible_values(schema: FieldSchema) -> bool:
    """Return whether a field of a page's object may be filled from visible values."""
    for name, inner in schema.properties.items():
        if _property(name) or (inner.title and _property(inner.title)):
            return True
        if inner.kind == "object" and asks_for_visible_values(inner):
            return True
        # The page may settle which currency a symbol in a list means.
        fields = inner.items.properties if inner.items is not None else ()
        if any(_property(field_name) == "pricecurrency" for field_name in fields):
            return True
    return False


def _property(name: str) -> str:
    """Return the property of visible values that a field's name means; empty for none."""
    if normalize_name(name) in _TOO_GENERAL:
        return ""
    properties = (_ALIASES.get(label, label) for label in page_names(name))
    return next((each for each in properties if each in VISIBLE_PROPERTIES), "")


class VisibleLookup:
    """Finds visible values by field names.

    Parameters
    ----------
    visible
        The values of one page.
    """

    def __init__(self, visible: VisibleValues) -> None:
        self._visible = visible

    def value(self, name: str, schema: FieldSchema) -> DeclaredValues | None:
        """Return the visible value of a field; None without one."""
        found = self._find(name, schema)
        return None if found is None else _as_source(*found, schema)

    def contradiction(self, name: str, schema: FieldSchema, declared: Any) -> DeclaredValues | None:
        """Return the visible value of a field if it outweighs the declared one.

        A button outweighs a declared availability. A price or code outweighs one that the page
        does not show anywhere.
        """
        found = self._find(name, schema)
        if found is None or not found[1].strong:
            return None
        property_name, visible = found
        if property_name == "availability":
            state = declared if isinstance(declared, bool) else availability_of(declared)
            outweighs = state is not None and state is not availability_of(visible.value)
        elif property_name in {"price", "lowprice"}:
            # A page may show a price without its decimals.
            outweighs = (
                isinstance(declared, int | float)
                and float(declared) not in self._visible.amounts
                and int(declared) != visible.value
            )
        elif property_name == "sku":
            is_code = isinstance(declared, str)
            outweighs = is_code and declared.casefold() not in self._visible.words
        else:
            outweighs = False
        return _as_source(property_name, visible, schema) if outweighs else None

    def _find(self, name: str, schema: FieldSchema) -> tuple[str, VisibleValue] | None:
        if not self._visible.values or schema.kind in {"object", "array"}:
            return None
        property_name = _property(name)
        value = self._visible.values.get(property_name)
        return None if value is None else (property_name, value)


def _as_source(property_name: str, visible: VisibleValue, schema: FieldSchema) -> DeclaredValues:
    as_text = schema.kind == "string" and property_name in {"price", "lowprice", "highprice"}
    value = visible.text if as_text else visible.value
    return DeclaredValues(visible.origin, property_name, [value], prose=True)


_CHARACTERS_PER_LOOKUP: Final = 1000
_COMMA_SEPARATED: Final = frozenset({"keywords"})
"""Properties that schema.org defines as text with a comma-separated list."""
_NODE_LABEL: Final = re.compile(r"^(?:json_ld|microdata|rdfa):([^/\[]*)(?:\[\d+\])?")
_LAST_STEP: Final = re.compile(r"[/:]")
_VISIBLE: Final = "visible:"
_URL_SCHEMES: Final = ("http://", "https://")
_SPACE: Final = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class FilledValue:
    """A value with its provenance and its missing fields; the value is None if there is none.

    `name` is the property that a scalar was read from.
    """

    value: Any = None
    provenance: dict[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """What an object is filled from.

    Attributes
    ----------
    node
        The node that describes it; None if there is none.
    origin
        The source of the node, for the provenance.
    page
        Whether it is the thing that the page is about, so that all sources of the page count.
    around
        Nodes that have what `node` lacks.
    """

    node: DataNode | None
    origin: str
    page: bool = False
    around: tuple[DataNode, ...] = ()


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
    notes
        Why rows that the page declares are not in a list.
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
        self.notes: list[str] = []
        self._visible = VisibleLookup(visible)
        self._graph = graph
        self._declared = declared
        self._coercion = coercion
        self._budget = LookupBudget()
        self._lookup = ValueLookup(graph, declared, root, self._budget)
        self._lists: list[DeclaredList] | None = None
        self._comparing = False

    def object(self, schema: FieldSchema, subject: Subject, pointer: str) -> FilledValue:
        """Fill an object."""
        parts: dict[str, FilledValue] = {}
        for name, inner in schema.properties.items():
            at = f"{pointer}/{pointer_step(name)}"
            parts[name] = self._field(name, inner, subject, at)
        # Each value of the page fills one field only: that with the name nearest to its own. The
        # others get what else the page has for them, or nothing. Two properties that are equal are
        # two values.
        filled = [
            name
            for name, part in parts.items()
            if part.value is not None and schema.properties[name].kind not in {"object", "array"}
        ]
        # A value of any kind may be unhashable; those that are equal are compared again below.
        if len({str(parts[name].value) for name in filled}) < len(filled):
            taken: list[FilledValue] = []
            for name in sorted(filled, key=lambda name: _distance(name, parts[name])):
                if _is_taken(parts[name], taken):
                    at = f"{pointer}/{pointer_step(name)}"
                    parts[name] = self._field(name, schema.properties[name], subject, at, taken)
                taken.append(parts[name])
        provenance: dict[str, str] = {}
        for part in parts.values():
            provenance |= part.provenance
        missing = tuple(at for part in parts.values() for at in part.missing)
        values = {name: part.value for name, part in parts.items()} if provenance else None
        return FilledValue(values, provenance, missing)

    def _field(
        self,
        name: str,
        schema: FieldSchema,
        subject: Subject,
        pointer: str,
        taken: Sequence[FilledValue] = (),
    ) -> FilledValue:
        """Fill a field, if possible, with a value that is not `taken` by another field."""
        if not self._budget.exhausted:
            self._budget.fields -= 1
            for part in self._choices(name, schema, subject, pointer):
                if part.value is not None and not _is_taken(part, taken):
                    return part
                if self._budget.exhausted:
                    break
        self.conflicts.pop(pointer, None)
        missing = tuple(_leaf_pointers(schema, pointer))
        self._budget.fields -= len(missing) - 1
        return FilledValue(missing=missing)

    def _choices(
        self, name: str, schema: FieldSchema, subject: Subject, pointer: str
    ) -> Iterator[FilledValue]:
        """Yield what may fill a field, best first."""
        if schema.values is not None:
            yield self._map(schema.values, subject, pointer)
            return
        for alias in dict.fromkeys((name, schema.title) if schema.title else (name,)):
            if schema.kind == "array" and schema.items and schema.items.kind == "object":
                yield self._list(alias, schema, schema.items, subject, pointer)
                continue
            for source in self._lookup.values(
                alias, schema, subject.node, subject.origin, page=subject.page
            ):
                part = self._fill_from_source(alias, schema, source, pointer)
                visible = None
                if part.value is not None and subject.page:
                    visible = self._visible.contradiction(alias, schema, part.value)
                if visible is not None:
                    # The page contradicts what it declares.
                    shown = self._fill_from_source(alias, schema, visible, pointer)
                    if shown.value is not None and shown.value != part.value:
                        self.conflicts[pointer] = [part.value]
                        part = shown
                yield part
            visible = self._visible.value(alias, schema) if subject.page else None
            if visible is not None:
                yield self._fill_from_source(alias, schema, visible, pointer)
            yield self._fill_without_property(alias, schema, subject, pointer)
            for node in subject.around:
                for source in self._lookup.values(alias, schema, node, node.label, page=False):
                    yield self._fill_from_source(alias, schema, source, pointer)

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
            return self.object(schema, Subject(node, source.origin), pointer)
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
        return FilledValue(converted, {pointer: source.origin}, name=source.name)

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

    def _map(self, schema: FieldSchema, subject: Subject, pointer: str) -> FilledValue:
        """Fill a map from a node's pairs of name and value, else from the table with most pairs."""
        node = subject.node
        sources = [*node_pairs(node, subject.origin)] if node is not None else []
        sources += self._declared.pair_tables() if subject.page else []
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
        self, name: str, schema: FieldSchema, subject: Subject, pointer: str
    ) -> FilledValue:
        """Fill groups of fields, and lists of all nodes of a kind, which no property contains."""
        if not subject.page or self._budget.exhausted:
            return FilledValue()
        if schema.kind == "object":
            kind = kind_of_name(name)
            if normalize_short_name(name) in GENERIC_NAMES or (
                kind and subject.node is not None and is_of_kind(subject.node, kind)
            ):
                return self.object(schema, subject, pointer)
            main_node = next(iter(self._lookup.main_nodes_of_kind(kind) if kind else ()), None)
            if main_node is None:
                return FilledValue()
            return self.object(schema, Subject(main_node, main_node.label), pointer)
        nodes = self._lookup.nodes_named(name)[:MAX_ITEMS] if schema.kind == "array" else []
        if not nodes:
            return FilledValue()
        return self._array(name, schema, DeclaredValues(nodes[0].kind, "", nodes), pointer)

    def _list(
        self, name: str, schema: FieldSchema, inner: FieldSchema, subject: Subject, pointer: str
    ) -> FilledValue:
        """Fill a list of objects from the best list that the page declares, or from a table.

        An object that is not the page's has only the lists that its node holds.
        """
        if not subject.page:
            lists = [] if subject.node is None else lists_below(subject.node, subject.origin)
            self._budget.lookups -= sum(len(each.entries) for each in lists)
        elif self._lists is None:
            lists = self._lists = lists_of_page(self._graph.nodes, self._lookup.subjects)
        else:
            lists = self._lists
        if self._comparing:
            named = [each for each in lists if match_name(name, each) >= NameMatch.KIND]
            return (
                FilledValue([], {pointer: named[0].entries[0].origin}) if named else FilledValue()
            )
        matches = rank_lists(name, lists, inner, partial(self._sources, inner))
        best = matches[0] if matches else None
        if best is not None and best.name >= NameMatch.KIND:
            return self._entries(name, schema, inner, best, pointer)
        to_beat = 0 if best is None else len(best.fields.filled)
        for source in self._lookup.values(
            name, schema, subject.node, subject.origin, page=subject.page
        ):
            part = self._array(name, schema, source, pointer)
            rows = part.value or ()
            filled = {key for row in rows for key, value in row.items() if value is not None}
            if part.value is not None and len(filled) >= to_beat:
                return part
        if subject.page:
            is_kind = bool(kind_of_name(name))
            for count, table in rank_tables(self._declared.grids, inner):
                # Labels with values describe one object, and are no list of objects.
                if count > to_beat and not (table.pairs and is_kind):
                    part = self._rows(schema, inner, table, pointer)
                    if part.value is not None:
                        return part
            if best is None and (note := describe_lists(lists)):
                self.notes.append(f"{name}: {note}")
        return FilledValue() if best is None else self._entries(name, schema, inner, best, pointer)

    def _sources(self, inner: FieldSchema, entry: ListEntry) -> dict[str, str]:
        """Return the sources of the values of an entry, by JSON pointer.

        Lists in it are only looked for, so that a comparison costs little.
        """
        self._comparing = True
        try:
            return self._entry(inner, entry, "").provenance
        finally:
            self._comparing = False

    def _entry(self, inner: FieldSchema, entry: ListEntry, pointer: str) -> FilledValue:
        node = _to_node(entry.thing)
        if node is None or self._budget.exhausted:
            return FilledValue()
        return self.object(inner, Subject(node, entry.origin, around=entry.around), pointer)

    def _entries(
        self, name: str, schema: FieldSchema, inner: FieldSchema, match: ListMatch, pointer: str
    ) -> FilledValue:
        """Fill a list from the entries of a declared list."""
        parts: list[FilledValue] = []
        earlier: list[Any] = []
        for entry in match.entries[:MAX_ITEMS]:
            part = self._entry(inner, entry, f"{pointer}/{len(parts)}")
            if part.value is not None and not (schema.unique and part.value in earlier):
                parts.append(part)
                earlier.append(part.value)
        joined = _join_items(parts, schema)
        if parts and joined.value is None:
            self.notes.append(
                f"{name}: {len(parts)} rows are declared, which its schema does not allow"
            )
        elif parts and (match.declared.count > MAX_ITEMS or self._budget.exhausted):
            self.notes.append(f"{name}: only the first {len(parts)} of the declared rows were read")
        return joined

    def _rows(
        self, schema: FieldSchema, inner: FieldSchema, table: DataTable, pointer: str
    ) -> FilledValue:
        parts: list[FilledValue] = []
        for origin, row in table.rows[:MAX_ITEMS]:
            if self._budget.exhausted:
                break
            node = DataNode("table", properties=row_properties(table, row))
            at = f"{pointer}/{len(parts)}"
            part = self.object(inner, Subject(node, origin), at)
            if part.value is not None:
                parts.append(part)
        return _join_items(parts, schema)


def _is_taken(part: FilledValue, taken: Sequence[FilledValue]) -> bool:
    """Return whether a value is one of those that other fields have, from the same place.

    A node is read as one of its properties, so that a place in it is the same.
    """
    return any(
        repr(part.value) == repr(other.value)
        and any(
            f"{one}/".startswith(f"{two}/") or f"{two}/".startswith(f"{one}/")
            for one in _places(part)
            for two in _places(other)
        )
        for other in taken
    )


def _places(part: FilledValue) -> Iterator[str]:
    """Yield the sources of a value without the syntax and number of their nodes.

    Nodes of one type with the same value are taken to describe the same thing. What a page shows
    has several properties in one place: a price is also the lowest.
    """
    for origin in part.provenance.values():
        is_visible = origin.startswith(_VISIBLE)
        yield f"{origin}/{part.name}" if is_visible else _NODE_LABEL.sub(r"\1", origin)


def _distance(name: str, part: FilledValue) -> tuple[int, int, int]:
    """Return how far a field's name is from that of its value, and of equals the longer first."""
    [origin, *_] = part.provenance.values()
    is_written = normalize_name(_LAST_STEP.split(origin)[-1]) == normalize_short_name(name)
    heads = [reading.chain[-1] for reading in name_readings(name)]
    at = heads.index(part.name) if part.name in heads else len(heads)
    return 0 if is_written else 1, at, -len(split_words(name))


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


STRUCTURED_DATA: Final = "structured_data"
# Not a public format; only extraction uses it.
TABLES: Final = "tables"
SOURCES: Final = (STRUCTURED_DATA, TABLES, LABELS, VISIBLE)
"""The formats of a page that `extract_structured` reads."""


def source_formats(schema: str) -> tuple[str, ...]:
    """Return the formats of a page that the extraction of a schema reads."""
    needs_visible = asks_for_visible_values(_cached_schema(schema))
    return tuple(name for name in SOURCES if needs_visible or name != VISIBLE)


def extract_from_formats(
    formats: Mapping[str, Any],
    metadata: Mapping[str, Any],
    schema: str,
    *,
    has_text: bool = True,
) -> dict[str, Any]:
    """Extract from the `source_formats` of a page; the result is an `Extraction` as JSON values.

    Errors become part of the result: a failed extraction must not fail the page.
    """
    try:
        extraction = extract_structured(
            formats[STRUCTURED_DATA] or {},
            schema=_cached_schema(schema),
            tables=formats[TABLES] or (),
            metadata=metadata,
            labels=formats.get(LABELS),
            visible=formats.get(VISIBLE, NOTHING_VISIBLE),
            has_text=has_text,
        )
    except MemoryError:
        message = "the page declares more than fits into the memory of a page worker"
        extraction = Extraction({}, {}, (), error=message)
    except Exception as error:  # noqa: BLE001 - any error is the failure of this extraction
        message = f"the declared data could not be read ({type(error).__name__})"
        extraction = Extraction({}, {}, (), error=message)
    values: dict[str, Any] = msgspec.to_builtins(extraction)
    return values


@lru_cache(maxsize=8)
def _cached_schema(schema: str) -> FieldSchema:
    return read_schema(json.loads(schema))  # noqa: TID251 - written by the extractor


def extract_structured(
    structured: Mapping[str, Any],
    *,
    schema: Mapping[str, Any] | FieldSchema | None,
    tables: Sequence[Mapping[str, Any]] = (),
    metadata: Mapping[str, Any] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    visible: VisibleValues = NOTHING_VISIBLE,
    has_text: bool = True,
) -> Extraction:
    """Fill a schema from the structured data of a page. Pure.

    Parameters
    ----------
    structured
        The `structured_data` format of the page.
    schema
        A JSON Schema of an object, or the result of ``read_schema``.
    tables
        Tables of the page, each ``{"header": [cell, ...], "rows": [[cell, ...], ...]}``; the
        header may be empty, and a definition list is a table of two columns.
    metadata
        The page's `metadata`; `final_url` is the base of relative URLs if the schema's format
        requires absolute ones, and `language` decides on decimal commas in tables.
    labels
        The values behind labels in the text of the page, by the label.
    visible
        The values that the page shows to people.
    has_text
        Whether the page has text; the title of a page without text is not the name of anything.

    Raises
    ------
    BadInput
        The schema is missing or not supported.

    Examples
    --------
    >>> offer = {"@type": "Offer", "price": "1.129,90", "priceCurrency": "EUR"}
    >>> page = {"json_ld": [{"@type": "Product", "name": "Pegasus", "offers": offer}]}
    >>> fields = {"product_name": {"type": "string"}, "price": {"type": "number"}}
    >>> extraction = extract_structured(page, schema={"type": "object", "properties": fields})
    >>> extraction.data
    {'product_name': 'Pegasus', 'price': 1129.9}
    >>> extraction.provenance["/price"]
    'json_ld:Product/offers/price'
    """
    field_schema = schema if isinstance(schema, FieldSchema) else read_schema(schema)
    metadata = metadata or {}
    graph = NodeGraph(structured)
    root = find_root(graph, field_schema, _text(metadata, "title") or "")
    coercion = ValueCoercion(
        base_url=_text(metadata, "final_url"),
        language=_text(metadata, "language"),
        currencies=visible.currencies,
    )
    declared = DeclaredFields(structured, metadata, tables, labels or {}, has_text=has_text)
    filler = SchemaFiller(graph, declared, coercion, root, visible)
    origin = root.label if root is not None else ""
    page_object = filler.object(field_schema, Subject(root, origin, page=True), "")
    empty = dict.fromkeys(field_schema.properties)
    notes = list(dict.fromkeys(filler.notes))
    repaired = structured.get("json_ld_repaired")
    if isinstance(repaired, int) and repaired > 0:
        blocks = "1 block" if repaired == 1 else f"{repaired} blocks"
        text = "of JSON-LD on the page had syntax errors and was read after a repair"
        notes.insert(0, f"{blocks} {text}")
    return Extraction(
        page_object.value or empty,
        page_object.provenance,
        page_object.missing,
        filler.conflicts,
        tuple(notes),
    )


def _text(metadata: Mapping[str, Any], name: str) -> str | None:
    value = metadata.get(name)
    return value if isinstance(value, str) else None
