"""Decides which fields of a record a label of the page names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from webdata_nb.page.content.class_names import word_set
from webdata_nb.page.extract.field_names import name_readings, normalize_name, split_words
from webdata_nb.page.extract.visible.element_names import simplify_name
from webdata_nb.page.extract.visible.wording import (
    AVAILABILITY_LABELS,
    BRAND_LABELS,
    GTIN_LABELS,
    MPN_LABELS,
    SKU_LABELS,
)
from webdata_nb.page.extract.vocabulary import (
    GENERIC_NAMES,
    META_PROPERTIES,
    PAGE_KINDS,
)

FieldPath = tuple[str, ...]

MAX_LABEL_LENGTH: Final = 60
GENERIC: Final = frozenset({"name", "value", "@value", "@id", "url", "text", "label", "title"})
"""Names that say nothing of a part without the name of the whole."""
_JOINED_WORDS: Final = 3
_SYNONYMS_OF_LABELS: Final = (
    ("sku", SKU_LABELS),
    ("gtin", GTIN_LABELS),
    ("mpn", MPN_LABELS),
    ("brand", BRAND_LABELS | {"by", "von"}),
    ("availability", AVAILABILITY_LABELS),
)
_ALIASES: Final = {
    "colour": "color",
    "gtin13": "gtin",
    "gtin12": "gtin",
    "gtin14": "gtin",
    "gtin8": "gtin",
}
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
    last = keys[-1].strip(_EDGES)
    yield from _names_of_phrase(last)


def _names_of_phrase(phrase: str) -> Iterator[str]:
    normalized = normalize_name(phrase)
    yield normalized
    if normalized in _ALIASES:
        yield _ALIASES[normalized]
    if phrase in META_PROPERTIES:
        yield META_PROPERTIES[phrase][0]
    if _PREFIX.match(phrase):
        yield normalize_name(_PREFIX.sub("", phrase))
    folded = phrase.casefold().strip(_EDGES)
    for name, labels in _SYNONYMS_OF_LABELS:
        if folded in labels:
            yield name


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
