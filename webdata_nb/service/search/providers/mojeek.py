"""The Mojeek API: an index of its own."""

from __future__ import annotations

from typing import Final

from webdata_nb.contract.local import Access
from webdata_nb.service.search.providers.api import (
    ApiReply,
    ApiRequest,
    SearchApiDefaults,
    api_key,
    member,
    parse_json,
    parse_results,
    unexpected_shape,
    with_parameters,
)
from webdata_nb.service.search.providers.base import (
    ProviderProblem,
    QueryRefused,
    ResultPage,
    SearchQuery,
)

# The page size that every plan has; a larger one may be cut, and then pages would skip results.
PAGE_SIZE: Final = 10
_BOOST: Final = 10


class Mojeek(SearchApiDefaults):
    """Language and country are preferences; it answers 200 for errors too, and says so inside."""

    name = "mojeek"
    url = "https://www.mojeek.com/search"
    needs_key = True

    def exchange(self, query: SearchQuery, number: int, access: Access) -> ApiRequest:
        """See `Api.exchange`. The key is a parameter of the URL."""
        return ApiRequest(
            with_parameters(
                access.url or self.url,
                api_key=api_key(access),
                q=query.text,
                fmt="json",
                t=PAGE_SIZE,
                s=(number - 1) * PAGE_SIZE + 1,
                lb=query.tongue.upper(),
                lbb=_BOOST,
                rb=query.country and query.country.upper(),
                rbb=_BOOST if query.country else None,
                safe=1 if query.safe_search else 0,
            )
        )

    def page(self, query: SearchQuery, number: int, reply: ApiReply) -> ResultPage:
        """See `Api.page`."""
        _ = query
        told = member(parse_json(reply), "response")
        status = str(member(told, "status") or "")
        if status != "OK":
            raise _refusal(status)
        found = parse_results(
            member(told, "results") or [], url="url", title="title", snippet="desc"
        )
        total = member(told, "head", "results")
        more = not isinstance(total, int) or number * PAGE_SIZE < total
        return ResultPage(found, more=more)


def _refusal(status: str) -> ProviderProblem:
    words = status.lower()
    if "limit" in words:
        return ProviderProblem("rate_limited", "the plan's limit is reached")
    if "key" in words or "ip" in words.split() or "denied" in words:
        return ProviderProblem("auth", "the key is not accepted")
    if "query" in words or "parameter" in words:
        return QueryRefused("it reported an error in the query")
    return ProviderProblem("error", "it reported an error") if status else unexpected_shape()
