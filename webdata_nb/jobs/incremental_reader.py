"""Reads the rows of a crawl while it runs: a page of rows is final as soon as it is full.

What is left to do when the crawl ends is the last page. Rows become columns as they come, so
that the objects of a whole crawl are never there at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Final, Self

from webdata_nb.client import job_wait, paging
from webdata_nb.client.client import Client
from webdata_nb.contract.events import Progress
from webdata_nb.errors import IncompleteResult, WebdataError
from webdata_nb.frames import arrow_memory, rows
from webdata_nb.frames.rows import Batch

# A page in hand is there as bytes, objects and columns; one emoji makes a text four times as wide.
ROWS: Final = 50


class CrawlRowReader:
    """The rows of one crawl; entered while the job is waited for, complete after `rest`.

    Only a service with an event stream is read early: it is ours, whose rows keep their places
    once they are published.
    """

    def __init__(self, client: Client, job_id: str, report: job_wait.Report) -> None:
        self._client, self._job_id, self._report = client, job_id, report
        self._batches: list[Batch] = []
        self._texts: dict[str, str] = {}
        self._published = 0
        self._told = asyncio.Event()
        self._over = False

    async def __aenter__(self) -> Self:
        # A frame that the caller has dropped since the last crawl.
        await asyncio.to_thread(arrow_memory.give_back)
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A page that is on its way when the job ends is read to its end, not asked for again.
        self._over = True
        self._told.set()
        if error is not None:
            self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def report(self, progress: Progress) -> None:
        """Take the news of the job, and pass it on."""
        self._report(progress)
        if self._client.offers_events:
            self._published = progress.completed
            self._told.set()

    async def rest(self, total: int | None) -> tuple[Batch, IncompleteResult | None]:
        """Read what is left; a page that cannot be read costs the rest, not what came before."""
        shortfall = None
        pages = paging.crawl_rows(
            self._client, self._job_id, per_page=ROWS, total=total, first_page=self._next
        )
        try:
            await self._take(pages)
        except IncompleteResult as error:
            shortfall = error
        except WebdataError as error:
            if not self._batches:
                raise
            arrived = sum(batch.table.num_rows for batch in self._batches)
            shortfall = IncompleteResult(total, arrived, why=str(error))
            shortfall.__cause__ = error
        return rows.joined("crawl", self._batches), shortfall

    @property
    def _next(self) -> int:
        """The page of rows to read next; those before it are there, and full."""
        return len(self._batches) + 1

    async def _take(self, pages: AsyncGenerator[paging.Rows, None]) -> None:
        async with aclosing(pages):
            async for page in pages:
                self._batches.append(await self._columns(page))

    async def _read(self) -> None:
        # Whatever goes wrong here is met again by `rest`, which says so.
        with suppress(WebdataError):
            while not self._over:
                await self._told.wait()
                self._told.clear()
                while self._published >= self._next * ROWS and await self._one():
                    pass

    async def _one(self) -> bool:
        """Read the next page, if it is full: it may have been counted before it is published."""
        reply = await self._client.crawl_status(self._job_id, page=self._next, per_page=ROWS)
        if len(reply.data) != ROWS or reply.page != self._next:
            return False
        self._batches.append(await self._columns(reply.data))
        return True

    async def _columns(self, page: paging.Rows) -> Batch:
        return await asyncio.to_thread(rows.returning, "crawl", page, texts=self._texts)
