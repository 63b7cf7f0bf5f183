"""Invented advertisers that ship with the package: for demos, notebooks and first steps offline.

Their ages count from today, so that every date range finds something for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any, Final

import orjson

from webdata_nb.service.creatives.cursor import BadCursor
from webdata_nb.service.creatives.source import Advertiser, Ask, Creative, Page
from webdata_nb.service.errors import BadInput, SourceError

NAME: Final = "sample"
# A name that no resolver knows: nothing of the sample can be mistaken for the web.
PREFIX: Final = "https://sample.invalid/creatives/"


@dataclass(frozen=True, slots=True)
class Sample:
    """The invented advertisers, as seen on one day."""

    today: date
    name: str = NAME

    async def page(self, ask: Ask) -> Page:
        """See `Source.page`."""
        if ask.advertiser_id not in advertiser_ids():
            raise BadInput(
                f"the sample source knows {' and '.join(advertiser_ids())} only; creatives_source "
                "(WEBDATA_CREATIVES_SOURCE) chooses a real one",
                loc=("body", "advertiser_id"),
            )
        rows = [row for row in self._rows(ask.advertiser_id) if self._fits(row, ask)]
        start = _offset(ask.cursor)
        end = start + ask.limit
        cursor = str(end) if end < len(rows) else None
        return Page(tuple(map(self._creative, rows[start:end])), cursor)

    async def detailed(self, creative: Creative) -> Creative:
        """See `Source.detailed`."""
        row = _row(creative.creative_id)
        low, high = row["impressions"]
        told = {name: row[name] for name in ("regions", "landing_domain")}
        more = {"impressions_min": low, "impressions_max": high, "asset_urls": [_url(row)]}
        return replace(creative, details={**creative.details, **told, **more})

    async def picture_url(self, creative: Creative) -> str | None:
        """See `Source.picture_url`."""
        return creative.preview_url

    async def file(self, url: str) -> bytes:
        """See `Source.file`."""
        known = {_url(row): row["image"] for row in _told()["creatives"]}
        if url not in known:
            raise SourceError("the sample source has no such file")
        data: bytes = (_FOLDER / known[url]).read_bytes()
        return data

    async def advertisers(self, query: str, *, limit: int) -> list[Advertiser]:
        """See `Source.advertisers`."""
        wanted = query.casefold()
        return [
            _advertiser(each)
            for each in _told()["advertisers"]
            if wanted in each["name"].casefold() or wanted in each["domain"]
        ][:limit]

    def _rows(self, advertiser_id: str) -> list[Mapping[str, Any]]:
        """Return an advertiser's rows, last shown first."""
        rows = [row for row in _told()["creatives"] if row["advertiser_id"] == advertiser_id]
        return sorted(rows, key=lambda row: (row["last_age"], row["creative_id"]))

    def _fits(self, row: Mapping[str, Any], ask: Ask) -> bool:
        if ask.region is not None and ask.region.alpha_2 not in row["regions"]:
            return False
        if ask.first_day is None or ask.last_day is None:
            return True
        first, last = self._day(row["first_age"]), self._day(row["last_age"])
        return first <= ask.last_day and last >= ask.first_day

    def _creative(self, row: Mapping[str, Any]) -> Creative:
        return Creative(
            row["advertiser_id"],
            row["creative_id"],
            preview_url=_url(row),
            advertiser_name=_names()[row["advertiser_id"]],
            format=row["format"],
            first_shown=_midnight(self._day(row["first_age"])),
            last_shown=_midnight(self._day(row["last_age"])),
            days_shown=row["days_shown"],
            political=row["political"],
        )

    def _day(self, age: int) -> date:
        return self.today - timedelta(days=age)


def advertiser_ids() -> tuple[str, ...]:
    """Return the ids of the invented advertisers."""
    return tuple(_names())


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isdecimal():
        raise BadCursor("the source does not accept its cursor any more")
    return int(cursor)


def _row(creative_id: str) -> Mapping[str, Any]:
    found = [row for row in _told()["creatives"] if row["creative_id"] == creative_id]
    if not found:
        raise SourceError("the source knows no details of this creative")
    row: Mapping[str, Any] = found[0]
    return row


def _advertiser(told: Mapping[str, str]) -> Advertiser:
    advertiser_id = told["advertiser_id"]
    count = sum(row["advertiser_id"] == advertiser_id for row in _told()["creatives"])
    return Advertiser(
        advertiser_id, told["name"], told["country"], told["domain"], ads_min=count, ads_max=count
    )


def _url(row: Mapping[str, Any]) -> str:
    return PREFIX + str(row["image"])


def _midnight(day: date) -> str:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).isoformat().replace("+00:00", "Z")


@cache
def _told() -> dict[str, Any]:
    told: dict[str, Any] = orjson.loads((_FOLDER / "samples.json").read_bytes())
    return told


@cache
def _names() -> dict[str, str]:
    return {each["advertiser_id"]: each["name"] for each in _told()["advertisers"]}


_FOLDER: Final = files(__package__) / "samples"
