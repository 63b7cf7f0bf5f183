"""Meta's Ad Library, through its official API.

The API needs the token of a person whose identity Meta has confirmed. It gives political ads
everywhere, and all ads that were shown in the European Union or the United Kingdom.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import orjson

from webdata_nb.service.creatives.cursor import BadCursor
from webdata_nb.service.creatives.source import Advertiser, Ask, Creative, Page
from webdata_nb.service.creatives.source_client import SourceClient, as_mapping, host_of
from webdata_nb.service.errors import BadInput, SourceAccessDenied, SourceBusy, SourceError
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
# What the API's error codes mean, as its documentation lists them.
_LIMITED: Final = frozenset({4, 17, 32, 613})
_REFUSED: Final = frozenset({10, 102, 190, 200})
_PAUSE_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Meta:
    """See the module. The token goes in a header, so that no address ever holds it."""

    client: SourceClient
    token: str = field(repr=False)
    home: str = HOME
    name: str = NAME

    async def page(self, ask: Ask) -> Page:
        """See `Source.page`."""
        if not ask.advertiser_id.isdecimal():
            raise BadInput(
                'must be the number of a Facebook page, such as "20531316728"',
                loc=("body", "advertiser_id"),
            )
        asked = {**_filters(ask), "search_page_ids": orjson.dumps([ask.advertiser_id]).decode()}
        body = await self._archive(asked, ask.limit, ask.cursor)
        rows = body.get("data")
        if not isinstance(rows, list):
            raise SourceError(f"{NAME} answered in a form that is not known here")
        return Page(tuple(_creative(row, ask) for row in rows), _next(body))

    async def detailed(self, creative: Creative) -> Creative:
        """See `Source.detailed`: the API tells everything at once."""
        return creative

    async def picture_url(self, creative: Creative) -> str | None:  # noqa: ARG002 - the interface's
        """See `Source.picture_url`: a snapshot is a page that asks for a login, not a picture."""
        return None

    async def file(self, url: str) -> bytes:
        """See `Source.file`: the API names no files."""
        raise SourceError(f"files are not taken from {host_of(url)}")

    async def advertisers(self, query: str, *, limit: int) -> list[Advertiser]:
        """See `Source.advertisers`: the pages whose ads hold the words, most ads first."""
        asked = {
            "search_terms": query,
            "ad_reached_countries": '["ALL"]',
            "ad_active_status": "ALL",
        }
        body = await self._archive(asked, 100, None)
        seen: dict[str, list[Mapping[str, Any]]] = {}
        for row in map(as_mapping, body.get("data") or []):
            seen.setdefault(str(row.get("page_id", "")), []).append(row)
        seen.pop("", None)
        ordered = sorted(seen.items(), key=lambda entry: -len(entry[1]))
        return [
            Advertiser(page_id, str(rows[0].get("page_name", "")), ads_min=len(rows))
            for page_id, rows in ordered[:limit]
        ]

    async def _archive(
        self, asked: Mapping[str, str], limit: int, cursor: str | None
    ) -> Mapping[str, Any]:
        query = {**asked, "fields": ",".join(FIELDS), "limit": str(limit)}
        if cursor is not None:
            query["after"] = cursor
        request = FetchRequest(
            f"{self.home}/ads_archive?{urlencode(query)}",
            headers={"Authorization": f"Bearer {self.token}"},
            accept="application/json",
        )
        _, body = await self.client.json(request)
        answer = as_mapping(body)
        if "error" in answer:
            raise _problem(as_mapping(answer["error"]), continued=cursor is not None)
        return answer


def _filters(ask: Ask) -> dict[str, str]:
    region = "ALL" if ask.region is None else ask.region.alpha_2
    asked = {"ad_reached_countries": orjson.dumps([region]).decode(), "ad_active_status": "ALL"}
    if ask.first_day is not None and ask.last_day is not None:
        asked["ad_delivery_date_min"] = ask.first_day.isoformat()
        asked["ad_delivery_date_max"] = ask.last_day.isoformat()
    return asked


def _next(body: Mapping[str, Any]) -> str | None:
    """Return the cursor of the next page; `next` itself would hold the token."""
    paging = as_mapping(body.get("paging"))
    after = as_mapping(paging.get("cursors")).get("after")
    return after if paging.get("next") and isinstance(after, str) else None


def _problem(error: Mapping[str, Any], *, continued: bool) -> Exception:
    """Return what an error of the API means; its own words could repeat what was sent."""
    code = error.get("code")
    if code in _LIMITED:
        return SourceBusy(f"{NAME} limits the rate (code {code})", retry_after_s=_PAUSE_S)
    if code in _REFUSED:
        return SourceAccessDenied(
            f"{NAME} does not accept the token (code {code}): renew it, and confirm your identity "
            f"at {TERMS}"
        )
    if continued:
        return BadCursor("the source does not accept its cursor any more")
    return SourceError(f"{NAME} refused the request (code {code})")


def _creative(row: Any, ask: Ask) -> Creative:
    """Read one row; one that cannot be read stays a row."""
    try:
        return _read(row)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        known = as_mapping(row)
        return Creative(
            str(known.get("page_id") or ask.advertiser_id),
            str(known.get("id") or ""),
            error=f"the source's row could not be read ({type(error).__name__})",
        )


def _read(row: Mapping[str, Any]) -> Creative:
    if not isinstance(row["id"], str):
        raise TypeError("ids are texts")
    start = date.fromisoformat(row["ad_delivery_start_time"][:10])
    stop = row.get("ad_delivery_stop_time")
    last = date.fromisoformat(stop[:10]) if stop else None
    return Creative(
        str(row["page_id"]),
        row["id"],
        preview_url=_without_token(row.get("ad_snapshot_url")),
        advertiser_name=row.get("page_name"),
        first_shown=_midnight(start),
        last_shown=None if last is None else _midnight(last),
        days_shown=None if last is None else (last - start).days + 1,
        political=bool(row.get("bylines")),
        details=_details(row),
    )


def _details(row: Mapping[str, Any]) -> dict[str, Any]:
    shown = as_mapping(row.get("impressions"))
    found = {
        "regions": _regions(row),
        "impressions_min": _number(shown.get("lower_bound")),
        "impressions_max": _number(shown.get("upper_bound")),
        "landing_domain": _first(row.get("ad_creative_link_captions")),
        "headline": _first(row.get("ad_creative_link_titles")),
        "description": _first(row.get("ad_creative_bodies"))
        or _first(row.get("ad_creative_link_descriptions")),
        "asset_urls": [],
    }
    return {name: value for name, value in found.items() if value is not None}


def _regions(row: Mapping[str, Any]) -> list[str]:
    """Return the countries of a European ad, else the parts of the country it was shown in."""
    reached = row.get("age_country_gender_reach_breakdown") or []
    places = [as_mapping(each).get("country") for each in reached]
    places += [as_mapping(each).get("region") for each in row.get("delivery_by_region") or []]
    return list(dict.fromkeys(place for place in places if isinstance(place, str)))


def _without_token(url: Any) -> str | None:
    if not isinstance(url, str):
        return None
    parts = urlsplit(url)
    query = [(name, value) for name, value in parse_qsl(parts.query) if name != "access_token"]
    return urlunsplit(parts._replace(query=urlencode(query)))


def _midnight(day: date) -> str:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).isoformat().replace("+00:00", "Z")


def _number(text: Any) -> int | None:
    return int(text) if str(text).isdecimal() else None


def _first(texts: Any) -> str | None:
    return texts[0] if isinstance(texts, list) and texts and isinstance(texts[0], str) else None
