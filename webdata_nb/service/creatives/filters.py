"""Parses the filters of a creatives request: advertiser, region and days.

Regions are countries of ISO 3166-1, found by code, name or Google's numeric id.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from webdata_nb.contract.requests import CreativesRequest
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
        names = sorted({*_by_name(), *_ALIASES, ANYWHERE})
        similar = difflib.get_close_matches(name, names, n=_MAX_SUGGESTIONS, cutoff=0.6)
        hint = f"; similar: {', '.join(map(_display_name, similar))}" if similar else ""
        raise BadInput(
            f'must be "anywhere", an ISO 3166 code such as "DE", or the name of a country{hint}',
            loc=("body", "region"),
        )
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


def _display_name(name: str) -> str:
    country = _lookup(name)
    return name if country is None else f"{country.name} ({country.alpha_2})"


DayRange = tuple[date | None, date | None]

# First and last day of each preset, in days before today.
_PRESETS: Final = {"yesterday": (1, 1), "last_7_days": (7, 1), "last_30_days": (30, 1)}
_DAY: Final = r"\d{4}-\d{2}-\d{2}"


@dataclass(frozen=True, slots=True)
class CreativesFilters:
    """The filters of a listing. `date_range` is the text of the request, such as a preset."""

    advertiser_id: str
    region: GeoRegion | None
    region_code: str
    date_range: str | None

    def cursor_fields(self, source: str) -> Mapping[str, Any]:
        """Return the values that a cursor is bound to."""
        return {
            "source": source,
            "advertiser": self.advertiser_id,
            "region": self.region_code,
            "range": self.date_range,
        }


def parse_filters(request: CreativesRequest) -> CreativesFilters:
    """Return the filters of a request, including the region and days in its `url`.

    Raises
    ------
    BadInput
        An unknown region, or a URL that disagrees with a field.
    """
    in_url = _parse_url(request.url)
    in_field = request.region if "region" in request.model_fields_set else None
    region = parse_region(in_field or in_url.get("region") or ANYWHERE)
    if in_field and "region" in in_url and parse_region(in_url["region"]) != region:
        raise BadInput(
            "region and the region in url disagree: send one of them", loc=("body", "region")
        )
    range_in_url = in_url.get("date_range")
    if request.date_range and range_in_url and request.date_range != range_in_url:
        raise BadInput(
            "date_range and the dates in url disagree: send one of them",
            loc=("body", "date_range"),
        )
    code = region.alpha_2 if region else ANYWHERE
    return CreativesFilters(request.advertiser, region, code, request.date_range or range_in_url)


def _parse_url(url: str | None) -> dict[str, str]:
    """Parse the filters in the URL of a transparency page, as the page's own controls write it."""
    query = parse_qs(urlsplit(url).query) if url else {}
    filters: dict[str, str] = {}
    if region := (query.get("region") or query.get("country") or [""])[0]:
        filters["region"] = ANYWHERE if region.upper() == "ALL" else region
    preset = (query.get("preset-date") or [""])[0].strip().lower().replace(" ", "_")
    if preset in _PRESETS:
        filters["date_range"] = preset
    start, end = (query.get(name, [""])[0] for name in ("start-date", "end-date"))
    if re.fullmatch(_DAY, start) and re.fullmatch(_DAY, end):
        filters["date_range"] = f"{start}..{end}"
    return filters


def days_of_range(date_range: str | None, today: date) -> DayRange:
    """Return the first and the last day of a range; preset ranges end yesterday.

    Raises
    ------
    BadInput
        An invalid date, or a range that ends before it begins.
    """
    if date_range is None:
        return None, None
    if date_range in _PRESETS:
        first, last = _PRESETS[date_range]
        return today - timedelta(days=first), today - timedelta(days=last)
    first_text, _, last_text = date_range.partition("..")
    try:
        days = date.fromisoformat(first_text), date.fromisoformat(last_text)
    except ValueError:
        raise BadInput("contains an invalid date", loc=("body", "date_range")) from None
    if days[0] > days[1]:
        raise BadInput("must not end before it begins", loc=("body", "date_range"))
    return days
