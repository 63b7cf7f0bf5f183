"""Derives the property names under which a page may declare a field of a schema."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from webdata_nb.page.extract.data import read_data

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

# Synonyms of field names, and the types and properties of schema.org and meta tags.
#
# Names are lower case without separators, so ``datePublished``, ``date_published`` and
# ``Date published`` are one name. The words are in `data/vocabulary.json`, separated by spaces.


_DATA: Final[dict[str, Any]] = read_data("vocabulary.json")
_WORDS: Final[dict[str, frozenset[str]]] = {
    name: frozenset(words.split()) for name, words in _DATA["words"].items()
}


def _split_values(words_by_name: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(words.split()) for name, words in words_by_name.items()}


SYNONYMS: Final = _split_values(_DATA["synonyms"])
"""Further names under which a field may stand, best first."""
GTIN_NAMES: Final = dict.fromkeys(("gtin8", "gtin12", "gtin13", "gtin14"), "gtin")
"""The names of schema.org for codes of one length, with the one for all of them."""
SYNONYMS_BY_TYPE: Final = {
    ending: _split_values(names) for ending, names in _DATA["synonyms_by_type"].items()
}
"""Names that mean something only inside a node whose type ends so."""
TYPES_BY_KIND: Final = _split_values(_DATA["types_by_kind"])
"""Words for kinds of things, with the endings of the types that are meant."""
PAGE_KINDS: Final = _WORDS["page_kinds"]
"""Kinds that a page as a whole may be of, so that its meta tags speak of them."""
GENERIC_NAMES: Final = _WORDS["generic_names"]
"""Names that say nothing about what stands under them."""
LIST_WORDS: Final = _WORDS["list_words"]
"""Words at the end of a list's name that do not say what its items are."""
RELATION_WORDS: Final = _WORDS["relation_words"]
"""Words in the name of a field that asks for other things than those of the page."""
RELATION_PHRASES: Final = tuple[str, ...](_DATA["relation_phrases"])
"""Parts of the names of lists of other things, in lower case."""

TRAVERSED_PROPERTIES: Final = {
    name: frozenset(words.split()) for name, words in _DATA["traversed_properties"].items()
}
"""Properties whose node belongs to the thing itself, with what may be read through them."""
MAIN_NODE_PROPERTIES: Final = _WORDS["main_node_properties"]
"""Properties that lead from the node of a page to the things that it is about."""
LIST_ELEMENT_PROPERTIES: Final = ("itemlistelement", "datafeedelement")
"""Properties that make a node a list of their values."""
PART_PROPERTIES: Final = _WORDS["part_properties"]
"""Properties whose values are things of which a thing of the same kind consists."""
INVERSE_PROPERTIES: Final[dict[str, str]] = _DATA["inverse_properties"]
"""Properties of a part that name the whole, with the property of the whole that lists its parts."""
RELATION_PROPERTIES: Final = _WORDS["relation_properties"]
"""Properties whose values are other things than the page is about."""
ASIDE_PROPERTIES: Final = _WORDS["aside_properties"]
"""Properties that lead away from a thing: to what resembles it, contains it, or speaks of it."""
COMMON_PROPERTIES: Final = _WORDS["common_properties"]
"""Properties that nearly every node has, so they do not indicate its type."""
PAGE_PROPERTIES: Final = _WORDS["page_properties"]
"""Properties of a page's node that may describe the subject of the page."""
READ_FROM_PRODUCTS: Final = _WORDS["read_from_products"]
"""Properties of products whose labels in texts `visible_values` reads, in many languages."""

PAGE_TYPES: Final = ("page", "website")
SECONDARY_TYPES: Final = tuple(sorted(_WORDS["secondary_types"]))
"""Endings of types that most pages have, whatever their subject."""

META_PROPERTIES: Final[dict[str, tuple[str, int]]] = {
    meta: (name, rank)
    for name, metas in _DATA["meta_tags"].items()
    for rank, meta in enumerate(metas.split())
}
"""Names of meta tags, with the schema.org property and its rank."""
METADATA_PROPERTIES: Final = _split_values(_DATA["metadata_properties"])
"""Fields of the page's metadata, with the equivalent schema.org properties."""
PAGE_TITLE_SOURCES: Final = _WORDS["page_title_sources"]
"""The sources of values that are the title of a page, and the name of its subject at best."""


MAX_WORDS: Final = 8
MAX_READINGS: Final = 96
_MAX_CHAIN_LENGTH: Final = 3
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|\d+|[^\W_]+")
_COUNTS: Final = (("number", "of"), ("no", "of"), ("total",), ("num",), ("count", "of"))
_ARTICLES: Final = frozenset({"is", "has", "the"})


@dataclass(frozen=True, slots=True)
class NameReading:
    """One way to read a field's name.

    Attributes
    ----------
    chain
        The properties to follow, the last of which is the field.
    kind
        The word in the name that says what kind of thing has them, empty when there is none.
    """

    chain: tuple[str, ...]
    kind: str = ""


def split_words(name: str) -> tuple[str, ...]:
    """Split a name, in any of the usual cases, into lower-case words."""
    return tuple(word.lower() for word in _WORD.findall(name))


def normalize_name(name: str) -> str:
    """Write a name in lower case without separators."""
    return "".join(split_words(name))


@lru_cache(maxsize=4096)
def normalize_short_name(name: str) -> str:
    """Normalize the name of a field or property, with a cache since a page repeats them."""
    return normalize_name(name)


def singular(word: str) -> str:
    """Undo an English plural, as far as property names need it."""
    if word.endswith("ies") and len(word) > len("ties"):
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def singular_forms(word: str) -> tuple[str, ...]:
    """Return a word and what it may be the plural of: "movies" of "movie", not of "movy"."""
    plain = word[:-1] if word.endswith("ies") else word
    return tuple(dict.fromkeys((word, singular(word), plain)))


def kind_of_name(name: str) -> str:
    """Return the word of `TYPES_BY_KIND` that a whole name is, in either number; empty for none."""
    normalized = normalize_name(name)
    return next((kind for kind in singular_forms(normalized) if kind in TYPES_BY_KIND), "")


@lru_cache(maxsize=4096)
def name_readings(name: str) -> tuple[NameReading, ...]:
    """Return the ways to read a field's name, best first."""
    words = split_words(name)[:MAX_WORDS]
    if len(words) > 1 and words[0] in _ARTICLES:
        words = words[1:]
    # "Number of reviews" is read as "review count".
    nouns = (words[len(start) :] for start in _COUNTS if words[: len(start)] == start)
    counts = (
        (singular(noun[0]), "count") for noun in nouns if len(noun) == 1 and noun[0].endswith("s")
    )
    readings = _first(NameReading(chain) for chain in _chains(next(counts, words)))
    if len(words) > 1 and words[0] in TYPES_BY_KIND:
        readings |= _first(NameReading(chain, words[0]) for chain in _chains(words[1:]))
    elif len(words) > 1 and words[0] in GENERIC_NAMES:
        readings |= _first(NameReading(chain) for chain in _chains(words[1:]))
    elif len(words) == 1 and words[0] in TYPES_BY_KIND:
        readings[NameReading(("name",), words[0])] = None
        readings[NameReading(("headline",), words[0])] = None
    # schema.org's "hasVariant" are the variants.
    forms = singular_forms("".join(words)) if words else ()
    readings |= _first(NameReading((f"has{form}",)) for form in forms)
    return tuple(readings)


@lru_cache(maxsize=4096)
def page_names(name: str) -> tuple[str, ...]:
    """Return the names under which a page may declare a field of its subject, best first."""
    readings = (reading for reading in name_readings(name) if len(reading.chain) == 1)
    return tuple(
        reading.chain[0] for reading in readings if not reading.kind or reading.kind in PAGE_KINDS
    )


def name_readings_from(name: str, heads: AbstractSet[str]) -> list[NameReading]:
    """Return the ways to read a field's name that begin at one of some properties, best first."""
    by_head = _by_head(name)
    if len(heads) < len(by_head):
        ranked = [reading for head in heads if head in by_head for reading in by_head[head]]
    else:
        ranked = [reading for head in by_head if head in heads for reading in by_head[head]]
    return [reading for _, reading in sorted(ranked, key=itemgetter(0))]


@lru_cache(maxsize=4096)
def _by_head(name: str) -> dict[str, list[tuple[int, NameReading]]]:
    """Return the ways to read a name, with their ranks, by the first property of each."""
    by_head: dict[str, list[tuple[int, NameReading]]] = {}
    for rank, reading in enumerate(name_readings(name)):
        by_head.setdefault(reading.chain[0], []).append((rank, reading))
    return by_head


def _first(readings: Iterator[NameReading]) -> dict[NameReading, None]:
    return dict.fromkeys(islice(readings, MAX_READINGS))


def _chains(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for parts in sorted(_word_splits(words), key=len):
        options = []
        for part in parts:
            forms = singular_forms(part)
            synonyms = [synonym for form in forms for synonym in (form, *SYNONYMS.get(form, ()))]
            options.append(tuple(dict.fromkeys((*synonyms, f"{part}s"))))
        # The rank of a chain is how far its names are down the lists of synonyms.
        ranked = (
            (sum(names.index(name) for name, names in zip(chain, options, strict=True)), chain)
            for chain in product(*options)
        )
        yield from (chain for _, chain in sorted(ranked, key=itemgetter(0)))
        if len(parts) > 1 and parts[-1] in {"name", "url", "link"}:
            # A page may give the author's name as the author, or an image's URL as the image.
            yield from product(*options[:-1])


def _word_splits(words: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return every way to join neighbouring words into at most three names."""
    splits: list[tuple[str, ...]] = []
    for mask in range(1 << max(len(words) - 1, 0)):
        if mask.bit_count() >= _MAX_CHAIN_LENGTH:
            continue
        parts = [words[0]] if words else []
        for at, word in enumerate(words[1:]):
            if mask >> at & 1:
                parts.append(word)
            else:
                parts[-1] += word
        splits.append(tuple(parts))
    return [parts for parts in splits if parts]
