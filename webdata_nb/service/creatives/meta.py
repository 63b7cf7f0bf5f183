"""Queries Meta's Ad Library through its official API.

The API requires the token of a person whose identity Meta has confirmed. It returns political ads
worldwide, and all ads that were shown in the European Union or the United Kingdom.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import orjson

from webdata_nb.page.errors import BadInput
from webdata_nb.service.creatives.source import (
    AdCreative,
    Advertiser,
    BadCursor,
    CreativesPage,
    CreativesQuery,
    SourceClient,
    advertisers_of_ads,
    as_mapping,
    host_of,
    midnight,
    parse_count,
    parse_list,
    read_creative,
)
from webdata_nb.service.errors import SourceError, SourceOverdemand, SourceRefused
from webdata_nb.service.web.fetch import FetchRequest

NAME: Final = "meta_ad_library"
TERMS: Final = "https://www.facebook.com/ads/library/api"
HOME: Final = "https://graph.facebook.com/v23.0"
FIELDS: Final = (
    "id",
    "page_id",
    "page_name",
    "ad_snapshot_url",
    "ad_creative_bodies",
    "ad_creative_link_titles",
    "ad_creative_link_descriptions",
    "ad_creative_link_captions",
    "ad_delivery_start_time",
    "ad_delivery_stop_time",
    "impressions",
    "bylines",
    "delivery_by_region",
    "age_country_gender_reach_breakdown",
)
KEY_ADVICE: Final = f"renew the token, and confirm your identity at {TERMS}"


@dataclass(frozen=True, slots=True)
class MetaAdLibrary:
    """The Ad Library API; the token is sent in a header, so that no URL contains it."""

    client: SourceClient
    token: str = field(repr=False)
    home: str = HOME
    name: str = NAME

    async def list_page(self, query: CreativesQuery) -> CreativesPage:
        if not query.advertiser_id.isdecimal():
            raise BadInput(
                'must be the number of a Facebook page, such as "20531316728"',
                loc=("body", "advertiser_id"),
            )
        region = "ALL" if query.region is None else query.region.alpha_2
        params = {
            "ad_reached_countries": orjson.dumps([region]).decode(),
            "ad_active_status": "ALL",
            "search_page_ids": orjson.dumps([query.advertiser_id]).decode(),
        }
        if query.first_day is not None and query.last_day is not None:
            params["ad_delivery_date_min"] = query.first_day.isoformat()
            params["ad_delivery_date_max"] = query.last_day.isoformat()
        body = await self._search_archive(params, limit=query.limit, cursor=query.cursor)
        rows = body.get("data")
        if not isinstance(rows, list):
            raise SourceError(f"{NAME} replied in an unknown format")
        # The URL in `next` is not used: it has the token.
        paging = as_mapping(body.get("paging"))
        after = as_mapping(paging.get("cursors")).get("after")
        cursor = after if paging.get("next") and isinstance(after, str) else None
        return CreativesPage(tuple(_creative(row, query) for row in rows), cursor)

    async def with_details(self, creative: AdCreative) -> AdCreative:
        """Return the creative unchanged: listings already contain all details."""
        return creative

    async def picture_url(self, creative: AdCreative) -> str | None:  # noqa: ARG002 - the protocol's
        """Return None: a snapshot is a page that requires a login."""
        return None

    async def download(self, url: str) -> bytes:
        """Refuse every URL: the API names no files."""
        raise SourceError(f"files are not taken from {host_of(url)}")

    async def find_advertisers(self, name_or_domain: str, *, limit: int) -> list[Advertiser]:
        """Return the pages whose ads contain the words, most ads first."""
        params = {
            "search_terms": name_or_domain,
            "ad_reached_countries": '["ALL"]',
            "ad_active_status": "ALL",
        }
        body = await self._search_archive(params, limit=100)
        rows = map(as_mapping, parse_list(body.get("data"), NAME))
        ads = [(str(row.get("page_id", "")), str(row.get("page_name", ""))) for row in rows]
        return advertisers_of_ads(ads)[:limit]

    async def _search_archive(
        self, params: Mapping[str, str], *, limit: int, cursor: str | None = None
    ) -> Mapping[str, Any]:
        """Return a page of at most `limit` ads, or of half as many where that is too much data."""
        while True:
            try:
                query = {**params, "fields": ",".join(FIELDS), "limit": str(limit)}
                if cursor is not None:
                    query["after"] = cursor
                request = FetchRequest(
                    f"{self.home}/ads_archive?{urlencode(query)}",
                    headers={"Authorization": f"Bearer {self.token}"},
                    accept="application/json",
                )
                return as_mapping(await self.client.fetch_json(request))
            except SourceOverdemand as refusal:
                if limit <= 1:
                    raise SourceRefused(
                        f"{refusal}, even for one ad: choose a shorter date_range, or one region"
                    ) from None
                limit //= 2
            except SourceRefused as refusal:
                if cursor is None:
                    raise
                reason = f'; it says "{refusal.reason}"' if refusal.reason else ""
                raise BadCursor(f"the source no longer accepts its cursor{reason}") from None


def _creative(row: Any, query: CreativesQuery) -> AdCreative:
    fields = as_mapping(row)
    ids = str(fields.get("page_id") or query.advertiser_id), str(fields.get("id") or "")
    return read_creative(row, _parse_row, AdCreative(*ids))


def _parse_row(row: Mapping[str, Any]) -> AdCreative:
    if not isinstance(row["id"], str):
        raise TypeError("ids must be strings")
    start = date.fromisoformat(row["ad_delivery_start_time"][:10])
    stop = row.get("ad_delivery_stop_time")
    last = date.fromisoformat(stop[:10]) if stop else None
    impressions = as_mapping(row.get("impressions"))
    # The countries of a European ad, the parts of a country of other ads.
    breakdown = row.get("age_country_gender_reach_breakdown") or []
    regions = [as_mapping(entry).get("country") for entry in breakdown]
    regions += [as_mapping(entry).get("region") for entry in row.get("delivery_by_region") or []]
    details = {
        "regions": list(dict.fromkeys(region for region in regions if isinstance(region, str))),
        "impressions_min": parse_count(impressions.get("lower_bound")),
        "impressions_max": parse_count(impressions.get("upper_bound")),
        "landing_domain": _first_text(row.get("ad_creative_link_captions")),
        "headline": _first_text(row.get("ad_creative_link_titles")),
        "description": _first_text(row.get("ad_creative_bodies"))
        or _first_text(row.get("ad_creative_link_descriptions")),
        "asset_urls": [],
    }
    return AdCreative(
        str(row["page_id"]),
        row["id"],
        preview_url=_without_token(row.get("ad_snapshot_url")),
        advertiser_name=row.get("page_name"),
        first_shown=midnight(start),
        last_shown=None if last is None else midnight(last),
        days_shown=None if last is None else (last - start).days + 1,
        political=bool(row.get("bylines")),
        details={name: value for name, value in details.items() if value is not None},
    )


def _without_token(url: Any) -> str | None:
    if not isinstance(url, str):
        return None
    parts = urlsplit(url)
    query = [(name, value) for name, value in parse_qsl(parts.query) if name != "access_token"]
    return urlunsplit(parts._replace(query=urlencode(query)))


def _first_text(texts: Any) -> str | None:
    return texts[0] if isinstance(texts, list) and texts and isinstance(texts[0], str) else None
