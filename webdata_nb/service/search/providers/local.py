"""The caller's own crawled pages as a search engine: no key, no network."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.search.providers.base import (
    ProviderProblem,
    ResultPage,
    SearchQuery,
    SearchResult,
)
from webdata_nb.service.store.indexing import Indexer
from webdata_nb.service.store.interface import TextIndex
from webdata_nb.service.store.records import TextMatch

log = logging.getLogger(__name__)

# One URL crawled by several jobs is several documents and one result.
MAX_COPIES: Final = 8


class LocalProvider:
    """Full-text search (bm25) over the pages that the account has crawled and still keeps."""

    name = "local"
    identity = "local"

    def __init__(self, index: TextIndex, indexer: Indexer) -> None:
        self._index, self._indexer = index, indexer

    async def page(self, query: SearchQuery, number: int) -> ResultPage:
        """See `Provider.page`; all results are on the first page."""
        if number > 1:
            return ResultPage((), more=False)
        try:
            hits = await self._find(query)
        except StoreUnavailable as trouble:
            raise ProviderProblem("error", str(trouble)) from None
        return ResultPage(
            tuple(SearchResult(hit.url, hit.title, hit.snippet) for hit in hits), more=False
        )

    async def _find(self, query: SearchQuery) -> list[TextMatch]:
        try:
            await self._indexer.catch_up(query.account_id)
            return await self._match(query)
        except StoreUnavailable as trouble:
            log.warning("local search: %s", trouble)
        # A damaged index is empty now, and filled; on a full disk, what is in it can be found.
        with suppress(StoreUnavailable):
            await self._indexer.catch_up(query.account_id)
        return await self._match(query)

    async def _match(self, query: SearchQuery) -> list[TextMatch]:
        return await self._index.find(
            query.account_id, query.text, limit=query.num_results * MAX_COPIES
        )
