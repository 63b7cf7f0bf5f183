"""Decides which parts of a page describe other things than its subject: cards, rows and objects."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from webdata_nb.page.content.class_names import word_set
from webdata_nb.page.extract.evidence.claims import ClaimGroup
from webdata_nb.page.extract.evidence.labels import GENERIC, names_of_field
from webdata_nb.page.extract.evidence.occurrences import Occurrence
from webdata_nb.page.extract.evidence.page_index import PageIndex, Span
from webdata_nb.page.extract.evidence.page_tree import JSON_OBJECT, ROOT, PageTree
from webdata_nb.page.extract.visible.page_text import simplify_name
from webdata_nb.page.extract.visible.wording import RELATED

_MAX_SIBLINGS: Final = 8
_MAX_SHAPE: Final = 150
_SIMILAR: Final = 0.5
_SIMILAR_PLAIN: Final = 0.9
"""For parts without a class, whose tag says little."""
_MIN_LINES: Final = 2
_MAX_CARD: Final = 3000
"""Elements of the largest part that is one of several."""
_MAX_HEADING: Final = 60
_MAX_SECTIONS: Final = 20
_MARKS: Final = frozenset({"a", "img", "h1", "h2", "h3", "h4", "h5", "h6"})
_HEADINGS: Final = frozenset({"h2", "h3", "h4", "h5"})
_SAME_SUBJECT: Final = word_set(
    "offers offer hasvariant variants model pricespecification additionalproperty review reviews"
    " aggregaterating breadcrumb"
)
"""Keys of lists whose objects are parts of one thing."""
_OTHERS: Final = re.compile(
    r"related|recommend|similar|up-?sell|cross-?sell|also-?(?:like|bought|view)|sponsor"
    r"|recent(?:ly)?-?view|bought-?together|bestsell|accessor(?:y|ies)"
)
_MENU_TAGS: Final = frozenset({"nav", "footer"})
_NAVIGATION: Final = re.compile(
    r"((?:bread-?)?crumbs?)|(?<![a-z])(?:(?:mega|main|sub|top)?-?menu|nav(?:bar|igation)?|footer)(?![a-z])"
)
_BREADCRUMB, _MENU = "breadcrumb", "menu"
_OTHER_KEYS: Final = frozenset({"isrelatedto", "issimilarto", "isaccessoryorsparepartfor"})


class PageRecords:
    """Finds the repeated parts of a page, each of which describes one thing."""

    def __init__(self, index: PageIndex) -> None:
        self._index, self._tree = index, index.tree
        self._repeated: dict[int, bool] = {}
        self._are_cards: dict[int, bool] = {}
        self._cards: dict[int, tuple[int, ...]] = {}
        self._shapes: dict[int, frozenset[str]] = {}
        self._others = _sections_about_others(index)

    def repeated(self, element: int) -> list[int]:
        """Return the ancestors of an element that have a sibling of the same shape."""
        return [each for each in self._tree.ancestors(element) if self._is_repeated(each)]

    def card(self, element: int) -> int:
        """Return the innermost ancestor that describes a thing of its own; `ROOT` without one."""
        return next((each for each in self.cards(element)), ROOT)

    def cards(self, element: int) -> tuple[int, ...]:
        """Return all ancestors that describe things of their own, innermost first."""
        if element not in self._cards:
            chain = self._tree.ancestors(element)
            self._cards[element] = tuple(each for each in chain if self._is_card(each))
        return self._cards[element]

    def _is_card(self, element: int) -> bool:
        if element not in self._are_cards:
            is_json = self._tree.is_json(element)
            test = self._is_card_object if is_json else self._is_card_element
            self._are_cards[element] = test(element)
        return self._are_cards[element]

    def _is_card_object(self, element: int) -> bool:
        tree = self._tree
        key = tree.labels.get(element) or tree.labels.get(tree.parents[element], "")
        if tree.names[element] != JSON_OBJECT or key.lower() in _SAME_SUBJECT:
            return False
        if key.lower() in _OTHER_KEYS:
            return True
        return self._is_repeated(element) and self._is_named(element)

    def _is_card_element(self, element: int) -> bool:
        tree = self._tree
        if element in self._others or _is_named_as_other(self._names(element)):
            return True
        if tree.last[element] - element > _MAX_CARD or not self._is_repeated(element):
            return False
        if _MARKS.isdisjoint(tree.names[element : tree.last[element] + 1]):
            return False
        return self._index.text.count("\n", *self._index.text_span(element)) >= _MIN_LINES

    def _names(self, element: int) -> str:
        return self._tree.class_and_id(element)[:200]

    def _is_named(self, element: int) -> bool:
        pieces = self._index.pieces_of(element)
        keys = {piece.label.rpartition("/")[2] for piece in pieces if piece.element == element}
        return bool(keys & (GENERIC | {"sku", "id", "headline"}))

    def _is_repeated(self, element: int) -> bool:
        if element not in self._repeated:
            self._repeated[element] = self._has_similar_sibling(element)
        return self._repeated[element]

    def _has_similar_sibling(self, element: int) -> bool:
        tree = self._tree
        signature = tree.signature(element)
        siblings = tree.siblings_near(element, _MAX_SIBLINGS)
        return any(
            tree.signature(each) == signature and self._are_similar(each, element)
            for each in siblings
        )

    def _are_similar(self, first: int, second: int) -> bool:
        shapes = self._shape(first), self._shape(second)
        union = shapes[0] | shapes[1]
        is_plain = self._tree.names[first] == "div" and not self._tree.class_name(first)
        least = _SIMILAR_PLAIN if is_plain else _SIMILAR
        return len(shapes[0] & shapes[1]) >= least * len(union)

    def _shape(self, element: int) -> frozenset[str]:
        """Return the kinds of elements in an element; of an object, its keys."""
        if element not in self._shapes:
            tree = self._tree
            if tree.is_json(element):
                pieces = self._index.pieces_of(element)[:_MAX_SHAPE]
                shape = {piece.label for piece in pieces}
            else:
                last = min(tree.last[element], element + _MAX_SHAPE)
                shape = {tree.signature(each) for each in range(element + 1, last + 1)}
            self._shapes[element] = frozenset(shape)
        return self._shapes[element]


def is_in_menu(tree: PageTree, element: int) -> bool:
    """Return whether an element is in a menu or footer of the site, which breadcrumbs are not."""
    is_menu = False
    for each in tree.ancestors(element):
        attributes = tree.attributes(each)
        names = " ".join(attributes.get(key, "") for key in ("class", "id", "aria-label"))[:200]
        kind = _kind_of_navigation(simplify_name(names))
        if kind == _BREADCRUMB:
            return False
        is_menu = is_menu or kind == _MENU or tree.names[each] in _MENU_TAGS
    return is_menu


@lru_cache(maxsize=1 << 12)
def _kind_of_navigation(names: str) -> str:
    match = _NAVIGATION.search(names)
    return "" if match is None else _BREADCRUMB if match[1] else _MENU


@lru_cache(maxsize=1 << 12)
def _is_named_as_other(names: str) -> bool:
    return bool(_OTHERS.search(simplify_name(names)))


def _sections_about_others(index: PageIndex) -> frozenset[int]:
    """Return the elements that follow a heading such as "You may also like"."""
    tree, sections, count = index.tree, set[int](), 0
    for element, name in enumerate(tree.names):
        if name in _HEADINGS and count < _MAX_SECTIONS:
            text = index.text_of(element)
            if 0 < len(text) <= _MAX_HEADING and RELATED.match(text):
                sections.update(_after_heading(tree, element))
                count += 1
    return frozenset(sections)


def _after_heading(tree: PageTree, heading: int) -> Iterator[int]:
    """Return the siblings after a heading, up to the next one."""
    siblings = tree.children(tree.parents[heading])
    for each in siblings[bisect_left(siblings, heading) + 1 :]:
        if tree.names[each] in _HEADINGS:
            return
        yield each


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
