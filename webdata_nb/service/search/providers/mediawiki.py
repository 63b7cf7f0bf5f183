"""Adapts the search of MediaWiki: Wikipedia in the query's language, or any other wiki."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from webdata_nb.contract.local import Access
from webdata_nb.pacing.rate_limit import RateLimitPolicy
from webdata_nb.service.search.providers.api import (
    ProviderProblem,
    ProviderReply,
    ProviderRequest,
    QueryRefused,
    ResultPage,
    SearchApi,
    SearchQuery,
    SearchResult,
    member,
    parse_json,
    plain_text,
    unexpected_shape,
    with_parameters,
)

MAX_LIMIT: Final = 50
_RATE_LIMIT_CODES: Final = frozenset({"maxlag", "ratelimited", "readonly"})
# Errors of the wiki itself.
_SERVER_ERROR_CODES: Final = ("internal_api_error", "cirrussearch-backend-error", "search-error")
_MAXLAG_S: Final = 5


class Mediawiki(SearchApi):
    """Needs no key. Sends one request at a time, as the terms of Wikimedia require.

    `{language}` in the URL is replaced by the query's language.
    """

    name = "mediawiki"
    url = "https://{language}.wikipedia.org/w/api.php"
    rate_limit = RateLimitPolicy(max_concurrent=1)

    def build_request(self, query: SearchQuery, number: int, access: Access) -> ProviderRequest:
        """Build a GET request; `siteinfo` adds the URL format of the wiki's pages to the reply."""
        size = min(MAX_LIMIT, query.num_results)
        url = access.url or self.url
        return ProviderRequest(
            with_parameters(
                # The contract allows only letters, so the language is safe in a host name.
                url.replace("{language}", query.language_code),
                action="query",
                list="search",
                srsearch=query.text,
                srlimit=size,
                sroffset=(number - 1) * size,
                srprop="snippet",
                meta="siteinfo",
                siprop="general",
                maxlag=_MAXLAG_S,
                format="json",
                formatversion=2,
            ),
            host_from_query="{language}" in url,
        )

    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Read the member `query`, and turn titles into URLs."""
        _ = query, number
        data = parse_json(reply)
        if (code := member(data, "error", "code")) is not None:
            raise _problem_of_code(str(code))
        general = member(data, "query", "general")
        items = member(data, "query", "search")
        if not isinstance(items, list) or not isinstance(general, dict):
            raise unexpected_shape()
        results = tuple(
            SearchResult(
                _page_url(general, row["title"]),
                plain_text(row["title"]),
                plain_text(row.get("snippet")),
            )
            for row in items
            if isinstance(row, dict) and isinstance(row.get("title"), str)
        )
        return ResultPage(results, has_more=member(data, "continue") is not None)


def _problem_of_code(code: str) -> ProviderProblem:
    if code in _RATE_LIMIT_CODES:
        return ProviderProblem("rate_limited", "it reported an error")
    if code.startswith(_SERVER_ERROR_CODES):
        return ProviderProblem("error", "it reported an error")
    # Other codes name the invalid parameter, such as cirrussearch-query-too-long and badvalue.
    return QueryRefused("it reported an error in the query")


def _page_url(general: dict[str, Any], title: str) -> str:
    server = str(general.get("server", ""))
    path = str(general.get("articlepath", "/wiki/$1"))
    base = f"https:{server}" if server.startswith("//") else server
    return base + path.replace("$1", quote(title.replace(" ", "_"), safe="/:@!$*(),;"))
