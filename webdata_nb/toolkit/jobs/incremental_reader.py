"""Reads the rows of a crawl while it runs: a full page of rows is final.

Only the last page is left to read when the crawl ends. Rows become columns as they arrive, so that
the Python objects of a whole crawl never exist at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Final, Self

from webdata_nb.contract.events import Progress
from webdata_nb.contract.replies import CrawlStatus
from webdata_nb.errors import IncompleteResult, WebdataError
from webdata_nb.toolkit.client import job_wait, paging
from webdata_nb.toolkit.client.client import Client
from webdata_nb.toolkit.frames import arrow_memory, rows
from webdata_nb.toolkit.frames.rows import TableBatch

# A page takes memory as bytes, objects and columns; one emoji makes a text four times as wide.
ROWS: Final = 50


class CrawlRowReader:
    """The rows of one crawl: enter it while the job is waited for, then read the `rest`.

    It reads early only from a service with an event stream: ours, whose published rows keep their
    positions.
    """

    def __init__(self, client: Client, job_id: str, report: job_wait.Report) -> None:
        self._client, self._job_id, self._report = client, job_id, report
        self._batches: list[TableBatch] = []
        self._texts: dict[str, str] = {}
        self._published = 0
        self._progressed = asyncio.Event()
        self._ended = False

    async def __aenter__(self) -> Self:
        # Nothing is awaited here: a cancellation must reach the wait, which cancels the job.
        self._reading = asyncio.create_task(self._read_full_pages())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A page in flight when the job ends is read to its end, not requested again.
        self._ended = True
        self._progressed.set()
        if error is not None:
            self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def report(self, progress: Progress) -> None:
        """Note the progress of the job, and pass it on."""
        self._report(progress)
        if self._client.offers_events:
            self._published = progress.completed
            self._progressed.set()

    async def rest(self, status: CrawlStatus) -> tuple[TableBatch, IncompleteResult | None]:
        """Read the remaining rows; an unreadable page costs the later rows only.

        `status` is that of the ended job; the rows in it are not read again.
        """
        shortfall = None
        total = status.stated("total_results")
        pages = paging.crawl_rows(
            self._client,
            self._job_id,
            per_page=ROWS,
            total=total,
            first_page=self._next_page,
            # A single row may be the only one of a page of the size that was requested.
            known=status if self._next_page == 1 and len(status.data) > 1 else None,
        )
        try:
            await self._read_all(pages)
        except IncompleteResult as error:
            shortfall = error
        except WebdataError as error:
            if not self._batches:
                raise
            row_count = sum(batch.table.num_rows for batch in self._batches)
            shortfall = IncompleteResult(total, row_count, why=str(error))
            shortfall.__cause__ = error
        return rows.concat("crawl", self._batches), shortfall

    @property
    def _next_page(self) -> int:
        return len(self._batches) + 1

    async def _read_all(self, pages: AsyncGenerator[paging.Rows, None]) -> None:
        async with aclosing(pages):
            async for page in pages:
                self._batches.append(await self._to_batch(page))

    async def _read_full_pages(self) -> None:
        # `rest` meets any error again and reports it.
        with suppress(WebdataError):
            # Memory of a frame that the caller has dropped since the last crawl.
            await asyncio.to_thread(arrow_memory.trim)
            while not self._ended:
                await self._progressed.wait()
                self._progressed.clear()
                while self._published >= self._next_page * ROWS and await self._read_next_page():
                    pass

    async def _read_next_page(self) -> bool:
        """Read the next page if it is full: rows may be counted before they are published."""
        page = self._next_page
        reply = await self._client.crawl_status(self._job_id, page=page, per_page=ROWS)
        if len(reply.data) != ROWS or reply.page != page:
            return False
        self._batches.append(await self._to_batch(reply.data))
        return True

    async def _to_batch(self, page: paging.Rows) -> TableBatch:
        return await asyncio.to_thread(rows.trimmed_batch, "crawl", page, texts=self._texts)
