"""Adapts the Brave Search API, which has an index of its own."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from webdata_nb.contract.local import Access
from webdata_nb.pacing.rate_limit import RateLimitPolicy
from webdata_nb.service.foreign_services import RATE_LIMITED
from webdata_nb.service.search.providers.api import (
    ProviderProblem,
    ProviderReply,
    ProviderRequest,
    ResultPage,
    SearchApi,
    SearchQuery,
    api_key,
    member,
    parse_json,
    parse_results,
    unexpected_shape,
    with_parameters,
)

MAX_COUNT: Final = 20
MAX_OFFSET: Final = 9
_COUNTRIES: Final = """
AR AU AT BE BR CA CL CN DK FI FR DE HK IN ID IT JP KR MY MX NL NZ NO PH PL PT RU SA ZA ES SE CH TW
TR GB US
"""
# Brave's language codes where they differ from the ISO codes.
_LANGUAGES: Final = {
    "ja": "jp",
    "zh": "zh-hans",
    "zh-cn": "zh-hans",
    "zh-sg": "zh-hans",
    "zh-tw": "zh-hant",
    "zh-hk": "zh-hant",
    "zh-hans": "zh-hans",
    "zh-hant": "zh-hant",
    "pt": "pt-pt",
    "pt-br": "pt-br",
    "pt-pt": "pt-pt",
    "en-gb": "en-gb",
}


class Brave(SearchApi):
    """Up to 20 results a page, ten pages; one request a second on the free plan."""

    name = "brave"
    url = "https://api.search.brave.com/res/v1/web/search"
    needs_key = True
    # Until a reply names the rate of the plan.
    rate_limit = RateLimitPolicy(interval_s=1.0)

    def build_request(
        self, query: SearchQuery, number: int, access: Access
    ) -> ProviderRequest | None:
        """Build a GET request; `offset` counts pages, not results."""
        if number - 1 > MAX_OFFSET:
            return None
        country = (query.country or "").upper()
        language = query.language.lower()
        address = with_parameters(
            access.url or self.url,
            q=query.text,
            count=min(MAX_COUNT, query.num_results),
            offset=number - 1,
            search_lang=_LANGUAGES.get(
                language, _LANGUAGES.get(query.language_code, query.language_code)
            ),
            country=country if country in _COUNTRIES.split() else "ALL",
            safesearch="strict" if query.safe_search else "off",
            result_filter="web",
            text_decorations="false",
        )
        return ProviderRequest(address, headers={"X-Subscription-Token": api_key(access)})

    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Read the web results; a reply without results has no member `web`."""
        _ = query
        data = parse_json(reply)
        if not isinstance(data, dict) or data.get("type") != "search":
            raise unexpected_shape()
        items = member(data, "web", "results")
        results = parse_results(
            [] if items is None else items, url="url", title="title", snippet="description"
        )
        has_more = member(data, "query", "more_results_available") is not False
        return ResultPage(results, has_more=has_more and number - 1 < MAX_OFFSET)

    def parse_problem(self, reply: ProviderReply) -> ProviderProblem | None:
        """Recognize an exhausted plan by its headers."""
        if reply.status != HTTPStatus.TOO_MANY_REQUESTS:
            return None
        remaining_requests = _numbers(reply, "x-ratelimit-remaining")
        resets = _numbers(reply, "x-ratelimit-reset")
        exhausted = [
            reset
            for remaining, reset in zip(remaining_requests, resets, strict=False)
            if remaining <= 0
        ]
        return ProviderProblem(
            "rate_limited", RATE_LIMITED, retry_after_s=max(exhausted) if exhausted else None
        )

    def parse_interval_s(self, reply: ProviderReply) -> float | None:
        """Read the rate limit of the plan; the first of the list is per second."""
        limits = _numbers(reply, "x-ratelimit-limit")
        return 1 / limits[0] if limits and limits[0] > 0 else None


def _numbers(reply: ProviderReply, name: str) -> list[float]:
    """Read a header with one number for each time window, the shortest first."""
    try:
        return [float(part) for part in reply.headers.get(name, "").split(",") if part.strip()]
    except ValueError:
        return []
