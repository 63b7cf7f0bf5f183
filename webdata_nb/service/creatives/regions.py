"""Looks up countries of ISO 3166-1 by code, name or Google's numeric id."""

from __future__ import annotations

import difflib
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from webdata_nb.page.errors import BadInput

ANYWHERE: Final = "anywhere"
_MAX_SUGGESTIONS: Final = 3
_GOOGLE_BASE: Final = 2000
# The only country whose Google id is not 2000 plus its ISO number.
_GOOGLE_EXCEPTIONS: Final = {"IM": 20340}
# Common names that ISO 3166-1 does not contain.
_ALIASES: Final = {
    "uk": "GB",
    "great britain": "GB",
    "england": "GB",
    "usa": "US",
    "united states of america": "US",
    "turkey": "TR",
    "russia": "RU",
    "holland": "NL",
    "ivory coast": "CI",
    "cape verde": "CV",
    "czech republic": "CZ",
    "swaziland": "SZ",
    "macedonia": "MK",
    "burma": "MM",
}


@dataclass(frozen=True, slots=True)
class GeoRegion:
    """A country of ISO 3166-1."""

    alpha_2: str
    alpha_3: str
    numeric: int
    name: str

    @property
    def google_id(self) -> int:
        """Google's id: 2000 plus the ISO number, except for the Isle of Man."""
        return _GOOGLE_EXCEPTIONS.get(self.alpha_2, _GOOGLE_BASE + self.numeric)


def parse_region(text: str) -> GeoRegion | None:
    """Return the country with a code or name; None for "anywhere".

    Raises
    ------
    BadInput
        No country has this name; the message suggests similar names.
    """
    name = _normalize(text)
    if name == ANYWHERE:
        return None
    country = _lookup(name)
    if country is None:
        raise BadInput(_unknown_region_message(name), loc=("body", "region"))
    return country


def alpha_2_of_google_id(google_id: int) -> str:
    """Return the ISO code of one of Google's ids, or the id as text if it is unknown."""
    return _by_google_id().get(google_id, str(google_id))


@cache
def regions() -> tuple[GeoRegion, ...]:
    """Return all countries, sorted by code."""
    return tuple(country for country, _ in _countries_with_names())


@cache
def _countries_with_names() -> tuple[tuple[GeoRegion, tuple[str, ...]], ...]:
    text = (files(__package__) / "countries.tsv").read_text("utf-8")
    return tuple(map(_parse_country, text.splitlines()))


def _parse_country(line: str) -> tuple[GeoRegion, tuple[str, ...]]:
    alpha_2, alpha_3, numeric, name, other_names = line.split("\t")
    country = GeoRegion(alpha_2, alpha_3, int(numeric), name)
    return country, (alpha_2, alpha_3, name, *filter(None, other_names.split("|")))


@cache
def _by_name() -> dict[str, GeoRegion]:
    return {
        _normalize(name): country for country, names in _countries_with_names() for name in names
    }


@cache
def _by_google_id() -> dict[int, str]:
    return {country.google_id: country.alpha_2 for country in regions()}


def _normalize(text: str) -> str:
    """Return a name without case, accents and repeated spaces."""
    decomposed = unicodedata.normalize("NFKD", text)
    unaccented = "".join(char for char in decomposed if not unicodedata.combining(char))
    return " ".join(unaccented.casefold().split())


def _lookup(name: str) -> GeoRegion | None:
    return _by_name().get(_ALIASES.get(name, name).casefold())


def _unknown_region_message(name: str) -> str:
    names = sorted({*_by_name(), *_ALIASES, ANYWHERE})
    similar = difflib.get_close_matches(name, names, n=_MAX_SUGGESTIONS, cutoff=0.6)
    hint = f"; similar: {', '.join(map(_display_name, similar))}" if similar else ""
    return f'must be "anywhere", an ISO 3166 code such as "DE", or the name of a country{hint}'


def _display_name(name: str) -> str:
    country = _lookup(name)
    return name if country is None else f"{country.name} ({country.alpha_2})"
