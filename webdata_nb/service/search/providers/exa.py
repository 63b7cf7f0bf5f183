"""Exa: search by meaning, one page of at most 100 results."""

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
_SNIPPET_CHARACTERS: Final = 300


class Exa(Defaults):
    """It knows the user's country and moderation, and no languages."""

    name = "exa"
    url = "https://api.exa.ai/search"
    needs_key = True

    def exchange(self, query: Query, number: int, access: Access) -> Exchange | None:
        """See `Api.exchange`."""
        if number > 1:
            return None
        body = {
            "query": query.text,
            "numResults": min(MOST, query.num_results),
            "userLocation": query.country and query.country.upper(),
            "moderation": query.safe_search,
            "contents": {"text": {"maxCharacters": _SNIPPET_CHARACTERS}},
        }
        return as_json(access.url or self.url, body, {"x-api-key": key_of(access)})

    def page(self, query: Query, number: int, reply: Reply) -> Page:
        """See `Api.page`."""
        _ = query, number
        listed = member(document(reply), "results")
        return Page(rows(listed, url="url", title="title", snippet="text"), more=False)
