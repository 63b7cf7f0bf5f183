"""Adapts the Mojeek API, which has an index of its own."""

from __future__ import annotations

from typing import Final

from webdata_nb.contract.local import Access
from webdata_nb.service.foreign_services import KEY_REFUSED
from webdata_nb.service.search.providers.api import (
    ProviderProblem,
    ProviderReply,
    ProviderRequest,
    QueryRefused,
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

# All plans have this page size. A larger one may be cut, so that pages would skip results.
PAGE_SIZE: Final = 10
_PREFERENCE_BOOST: Final = 10


class Mojeek(SearchApi):
    """Language and country are preferences. Errors have HTTP status 200."""

    name = "mojeek"
    url = "https://www.mojeek.com/search"
    needs_key = True

    def build_request(self, query: SearchQuery, number: int, access: Access) -> ProviderRequest:
        """Build a GET request; the key is a parameter of the URL."""
        return ProviderRequest(
            with_parameters(
                access.url or self.url,
                api_key=api_key(access),
                q=query.text,
                fmt="json",
                t=PAGE_SIZE,
                s=(number - 1) * PAGE_SIZE + 1,
                lb=query.language_code.upper(),
                lbb=_PREFERENCE_BOOST,
                rb=query.country and query.country.upper(),
                rbb=_PREFERENCE_BOOST if query.country else None,
                safe=1 if query.safe_search else 0,
            )
        )

    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Read the member `response`. Raises `ProviderProblem` for a status other than OK."""
        _ = query
        data = member(parse_json(reply), "response")
        status = str(member(data, "status") or "")
        if status != "OK":
            raise _problem_of_status(status)
        results = parse_results(
            member(data, "results") or [], url="url", title="title", snippet="desc"
        )
        total = member(data, "head", "results")
        has_more = not isinstance(total, int) or number * PAGE_SIZE < total
        return ResultPage(results, has_more=has_more)


def _problem_of_status(status: str) -> ProviderProblem:
    words = status.lower()
    if "limit" in words:
        return ProviderProblem("rate_limited", "the plan's limit is reached")
    if "key" in words or "ip" in words.split() or "denied" in words:
        return ProviderProblem("auth", KEY_REFUSED)
    if "query" in words or "parameter" in words:
        return QueryRefused("it reported an error in the query")
    return ProviderProblem("error", "it reported an error") if status else unexpected_shape()
