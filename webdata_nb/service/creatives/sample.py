"""Serves fictional advertisers that ship with the package, for demos and offline use.

The data contains ages in days instead of dates, so that recent date ranges always match.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from importlib.resources import files
from typing import Any, Final

import orjson

from webdata_nb.page.errors import BadInput
from webdata_nb.service.creatives.source import (
    AdCreative,
    Advertiser,
    BadCursor,
    CreativesPage,
    CreativesQuery,
    midnight,
)
from webdata_nb.service.errors import SourceError

NAME: Final = "sample"
# The domain `.invalid` never resolves, so that no sample URL leads to a real site.
URL_PREFIX: Final = "https://sample.invalid/creatives/"
_SAMPLES: Final = files(__package__) / "samples"


@dataclass(frozen=True, slots=True)
class SampleSource:
    """The fictional advertisers; `today` is the day from which their ages count."""

    today: date
    name: str = NAME

    async def list_page(self, query: CreativesQuery) -> CreativesPage:
        if query.advertiser_id not in advertiser_ids():
            raise BadInput(
                f"the sample source has {' and '.join(advertiser_ids())} only; creatives_source "
                "(WEBDATA_CREATIVES_SOURCE) chooses a real one",
                loc=("body", "advertiser_id"),
            )
        rows = [row for row in _rows_of(query.advertiser_id) if self._matches(row, query)]
        if query.cursor is not None and not query.cursor.isdecimal():
            raise BadCursor("the source no longer accepts its cursor")
        start = int(query.cursor or 0)
        end = start + query.limit
        cursor = str(end) if end < len(rows) else None
        creatives = (
            AdCreative(
                row["advertiser_id"],
                row["creative_id"],
                preview_url=_image_url(row),
                advertiser_name=_advertiser_names()[row["advertiser_id"]],
                format=row["format"],
                first_shown=midnight(self._day(row["first_age"])),
                last_shown=midnight(self._day(row["last_age"])),
                days_shown=row["days_shown"],
                political=row["political"],
            )
            for row in rows[start:end]
        )
        return CreativesPage(tuple(creatives), cursor)

    async def with_details(self, creative: AdCreative) -> AdCreative:
        row = next((row for row in _rows() if row["creative_id"] == creative.creative_id), None)
        if row is None:
            raise SourceError("the source has no details of this creative")
        impressions_min, impressions_max = row["impressions"]
        details = {
            **creative.details,
            "regions": row["regions"],
            "landing_domain": row["landing_domain"],
            "impressions_min": impressions_min,
            "impressions_max": impressions_max,
            "asset_urls": [_image_url(row)],
        }
        return replace(creative, details=details)

    async def picture_url(self, creative: AdCreative) -> str | None:
        return creative.preview_url

    async def download(self, url: str) -> bytes:
        images = {_image_url(row): row["image"] for row in _rows()}
        if url not in images:
            raise SourceError("the sample source has no such file")
        data: bytes = (_SAMPLES / images[url]).read_bytes()
        return data

    async def find_advertisers(self, name_or_domain: str, *, limit: int) -> list[Advertiser]:
        text = name_or_domain.casefold()
        advertisers: list[Advertiser] = []
        for record in _data()["advertisers"]:
            if text in record["name"].casefold() or text in record["domain"]:
                advertiser_id, name = record["advertiser_id"], record["name"]
                count = len(_rows_of(advertiser_id))
                country, domain = record["country"], record["domain"]
                advertisers.append(
                    Advertiser(advertiser_id, name, country, domain, ads_min=count, ads_max=count)
                )
        return advertisers[:limit]

    def _matches(self, row: Mapping[str, Any], query: CreativesQuery) -> bool:
        if query.region is not None and query.region.alpha_2 not in row["regions"]:
            return False
        if query.first_day is None or query.last_day is None:
            return True
        first, last = self._day(row["first_age"]), self._day(row["last_age"])
        return first <= query.last_day and last >= query.first_day

    def _day(self, age: int) -> date:
        return self.today - timedelta(days=age)


def advertiser_ids() -> tuple[str, ...]:
    """Return the ids of the fictional advertisers."""
    return tuple(_advertiser_names())


def _rows_of(advertiser_id: str) -> list[Mapping[str, Any]]:
    """Return an advertiser's rows, last shown first."""
    rows = [row for row in _rows() if row["advertiser_id"] == advertiser_id]
    return sorted(rows, key=lambda row: (row["last_age"], row["creative_id"]))


def _image_url(row: Mapping[str, Any]) -> str:
    return URL_PREFIX + str(row["image"])


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = orjson.loads((_SAMPLES / "samples.json").read_bytes())  # noqa: TID251 - a file of this package
    return data


def _rows() -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = _data()["creatives"]
    return rows


@cache
def _advertiser_names() -> dict[str, str]:
    return {record["advertiser_id"]: record["name"] for record in _data()["advertisers"]}
