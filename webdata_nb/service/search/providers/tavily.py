"""Tavily: search for programs, one page of at most 20 results."""

from __future__ import annotations

from typing import Final

from webdata_nb.contract.local import Access
from webdata_nb.service.search.providers.api import (
    ApiReply,
    ApiRequest,
    SearchApiDefaults,
    api_key,
    json_request,
    member,
    parse_json,
    parse_results,
)
from webdata_nb.service.search.providers.base import ProviderProblem, ResultPage, SearchQuery
from webdata_nb.service.search.providers.countries import NAMES

MAX_RESULTS: Final = 20
_PLAN_LIMITS: Final = frozenset({432, 433})


class Tavily(SearchApiDefaults):
    """It knows countries by name, and neither languages nor safe search."""

    name = "tavily"
    url = "https://api.tavily.com/search"
    needs_key = True

    def exchange(self, query: SearchQuery, number: int, access: Access) -> ApiRequest | None:
        """See `Api.exchange`."""
        if number > 1:
            return None
        body = {
            "query": query.text,
            "max_results": min(MAX_RESULTS, query.num_results),
            "search_depth": "basic",
            "topic": "general",
            "country": NAMES.get(query.country or ""),
        }
        return json_request(
            access.url or self.url, body, {"Authorization": f"Bearer {api_key(access)}"}
        )

    def page(self, query: SearchQuery, number: int, reply: ApiReply) -> ResultPage:
        """See `Api.page`."""
        _ = query, number
        listed = member(parse_json(reply), "results")
        return ResultPage(
            parse_results(listed, url="url", title="title", snippet="content"), more=False
        )

    def problem(self, reply: ApiReply) -> ProviderProblem | None:
        """See `Api.problem`: 432 and 433 are the plan's and the pay-as-you-go limit."""
        if reply.status in _PLAN_LIMITS:
            return ProviderProblem("rate_limited", f"HTTP {reply.status}: the plan is used up")
        return None
