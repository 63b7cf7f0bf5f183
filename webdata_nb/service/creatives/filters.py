"""Parses the filters of a creatives request: advertiser, region and days."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from webdata_nb.contract.requests import CreativesRequest
from webdata_nb.page.errors import BadInput
from webdata_nb.service.creatives.regions import ANYWHERE, GeoRegion, parse_region

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
