"""Searches the pages that the account has crawled: needs no key and no network."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.search.providers.api import (
    ProviderProblem,
    ResultPage,
    SearchQuery,
    SearchResult,
)
from webdata_nb.service.store.indexing import Indexer
from webdata_nb.service.store.records import TextMatch
from webdata_nb.service.store.sql.text_index import TextIndex

log = logging.getLogger(__name__)

# URLs that differ in `www.` or a trailing slash are several documents, but one result.
MAX_COPIES: Final = 4
UNREACHABLE: Final = "[site unreachable at its last visit]"
"""Begins the snippet of a page whose site could not be reached when it was last visited."""


class LocalProvider:
    """Full-text search (BM25) over the stored pages of the account."""

    name = "local"
    identity = "local"

    def __init__(self, index: TextIndex, indexer: Indexer) -> None:
        self._index, self._indexer = index, indexer

    async def fetch_page(self, query: SearchQuery, number: int) -> ResultPage:
        """Return all results on the first page."""
        if number > 1:
            return ResultPage((), has_more=False)
        try:
            hits = await self._find(query)
        except StoreUnavailable as error:
            raise ProviderProblem("error", str(error)) from None
        results = []
        for hit in hits:
            words = hit.snippet.split()
            if hit.unreachable:
                words.insert(0, UNREACHABLE)
            results.append(SearchResult(hit.url, hit.title, " ".join(words)))
        return ResultPage(tuple(results), has_more=False)

    async def _find(self, query: SearchQuery) -> list[TextMatch]:
        try:
            await self._indexer.catch_up(query.account_id)
            return await self._match(query)
        except StoreUnavailable as error:
            log.warning("local search: %s", error)
        # A damaged index was emptied, and is filled again. On a full disk, it is searched as it is.
        with suppress(StoreUnavailable):
            await self._indexer.catch_up(query.account_id)
        return await self._match(query)

    async def _match(self, query: SearchQuery) -> list[TextMatch]:
        return await self._index.find(
            query.account_id, query.text, limit=query.num_results * MAX_COPIES
        )
