"""Tavily: search for programs, one page of at most 20 results."""

from __future__ import annotations

from typing import Final

from webdata_nb.contract.local import Access
from webdata_nb.service.search.providers.api import (
    Defaults,
    Exchange,
    Reply,
    as_json,
    document,
    key_of,
    member,
    rows,
)
from webdata_nb.service.search.providers.base import Page, ProviderProblem, Query
from webdata_nb.service.search.providers.countries import NAMES

MOST: Final = 20
_PLAN_LIMITS: Final = frozenset({432, 433})


class Tavily(Defaults):
    """It knows countries by name, and neither languages nor safe search."""

    name = "tavily"
    url = "https://api.tavily.com/search"
    needs_key = True

    def exchange(self, query: Query, number: int, access: Access) -> Exchange | None:
        """See `Api.exchange`."""
        if number > 1:
            return None
        body = {
            "query": query.text,
            "max_results": min(MOST, query.num_results),
            "search_depth": "basic",
            "topic": "general",
            "country": NAMES.get(query.country or ""),
        }
        return as_json(access.url or self.url, body, {"Authorization": f"Bearer {key_of(access)}"})

    def page(self, query: Query, number: int, reply: Reply) -> Page:
        """See `Api.page`."""
        _ = query, number
        listed = member(document(reply), "results")
        return Page(rows(listed, url="url", title="title", snippet="content"), more=False)

    def problem(self, reply: Reply) -> ProviderProblem | None:
        """See `Api.problem`: 432 and 433 are the plan's and the pay-as-you-go limit."""
        if reply.status in _PLAN_LIMITS:
            return ProviderProblem("rate_limited", f"HTTP {reply.status}: the plan is used up")
        return None
