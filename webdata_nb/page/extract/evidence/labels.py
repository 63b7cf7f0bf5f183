"""Reads how a page labels a place, and decides which fields of a record the label names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from webdata_nb.page.content.block_tree import word_set
from webdata_nb.page.content.parser import HEADINGS
from webdata_nb.page.extract.evidence.page_index import ROOT, PageIndex, Span
from webdata_nb.page.extract.field_names import (
    GENERIC_NAMES,
    GTIN_NAMES,
    META_PROPERTIES,
    PAGE_KINDS,
    name_readings,
    normalize_name,
    split_words,
)
from webdata_nb.page.extract.visible_text import (
    OLD_PRICE,
    OTHER_AMOUNT,
    PROPERTY_OF_LABEL,
    STRUCK,
    TAG_FLAGS,
    flags_of_name,
    simplify_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


FieldPath = tuple[str, ...]

MAX_LABEL_LENGTH: Final = 60
GENERIC: Final = frozenset({"name", "value", "@value", "@id", "url", "text", "label", "title"})
"""Names that say nothing of a part without the name of the whole."""
_JOINED_WORDS: Final = 3
_LABELS: Final = PROPERTY_OF_LABEL | {"by": "brand", "von": "brand"}
_ALIASES: Final = {"colour": "color"} | GTIN_NAMES
_UNITS: Final = word_set(
    "kg g mg lb lbs oz km m cm mm ft in inch inches l ml eur usd gbp percent pct s sec seconds min"
    " minutes h hours days weeks months years w kw wh kwh v mah gb mb tb hz"
)
"""Units at the end of a field's name, which labels of a page do not contain."""
_PREFIX: Final = re.compile(r"(?:og|product|article|twitter|dc|dcterms|book|music|video)[:.]")
_EDGES: Final = " .:#*-=\u2116\uff1a\t\n"


class FieldLabels:
    """Finds the fields that labels name, among the fields of one record."""

    def __init__(self, paths: Iterable[FieldPath]) -> None:
        self._by_name: dict[str, set[FieldPath]] = {}
        for path in paths:
            for name in names_of_field(path):
                self._by_name.setdefault(name, set()).add(path)
        self._cache: dict[tuple[str, bool], frozenset[FieldPath]] = {}

    def of_label(self, label: str) -> frozenset[FieldPath]:
        """Return the fields that a declared name, or a label in a text, names."""
        return self._cached(label, is_class=False)

    def of_class(self, name: str) -> frozenset[FieldPath]:
        """Return the fields that a class or an id names, by its longest part that names any."""
        return self._cached(name, is_class=True)

    def _cached(self, label: str, *, is_class: bool) -> frozenset[FieldPath]:
        key = label, is_class
        if key not in self._cache:
            names = _class_names(label) if is_class else _label_names(label)
            found = (self._by_name[name] for name in names if name in self._by_name)
            self._cache[key] = frozenset(next(found, ()))
        return self._cache[key]


@lru_cache(maxsize=4096)
def names_of_field(path: FieldPath) -> frozenset[str]:
    """Return the normalized names under which a page may show a field."""
    last = path[-1]
    if len(path) > 1 and normalize_name(path[-2]) in PAGE_KINDS | GENERIC_NAMES:
        path = path[-1:]
    names = {normalize_name(last), normalize_name("".join(path[-2:]))}
    if len(path) > 1 and normalize_name(last) in GENERIC:
        names.discard(normalize_name(last))
        names |= _readings(path[-2]) | _readings(" ".join(path[-2:]))
    else:
        names |= _readings(last)
    return frozenset(_ALIASES.get(name, name) for name in names) | names


def _readings(name: str) -> set[str]:
    words = split_words(name)
    names = {normalize_name(name)}
    if len(words) > 1 and words[-1] in _UNITS:
        names |= _readings(" ".join(words[:-1]))
    for reading in name_readings(name):
        if not reading.kind or reading.kind in PAGE_KINDS:
            names.add("".join(reading.chain))
            # What a page calls a product's name has the kind in it.
            names |= {f"{kind}{reading.chain[-1]}" for kind in ("product", "item")}
    return names


def _label_names(label: str) -> Iterator[str]:
    """Return the names that a label may mean, the most exact first."""
    keys = label.split("/")[-_JOINED_WORDS:] if "/" in label else [label]
    if len(keys) > 1:
        if keys[-1] in GENERIC:
            yield normalize_name("".join(keys[-2:]))
            yield normalize_name(keys[-2])
            return
        yield normalize_name("".join(keys[-2:]))
    phrase = keys[-1].strip(_EDGES)
    normalized = normalize_name(phrase)
    yield normalized
    if normalized in _ALIASES:
        yield _ALIASES[normalized]
    if phrase in META_PROPERTIES:
        yield META_PROPERTIES[phrase][0]
    if _PREFIX.match(phrase):
        yield normalize_name(_PREFIX.sub("", phrase))
    folded = phrase.casefold().strip(_EDGES)
    if folded in _LABELS:
        yield _LABELS[folded]


def _class_names(name: str) -> Iterator[str]:
    """Return the words of classes and ids, joined, longest first."""
    words = [part.split("-") for part in simplify_name(name).split()]
    for count in range(_JOINED_WORDS, 0, -1):
        for parts in words:
            for start in range(len(parts) - count + 1):
                joined = "".join(parts[start : start + count])
                yield joined
                if joined in _ALIASES:
                    yield _ALIASES[joined]


_LEVELS: Final = 3
_MAX_ITEM_LEVELS: Final = 8
_SPARE_LENGTH: Final = 40
_MAX_AROUND: Final = 200
"""Characters before and after a place that are looked at."""
_UNIT_LENGTH: Final = 6
_MAX_CELLS: Final = 200
_SEPARATORS: Final = re.compile(r"[|;\u2022\u00b7\t(\[]|, ")
_LABEL_TAGS: Final = frozenset({"dt", "th", "label"})
_TITLES: Final = HEADINGS | {"title"}
"""Elements whose text is the name of something."""
_NAME_ATTRIBUTES: Final = ("itemprop", "property", "class", "id", "data-testid", "data-field")


@dataclass(frozen=True, slots=True)
class SpanLabels:
    """The fields that the labels of a place name.

    Attributes
    ----------
    declared
        Fields that a name for programs, a label in a text or a column names.
    styled
        Fields that the class or id of an element names.
    struck
        Whether the place is crossed out, or a label says that it is an old price.
    other_amount
        Whether a label says that it is an amount of something else, such as shipping.
    whole
        Whether the place is all of its line or value, except for a label.
    for_programs
        Whether the name is one for programs, in JSON-LD, microdata or a meta tag.
    """

    declared: frozenset[FieldPath] = frozenset()
    styled: frozenset[FieldPath] = frozenset()
    struck: bool = False
    other_amount: bool = False
    whole: bool = True
    for_programs: bool = False

    @property
    def fields(self) -> frozenset[FieldPath]:
        """The fields that the best labels name."""
        return self.declared or self.styled


def read_span_labels(index: PageIndex, span: Span, fields: FieldLabels) -> SpanLabels:
    """Return the labels of a place in the text."""
    piece = index.tree.pieces[index.piece_at(span[0])]
    line = index.line(span)
    prefix = index.text[max(line[0], span[0] - _MAX_AROUND) : span[0]]
    suffix = index.text[span[1] : min(line[1], span[1] + _MAX_AROUND)]
    if piece.label:
        whole = not prefix.strip() and not suffix.strip()
        return SpanLabels(fields.of_label(piece.label), whole=whole, for_programs=True)
    label = _label_before(index, span, prefix)
    struck_text = bool(label and OLD_PRICE.match(label.strip()))
    styled, flags = _element_names(index, piece.element, span, fields)
    is_whole = False  # all of the text of the element, except for a unit
    if piece.element != ROOT:
        start, end = index.text_span(piece.element)
        before = index.text[max(start, span[0] - _MAX_AROUND) : span[0]]
        after = index.text[span[1] : min(end, span[1] + _MAX_AROUND)]
        is_whole = len(before.strip()) <= _UNIT_LENGTH and not _continues(after)
    return SpanLabels(
        declared=fields.of_label(label) or _column_fields(index, piece.element, fields),
        styled=styled,
        struck=struck_text or bool(flags & STRUCK),
        other_amount=bool(label and OTHER_AMOUNT.search(label)),
        whole=is_whole
        or ((not prefix.strip() or bool(fields.of_label(label))) and not _continues(suffix)),
    )


def _continues(suffix: str) -> bool:
    """Return whether more text than a currency or a unit follows a place."""
    return any(map(str.isalnum, suffix)) and len(suffix.strip()) > _UNIT_LENGTH


def _label_before(index: PageIndex, span: Span, prefix: str) -> str:
    """Return the label in front of a place: in its line, or the line before."""
    own = _SEPARATORS.split(prefix)[-1].strip()
    if own:
        return own[-MAX_LABEL_LENGTH:]
    if prefix.strip():
        return ""
    line_start = span[0] - len(prefix)
    end = line_start - 1
    start = index.text.rfind("\n", 0, max(end, 0)) + 1
    text = index.text[start:end].strip() if end > 0 else ""
    if not 0 < len(text) <= MAX_LABEL_LENGTH:
        return ""
    tree = index.tree
    before = tree.pieces[index.piece_at(start)]
    label, value = before.element, index.element_at(span[0])
    if before.label or label < 0 or value < 0:
        return ""
    common = label
    while common >= 0 and tree.last[common] < value:
        common = tree.parents[common]
    chain = tree.ancestors(label)
    below = chain[: chain.index(common)] if common in chain else chain
    inner = {tree.names[each] for each in below}
    if inner & _LABEL_TAGS:
        is_label = "th" not in inner or tree.names[common] == "tr"
    else:
        is_label = text.endswith(":") or index.text_of(common).count("\n") == 1
    return text if is_label else ""


def _column_fields(index: PageIndex, element: int, fields: FieldLabels) -> frozenset[FieldPath]:
    """Return the fields that the header of a table's column names."""
    tree = index.tree
    chain = tree.ancestors(element)[:6]
    cell = next((each for each in chain if tree.names[each] in {"td", "th"}), None)
    table = next((each for each in tree.ancestors(element) if tree.names[each] == "table"), None)
    if cell is None or table is None or tree.names[tree.parents[cell]] != "tr":
        return frozenset()
    row = tree.parents[cell]
    header = next((n for n in range(table + 1, row) if tree.names[n] == "tr"), row)
    cells, names = tree.children(row)[:_MAX_CELLS], tree.children(header)[:_MAX_CELLS]
    column = cells.index(cell) if cell in cells else len(names)
    if header == row or column >= len(names) or len(names) <= 1:
        return frozenset()
    return fields.of_label(index.text_of(names[column])[:MAX_LABEL_LENGTH])


def _element_names(
    index: PageIndex, element: int, span: Span, fields: FieldLabels
) -> tuple[frozenset[FieldPath], int]:
    """Return the fields and flags that names of the nearest elements give."""
    tree, flags = index.tree, 0
    own = _property(tree.attributes(element)) if element >= 0 else ""
    label = ""
    for each in tree.ancestors(element)[1 : _MAX_ITEM_LEVELS + 1] if own in GENERIC else ():
        attributes = tree.attributes(each)
        if "itemtype" in attributes or "typeof" in attributes:
            # The name of a movie's director is no name of the movie.
            whole = _property(attributes)
            label = f"{whole}/{own}" if whole else ""
            break
    found = fields.of_label(label) if label else frozenset()
    length = span[1] - span[0]
    for level, each in enumerate(tree.ancestors(element)[: _LEVELS + 1]):
        start, end = index.text_span(each)
        if level and end - start > 2 * length + _SPARE_LENGTH:
            break
        attributes = tree.attributes(each)
        name = " ".join(attributes[key] for key in _NAME_ATTRIBUTES if key in attributes)
        flags |= flags_of_name(simplify_name(name[:200])) if name else 0
        flags |= TAG_FLAGS.get(tree.names[each], 0)
        found = found or (fields.of_class(name[:200]) if name else found)
        if tree.names[each] in _TITLES:
            found = found or fields.of_label("name")
    return found, flags


def _property(attributes: Mapping[str, str]) -> str:
    return attributes.get("itemprop") or attributes.get("property") or ""
