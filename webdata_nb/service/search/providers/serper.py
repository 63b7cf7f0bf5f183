"""Serper: Google's results by an API."""

from __future__ import annotations

from http import HTTPStatus
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

MOST: Final = 100
_LEAST: Final = 10


class Serper(Defaults):
    """Up to 100 results a page; it documents no filter for safe search, so none is sent."""

    name = "serper"
    url = "https://google.serper.dev/search"
    needs_key = True

    def exchange(self, query: Query, number: int, access: Access) -> Exchange:
        """See `Api.exchange`."""
        body = {
            "q": query.text,
            "num": max(_LEAST, min(MOST, query.num_results)),
            "page": number,
            "hl": query.language.lower(),
            "gl": query.country,
        }
        return as_json(access.url or self.url, body, {"X-API-KEY": key_of(access)})

    def problem(self, reply: Reply) -> ProviderProblem | None:
        """See `Api.problem`: a spent plan is a 400 as well."""
        if reply.status == HTTPStatus.BAD_REQUEST and b"credits" in reply.body.lower():
            return ProviderProblem("rate_limited", "HTTP 400: the plan is used up")
        return None

    def page(self, query: Query, number: int, reply: Reply) -> Page:
        """See `Api.page`. `organic` alone: advertisements and boxes are lists of their own."""
        _ = query, number
        return Page(
            rows(member(document(reply), "organic"), url="link", title="title", snippet="snippet")
        )
