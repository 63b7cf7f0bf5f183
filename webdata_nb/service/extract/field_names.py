"""The names under which a field of a schema may be found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from webdata_nb.service.extract.vocabulary import KINDS, NEUTRAL, SYNONYMS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

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
    return tuple(each.lower() for each in _WORD.findall(name))


def normalize_name(name: str) -> str:
    """Write a name in lower case without separators."""
    return "".join(split_words(name))


@lru_cache(maxsize=4096)
def normalize_short_name(name: str) -> str:
    """Do the same for the name of a field or property, of which a page has few and short ones."""
    return normalize_name(name)


def singular(word: str) -> str:
    """Undo an English plural, as far as property names need it."""
    if word.endswith("ies") and len(word) > len("ties"):
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def kind_of_name(name: str) -> str:
    """Return the word of `KINDS` that a whole name is, in either number; empty for none."""
    whole = normalize_name(name)
    return next((each for each in (whole, singular(whole)) if each in KINDS), "")


@lru_cache(maxsize=4096)
def name_readings(name: str) -> tuple[NameReading, ...]:
    """Return the ways to read a field's name, best first."""
    given = split_words(name)[:MAX_WORDS]
    plain = given[1:] if len(given) > 1 and given[0] in _ARTICLES else given
    found = _first(NameReading(chain) for chain in _chains(_counted(plain)))
    if len(plain) > 1 and plain[0] in KINDS:
        found |= _first(NameReading(chain, plain[0]) for chain in _chains(plain[1:]))
    elif len(plain) > 1 and plain[0] in NEUTRAL:
        found |= _first(NameReading(chain) for chain in _chains(plain[1:]))
    elif len(plain) == 1 and plain[0] in KINDS:
        found[NameReading(("name",), plain[0])] = None
        found[NameReading(("headline",), plain[0])] = None
    return tuple(found)


def name_readings_from(name: str, heads: AbstractSet[str]) -> list[NameReading]:
    """Return the ways to read a field's name that begin at one of some properties, best first."""
    by_head = _by_head(name)
    if len(heads) < len(by_head):
        ranked = [each for head in heads if head in by_head for each in by_head[head]]
    else:
        ranked = [each for head in by_head if head in heads for each in by_head[head]]
    return [reading for _, reading in sorted(ranked, key=itemgetter(0))]


@lru_cache(maxsize=4096)
def _by_head(name: str) -> dict[str, list[tuple[int, NameReading]]]:
    """Return the ways to read a name, with their ranks, by the first property of each."""
    found: dict[str, list[tuple[int, NameReading]]] = {}
    for rank, reading in enumerate(name_readings(name)):
        found.setdefault(reading.chain[0], []).append((rank, reading))
    return found


def _first(ways: Iterator[NameReading]) -> dict[NameReading, None]:
    return dict.fromkeys(islice(ways, MAX_READINGS))


def _counted(given: tuple[str, ...]) -> tuple[str, ...]:
    """Read "number of reviews" as "review count"."""
    for start in _COUNTS:
        rest = given[len(start) :]
        if given[: len(start)] == start and len(rest) == 1 and rest[0].endswith("s"):
            return (singular(rest[0]), "count")
    return given


def _chains(given: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for parts in sorted(_splits(given), key=len):
        options = [_names(each) for each in parts]
        ranked = ((_rank(chain, options), chain) for chain in product(*options))
        yield from (chain for _, chain in sorted(ranked, key=itemgetter(0)))
        if len(parts) > 1 and parts[-1] in {"name", "url", "link"}:
            # A page may give the author's name as the author, or an image's URL as the image.
            yield from product(*options[:-1])


def _rank(chain: tuple[str, ...], options: list[tuple[str, ...]]) -> int:
    return sum(names.index(each) for each, names in zip(chain, options, strict=True))


def _splits(given: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return every way to join neighbouring words into at most three names."""
    found: list[tuple[str, ...]] = []
    for mask in range(1 << max(len(given) - 1, 0)):
        if mask.bit_count() >= _MAX_CHAIN_LENGTH:
            continue
        parts = [given[0]] if given else []
        for at, word in enumerate(given[1:]):
            if mask >> at & 1:
                parts.append(word)
            else:
                parts[-1] += word
        found.append(tuple(parts))
    return [each for each in found if each]


def _names(part: str) -> tuple[str, ...]:
    """Return a name with its other numbers and synonyms, without repeats."""
    one = singular(part)
    near = (part, *SYNONYMS.get(part, ()), one, *SYNONYMS.get(one, ()), f"{part}s")
    return tuple(dict.fromkeys(near))
