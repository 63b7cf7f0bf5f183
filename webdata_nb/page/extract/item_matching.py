"""Decides which lists and tables match the items of a list field. Pure.

The name of a list such as ``items`` or ``specs`` does not say what its items are, so their fields
decide. Nodes that share only a name or an image with the items, as nearly all nodes do, do not
match.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.page.extract.declared_lists import (
    MAX_ITEMS,
    DeclaredList,
    ListEntry,
    content_of,
    without_repeats,
)
from webdata_nb.page.extract.field_names import (
    kind_of_name,
    name_readings,
    normalize_name,
    normalize_short_name,
    singular_forms,
    split_words,
)
from webdata_nb.page.extract.node_graph import DataNode, is_of_kind
from webdata_nb.page.extract.vocabulary import (
    COMMON_PROPERTIES,
    GENERIC_NAMES,
    LIST_WORDS,
    RELATION_WORDS,
    SECONDARY_TYPES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from webdata_nb.page.extract.declared import DataTable
    from webdata_nb.page.extract.schema import FieldSchema

_UNIT_WORDS: Final = ("unit", "unitcode", "currency")
_MAX_CANDIDATES: Final = 60
_MAX_TYPES: Final = 8
_MAX_DESCRIBED: Final = 3
_SAMPLED: Final = 3
"""Entries of each type that are compared with the fields of an item."""
_STEPS_OF_LISTS: Final = frozenset({"itemlistelement", "datafeedelement", "mainentity"})
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
    return _match_other(wanted, declared, nodes)


def _match_other(wanted: ListName, declared: DeclaredList, nodes: Sequence[DataNode]) -> NameMatch:
    """Return whether a name that no entry has does not speak against a list."""
    if all(not node.types or node.is_a("listitem") for node in nodes):
        # The list does not say what its entries are.
        return NameMatch.GENERIC if declared.explicit else NameMatch.UNKNOWN
    belongs = not wanted.kind or any(is_of_kind(node, wanted.kind) for node in declared.holders)
    return NameMatch.UNKNOWN if belongs else NameMatch.NONE


def is_breadcrumb(declared: DeclaredList) -> bool:
    """Return whether a list is the breadcrumb of the page."""
    return any(node.is_a("breadcrumblist") for node in declared.holders) or any(
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
    offered = (value for node in nodes for value in node.values("itemoffered"))
    return [value for value in offered if isinstance(value, DataNode)]


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
            path = entry, _steps_below(entry, origin)
            by_field.setdefault(pointer.split("/")[1], []).append(path)
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
    return [_joined(ranked[0], matches), *ranked[1:]] if ranked else []


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
        of_kind = [group for group in by_type if _is_wanted(wanted, group[0], declared)]
        yield of_kind or by_type
    elif declared.path:
        yield by_type
    else:
        yield from ([group] for group in by_type)


def _is_wanted(wanted: ListName, entry: ListEntry, declared: DeclaredList) -> bool:
    if not isinstance(entry.thing, DataNode):
        return False
    things = [entry.thing, *_offered([entry.thing])]
    if wanted.kind and any(is_of_kind(thing, wanted.kind) for thing in things):
        return True
    return not declared.path and _ends_alike(wanted, declared, [entry.thing])


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
        rows = _sample(group, item, sources_of)
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
    if name < NameMatch.KIND and not _is_evident(declared, kept, len(filled), item, strict=strict):
        return None
    best = max(matched, key=lambda fields: (fields.strong, fields.own))
    fields = replace(best, filled=filled, enough=any(fields.enough for fields in matched))
    return ListMatch(declared, kept, name, fields)


def _sample(
    group: Sequence[ListEntry],
    item: FieldSchema,
    sources_of: Callable[[ListEntry], Mapping[str, str]],
) -> list[tuple[ListEntry, Mapping[str, str]]]:
    """Fill an item from some entries, until one has all fields."""
    rows: list[tuple[ListEntry, Mapping[str, str]]] = []
    for entry in group[:: max(len(group) // _SAMPLED, 1)][: _SAMPLED + 1]:
        sources = sources_of(entry)
        rows.append((entry, sources))
        if len({pointer.split("/")[1] for pointer in sources}) == len(item.properties):
            break
    return rows


def _is_evident(
    declared: DeclaredList,
    entries: Sequence[ListEntry],
    filled: int,
    item: FieldSchema,
    *,
    strict: bool,
) -> bool:
    """Return whether a list that the name of a field does not mean is what it asks for.

    A property with one value for each thing that has it, as the rating of a review, is rather a
    part of the thing than a list.
    """
    if declared.explicit:
        return True
    if not declared.path:
        return len(entries) > 1 or not strict
    single = len(entries) <= max(len(declared.holders), 1)
    return filled == len(item.properties) if single else 2 * filled > len(item.properties)


def _joined(best: ListMatch, matches: Sequence[ListMatch]) -> ListMatch:
    """Return a match with the entries of the lists that are alike: they are one list in parts.

    A list whose entries another one has too adds nothing.
    """
    alike = [match for match in matches if match is best or _are_parts(match, best)]
    if len(alike) == 1:
        return best
    entries: list[ListEntry] = []
    contents: set[Any] = set()
    for match in alike:
        own = [content_of(entry.thing) for entry in match.entries]
        if not contents.issuperset(own):
            entries += match.entries
            contents.update(own)
    return replace(best, entries=entries)


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


def _steps_below(entry: ListEntry, origin: str) -> list[str]:
    """Return the properties from an entry to a value; empty if the value is from around it."""
    prefix = f"{entry.origin}/"
    return origin.removeprefix(prefix).split("/") if origin.startswith(prefix) else []


def _is_of_several(entry: ListEntry, steps: Sequence[str]) -> bool:
    """Return whether a value belongs to one of several nodes of a property below an entry."""
    node = entry.thing
    for step in steps[:-1]:
        nodes = [
            value
            for value in node.values(normalize_short_name(step))
            if isinstance(value, DataNode)
        ]
        if len(nodes) != 1:
            return len(nodes) > 1
        node = nodes[0]
    return False


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
