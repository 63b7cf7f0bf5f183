"""Queries the Google Ads Transparency Center through the RPC methods of its web pages.

This is not an official API: its terms allow information and research, and requests are at least
one second apart. The numbered JSON fields are those of the service.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

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
    alpha_2_of_google_id,
    as_mapping,
    host_of,
    parse_count,
    parse_list,
    read_creative,
)
from webdata_nb.service.errors import SourceError, SourceRefused
from webdata_nb.service.web.fetch import FetchRequest

NAME: Final = "google_ads_transparency"
TERMS: Final = "https://adstransparency.google.com/terms"
HOME: Final = "https://adstransparency.google.com"
MIN_DELAY_S: Final = 1.0
FILE_HOSTS: Final = (
    "tpc.googlesyndication.com",
    "s0.2mdn.net",
    "i.ytimg.com",
    "displayads-formats.googleusercontent.com",
)
FORMATS: Final = {1: "text", 2: "image", 3: "video"}

_ADVERTISER_ID: Final = re.compile(r"AR\d{1,30}")
_IMAGE: Final = re.compile(r"""<img\b[^>]*?\bsrc\s*=\s*["']([^"']+)""", re.IGNORECASE)
_ESCAPE: Final = re.compile(r"\\x([0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})")
_URL: Final = re.compile(r"""https?://[^\s"'<>\\)]+""")
_DOMAIN: Final = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GoogleTransparencyCenter:
    """The Transparency Center at `home`; another host than Google's also serves its files."""

    client: SourceClient
    home: str = HOME
    name: str = NAME

    async def list_page(self, query: CreativesQuery) -> CreativesPage:
        if not _ADVERTISER_ID.fullmatch(query.advertiser_id):
            raise BadInput(
                "must be an advertiser id of the Transparency Center, such as "
                '"AR17828074650563772417"',
                loc=("body", "advertiser_id"),
            )
        filters: dict[str, Any] = {"12": {"1": "", "2": True}, "13": {"1": [query.advertiser_id]}}
        if query.first_day is not None and query.last_day is not None:
            filters["6"] = int(query.first_day.strftime("%Y%m%d"))
            filters["7"] = int(query.last_day.strftime("%Y%m%d"))
        if query.region is not None:
            filters["8"] = [query.region.google_id]
        params: dict[str, Any] = {"2": query.limit, "3": filters, "7": {"1": 1}}
        if query.cursor is not None:
            params["4"] = query.cursor
        body = await self._call("SearchService/SearchCreatives", params, cursor=query.cursor)
        rows = parse_list(body.get("1"), NAME)
        return CreativesPage(tuple(_creative(row, query) for row in rows), _text(body.get("2")))

    async def with_details(self, creative: AdCreative) -> AdCreative:
        params = {"1": creative.advertiser_id, "2": creative.creative_id, "5": {"1": 1}}
        body = await self._call("LookupService/GetCreativeById", params)
        fields = as_mapping(body.get("1"))
        if not fields:
            raise SourceError("the source has no details of this creative")
        regions, assets = (parse_list(fields.get(name), NAME) for name in ("17", "5"))
        region_ids = (parse_count(as_mapping(region).get("1")) for region in regions)
        countries = [alpha_2_of_google_id(number) for number in region_ids if number]
        asset_urls = [_preview_url(as_mapping(asset)) for asset in assets]
        return replace(
            creative,
            advertiser_name=creative.advertiser_name
            or _text(as_mapping(fields.get("22")).get("1")),
            format=creative.format or FORMATS.get(parse_count(fields.get("8")) or 0),
            details={
                **creative.details,
                "regions": countries,
                "asset_urls": list(dict.fromkeys(filter(None, asset_urls))),
            },
        )

    async def picture_url(self, creative: AdCreative) -> str | None:
        """Return the URL of a picture, which a preview script may contain."""
        urls = [creative.preview_url] if creative.preview_url else []
        urls += creative.details.get("asset_urls", [])
        for url in urls:
            if not urlsplit(url).path.endswith(".js"):
                return url
        if not urls:
            return None
        script = (await self.download(urls[0])).decode("utf-8", "replace")
        return next((url for url in urls_in(script) if self._is_picture(url)), None)

    async def download(self, url: str) -> bytes:
        if not self._is_file_host(url):
            raise SourceError(f"files are not taken from {host_of(url)}")
        return await replace(self.client, delay_s=0.0).download(url)

    async def find_advertisers(self, name_or_domain: str, *, limit: int) -> list[Advertiser]:
        if _DOMAIN.fullmatch(name_or_domain):
            return (await self._advertisers_of_domain(name_or_domain.lower()))[:limit]
        params = {"1": name_or_domain, "2": limit, "3": limit}
        body = await self._call("SearchService/SearchSuggestions", params)
        advertisers: list[Advertiser] = []
        for suggestion in parse_list(body.get("1"), NAME):
            fields = as_mapping(as_mapping(suggestion).get("1"))
            name, advertiser_id = _text(fields.get("1")), _text(fields.get("2"))
            if not name or not advertiser_id:
                continue
            counts = as_mapping(as_mapping(fields.get("4")).get("2"))
            advertisers.append(
                Advertiser(
                    advertiser_id,
                    name,
                    region=_text(fields.get("3")),
                    ads_min=parse_count(counts.get("1")),
                    ads_max=parse_count(counts.get("2")),
                )
            )
        return advertisers[:limit]

    async def _advertisers_of_domain(self, domain: str) -> list[Advertiser]:
        """Return the advertisers of a domain, most creatives first."""
        params = {"2": 40, "3": {"12": {"1": domain, "2": True}}, "7": {"1": 1}}
        body = await self._call("SearchService/SearchCreatives", params)
        rows = map(as_mapping, parse_list(body.get("1"), NAME))
        ads = [(_text(row.get("1")) or "", _text(row.get("12")) or "") for row in rows]
        return advertisers_of_ads(ads, domain=domain)

    async def _call(
        self, method: str, params: Mapping[str, Any], *, cursor: str | None = None
    ) -> Mapping[str, Any]:
        form = urlencode({"f.req": orjson.dumps(params).decode()}).encode()
        request = FetchRequest(
            f"{self.home}/anji/_/rpc/{method}?authuser=",
            headers={
                "Content-Type": "application/x-www-form-urlencoded",
                "X-Same-Domain": "1",
                "Origin": self.home,
                "Referer": f"{self.home}/",
            },
            accept="application/json",
            method="POST",
            body=form,
        )
        try:
            body = await self.client.fetch_json(request)
        except SourceRefused as refusal:
            if refusal.status == HTTPStatus.BAD_REQUEST and cursor is not None:
                raise BadCursor("the source no longer accepts its cursor") from None
            raise
        if not isinstance(body, dict):
            raise SourceError(f"{NAME} replied in an unknown format")
        return body

    def _is_file_host(self, url: str) -> bool:
        return host_of(url) in FILE_HOSTS or (
            self.home != HOME and urlsplit(url).netloc == urlsplit(self.home).netloc
        )

    def _is_picture(self, url: str) -> bool:
        return self._is_file_host(url) and any(
            mark in url for mark in ("/simgad/", "ytimg.com/vi/", ".png", ".jpg", ".jpeg", ".gif")
        )


def _creative(row: Any, query: CreativesQuery) -> AdCreative:
    fields = as_mapping(row)
    ids = _text(fields.get("1")) or query.advertiser_id, _text(fields.get("2")) or ""
    return read_creative(row, _parse_row, AdCreative(*ids))


def _parse_row(row: Mapping[str, Any]) -> AdCreative:
    advertiser_id, creative_id = row["1"], row["2"]
    if not isinstance(advertiser_id, str) or not isinstance(creative_id, str):
        raise TypeError("ids must be strings")
    days = row.get("13")
    # Most rows have only one of domain and impressions, or neither.
    details: dict[str, Any] = {}
    if domain := _text(row.get("14")):
        details["landing_domain"] = domain
    for field, name in (("8", "impressions_min"), ("9", "impressions_max")):
        if row.get(field) is not None:
            details[name] = int(row[field])
    return AdCreative(
        advertiser_id,
        creative_id,
        preview_url=_preview_url(as_mapping(row.get("3"))),
        advertiser_name=_text(row.get("12")),
        format=FORMATS.get(row.get("4", 0)),
        first_shown=_iso_time(row.get("6")),
        last_shown=_iso_time(row.get("7")),
        days_shown=None if days is None else int(days),
        political=bool(row["15"]) if "15" in row else None,
        details=details,
    )


def _preview_url(content: Mapping[str, Any]) -> str | None:
    """Return the URL of the picture, or of the script that shows it."""
    markup = _text(as_mapping(content.get("3")).get("2"))
    if markup and (image := _IMAGE.search(markup)):
        return _parsable(html.unescape(image[1]))
    return _parsable(_text(as_mapping(content.get("1")).get("4")))


def _iso_time(timestamp: Any) -> str | None:
    if timestamp is None:
        return None
    return datetime.fromtimestamp(int(timestamp["1"]), UTC).isoformat().replace("+00:00", "Z")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def urls_in(script: str) -> Iterator[str]:
    """Yield the URLs in a script with their escapes decoded; the script is not executed."""
    decoded = _ESCAPE.sub(lambda code: chr(int(code[1] or code[2], 16)), script)
    urls = _URL.findall(decoded.replace("\\/", "/"))
    yield from dict.fromkeys(filter(_parsable, map(html.unescape, urls)))


def _parsable(url: str | None) -> str | None:
    """Return a URL; None for one without any part, or that cannot be split into its parts."""
    try:
        return url if url and urlsplit(url).geturl() else None
    except ValueError:
        return None
