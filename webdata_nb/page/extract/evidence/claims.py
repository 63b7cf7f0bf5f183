"""Divides extracted data into values, and finds their places and the parts of a page about a thing.

A value is looked for in every notation in which the page may write it. Cards, rows and objects
describe other things than the subject of the page.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from itertools import islice, takewhile
from typing import Any, Final
from urllib.parse import urlsplit

from webdata_nb.page.content.block_tree import word_set
from webdata_nb.page.content.parser import HEADINGS
from webdata_nb.page.extract.coerce import parse_number
from webdata_nb.page.extract.evidence.labels import GENERIC, FieldPath, names_of_field
from webdata_nb.page.extract.evidence.page_index import (
    JSON_OBJECT,
    MAX_MATCHES,
    ROOT,
    WORD,
    PageIndex,
    PageTree,
    Span,
    fold,
)
from webdata_nb.page.extract.prices import (
    CODES_OF_SYMBOL,
    CURRENCY_CODES,
    CURRENCY_OF_SYMBOL,
    currency_code,
)
from webdata_nb.page.extract.schema import pointer_step
from webdata_nb.page.extract.visible_text import RELATED, simplify_name

MAX_VALUES: Final = 5000
"""Values of a page that are looked for."""
MAX_DEPTH: Final = 20


@dataclass(frozen=True, slots=True)
class Claim:
    """A value that was extracted from a page.

    Attributes
    ----------
    pointer
        Its JSON pointer in the extracted data.
    path
        The names of its field and of the objects that contain it, within the thing it describes.
    value
        A text, a number or a boolean.
    """

    pointer: str
    path: FieldPath
    value: str | float | bool


@dataclass(frozen=True, slots=True)
class ClaimGroup:
    """The values that describe one thing: the page's subject, or an entry of a list.

    Attributes
    ----------
    list_pointer
        The JSON pointer of the list; empty for the page's subject.
    number
        The number of the entry in its list.
    claims
        The values.
    paths
        The fields of the thing, also those without a value.
    """

    list_pointer: str = ""
    number: int = 0
    claims: list[Claim] = field(default_factory=list)
    paths: set[FieldPath] = field(default_factory=set)


def group_claims(data: Mapping[str, Any]) -> list[ClaimGroup]:
    """Return the groups of a page's data, its subject first; null is no value."""
    groups = [ClaimGroup()]
    count = 0

    def add(value: Any, pointer: str, path: FieldPath, group: ClaimGroup) -> None:
        """Add a value, or all values of an object or a list."""
        nonlocal count
        if count >= MAX_VALUES or pointer.count("/") > MAX_DEPTH:
            return
        if isinstance(value, Mapping):
            for name, inner in value.items():
                step = f"{pointer}/{pointer_step(str(name))}"
                add(inner, step, (*path, str(name)), group)
        elif isinstance(value, list):
            for number, entry in enumerate(value):
                if isinstance(entry, Mapping):
                    groups.append(ClaimGroup(pointer, number))
                    add(entry, f"{pointer}/{number}", (), groups[-1])
                else:
                    add(entry, f"{pointer}/{number}", path, group)
        elif path:
            group.paths.add(path)
            is_value = value.strip() if isinstance(value, str) else isinstance(value, int | float)
            if is_value:
                group.claims.append(Claim(pointer, path, value))
                count += 1

    add(data, "", (), groups[0])
    return [group for group in groups if group.claims]


_MAX_WORDS: Final = 60
_MAX_GAP: Final = 12
_MAX_NUMBER_TEXT: Final = 60
_MAX_URL_LENGTH: Final = 2000
_MAX_BEFORE_IN_URL: Final = 200
_UNIT_DISTANCE: Final = 16
_DAY: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ].*)?", re.DOTALL)
URL_TEXT: Final = re.compile(r"(?:https?:)?//\S+|/\S*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A place of a value.

    Attributes
    ----------
    span
        Its place in the folded text.
    notation
        How the page writes the value: ``text``, ``words`` (with other punctuation), ``number``,
        ``date``, ``url`` or ``currency``.
    """

    span: Span
    notation: str


def find_value(index: PageIndex, value: Any, within: Span | None = None) -> list[Occurrence]:
    """Return the places of a text or number, at most `MAX_MATCHES` in a part of the page."""
    if isinstance(value, int | float):
        return _occurrences(index.numbers_at(value, within), "number")[:MAX_MATCHES]
    if not isinstance(value, str) or not (needle := fold(value).strip()):
        return []
    code = currency_of(value)
    beside = islice(_currency_spans(index, code, value, within), MAX_MATCHES if code else 0)
    amounts = _occurrences(beside, "currency")
    known = {occurrence.span for occurrence in amounts}
    texts = (span for span in index.find(needle, within) if span not in known)
    found = _occurrences((s for s in texts if not (code and _is_in_url(index, s))), "text")
    if not found and not amounts:
        found = _occurrences(_words(index, value, within), "words")
    for notation, spans in _other_notations(index, value):
        known = {occurrence.span for occurrence in found}
        found += [
            Occurrence(span, notation)
            for span in spans
            if span not in known
            if within is None or within[0] <= span[0] < within[1]
        ]
    return (amounts + found)[:MAX_MATCHES]


def _occurrences(spans: Iterable[Span], notation: str) -> list[Occurrence]:
    return [Occurrence(span, notation) for span in spans]


def _words(index: PageIndex, value: str, within: Span | None) -> Iterator[Span]:
    """Return the places of a text's words with other punctuation between them.

    The pattern is matched around its longest word only, which keeps the time linear.
    """
    lines = [words for line in value.splitlines() if (words := WORD.findall(fold(line)))]
    words = [word for line in lines for word in line]
    if len(words) > _MAX_WORDS:
        yield from index.find_across_lines(fold(value).strip())
    if not 1 < len(words) <= _MAX_WORDS:
        return
    joined = (r"[^\w\n]{0,6}".join(map(re.escape, line)) for line in lines)
    pattern = re.compile(rf"\W{{0,{_MAX_GAP}}}".join(joined))
    reach = sum(map(len, words)) + _MAX_GAP * len(words)
    first, last = within or (0, len(index.text))
    found = -1
    for start, end in index.find(max(words, key=len), within):
        match = pattern.search(index.text, max(start - reach, found, first), min(end + reach, last))
        if match is not None and match.end() > found:
            found = match.end()
            if index.is_boundary(match.start()) and index.is_boundary(found):
                yield match.span()


def _other_notations(index: PageIndex, value: str) -> Iterator[tuple[str, Iterable[Span]]]:
    text = value.strip()
    if match := _DAY.fullmatch(text):
        try:
            day = date(*map(int, match.groups()))
        except ValueError:
            return
        spans = index.dates.get(day, [])
        iso = re.compile(rf"(?<!\d){day.isoformat()}(?!\d)")
        yield "date", [*spans, *(span for span in index.search(iso) if span not in spans)]
    elif any(map(str.isdigit, value)) and len(value) <= _MAX_NUMBER_TEXT:
        yield "number", _quantity_spans(index, value)
    if URL_TEXT.fullmatch(text) and len(value) <= _MAX_URL_LENGTH:
        # The page may write the path of a URL relative to its own.
        try:
            parts = urlsplit(text)
        except ValueError:
            return
        path = fold(parts._replace(scheme="", netloc="", fragment="").geturl())
        yield "url", index.find(path) if len(path) > 1 else []


def currency_of(value: object) -> str:
    """Return the code of a text that is the symbol or the code of a currency; else empty."""
    return currency_code(value) if isinstance(value, str) and len(value) <= 8 else ""  # noqa: PLR2004 - no symbol is longer


def _currency_spans(index: PageIndex, code: str, value: str, within: Span | None) -> Iterator[Span]:
    """Return places of a currency's code and symbols beside a number."""
    symbols = {symbol for symbol, each in CURRENCY_OF_SYMBOL.items() if each == code}
    symbols |= {symbol for symbol, codes in CODES_OF_SYMBOL.items() if code in codes}
    if code.lower() in CURRENCY_CODES:
        symbols.add(code.lower())
    for symbol in sorted({*symbols, value.casefold().strip()}):
        for start, end in index.find_anywhere(fold(symbol).strip(), within):
            beside = index.text[max(start - 2, 0) : start].rstrip(), index.text[end : end + 2]
            is_beside = beside[0][-1:].isdecimal() or beside[1].lstrip()[:1].isdecimal()
            is_beside = is_beside and not _is_in_url(index, (start, end))
            if is_beside and _is_between_words(index, start) and _is_between_words(index, end):
                yield start, end


def _is_in_url(index: PageIndex, span: Span) -> bool:
    """Return whether a place is in a URL, where `$` is no currency."""
    before = index.text[max(span[0] - _MAX_BEFORE_IN_URL, 0) : span[0]]
    return "/" in before and not any(map(str.isspace, before[before.rindex("/") :]))


def _is_between_words(index: PageIndex, at: int) -> bool:
    """Return whether no word continues at a place, where digits are no part of a word."""
    around = index.text[max(at - 1, 0) : at + 1]
    return index.is_boundary(at) or any(map(str.isdigit, around))


def _quantity_spans(index: PageIndex, value: str) -> Iterator[Span]:
    """Return places of the number of a text such as ``19,99 EUR``, beside the same unit."""
    unit = " ".join(word for word in WORD.findall(fold(value)) if not word[0].isdigit())
    code = currency_of("".join(each for each in value if not each.isdigit() and each not in ".,'"))
    symbols = (symbol for symbol, each in CURRENCY_OF_SYMBOL.items() if each == code and code)
    units = [unit, *(fold(symbol) for symbol in (*symbols, code.lower()) if symbol)]
    for decimal_comma in (False, True):
        number = parse_number(fold(value), decimal_comma=decimal_comma)
        for span in index.numbers.get(number, ()) if number is not None else ():
            near = index.text[max(0, span[0] - _UNIT_DISTANCE) : span[1] + _UNIT_DISTANCE]
            if not unit or any(each in near for each in units):
                yield span


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
_MARKS: Final = HEADINGS | {"a", "img"}
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
        # The elements that follow a heading such as "You may also like" are about others.
        tree, sections, count = index.tree, set[int](), 0
        for element, name in enumerate(tree.names):
            if name in _HEADINGS and count < _MAX_SECTIONS:
                text = index.text_of(element)
                if 0 < len(text) <= _MAX_HEADING and RELATED.match(text):
                    siblings = tree.children(tree.parents[element])
                    after = siblings[bisect_left(siblings, element) + 1 :]
                    sections.update(takewhile(lambda n: tree.names[n] not in _HEADINGS, after))
                    count += 1
        self._others = frozenset(sections)

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
            for each in chain:
                if each not in self._are_cards:
                    is_json = self._tree.is_json(each)
                    test = self._is_card_object if is_json else self._is_card_element
                    self._are_cards[each] = test(each)
            self._cards[element] = tuple(each for each in chain if self._are_cards[each])
        return self._cards[element]

    def _is_card_object(self, element: int) -> bool:
        tree = self._tree
        key = tree.labels.get(element) or tree.labels.get(tree.parents[element], "")
        if tree.names[element] != JSON_OBJECT or key.lower() in _SAME_SUBJECT:
            return False
        if key.lower() in _OTHER_KEYS:
            return True
        pieces = self._index.pieces_of(element)
        keys = {piece.label.rpartition("/")[2] for piece in pieces if piece.element == element}
        return self._is_repeated(element) and bool(keys & (GENERIC | {"sku", "id", "headline"}))

    def _is_card_element(self, element: int) -> bool:
        tree = self._tree
        if element in self._others or _is_named_as_other(tree.class_and_id(element)[:200]):
            return True
        if tree.last[element] - element > _MAX_CARD or not self._is_repeated(element):
            return False
        if _MARKS.isdisjoint(tree.names[element : tree.last[element] + 1]):
            return False
        return self._index.text.count("\n", *self._index.text_span(element)) >= _MIN_LINES

    def _is_repeated(self, element: int) -> bool:
        if element not in self._repeated:
            tree = self._tree
            signature = tree.signature(element)
            is_plain = tree.names[element] == "div" and not tree.class_name(element)
            least = _SIMILAR_PLAIN if is_plain else _SIMILAR
            self._repeated[element] = any(
                tree.signature(each) == signature
                and len(self._shape(each) & self._shape(element))
                >= least * len(self._shape(each) | self._shape(element))
                for each in tree.siblings_near(element, _MAX_SIBLINGS)
            )
        return self._repeated[element]

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
            element = self._index.element_at(occurrence.span[0])
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
