"""Reads what a page declares outside of nodes, and its lists of nodes, for the fields of a schema.

Meta tags, metadata, tables and definition lists are read by name. The name of a list such as
``items`` or ``specs`` does not say what its items are, so their fields decide which list or table
matches. Nodes that share only a name or an image with the items, as nearly all nodes do, do not
match. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache
from html import unescape
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.page.extract.coerce import iso_date, parse_number
from webdata_nb.page.extract.field_names import (
    ASIDE_PROPERTIES,
    COMMON_PROPERTIES,
    GENERIC_NAMES,
    LIST_ELEMENT_PROPERTIES,
    LIST_WORDS,
    META_PROPERTIES,
    METADATA_PROPERTIES,
    PAGE_TITLE_SOURCES,
    PAGE_TYPES,
    PART_PROPERTIES,
    READ_FROM_PRODUCTS,
    RELATION_PHRASES,
    RELATION_PROPERTIES,
    RELATION_WORDS,
    SECONDARY_TYPES,
    TYPES_BY_KIND,
    kind_of_name,
    name_readings,
    normalize_name,
    normalize_short_name,
    page_names,
    singular_forms,
    split_words,
)
from webdata_nb.page.extract.node_graph import DataNode, is_of_kind
from webdata_nb.page.extract.schema import pointer_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from webdata_nb.page.extract.schema import FieldSchema


MAX_METAS: Final = 5000
MAX_TABLES: Final = 1000
MAX_ROWS: Final = 20_000
MAX_LABEL_LENGTH: Final = 80
_PREFIX: Final = re.compile(
    r"(?:og|article|product|book|music|video|profile|twitter|dc|dcterms|citation|parsely|recipe"
    r"|business:contact_data|place:location)[:.]"
)
_BRACKETS: Final = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_UNIT: Final = re.compile(r"\S\s*[(\[]([^()\[\]]{1,16})[)\]]\s*\Z")
_PAIR: Final = 2
_DOCUMENT_TITLE: Final = "metadata:title"
_PAIR_COLUMNS: Final = (
    ("name", "label", "key", "term", "property", "attribute", "feature", "field"),
    ("value", "definition"),
)
"""The names of the two columns of a table of labels and values, which has no header."""


@dataclass(frozen=True, slots=True)
class DeclaredValues:
    """The values that a page declares under one name.

    Attributes
    ----------
    origin
        Their source, for the provenance.
    name
        Their property.
    values
        Scalars and nodes.
    prose
        Whether the text was written for people, not for machines.
    """

    origin: str
    name: str
    values: list[Any]
    prose: bool = False


@dataclass(frozen=True, slots=True)
class DataTable:
    """A table with column names; each row describes one object.

    Tables with the same column names are one.

    Attributes
    ----------
    origin
        Its source, for the provenance.
    columns
        The names of each column; the first one is used in the provenance.
    rows
        The source of each row and the texts of its cells, without rows that add up others.
    units
        The unit in the name of each column, such as "mm" in "Rain (mm)"; empty without one.
    pairs
        Whether it has no header and its rows are pairs of a label and a value.
    """

    origin: str
    columns: tuple[tuple[str, ...], ...]
    rows: list[tuple[str, Sequence[str]]]
    units: tuple[str, ...] = ()
    pairs: bool = False


class DeclaredFields:
    """The declarations of a page outside of nodes, by name.

    Parameters
    ----------
    structured, metadata, tables, labels
        As in `extract_structured`.
    has_text
        Whether the page has text. The title of a page without text, such as "Loading", is not the
        name of anything.
    """

    def __init__(
        self,
        structured: Mapping[str, Any],
        metadata: Mapping[str, Any],
        tables: Sequence[Mapping[str, Any]],
        labels: Mapping[str, Sequence[str]],
        *,
        has_text: bool,
    ) -> None:
        self._metas = _read_metas(structured)
        self._metadata: dict[str, list[DeclaredValues]] = {}
        for key, names in METADATA_PROPERTIES.items():
            texts = _texts(metadata.get(key))
            for name in names if texts else ():
                declared = DeclaredValues(f"metadata:{key}", name, texts, prose=key == "title")
                self._metadata.setdefault(name, []).append(declared)
        self._has_text = has_text
        language = metadata.get("language")
        self._language = language if isinstance(language, str) else ""
        self._labels: dict[str, DeclaredValues] = {}
        # Labels with different values, which are not of the page as a whole.
        self._ambiguous: set[str] = set()
        self._labels_in_text = {
            name: DeclaredValues(f"visible:label/{label}", name, list(values), prose=True)
            for label, values in labels.items()
            for name in (normalize_name(label),)
        }
        self.grids: list[DataTable] = []
        by_columns: dict[tuple[tuple[str, ...], ...], DataTable] = {}
        remaining_rows = MAX_ROWS
        for number, table in enumerate(tables[:MAX_TABLES], 1):
            declared_rows = table.get("rows")
            if not isinstance(declared_rows, list | tuple):
                declared_rows = ()
            rows = [_cells(row) for row in declared_rows[: max(remaining_rows, 0)]]
            remaining_rows -= len(rows)
            self._add_pairs(rows, number)
            header, origin = _cells(table.get("header")), f"table:{number}"
            totals = table.get("totals", ())
            records: list[tuple[str, Sequence[str]]] = [
                (f"{origin}/{row_number}", row)
                for row_number, row in enumerate(rows, 1)
                if row_number - 1 not in totals
            ]
            if len(header) >= _PAIR and records:
                inner = _cells(table.get("inner_header", header))
                columns = tuple(map(_column_names, header, inner))
                if columns in by_columns:
                    by_columns[columns].rows.extend(records)
                else:
                    matches = map(_UNIT.search, header)
                    units = tuple(match[1].strip() if match else "" for match in matches)
                    by_columns[columns] = DataTable(origin, columns, records, units)
                    self.grids.append(by_columns[columns])
            elif not header and rows and all(len(row) == _PAIR for row in rows):
                self.grids.append(DataTable(origin, _PAIR_COLUMNS, records, pairs=True))

    def values(self, name: str) -> Iterator[DeclaredValues]:
        """Return the values of a field, best first.

        The title of a page is at best the name of its subject, so it comes after a value with the
        exact label.
        """
        titles: list[DeclaredValues] = []
        for source in self._page_values(name):
            if source.origin in PAGE_TITLE_SOURCES:
                titles.append(source)
            else:
                yield source
        exact = normalize_name(name)
        labelled = self._labels.get(exact) if titles else None
        yield from () if labelled is None else (labelled,)
        for source in titles:
            if self._has_text or exact.endswith("title") or source.origin != _DOCUMENT_TITLE:
                yield source
        # A label in a table must be the name itself or a synonym that is not as common as "name".
        for label in page_names(name):
            if label == exact or label not in COMMON_PROPERTIES:
                declared = self._labels.get(label)
                if declared is not None:
                    yield declared

    def labelled(self, name: str) -> Iterator[DeclaredValues]:
        """Return the values beside a label in the content that is the field's name or a synonym.

        They outweigh what the document declares of itself: a page about an Estonian book may be
        in English. Names that nearly everything has, such as "title", are not read so, nor is a
        date that the document declares as well, in machine-readable form.
        """
        days = self._days(self._page_values(name))
        for label in page_names(name):
            if label in COMMON_PROPERTIES:
                continue
            source = None if label in self._ambiguous else self._labels.get(label)
            if source is None and label not in READ_FROM_PRODUCTS:
                source = self._labels_in_text.get(label)
            if source is not None and days.isdisjoint(self._days([source])):
                yield source

    def pair_tables(self) -> list[tuple[str, list[tuple[str, Any]]]]:
        """Return the tables of labels and values with their origins, most rows first."""
        tables = sorted(
            (grid for grid in self.grids if grid.pairs), key=lambda grid: -len(grid.rows)
        )
        return [
            (table.origin, [(row[0].rstrip(" :"), row[1]) for _, row in table.rows])
            for table in tables
        ]

    def _days(self, sources: Iterable[DeclaredValues]) -> set[str]:
        """Return the days that values name, as ISO dates."""
        values = (value for source in sources for value in source.values)
        days = (iso_date(text, self._language) for text in values if isinstance(text, str))
        return {day for day in days if day}

    def _page_values(self, name: str) -> Iterator[DeclaredValues]:
        """Return the values of a field outside of tables, best first."""
        for values_by_name in (self._metas, self._metadata):
            for label in page_names(name):
                yield from values_by_name.get(label, ())

    def _add_pairs(self, rows: Sequence[Sequence[str]], number: int) -> None:
        previous: DeclaredValues | None = None
        for row in rows:
            if len(row) != _PAIR or len(row[0]) > MAX_LABEL_LENGTH or not row[1]:
                continue
            label = row[0].strip().rstrip(":").strip()
            origin = f"table:{number}/{label}"
            if previous is not None and previous.origin == origin:
                previous.values.append(row[1])  # a term may have several definitions
                continue
            previous = DeclaredValues(origin, normalize_name(label), [row[1]], prose=True)
            for name in {normalize_name(label), normalize_name(_BRACKETS.sub(" ", label))} - {""}:
                if self._labels.setdefault(name, previous).values[0] != row[1]:
                    self._ambiguous.add(name)


def _column_names(header: str, inner: str) -> tuple[str, ...]:
    """Return the names of a column, from all its header cells and from the innermost one alone.

    What stands in brackets is a unit or a remark, so that the names count without it too.
    """
    texts = (header, _BRACKETS.sub(" ", header), inner, _BRACKETS.sub(" ", inner))
    return tuple(dict.fromkeys(filter(None, map(normalize_name, texts)))) or ("",)


def _read_metas(structured: Mapping[str, Any]) -> dict[str, list[DeclaredValues]]:
    """Return the meta tags by their property, the best tag of each first."""
    ranked: dict[str, list[tuple[int, DeclaredValues]]] = {}
    properties: set[str] = set()
    for key, origin in (("opengraph", "opengraph"), ("meta", "meta")):
        tags = structured.get(key)
        items = tags.items() if isinstance(tags, Mapping) else ()
        for meta, content in islice(items, MAX_METAS):
            if meta in properties:
                continue
            properties.add(meta)
            name, rank = META_PROPERTIES.get(
                meta, (normalize_name(_PREFIX.sub("", meta[:100])), len(META_PROPERTIES))
            )
            values = _texts(content)
            if name and values:
                declared = DeclaredValues(f"{origin}:{meta}", name, values)
                ranked.setdefault(name, []).append((rank, declared))
    return {
        name: [declared for _, declared in sorted(pairs, key=lambda pair: pair[0])]
        for name, pairs in ranked.items()
    }


def _texts(value: Any) -> list[Any]:
    values = value if isinstance(value, list) else [value]
    return [unescape(text).strip() for text in values if isinstance(text, str) and text.strip()]


def _cells(value: Any) -> list[str]:
    if not isinstance(value, list | tuple):
        return []
    return [" ".join(cell.split()) if isinstance(cell, str) else "" for cell in value]


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
        entry.around[0]
        if entry.around
        and isinstance(entry.thing, DataNode)
        and not (entry.thing.values("name") or entry.thing.values("headline"))
        else entry.thing
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
    # What main nodes name as other things, such as similar products.
    elsewhere: set[DataNode] = set()
    for node in main:
        if _is_list(node) and _is_aside(node):
            elsewhere.update(_nodes_of_list(node))
            elsewhere.discard(node)
        for name in RELATION_PROPERTIES & node.properties.keys():
            elsewhere.update(node.nodes(name))
    for subject in subjects:
        collector.visit(subject, subject, (), subject.label, near=True)
    repeated = _repeated_nodes(main)
    for node in main:
        if node in repeated:
            collector.listed.update(_nodes_of_list(node) if _is_list(node) else ())
        elif node not in elsewhere and (_holds_lists(node) or _is_list(node)):
            collector.visit(node, (node.origin, node.types), (), node.label)
    # The things that stand by themselves are a list of each syntax. A thing with parts of its own
    # kind, such as a product with variants, is replaced by them.
    alone: dict[str, dict[DataNode, ListEntry]] = {}
    listed = collector.listed | elsewhere
    for node in main:
        if node.types and node not in listed and not node.is_a(*PAGE_TYPES):
            entries = alone.setdefault(node.origin, {})
            for entry in _parts(node) or [ListEntry(node, node.label)]:
                entries.setdefault(entry.thing, entry)
    lists = collector.found()
    for syntax, entries in alone.items():
        declared = DeclaredList(syntax)
        declared.add(None, list(entries.values()))
        lists.append(declared)
    return lists


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
            list_key = (node if explicit else key, *below)
            if list_key in self._lists or len(self._lists) < _MAX_LISTS:
                self._lists.setdefault(list_key, declared).add(node, entries)
            for entry in () if aside else entries:
                if _holds_lists(entry.thing):
                    self.visit(entry.thing, key, below, entry.origin, near=near)


def _parts(node: DataNode) -> list[ListEntry]:
    """Return the parts of a thing that are of its own kind."""
    parts: list[ListEntry] = []
    for name, (label, values) in node.properties.items():
        opened = values if name in PART_PROPERTIES else ()
        at = f"{node.label}/{pointer_step(label)}"
        parts += [
            _with_group(entry, node) if name == _VARIANTS else entry
            for entry in islice(_open_all(opened, at), MAX_ITEMS)
            if isinstance(entry.thing, DataNode)
            and (
                set(entry.thing.types) & set(node.types)
                or any(
                    entry.thing.is_a(*endings) and node.is_a(*endings)
                    for endings in TYPES_BY_KIND.values()
                )
            )
        ]
    return parts


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
    elements: list[Any] = []
    if level < _MAX_OPENED:
        listed = (own for name in LIST_ELEMENT_PROPERTIES if (own := value.values(name)))
        elements = next(listed, elements)
        if elements and value.origin == "json_ld":
            elements = _in_order(elements)
        elif not elements and offers and value.is_a("aggregateoffer"):
            elements = [*value.nodes("offers")]
    # The object of a list item counts, unless it is no more than an address.
    items = value.nodes("item")
    item = items[0] if level < _MAX_OPENED and items and items[0].properties else None
    if elements:
        yield from _open_all(elements, origin, offers=offers, level=level + 1)
    elif item is not None:
        yield from _open(item, origin, (value,), offers=offers, level=level + 1)
    else:
        yield ListEntry(value, value.label if value.main else origin, around)


def _is_list(node: DataNode) -> bool:
    return any(node.values(name) for name in LIST_ELEMENT_PROPERTIES)


def _in_order(values: list[Any]) -> list[Any]:
    """Sort list items by their positions.

    JSON-LD says nothing about the order of what it lists, so positions decide, unless they count
    down, or one is missing or occurs twice. Microdata and RDFa stand in the order of the page.
    """
    numbers: list[float] = []
    for value in values:
        own = value.values("position")[:1] if isinstance(value, DataNode) else ()
        for position in own:
            number = parse_number(position) if isinstance(position, str) else position
            if isinstance(number, int | float) and not isinstance(number, bool):
                numbers.append(number)
    if len(set(numbers)) < len(values) or all(a > b for a, b in pairwise(numbers)):
        return values
    return [value for _, value in sorted(zip(numbers, values, strict=True), key=lambda at: at[0])]


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


_UNIT_WORDS: Final = ("unit", "unitcode", "currency")
_MAX_CANDIDATES: Final = 60
_MAX_TYPES: Final = 8
_MAX_DESCRIBED: Final = 3
_SAMPLED: Final = 3
"""Entries of each type that are compared with the fields of an item."""
_STEPS_OF_LISTS: Final = frozenset({*LIST_ELEMENT_PROPERTIES, "mainentity"})
"""Properties that do not say what their values are."""


class NameMatch(IntEnum):
    """How the name of a field fits a list; the fields of the items must fit the more, the less."""

    NONE = 0
    UNKNOWN = 1
    """The name is not known to be that of something else."""
    GENERIC = 2
    KIND = 3
    """The name is the kind of the entries, or the last words of the property's name."""
    PROPERTY = 4


@dataclass(frozen=True, slots=True)
class ListName:
    """What the name of a list field may mean.

    Attributes
    ----------
    generic
        Whether it says nothing about the items.
    kind
        The kind of thing that it names; empty if it is none that is known.
    forms
        Its last words in the singular and as they are, without those such as "list".
    properties
        The properties that it is another name of.
    others
        Whether it asks for other things than those of the page, such as related products.
    """

    generic: bool
    kind: str
    forms: tuple[tuple[str, ...], ...]
    properties: frozenset[str]
    others: bool


@lru_cache(maxsize=1024)
def read_list_name(name: str) -> ListName:
    """Read the name of a list field."""
    words = split_words(name)
    bare = words
    while len(bare) > 1 and bare[-1] in LIST_WORDS:
        bare = bare[:-1]
    endings = [words, *(bare[at:] for at in range(len(bare)))]
    endings = [ending for ending in endings if ending and "".join(ending) not in GENERIC_NAMES]
    kinds = (kind_of_name("".join(ending)) for ending in endings)
    forms = ((*ending[:-1], form) for ending in endings for form in singular_forms(ending[-1]))
    readings = (reading for reading in name_readings(name) if len(reading.chain) == 1)
    return ListName(
        generic=normalize_short_name(name) in GENERIC_NAMES,
        kind=next((kind for kind in kinds if kind), ""),
        forms=tuple(dict.fromkeys(forms)),
        properties=frozenset(reading.chain[0] for reading in readings),
        others=bool(set(words) & RELATION_WORDS),
    )


def match_name(name: str, declared: DeclaredList) -> NameMatch:
    """Return how well the name of a field fits a list."""
    wanted = read_list_name(name)
    nodes = declared.nodes
    last = normalize_short_name(declared.path[-1]) if declared.path else ""
    by_property = not wanted.generic and last not in _STEPS_OF_LISTS and last in wanted.properties
    if by_property or is_breadcrumb(declared) or wanted.kind == "breadcrumb":
        is_breadcrumbs = is_breadcrumb(declared) and wanted.kind == "breadcrumb"
        return NameMatch.PROPERTY if by_property or is_breadcrumbs else NameMatch.NONE
    if wanted.others or declared.aside or not (nodes or declared.explicit):
        return NameMatch.NONE
    if wanted.generic:
        return NameMatch.GENERIC
    things = [*nodes, *_offered(nodes)]
    of_kind = bool(wanted.kind) and any(is_of_kind(thing, wanted.kind) for thing in things)
    if of_kind or _ends_alike(wanted, declared, nodes):
        return NameMatch.KIND
    if all(not node.types or node.is_a("listitem") for node in nodes):
        # The list does not say what its entries are.
        return NameMatch.GENERIC if declared.explicit else NameMatch.UNKNOWN
    belongs = not wanted.kind or any(is_of_kind(node, wanted.kind) for node in declared.holders)
    return NameMatch.UNKNOWN if belongs else NameMatch.NONE


def is_breadcrumb(declared: DeclaredList) -> bool:
    """Return whether a list is the breadcrumb of the page."""
    return any(node.is_a(_BREADCRUMB) for node in declared.holders) or any(
        normalize_short_name(label) == "breadcrumb" for label in declared.path[-1:]
    )


def _ends_alike(wanted: ListName, declared: DeclaredList, nodes: Sequence[DataNode]) -> bool:
    """Return whether a property on the way to a list, or a type, ends with the field's words."""
    names = [*declared.path, *dict.fromkeys(node.types[0] for node in nodes if node.types)]
    return any(
        len(form) <= len(words)
        and form[-1] in singular_forms(words[-1])
        and words[len(words) - len(form) : -1] == form[:-1]
        for words in map(split_words, names)
        if words
        for form in wanted.forms
    )


def _offered(nodes: Sequence[DataNode]) -> list[DataNode]:
    """Return the things that offers are of."""
    return [offered for node in nodes for offered in node.nodes("itemoffered")]


@dataclass(frozen=True, slots=True)
class FieldMatch:
    """The fields of items that a list fills.

    Attributes
    ----------
    filled
        Their names.
    own
        How many of them are not of one of several things below an entry, as the price of one of
        its offers.
    enough
        Whether they are enough for the list to match by its fields alone.
    strong
        Whether they are at least half of the fields.
    """

    filled: frozenset[str]
    own: int
    enough: bool
    strong: bool


def match_fields(
    rows: Sequence[tuple[ListEntry, Mapping[str, str]]],
    declared: DeclaredList,
    item: FieldSchema,
    *,
    strict: bool,
) -> FieldMatch:
    """Compare what entries of a list gave with the fields of an item.

    Parameters
    ----------
    rows
        Entries with the sources of the values that they gave, by JSON pointer.
    declared
        The list.
    item
        The schema of an item.
    strict
        Whether the name of the field does not speak for the list, so that a field that nearly
        everything has is no sign.
    """
    by_field: dict[str, list[tuple[ListEntry, list[str]]]] = {}
    for entry, provenance in rows:
        for pointer, origin in provenance.items():
            # The properties from the entry to the value; none if it is from around it.
            prefix = f"{entry.origin}/"
            below = origin.startswith(prefix)
            steps = origin.removeprefix(prefix).split("/") if below else []
            by_field.setdefault(pointer.split("/")[1], []).append((entry, steps))
    several = [all(_is_of_several(*path) for path in paths) for paths in by_field.values()]
    firsts = {
        normalize_name(steps[0]) for paths in by_field.values() for _, steps in paths if steps
    }
    distinctive = bool(firsts - {"id"} - COMMON_PROPERTIES)
    kinds = {reading.kind for name in item.properties for reading in name_readings(name)} - {""}
    named = any(is_of_kind(node, kind) for kind in kinds for node in declared.nodes[:1])
    plain = all(map(_is_common, item.properties)) and (
        declared.explicit or not declared.path or len(declared.entries) > 1
    )
    strong = 2 * len(by_field) >= len(item.properties)
    enough = strong and (distinctive or (not strict and (named or plain)))
    return FieldMatch(frozenset(by_field), len(by_field) - sum(several), enough, strong)


@dataclass(frozen=True, slots=True)
class ListMatch:
    """A list with the entries that match the items of a field."""

    declared: DeclaredList
    entries: list[ListEntry]
    name: NameMatch
    fields: FieldMatch

    @property
    def strong(self) -> bool:
        """Whether name and fields are enough."""
        return self.fields.enough or (self.name >= NameMatch.KIND and self.fields.strong)

    @property
    def rank(self) -> tuple[int | bool, ...]:
        """Sorts matches, best last."""
        declared = self.declared
        several = len(self.entries) > 1
        secondary = not declared.path and self.entries[0].thing.is_a(*SECONDARY_TYPES)
        by_name = (self.strong, self.name, declared.near and self.name is NameMatch.PROPERTY)
        by_list = (several, declared.main, declared.explicit, declared.near, -len(declared.path))
        return (*by_name, self.fields.own, not secondary, *by_list, len(self.entries))


def rank_lists(
    name: str,
    lists: Sequence[DeclaredList],
    item: FieldSchema,
    sources_of: Callable[[ListEntry], Mapping[str, str]],
) -> list[ListMatch]:
    """Return the lists that match a field, best first.

    Parameters
    ----------
    name
        The name of the field.
    lists
        The lists of the page.
    item
        The schema of an item.
    sources_of
        Fills an item from an entry, and returns the sources of its values by JSON pointer.
    """
    named = [(match, each) for each in lists if (match := match_name(name, each))]
    named.sort(key=lambda pair: -pair[0])
    matches = [
        found
        for match, declared in named[:_MAX_CANDIDATES]
        for entries in _candidates(read_list_name(name), match, declared)
        if (found := _match_entries(declared, entries, match, item, sources_of)) is not None
    ]
    ranked = sorted(matches, key=lambda match: match.rank, reverse=True)  # of equals the first
    if not ranked:
        return []
    # Lists that are alike are one list in parts. One whose entries another has too adds nothing.
    best = ranked[0]
    alike = [part for part in matches if part is best or _are_parts(part, best)]
    if len(alike) > 1:
        joined: list[ListEntry] = []
        contents: set[Any] = set()
        for part in alike:
            own = [content_of(entry.thing) for entry in part.entries]
            if not contents.issuperset(own):
                joined += part.entries
                contents.update(own)
        best = replace(best, entries=joined)
    return [best, *ranked[1:]]


def describe_lists(lists: Sequence[DeclaredList]) -> str:
    """Say which lists a page declares, where none matches a field; empty without any."""
    counts = Counter[str]()
    for declared in lists:
        kinds = Counter(node.types[0] for node in declared.nodes if node.types)
        for kind, count in kinds.items() if not declared.aside else ():
            if declared.path or count > 1:
                counts[kind] = max(counts[kind], count)
    longest = [f"{count} {kind}" for kind, count in counts.most_common(_MAX_DESCRIBED)]
    if not longest:
        return ""
    declared_lists = ", ".join(longest)
    return f"none of the lists that the page declares ({declared_lists}) has enough of its fields"


def _candidates(
    wanted: ListName, match: NameMatch, declared: DeclaredList
) -> Iterator[list[list[ListEntry]]]:
    """Yield the entries that may be rows together, by type.

    Those of a list may be of several types. Of things that stand by themselves, only those of the
    kind that the field names, or of one type.
    """
    groups: dict[tuple[str, ...], list[ListEntry]] = {}
    for entry in declared.entries:
        types = entry.thing.types if isinstance(entry.thing, DataNode) else ()
        groups.setdefault(types, []).append(entry)
    by_type = list(groups.values())[:_MAX_TYPES]
    if match is NameMatch.KIND:
        of_kind = []
        for group in by_type:
            thing = group[0].thing
            if isinstance(thing, DataNode) and (
                (
                    wanted.kind
                    and any(is_of_kind(each, wanted.kind) for each in (thing, *_offered([thing])))
                )
                or (not declared.path and _ends_alike(wanted, declared, [thing]))
            ):
                of_kind.append(group)
        yield of_kind or by_type
    elif declared.path:
        yield by_type
    else:
        yield from ([group] for group in by_type)


def _match_entries(
    declared: DeclaredList,
    groups: Sequence[list[ListEntry]],
    name: NameMatch,
    item: FieldSchema,
    sources_of: Callable[[ListEntry], Mapping[str, str]],
) -> ListMatch | None:
    """Compare some entries of each type with an item; None if none matches."""
    strict = name is NameMatch.UNKNOWN
    matched: list[FieldMatch] = []
    kept: list[ListEntry] = []
    for group in groups:
        # An item is filled from some entries, until one has all fields.
        rows: list[tuple[ListEntry, Mapping[str, str]]] = []
        for entry in group[:: max(len(group) // _SAMPLED, 1)][: _SAMPLED + 1]:
            rows.append((entry, sources_of(entry)))
            if len({pointer.split("/")[1] for pointer in rows[-1][1]}) == len(item.properties):
                break
        fields = match_fields(rows, declared, item, strict=strict)
        if fields.enough or (fields.filled and name >= NameMatch.KIND):
            matched.append(fields)
            kept += group
    if not kept:
        return None
    order = {id(entry): at for at, entry in enumerate(declared.entries)}
    kept.sort(key=lambda entry: order[id(entry)])
    if not declared.path:
        kept = without_repeats(kept)
    filled = frozenset(name for fields in matched for name in fields.filled)
    if name < NameMatch.KIND and not declared.explicit:
        # A property with one value for each thing that has it, as the rating of a review, is
        # rather a part of the thing than a list.
        if not declared.path:
            is_evident = len(kept) > 1 or not strict
        elif len(kept) <= max(len(declared.holders), 1):
            is_evident = len(filled) == len(item.properties)
        else:
            is_evident = 2 * len(filled) > len(item.properties)
        if not is_evident:
            return None
    best = max(matched, key=lambda fields: (fields.strong, fields.own))
    fields = replace(best, filled=filled, enough=any(fields.enough for fields in matched))
    return ListMatch(declared, kept, name, fields)


def _are_parts(one: ListMatch, other: ListMatch) -> bool:
    """Return whether two lists are item lists alike, or lists of one thing, as its answers.

    The accepted and the suggested answers of a question are its answers.
    """
    first, second = one.declared, other.declared
    if (first.syntax, first.main, one.name) != (second.syntax, second.main, other.name):
        return False
    if first.explicit and second.explicit and first.path == second.path:
        return one.fields.filled == other.fields.filled
    return (
        one.name >= NameMatch.KIND
        and one.strong
        and bool(first.path)
        and first.holders == second.holders
        and [node.types for node in first.nodes[:1]] == [node.types for node in second.nodes[:1]]
    )


def _is_of_several(entry: ListEntry, steps: Sequence[str]) -> bool:
    """Return whether a value belongs to one of several nodes of a property below an entry."""
    node = entry.thing
    for step in steps[:-1]:
        nodes = node.nodes(normalize_short_name(step))
        if len(nodes) != 1:
            return len(nodes) > 1
        node = nodes[0]
    return False


def rank_tables(grids: Sequence[DataTable], item: FieldSchema) -> list[tuple[int, DataTable]]:
    """Return the tables with enough of an item's fields and their number, most fields first."""
    matches: list[tuple[int, DataTable]] = []
    for grid in grids:
        if grid.pairs:
            # Without a header, the fields must have the usual names of a label and a value.
            fields = {normalize_name(name) for name in item.properties}
            count = sum(bool(fields & set(column)) for column in grid.columns) // len(grid.columns)
        else:
            column_names = {name for column in grid.columns for name in column}
            matched = [name for name in item.properties if _properties(name) & column_names]
            only_common = all(map(_is_common, matched))
            is_distinctive = not only_common or all(map(_is_common, item.properties))
            is_enough = 2 * len(matched) >= len(item.properties)
            count = len(matched) if is_enough and is_distinctive else 0
        if count:
            matches.append((count, grid))
    return sorted(matches, key=lambda pair: -pair[0])


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
    own_name, pairs = node.pairs(MAX_ITEMS)
    if pairs:
        yield f"{origin}/{own_name}", [(name, values[0]) for name, values in pairs]


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
