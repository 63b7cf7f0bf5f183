"""The search of a wiki: Wikipedia in the query's language, or any other MediaWiki."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from webdata_nb.contract.local import Access
from webdata_nb.pacing.rate_limit import RateLimitPolicy
from webdata_nb.service.search.providers.api import (
    ApiReply,
    ApiRequest,
    SearchApiDefaults,
    member,
    parse_json,
    plain_text,
    unexpected_shape,
    with_parameters,
)
from webdata_nb.service.search.providers.base import (
    ProviderProblem,
    QueryRefused,
    ResultPage,
    SearchQuery,
    SearchResult,
)

MAX_LIMIT: Final = 50
_RATE_LIMIT_CODES: Final = frozenset({"maxlag", "ratelimited", "readonly"})
# Faults of the wiki itself.
_SERVER_ERROR_CODES: Final = ("internal_api_error", "cirrussearch-backend-error", "search-error")
_MAXLAG_S: Final = 5


class Mediawiki(SearchApiDefaults):
    """No key; one request at a time, as the terms of Wikimedia ask; `{language}` is filled in."""

    name = "mediawiki"
    url = "https://{language}.wikipedia.org/w/api.php"
    rate_limit = RateLimitPolicy(max_concurrent=1)

    def exchange(self, query: SearchQuery, number: int, access: Access) -> ApiRequest:
        """See `Api.exchange`. With `siteinfo` the same answer says how pages are addressed."""
        size = _size(query)
        url = access.url or self.url
        return ApiRequest(
            with_parameters(
                # Letters only: the contract's rule for languages, and it becomes a host's name.
                url.replace("{language}", query.tongue),
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
            by_query="{language}" in url,
        )

    def page(self, query: SearchQuery, number: int, reply: ApiReply) -> ResultPage:
        """See `Api.page`."""
        _ = query, number
        told = parse_json(reply)
        if (code := member(told, "error", "code")) is not None:
            raise _error(str(code))
        general = member(told, "query", "general")
        listed = member(told, "query", "search")
        if not isinstance(listed, list) or not isinstance(general, dict):
            raise unexpected_shape()
        found = tuple(
            SearchResult(
                _address(general, row["title"]),
                plain_text(row["title"]),
                plain_text(row.get("snippet")),
            )
            for row in listed
            if isinstance(row, dict) and isinstance(row.get("title"), str)
        )
        return ResultPage(found, more=member(told, "continue") is not None)


def _error(code: str) -> ProviderProblem:
    if code in _RATE_LIMIT_CODES:
        return ProviderProblem("rate_limited", "it reported an error")
    if code.startswith(_SERVER_ERROR_CODES):
        return ProviderProblem("error", "it reported an error")
    # Its other codes name the parameter at fault: cirrussearch-query-too-long, badvalue and such.
    return QueryRefused("it reported an error in the query")


def _size(query: SearchQuery) -> int:
    return min(MAX_LIMIT, query.num_results)


def _address(general: dict[str, Any], title: str) -> str:
    server = str(general.get("server", ""))
    path = str(general.get("articlepath", "/wiki/$1"))
    whole = f"https:{server}" if server.startswith("//") else server
    return whole + path.replace("$1", quote(title.replace(" ", "_"), safe="/:@!$*(),;"))
