"""Serper: Google's results by an API."""

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
from webdata_nb.service.search.providers.base import Page, Query

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

    def page(self, query: Query, number: int, reply: Reply) -> Page:
        """See `Api.page`. `organic` alone: advertisements and boxes are lists of their own."""
        _ = query, number
        return Page(
            rows(member(document(reply), "organic"), url="link", title="title", snippet="snippet")
        )
