"""Assigns the entries of an extracted list to the repeated parts of a page.

Entries and parts are matched one to one, by the number of an entry's values in a part. A value in
the part of another entry is then known to be in the wrong place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from webdata_nb.page.content.class_names import word_set
from webdata_nb.page.extract.evidence.claims import ClaimGroup
from webdata_nb.page.extract.evidence.field_labels import names_of_field
from webdata_nb.page.extract.evidence.occurrences import Occurrence
from webdata_nb.page.extract.evidence.page_index import PageIndex, Span
from webdata_nb.page.extract.evidence.page_tree import ROOT
from webdata_nb.page.extract.evidence.records import PageRecords

IDENTITIES: Final = word_set("name headline title sku gtin mpn url productid identifier isbn id")
"""Fields that tell one thing from another."""
_IDENTITY_WEIGHT: Final = 1.5
_MAX_LEVELS: Final = 40

Places = Mapping[str, Sequence[Occurrence]]
"""The places of each value, by its pointer."""


@dataclass(slots=True)
class RepeatedLevel:
    """The repeated children of one element, and the values of entries that each contains.

    `weights` is by child and entry.
    """

    parent: int
    weights: dict[tuple[int, int], float] = field(default_factory=lambda: defaultdict(float))

    def assign(self) -> tuple[float, dict[int, int]]:
        """Return the child of each entry, each child once, and the weight of all pairs."""
        pairs = sorted(self.weights.items(), key=lambda pair: (-pair[1], pair[0]))
        by_entry: dict[int, int] = {}
        taken: set[int] = set()
        total = 0.0
        for (child, entry), weight in pairs:
            if entry not in by_entry and child not in taken:
                by_entry[entry] = child
                taken.add(child)
                total += weight
        return total, by_entry


def assign_records(
    index: PageIndex, records: PageRecords, groups: Sequence[ClaimGroup], places: Places
) -> dict[int, list[int]]:
    """Return the parts of the page that describe each entry of a list, by its number.

    There may be one among the elements, and one in the JSON-LD.
    """
    levels = _RepeatedLevels(index, records)
    for number, group in enumerate(groups):
        for claim in group.claims:
            weight = _IDENTITY_WEIGHT if is_identity(claim.path) else 1.0
            levels.add(number, weight, places[claim.pointer])
    parts: dict[int, list[int]] = defaultdict(list)
    for is_json in (False, True):
        for entry, child in levels.best_assignment(len(groups), is_json=is_json).items():
            parts[entry].append(child)
    return parts


def is_identity(path: tuple[str, ...]) -> bool:
    """Return whether a field identifies a thing."""
    return len(path) >= 1 and not IDENTITIES.isdisjoint(names_of_field(path[-1:]))


class _RepeatedLevels:
    """Counts the values of entries in all repeated parts of a page."""

    def __init__(self, index: PageIndex, records: PageRecords) -> None:
        self._index, self._records = index, records
        self._levels: dict[tuple[int, str], RepeatedLevel] = {}

    def add(self, number: int, weight: float, occurrences: Sequence[Occurrence]) -> None:
        """Count a value of an entry once for each repeated element that contains it."""
        tree = self._index.tree
        children: set[int] = set()
        for occurrence in occurrences:
            element = tree.pieces[self._index.piece_at(occurrence.span[0])].element
            children.update(self._records.repeated(element)[:_MAX_LEVELS])
        by_level: dict[tuple[int, str], list[int]] = {}
        for child in children:
            by_level.setdefault((tree.parents[child], tree.signature(child)), []).append(child)
        for key, parts in by_level.items():
            level = self._levels.setdefault(key, RepeatedLevel(key[0]))
            for child in parts:
                # What many parts contain, such as a brand, tells none of them from the others.
                level.weights[child, number] += weight / len(parts)

    def best_assignment(self, count: int, *, is_json: bool) -> dict[int, int]:
        """Return the part of each entry at the level with the greatest weight.

        Nothing if no level has parts for more than one of several entries.
        """
        best: tuple[float, int, dict[int, int]] = 0.0, ROOT, {}
        for level in self._levels.values():
            if self._index.tree.is_json(level.parent) is is_json:
                total, by_entry = level.assign()
                if (total, level.parent) > best[:2] and (len(by_entry) > 1 or count == 1):
                    best = total, level.parent, by_entry
        return best[2]


def is_within(span: Span, part: Span) -> bool:
    """Return whether a place is in a part of the text."""
    return part[0] <= span[0] < part[1] and span[1] <= part[1]
