"""Finds the values that a page declares for a field, best source first, within a budget."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.page.extract.declared import DeclaredFields, DeclaredValues
from webdata_nb.page.extract.declared_lists import MAX_ITEMS
from webdata_nb.page.extract.field_names import (
    kind_of_name,
    name_readings,
    name_readings_from,
    normalize_short_name,
)
from webdata_nb.page.extract.node_graph import DataNode, NodeGraph
from webdata_nb.page.extract.root_node import (
    find_twin_nodes,
    find_values,
    findable_names,
    is_of_kind,
)
from webdata_nb.page.extract.validation import pointer_step
from webdata_nb.page.extract.vocabulary import (
    GENERIC_NAMES,
    PAGE_PROPERTIES,
    PAGE_TYPES,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from webdata_nb.page.extract.schema import FieldSchema

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
        self.subjects = [] if root is None else [root, *self._twins]
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
            yield from self._other_node_values(name, node)
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
        for reading in name_readings_from(name, self._findable(node)):
            if not reading.kind or (is_of_kind(node, reading.kind) and not may_be_node):
                yield from self._follow(node, reading.chain, origin)

    def _findable(self, node: DataNode) -> AbstractSet[str]:
        if node not in self._findable_names:
            self._findable_names[node] = findable_names(node)
        return self._findable_names[node]

    def _other_node_values(self, name: str, root: DataNode | None) -> Iterator[DeclaredValues]:
        """Return values of the nodes whose kind the field's name contains, as in `website_name`."""
        for reading in name_readings(name):
            if reading.kind:
                nodes = self.main_nodes_of_kind(reading.kind)[:2]
                other_node = next((node for node in nodes if node is not root), None)
                if other_node is not None and (root is None or not is_of_kind(root, reading.kind)):
                    yield from self._follow(other_node, reading.chain, other_node.label)

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
