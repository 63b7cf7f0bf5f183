"""The Google Ads Transparency Center, through the calls that its own pages make.

Not an official interface: its terms allow information and research, and it is asked once a second
at most. Field numbers are those of the service's own answers.
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

from webdata_nb.service.creatives.cursor import BadCursor
from webdata_nb.service.creatives.regions import of_google
from webdata_nb.service.creatives.source import Advertiser, Ask, Creative, Page
from webdata_nb.service.creatives.source_client import SourceClient, as_mapping, host_of
from webdata_nb.service.errors import BadInput, SourceError
from webdata_nb.service.web.fetch import FetchRequest

NAME: Final = "google_ads_transparency"
TERMS: Final = "https://adstransparency.google.com/terms"
HOME: Final = "https://adstransparency.google.com"
PACE_S: Final = 1.0
FILE_HOSTS: Final = (
    "tpc.googlesyndication.com",
    "s0.2mdn.net",
    "i.ytimg.com",
    "displayads-formats.googleusercontent.com",
)
FORMATS: Final = {1: "text", 2: "image", 3: "video"}

_ID: Final = re.compile(r"AR\d{1,30}")
_IMAGE: Final = re.compile(r"""<img\b[^>]*?\bsrc\s*=\s*["']([^"']+)""", re.IGNORECASE)
_ESCAPE: Final = re.compile(r"\\x([0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})")
_URL: Final = re.compile(r"""https?://[^\s"'<>\\)]+""")
_DOMAIN: Final = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Google:
    """See the module; `home` is another address for tests, and a file host with it."""

    client: SourceClient
    home: str = HOME
    name: str = NAME

    async def page(self, ask: Ask) -> Page:
        """See `Source.page`."""
        if not _ID.fullmatch(ask.advertiser_id):
            raise BadInput(
                "must be an advertiser id of the Transparency Center, such as "
                '"AR17828074650563772417"',
                loc=("body", "advertiser_id"),
            )
        body = await self._call("SearchService/SearchCreatives", _search(ask), cursor=ask.cursor)
        rows = body.get("1") or []
        if not isinstance(rows, list):
            raise SourceError(f"{NAME} answered in a form that is not known here")
        return Page(tuple(_creative(row, ask) for row in rows), _text(body.get("2")))

    async def detailed(self, creative: Creative) -> Creative:
        """See `Source.detailed`."""
        asked = {"1": creative.advertiser_id, "2": creative.creative_id, "5": {"1": 1}}
        body = await self._call("LookupService/GetCreativeById", asked)
        told = as_mapping(body.get("1"))
        if not told:
            raise SourceError("the source knows no details of this creative")
        return _with_details(creative, told)

    async def picture_url(self, creative: Creative) -> str | None:
        """See `Source.picture_url`; a preview in script is searched for the picture it shows."""
        urls = [creative.preview_url] if creative.preview_url else []
        urls += creative.details.get("asset_urls", [])
        for url in urls:
            if not _is_script(url):
                return url
        scripts = [url for url in urls if _is_script(url)]
        for url in scripts[:1]:
            text = (await self.file(url)).decode("utf-8", "replace")
            return next((found for found in urls_in(text) if self._is_picture(found)), None)
        return None

    async def file(self, url: str) -> bytes:
        """See `Source.file`."""
        if not self._allowed(url):
            raise SourceError(f"files are not taken from {host_of(url)}")
        return await replace(self.client, delay_s=0.0).file(url)

    async def advertisers(self, query: str, *, limit: int) -> list[Advertiser]:
        """See `Source.advertisers`."""
        if _DOMAIN.fullmatch(query):
            return (await self._of_domain(query.lower()))[:limit]
        asked = {"1": query, "2": limit, "3": limit}
        body = await self._call("SearchService/SearchSuggestions", asked)
        found = [_suggested(each) for each in body.get("1") or []]
        return [each for each in found if each is not None][:limit]

    async def _of_domain(self, domain: str) -> list[Advertiser]:
        """Return who advertises for a domain, most creatives first."""
        asked = {"2": 40, "3": {"12": {"1": domain, "2": True}}, "7": {"1": 1}}
        body = await self._call("SearchService/SearchCreatives", asked)
        seen: dict[str, list[str]] = {}
        for row in map(as_mapping, body.get("1") or []):
            if advertiser_id := _text(row.get("1")):
                seen.setdefault(advertiser_id, []).append(_text(row.get("12")) or "")
        ordered = sorted(seen.items(), key=lambda entry: -len(entry[1]))
        return [
            Advertiser(advertiser_id, names[0], domain=domain, ads_min=len(names))
            for advertiser_id, names in ordered
        ]

    async def _call(
        self, method: str, asked: Mapping[str, Any], *, cursor: str | None = None
    ) -> Mapping[str, Any]:
        form = urlencode({"f.req": orjson.dumps(asked).decode()}).encode()
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
        status, body = await self.client.json(request)
        if status == HTTPStatus.OK and isinstance(body, dict):
            return body
        if status == HTTPStatus.BAD_REQUEST and cursor is not None:
            raise BadCursor("the source does not accept its cursor any more")
        raise SourceError(f"{NAME} refused the request (status {status})")

    def _allowed(self, url: str) -> bool:
        parts = urlsplit(url)
        return host_of(url) in FILE_HOSTS or (
            self.home != HOME and parts.netloc == urlsplit(self.home).netloc
        )

    def _is_picture(self, url: str) -> bool:
        return self._allowed(url) and any(
            mark in url for mark in ("/simgad/", "ytimg.com/vi/", ".png", ".jpg", ".jpeg", ".gif")
        )


def _search(ask: Ask) -> dict[str, Any]:
    """Return the body of SearchCreatives."""
    where: dict[str, Any] = {"12": {"1": "", "2": True}, "13": {"1": [ask.advertiser_id]}}
    if ask.first_day is not None and ask.last_day is not None:
        where["6"] = int(ask.first_day.strftime("%Y%m%d"))
        where["7"] = int(ask.last_day.strftime("%Y%m%d"))
    if ask.region is not None:
        where["8"] = [ask.region.google]
    asked: dict[str, Any] = {"2": ask.limit, "3": where, "7": {"1": 1}}
    if ask.cursor is not None:
        asked["4"] = ask.cursor
    return asked


def _creative(row: Any, ask: Ask) -> Creative:
    """Read one row; one that cannot be read stays a row."""
    try:
        return _read(row)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        known = as_mapping(row)
        return Creative(
            _text(known.get("1")) or ask.advertiser_id,
            _text(known.get("2")) or "",
            error=f"the source's row could not be read ({type(error).__name__})",
        )


def _read(row: Mapping[str, Any]) -> Creative:
    advertiser_id, creative_id = row["1"], row["2"]
    if not isinstance(advertiser_id, str) or not isinstance(creative_id, str):
        raise TypeError("ids are texts")
    days = row.get("13")
    return Creative(
        advertiser_id,
        creative_id,
        preview_url=_preview(as_mapping(row.get("3"))),
        advertiser_name=_text(row.get("12")),
        format=FORMATS.get(row.get("4", 0)),
        first_shown=_moment(row.get("6")),
        last_shown=_moment(row.get("7")),
        days_shown=None if days is None else int(days),
        political=bool(row["15"]) if "15" in row else None,
        details=_listed_details(row),
    )


def _listed_details(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what only some listings tell: the domain, and how often political ads were shown."""
    found: dict[str, Any] = {}
    if domain := _text(row.get("14")):
        found["landing_domain"] = domain
    for field, name in (("8", "impressions_min"), ("9", "impressions_max")):
        if row.get(field) is not None:
            found[name] = int(row[field])
    return found


def _preview(content: Mapping[str, Any]) -> str | None:
    """Return the address of the picture, or of the script that shows it."""
    markup = _text(as_mapping(content.get("3")).get("2"))
    if markup and (image := _IMAGE.search(markup)):
        return html.unescape(image[1])
    return _text(as_mapping(content.get("1")).get("4"))


def _with_details(creative: Creative, told: Mapping[str, Any]) -> Creative:
    regions = [as_mapping(each) for each in told.get("17") or []]
    codes = [of_google(int(each["1"])) for each in regions if str(each.get("1", "")).isdecimal()]
    assets = [url for each in told.get("5") or [] if (url := _preview(as_mapping(each)))]
    found = {**creative.details, "regions": codes, "asset_urls": list(dict.fromkeys(assets))}
    name = _text(as_mapping(told.get("22")).get("1"))
    return replace(
        creative,
        advertiser_name=creative.advertiser_name or name,
        format=creative.format or FORMATS.get(told.get("8", 0)),
        details=found,
    )


def _moment(told: Any) -> str | None:
    if told is None:
        return None
    return datetime.fromtimestamp(int(told["1"]), UTC).isoformat().replace("+00:00", "Z")


def _suggested(entry: Any) -> Advertiser | None:
    told = as_mapping(as_mapping(entry).get("1"))
    name, advertiser_id = _text(told.get("1")), _text(told.get("2"))
    if not name or not advertiser_id:
        return None
    counts = as_mapping(as_mapping(told.get("4")).get("2"))
    return Advertiser(
        advertiser_id,
        name,
        region=_text(told.get("3")),
        ads_min=_count(counts.get("1")),
        ads_max=_count(counts.get("2")),
    )


def _count(value: Any) -> int | None:
    return int(value) if str(value).isdecimal() else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _is_script(url: str) -> bool:
    return urlsplit(url).path.endswith(".js")


def urls_in(script: str) -> Iterator[str]:
    """Yield the addresses in a script, escapes undone; the script itself is never run."""
    plain = _ESCAPE.sub(lambda code: chr(int(code[1] or code[2], 16)), script)
    yield from dict.fromkeys(html.unescape(url) for url in _URL.findall(plain.replace("\\/", "/")))
