"""Synonyms of field names, and the types and properties of schema.org and meta tags.

Names are lower case without separators, so ``datePublished``, ``date_published`` and
``Date published`` are one name. The words are in `data/vocabulary.json`, separated by spaces.
"""

from __future__ import annotations

from typing import Any, Final

from webdata_nb.page.extract.data import read_data

_DATA: Final[dict[str, Any]] = read_data("vocabulary.json")
_WORDS: Final[dict[str, frozenset[str]]] = {
    name: frozenset(words.split()) for name, words in _DATA["words"].items()
}


def _split_values(words_by_name: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(words.split()) for name, words in words_by_name.items()}


SYNONYMS: Final = _split_values(_DATA["synonyms"])
"""Further names under which a field may stand, best first."""
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
