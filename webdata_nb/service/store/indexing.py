"""From stored rows to the text index, after their commit and off its path."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from webdata_nb.service.store.base import Store
from webdata_nb.service.store.records import Job, Unindexed
from webdata_nb.service.store.text_index import Document, TextIndex

BATCH: Final = 50
# Markdown's own marks are noise in a snippet: images, link targets, emphasis, fences, tables.
_IMAGE: Final = re.compile(r"!\[([^\]\n]*)\]\([^)\n]*\)")
_LINK: Final = re.compile(r"\[([^\]\n]*)\]\([^)\n]*\)")
_MARKS: Final = re.compile(
    r"^\s*(?:(?:#{1,6}|>|[-*+]|\d+\.)\s+)+|[*_`|~]+|^-{3,}\s*$", re.MULTILINE
)


class Indexer:
    """Brings the index up to the rows, one job at a time."""

    def __init__(self, store: Store, index: TextIndex) -> None:
        self._store, self._index = store, index
        self._one_at_a_time = asyncio.Lock()

    async def catch_up(self, account_id: str | None = None) -> None:
        """Index every visible row of an account, or of all, that is not indexed yet."""
        async with self._one_at_a_time:
            for job in await self._store.published(account_id):
                await self._job(job)

    async def _job(self, job: Job) -> None:
        start = await self._index.cursor(job.id)
        private = _is_private(job.request)
        while start < job.published:
            rows = await self._store.unindexed(job.id, start=start, count=BATCH)
            if not rows:
                return
            documents = [] if private else [doc for row in rows if (doc := _document(row))]
            start = rows[-1].position + 1
            await self._index.add(job.account_id, job.id, documents, upto=start)


def _is_private(request: Mapping[str, Any]) -> bool:
    """Tell whether pages were fetched with the caller's own headers or cookies: theirs alone."""
    options = request.get("scrape_options") or request
    return bool(options.get("headers") or options.get("cookies"))


def _document(row: Unindexed) -> Document | None:
    page = orjson.loads(row.page)
    text = page.get("markdown")
    text = orjson.loads(row.journal).get("text") if text is None else plain(text)
    if not page.get("success") or not text:
        return None
    return Document(row.position, page["url"], page.get("title") or "", text)


def plain(markdown: str) -> str:
    """Return the words of Markdown without its marks."""
    return _MARKS.sub("", _LINK.sub(r"\1", _IMAGE.sub(r"\1", markdown)))
