"""Adapts Marginalia Search, an index of small sites with a public key that is often exhausted."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from webdata_nb.contract.local import Access
from webdata_nb.pacing.rate_limit import RateLimitPolicy
from webdata_nb.service.foreign_services import KEY_REFUSED
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
    with_parameters,
)

MAX_COUNT: Final = 100
PUBLIC_KEY: Final = "public"


class Marginalia(SearchApi):
    """Supports neither languages nor countries; results are under CC-BY-NC-SA 4.0."""

    name = "marginalia"
    url = "https://api2.marginalia-search.com/search"
    rate_limit = RateLimitPolicy(max_concurrent=1)

    def build_request(self, query: SearchQuery, number: int, access: Access) -> ProviderRequest:
        """Build a GET request."""
        address = with_parameters(
            access.url or self.url,
            query=query.text,
            count=min(MAX_COUNT, query.num_results),
            page=number,
            nsfw=1 if query.safe_search else 0,
        )
        return ProviderRequest(address, headers={"API-Key": api_key(access) or PUBLIC_KEY})

    def parse_page(self, query: SearchQuery, number: int, reply: ProviderReply) -> ResultPage:
        """Read the member `results`."""
        _ = query
        data = parse_json(reply)
        results = parse_results(
            member(data, "results"), url="url", title="title", snippet="description"
        )
        pages = member(data, "pages")
        return ResultPage(results, has_more=not isinstance(pages, int) or number < pages)

    def parse_problem(self, reply: ProviderReply) -> ProviderProblem | None:
        """Recognize an exhausted key (503) and a refused one (403)."""
        if reply.status == HTTPStatus.SERVICE_UNAVAILABLE:
            return ProviderProblem("rate_limited", "the key's limit is reached")
        if reply.status == HTTPStatus.FORBIDDEN:
            return ProviderProblem("auth", KEY_REFUSED)
        return None
