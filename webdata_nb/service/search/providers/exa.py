"""Adapts Exa, a semantic search with one page of at most 100 results."""

from __future__ import annotations

from typing import Final

from webdata_nb.contract.local import Access
from webdata_nb.service.search.providers.api import (
    ProviderReply,
    ProviderRequest,
    ResultPage,
    SearchApi,
    SearchQuery,
    api_key,
    json_request,
    member,
    parse_json,
    parse_results,
)

MAX_RESULTS: Final = 100
_SNIPPET_CHARACTERS: Final = 300


class Exa(SearchApi):
    """Supports country and moderation, but no languages."""

    name = "exa"
    url = "https://api.exa.ai/search"
    needs_key = True

    def build_request(
        self, query: SearchQuery, number: int, access: Access
    ) -> ProviderRequest | None:
        """Build a POST request for the only page."""
        if number > 1:
            return None
        body = {
            "query": query.text,
            "numResults": min(MAX_RESULTS, query.num_results),
            "userLocation": query.country and query.country.upper(),
            "moderation": query.safe_search,
            "contents": {"text": {"maxCharacters": _SNIPPET_CHARACTERS}},
        }
        return json_request(access.url or self.url, body, {"x-api-key": api_key(access)})

    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Read the member `results`."""
        _ = query, number
        items = member(parse_json(reply), "results")
        return ResultPage(
            parse_results(items, url="url", title="title", snippet="text"), has_more=False
        )
