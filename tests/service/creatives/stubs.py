"""Serves stubs of Google's and Meta's ad services on loopback."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

from tests.site.server import Site

TOKEN: Final = "EAAB-secret-token"
RPC: Final = "/anji/_/rpc/"
SEARCH: Final = f"{RPC}SearchService/SearchCreatives?authuser="
LOOKUP: Final = f"{RPC}LookupService/GetCreativeById?authuser="
SUGGEST: Final = f"{RPC}SearchService/SearchSuggestions?authuser="
DAY: Final = 86_400
START: Final = 1_751_328_000  # 1 July 2025

Fault = Callable[[int], web.Response | None]


def no_fault(_request: int) -> None:
    return None


def google_id(number: int) -> str:
    return f"CR{number:020d}"


class GoogleStub:
    """The RPC methods of the Transparency Center, with `count` creatives of one advertiser.

    `fault` may return another reply for a search, given its number from 1. `edit_reply` may change
    the body of a reply before it is sent.
    """

    advertiser: Final = "AR17828074650563772417"

    def __init__(self, site: Site, count: int = 25) -> None:
        self._site = site
        self.rows = [self._row(number) for number in range(count)]
        self.fault: Fault = no_fault
        self.edit_reply: Callable[[int, dict[str, Any]], dict[str, Any]] = lambda _number, body: (
            body
        )
        self.searches: list[dict[str, Any]] = []
        site.page(SEARCH, self._search)
        site.page(LOOKUP, self._details)
        site.page(SUGGEST, self._suggest)

    @property
    def home(self) -> str:
        return self._site.url.rstrip("/")

    def _row(self, number: int) -> dict[str, Any]:
        image = self._site.at(f"/simgad/{number}.png")
        content: dict[str, Any] = {
            "3": {"2": f'<img src="{image}?a=1&amp;b=2" height="209" width="348">'}
        }
        if number % 10 == 9:
            content = {"1": {"4": self._site.at(f"/content-{number}.js")}}
        return {
            "1": self.advertiser,
            "2": google_id(number),
            "3": content,
            "4": 1 + number % 3,
            "6": {"1": str(START + number * DAY)},
            "7": {"1": str(START + (number + 40) * DAY)},
            "12": "Fulmar Instruments AS",
            "13": 30 + number % 11,
        }

    def _params(self, path: str) -> dict[str, Any]:
        hit = self._site.hits(path)[-1]
        assert hit.headers["X-Same-Domain"] == "1"
        assert hit.headers["Content-Type"] == "application/x-www-form-urlencoded"
        params: dict[str, Any] = json.loads(parse_qs(hit.body.decode())["f.req"][0])
        return params

    def _search(self, _request: web.BaseRequest) -> web.StreamResponse:
        params = self._params(SEARCH)
        self.searches.append(params)
        faulty_reply = self.fault(len(self.searches))
        if faulty_reply is not None:
            return faulty_reply
        if params.get("7") != {"1": 1}:
            return web.json_response({})
        start = 0
        if "4" in params:
            text = base64.b64decode(params["4"]).decode()
            if not text.startswith("at:"):
                return web.json_response(
                    {"2": "com.google.BadRequestException", "5": 400}, status=400
                )
            start = int(text[3:])
        end = start + params["2"]
        body: dict[str, Any] = {"1": self.rows[start:end], "4": "100", "5": "200"}
        if end < len(self.rows):
            body["2"] = cursor_to(end)
        return web.json_response(self.edit_reply(len(self.searches), body))

    def _details(self, _request: web.BaseRequest) -> web.StreamResponse:
        params = self._params(LOOKUP)
        row = next((row for row in self.rows if row["2"] == params["2"]), None)
        if row is None:
            return web.json_response({})
        fields = {
            "1": params["1"],
            "2": params["2"],
            "5": [row["3"], row["3"]],
            "8": row["4"],
            "17": [{"1": 2578, "5": "20251101"}, {"1": 20340}, {"1": 999999}],
            "22": {"1": row["12"]},
        }
        return web.json_response({"1": fields})

    def _suggest(self, _request: web.BaseRequest) -> web.StreamResponse:
        counts = {"2": {"1": "100", "2": "200"}}
        names = ("Fulmar Instruments AS", "Fulmar Ferries P/F")
        suggestions: list[dict[str, Any]] = [
            {"1": {"1": name, "2": f"AR{number:020d}", "3": "NO", "4": counts}}
            for number, name in enumerate(names, start=1)
        ]
        return web.json_response({"1": [*suggestions, {"2": {"1": "fulmar.example"}}]})


def cursor_to(start: int) -> str:
    return base64.b64encode(f"at:{start}".encode()).decode()


class MetaStub:
    """The Ad Library API over `count` ads of one page."""

    advertiser: Final = "20531316728"

    def __init__(self, site: Site, count: int = 25) -> None:
        self._site = site
        self.rows = [self._row(number) for number in range(count)]
        self.fault: Fault = no_fault
        self.searches: list[dict[str, str]] = []
        site.page("/v23.0/ads_archive", self._archive)

    @property
    def home(self) -> str:
        return self._site.at("/v23.0")

    def _row(self, number: int) -> dict[str, Any]:
        return {
            "id": f"{10_000 + number}",
            "page_id": self.advertiser,
            "page_name": "Fulmar Ferries",
            "ad_snapshot_url": (
                f"https://www.facebook.com/ads/archive/render_ad/?id={number}&access_token={TOKEN}"
            ),
            "ad_creative_bodies": [f"Crossing number {number}, whatever the weather."],
            "ad_creative_link_titles": ["Night boat"],
            "ad_creative_link_captions": ["fulmar-ferries.example"],
            "ad_delivery_start_time": "2026-01-05",
            **({"ad_delivery_stop_time": "2026-01-14"} if number % 2 else {}),
            "impressions": {"lower_bound": "1000", "upper_bound": "1999"},
            "age_country_gender_reach_breakdown": [{"country": "FO"}, {"country": "DK"}],
        }

    def _archive(self, request: web.BaseRequest) -> web.StreamResponse:
        query = {k: v[0] for k, v in parse_qs(urlsplit(str(request.rel_url)).query).items()}
        self.searches.append(query)
        faulty_reply = self.fault(len(self.searches))
        if faulty_reply is not None:
            return faulty_reply
        assert "access_token" not in query
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return meta_error(190, "Invalid OAuth access token.")
        selectors = {"search_page_ids", "search_terms"} & {*query}
        if "ad_reached_countries" not in query or not selectors:
            return meta_error(100, "Missing parameter")
        start = 0
        if "after" in query:
            if not query["after"].startswith("at"):
                return meta_error(100, "Invalid cursor")
            start = int(query["after"][2:])
        end = start + int(query["limit"])
        body: dict[str, Any] = {
            "data": self.rows[start:end],
            "paging": {"cursors": {"after": f"at{min(end, len(self.rows))}"}},
        }
        if end < len(self.rows):
            following = f"{self.home}/ads_archive?after=at{end}&access_token={TOKEN}"
            body["paging"]["next"] = following
        return web.json_response(body)


def meta_error(code: int, message: str) -> web.Response:
    error = {"message": message, "type": "OAuthException", "code": code, "fbtrace_id": "A1"}
    return web.json_response({"error": error}, status=400)
