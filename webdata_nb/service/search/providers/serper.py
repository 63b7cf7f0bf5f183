"""Adapts Serper, an API for Google's results."""

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

MAX_NUM: Final = 100
_MIN_NUM: Final = 10


class Serper(SearchApi):
    """Returns up to 100 results a page; it documents no parameter for safe search."""

    name = "serper"
    url = "https://google.serper.dev/search"
    needs_key = True

    def build_request(self, query: SearchQuery, number: int, access: Access) -> ProviderRequest:
        """Build a POST request."""
        body = {
            "q": query.text,
            "num": max(_MIN_NUM, min(MAX_NUM, query.num_results)),
            "page": number,
            "hl": query.language.lower(),
            "gl": query.country,
        }
        return json_request(access.url or self.url, body, {"X-API-KEY": api_key(access)})

    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Read the organic results; advertisements and boxes are separate lists."""
        _ = query, number
        return ResultPage(
            parse_results(
                member(parse_json(reply), "organic"), url="link", title="title", snippet="snippet"
            )
        )
