"""Regions of the world: ISO 3166-1 by code or name, and Google's numbers for them."""

from __future__ import annotations

import difflib
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from webdata_nb.service.errors import BadInput

ANYWHERE: Final = "anywhere"
_CLOSE: Final = 3
_GOOGLE_BASE: Final = 2000
# The one country whose number in Google's tables does not follow the rule.
_GOOGLE_EXCEPTIONS: Final = {"IM": 20340}
# What people write and ISO does not know.
_COMMON: Final = {
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
class Region:
    """A country of ISO 3166-1."""

    alpha_2: str
    alpha_3: str
    numeric: int
    name: str

    @property
    def google(self) -> int:
        """Google's number: 2000 and the ISO number, but for the Isle of Man."""
        return _GOOGLE_EXCEPTIONS.get(self.alpha_2, _GOOGLE_BASE + self.numeric)


def region(text: str) -> Region | None:
    """Return the country that a code or name means; None for "anywhere".

    Raises
    ------
    BadInput
        No country is called so; the message names close matches.
    """
    wanted = _folded(text)
    if wanted == ANYWHERE:
        return None
    found = _by_name().get(_COMMON.get(wanted, wanted).casefold())
    if found is None:
        raise BadInput(_unknown(wanted), loc=("body", "region"))
    return found


def of_google(number: int) -> str:
    """Return the ISO code of Google's number, or the number itself where there is none."""
    return _by_google().get(number, str(number))


@cache
def regions() -> tuple[Region, ...]:
    """Return every country, by code."""
    return tuple(entry for entry, _ in _table())


@cache
def _table() -> tuple[tuple[Region, tuple[str, ...]], ...]:
    text = (files(__package__) / "countries.tsv").read_text("utf-8")
    return tuple(_entry(line) for line in text.splitlines())


def _entry(line: str) -> tuple[Region, tuple[str, ...]]:
    alpha_2, alpha_3, numeric, name, others = line.split("\t")
    found = Region(alpha_2, alpha_3, int(numeric), name)
    return found, (alpha_2, alpha_3, name, *filter(None, others.split("|")))


@cache
def _by_name() -> dict[str, Region]:
    return {_folded(name): entry for entry, names in _table() for name in names}


@cache
def _by_google() -> dict[int, str]:
    return {entry.google: entry.alpha_2 for entry in regions()}


def _folded(text: str) -> str:
    """Return a name as it is compared: without case, accents and double spaces."""
    plain = unicodedata.normalize("NFKD", text)
    bare = "".join(mark for mark in plain if not unicodedata.combining(mark))
    return " ".join(bare.casefold().split())


def _unknown(wanted: str) -> str:
    names = {*_by_name(), *_COMMON, ANYWHERE}
    close = difflib.get_close_matches(wanted, sorted(names), n=_CLOSE, cutoff=0.6)
    hint = f"; close: {', '.join(map(_told, close))}" if close else ""
    return f'must be "anywhere", an ISO 3166 code such as "DE", or the name of a country{hint}'


def _told(name: str) -> str:
    found = _by_name().get(_COMMON.get(name, name).casefold())
    return name if found is None else f"{found.name} ({found.alpha_2})"
