"""From stored rows to the text index, after their commit and off its path."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

import orjson

from webdata_nb.service.store.base import Store
from webdata_nb.service.store.records import Job, UnindexedRow
from webdata_nb.service.store.text_index import Document, TextIndex

BATCH: Final = 20
# Characters that are looked through at once: no other thread runs meanwhile, nor the event loop.
PIECE: Final = 64 * 1024
# Markdown's own marks are noise in a snippet: images, link targets, emphasis, fences, tables.
# One pass that replaces by nothing, and no part that scans far without finding its end: pages
# come from anywhere, and this runs on a megabyte of brackets as fast as on prose.
_MARKS: Final = re.compile(
    r"""
      !?\[ (?= [^\[\]\n]* \]\( )               # before the text of a link or an image
    | \[ (?= !\[ )                             # before an image that is a link
    | \]\( [^()\n]* \)                        # the target behind it
    | ^[^\S\n]* (?: (?: \#{1,6} | [>*+-] | \d{1,9}\. ) [^\S\n]+ )+   # heading, quote, item
    | ^-{3,}[^\S\n]*$                          # rule
    | [*_`|~]+
    """,
    re.MULTILINE | re.VERBOSE,
)


Busy = Callable[[], Awaitable[bool]]


async def _never() -> bool:
    return False


class Indexer:
    """Brings the index up to the rows, one job at a time."""

    def __init__(self, store: Store, index: TextIndex) -> None:
        self._store, self._index = store, index
        self._one_at_a_time = asyncio.Lock()

    async def catch_up(self, account_id: str | None = None, *, busy: Busy = _never) -> bool:
        """Index every visible row of an account, or of all, that is not indexed yet.

        Stops between batches once `busy` says so; returns whether it came to the end.
        """
        async with self._one_at_a_time:
            if await busy():
                return False
            cursors = await self._index.cursors()
            jobs = await self._store.published(account_id, beyond=cursors)
            empty = {job.id: job.published for job in jobs if not _has_pages(job.request)}
            if empty:
                await self._index.pass_over(empty)
            for job in jobs:
                start, upto = -1, empty.get(job.id, cursors.get(job.id, 0))
                while start < upto < job.published:
                    if await busy():
                        return False
                    start, upto = upto, await self._some(job, upto)
        return True

    async def _some(self, job: Job, start: int) -> int:
        """Index a batch of a job's rows; return where the next one starts.

        A row whose page is still to come, and those behind it, wait for the next time.
        """
        found = await self._store.unindexed(job.id, start=start, count=BATCH)
        if not found:
            return job.published
        rows = list(takewhile(lambda row: job.state.terminal or _is_settled(row), found))
        if not rows:
            return start
        documents = [] if _is_private(job.request) else await asyncio.to_thread(_documents, rows)
        upto = rows[-1].position + 1
        await self._index.add(job.account_id, job.id, documents, upto=upto)
        return upto


def _documents(rows: Sequence[UnindexedRow]) -> list[Document]:
    return [document for row in rows if (document := _document(row))]


def _has_pages(request: Mapping[str, Any]) -> bool:
    """Whether a job visits pages: a search may only find them."""
    return bool(request.get("formats", True))


def _is_private(request: Mapping[str, Any]) -> bool:
    """Tell whether pages were fetched with the caller's own headers or cookies: theirs alone."""
    options = request.get("scrape_options") or request
    return bool(options.get("headers") or options.get("cookies"))


def _is_settled(row: UnindexedRow) -> bool:
    """Whether a row is as it will stay: a search shows its results before it visits them."""
    return orjson.loads(row.journal).get("done") is not False


def _document(row: UnindexedRow) -> Document | None:
    page = orjson.loads(row.page)
    text = page.get("markdown")
    text = orjson.loads(row.journal).get("text") if text is None else plain(text)
    if not row.good or not text:
        return None
    return Document(row.position, page["url"], page.get("title") or "", text)


def plain(markdown: str) -> str:
    """Return the words of Markdown without its marks."""
    return "".join(_MARKS.sub("", piece) for piece in _pieces(markdown))


def _pieces(text: str) -> Iterator[str]:
    """Cut a text at ends of lines; a line that is longer than a piece, behind a space in it."""
    start = 0
    while len(text) - start > PIECE:
        end = start + PIECE
        cut = text.rfind("\n", start, end) + 1 or text.rfind(" ", start, end) + 1 or end
        yield text[start:cut]
        start = cut
    yield text[start:]
