"""From a request to what is asked of a source: the advertiser, the region, the days."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from webdata_nb.contract.requests import CreativesRequest
from webdata_nb.service.creatives.regions import ANYWHERE, Region, region
from webdata_nb.service.errors import BadInput

Days = tuple[date | None, date | None]

_PRESETS: Final = {"yesterday": (1, 1), "last_7_days": (7, 1), "last_30_days": (30, 1)}


@dataclass(frozen=True, slots=True)
class Filters:
    """What a listing is about. `date_range` is the text; its days depend on the day of asking."""

    advertiser_id: str
    region: Region | None
    region_text: str
    date_range: str | None

    def bound(self, source: str) -> Mapping[str, Any]:
        """Return what a cursor is bound to."""
        code = self.region.alpha_2 if self.region else ANYWHERE
        return {
            "source": source,
            "advertiser": self.advertiser_id,
            "region": code,
            "range": self.date_range,
        }


def filters_of(request: CreativesRequest) -> Filters:
    """Return what a request asks for; a page's address may name region and days as well.

    Raises
    ------
    BadInput
        An unknown region, or an address that disagrees with a field.
    """
    there = _in_url(request.url)
    told = request.region if "region" in request.model_fields_set else None
    text = told or there.get("region") or ANYWHERE
    chosen = region(text)
    if told and "region" in there and region(there["region"]) != chosen:
        raise BadInput("region and the region in url disagree: send one of them", loc=_REGION)
    days = _agreed(request.date_range, there.get("date_range"))
    return Filters(request.advertiser, chosen, chosen.alpha_2 if chosen else ANYWHERE, days)


_REGION: Final = ("body", "region")


def _agreed(told: str | None, there: str | None) -> str | None:
    if told and there and told != there:
        raise BadInput(
            "date_range and the dates in url disagree: send one of them",
            loc=("body", "date_range"),
        )
    return told or there


def _in_url(url: str | None) -> dict[str, str]:
    """Read the filters in the address of a transparency page, as its own buttons write them."""
    query = parse_qs(urlsplit(url).query) if url else {}
    found: dict[str, str] = {}
    if place := (query.get("region") or query.get("country") or [""])[0]:
        found["region"] = ANYWHERE if place.upper() == "ALL" else place
    preset = (query.get("preset-date") or [""])[0].strip().lower().replace(" ", "_")
    if preset in _PRESETS:
        found["date_range"] = preset
    start, end = (query.get(name, [""])[0] for name in ("start-date", "end-date"))
    if re.fullmatch(_DAY, start) and re.fullmatch(_DAY, end):
        found["date_range"] = f"{start}..{end}"
    return found


_DAY: Final = r"\d{4}-\d{2}-\d{2}"


def days_of(date_range: str | None, today: date) -> Days:
    """Return the first and the last day of a range; preset ranges end yesterday.

    Raises
    ------
    BadInput
        Dates that no calendar has, or in the wrong order.
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
        raise BadInput("has a day that no calendar knows", loc=("body", "date_range")) from None
    if days[0] > days[1]:
        raise BadInput("must not end before it begins", loc=("body", "date_range"))
    return days
