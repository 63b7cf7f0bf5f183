"""The caller's own crawled pages as a search engine: no key, no network."""

from __future__ import annotations

from typing import Final

from webdata_nb.service.search.providers.base import Found, Page, Query
from webdata_nb.service.store.indexing import Indexer
from webdata_nb.service.store.text_index import TextIndex

# One URL crawled by several jobs is several documents and one result.
COPIES: Final = 8


class Local:
    """Full-text search (bm25) over the pages that the account has crawled and still keeps."""

    name = "local"
    identity = "local"

    def __init__(self, index: TextIndex, indexer: Indexer) -> None:
        self._index, self._indexer = index, indexer

    async def page(self, query: Query, number: int) -> Page:
        """See `Provider.page`; all results are on the first page."""
        if number > 1:
            return Page((), more=False)
        await self._indexer.catch_up(query.account_id)
        hits = await self._index.find(
            query.account_id, query.text, limit=query.num_results * COPIES
        )
        return Page(tuple(Found(hit.url, hit.title, hit.snippet) for hit in hits), more=False)
