"""Adds visible rows to the text index after their commit: for a search, or while no job runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile
from typing import Final

from webdata_nb import malloc
from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.store.records import IndexedPage, JobRecord, UnindexedRow
from webdata_nb.service.store.sql.jobs import JobQueue
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.sql.text_index import TextIndex, indexed_page, origin_of

log: Final = logging.getLogger("webdata_nb.service")

BATCH: Final = 20
INDEX_DELAY_S: Final = 1.0
RETRY_DELAY_S: Final = 10.0
# Kinds of errors after which a site counts as unreachable. A timeout may concern one page only.
_UNREACHABLE: Final = frozenset({"dns", "connect"})
# A host name has at most 253 characters; a search provider may return anything.
_MAX_ORIGIN_CHARS: Final = 300

IsBusy = Callable[[], Awaitable[bool]]


async def _never_busy() -> bool:
    return False


class Indexer:
    """Indexes new rows, one job at a time."""

    def __init__(self, source: JobQueue, index: TextIndex) -> None:
        self._source, self._index = source, index
        self._one_at_a_time = asyncio.Lock()

    async def catch_up(
        self, account_id: str | None = None, *, is_busy: IsBusy = _never_busy
    ) -> bool:
        """Index every visible row of an account, or of all, that is not indexed yet.

        Jobs whose rows are gone leave the index, also if the database is a backup of an older one.
        Stops between batches when `is_busy` returns True; returns whether all rows are indexed.
        """
        async with self._one_at_a_time:
            if await is_busy():
                return False
            cursors = await self._index.cursors(account_id)
            published = await self._source.published_counts(account_id)
            for job_id in cursors.keys() - published.keys():
                await self._index.delete(job_id)
            jobs = await self._source.jobs_by_id(
                job_id for job_id, count in published.items() if count > cursors.get(job_id, 0)
            )
            # A search without formats lists results, and fetches no pages: its rows are skipped.
            skipped: dict[str, dict[str, int]] = {}
            for job in jobs:
                if not job.request.get("formats", True):
                    skipped.setdefault(job.account_id, {})[job.id] = job.published
            for owner, ends in skipped.items():
                await self._index.set_cursors(owner, ends)
                cursors |= ends
            for job in jobs:
                start, upto = -1, cursors.get(job.id, 0)
                while start < upto < job.published:
                    if await is_busy():
                        return False
                    start, upto = upto, await self._index_batch(job, upto)
        return True

    async def _index_batch(self, job: JobRecord, start: int) -> int:
        """Index a batch of a job's rows; return the position after it.

        The batch ends before the first row whose page is not fetched yet.
        """
        batch = await self._source.unindexed_rows(job.id, start=start, count=BATCH)
        if not batch:
            return job.published
        # A search shows its results before their pages are fetched.
        rows = list(
            takewhile(lambda row: job.state.terminal or row.journal.get("done") is not False, batch)
        )
        if not rows:
            return start
        # Whether each visited site was reachable at the last visit, by origin.
        reachable = {
            origin_of(row.url): row.success or row.journal.get("reason") not in _UNREACHABLE
            for row in rows
        }
        pages = [] if job.is_private else await asyncio.to_thread(_indexed_pages, rows)
        upto = await self._index.add(
            job.account_id,
            job.id,
            pages,
            start=start,
            upto=rows[-1].position + 1,
            reachable={
                origin: each
                for origin, each in reachable.items()
                if len(origin) <= _MAX_ORIGIN_CHARS
            },
        )
        if await self._source.is_expired(job.id):  # since its rows were read
            await self._index.delete(job.id)
            return job.published
        return upto


def _indexed_pages(rows: Sequence[UnindexedRow]) -> list[IndexedPage]:
    return [page for row in rows if (page := indexed_page(row))]


class BackgroundIndexer:
    """Brings the text index up to date after the end of a job, unless other jobs are active.

    It also compresses receipts, and returns the free space and memory that this leaves.
    """

    def __init__(self, store: Store, indexer: Indexer) -> None:
        self._store, self._indexer = store, indexer
        self._due = asyncio.Event()
        self._due.set()

    def notify(self) -> None:
        """Note that a job ended."""
        self._due.set()

    async def run(self) -> None:
        """Index forever."""
        while True:
            await self._due.wait()
            await asyncio.sleep(INDEX_DELAY_S)
            self._due.clear()
            if not await self._catch_up():
                self._due.set()
            malloc.trim()  # what the job and its index leave behind, until the next job

    async def _catch_up(self) -> bool:
        try:
            if await self._is_busy():
                return False
            async with self._store.exclusive("indexer") as is_first:
                if not is_first:
                    return False
                while await self._store.retention.pack_receipts():
                    if await self._is_busy():
                        return False
                await self._store.retention.return_space()
                return await self._indexer.catch_up(is_busy=self._is_busy)
        except StoreUnavailable as error:
            log.warning("pages are not indexed for local search: %s; trying again", error)
        except Exception:
            log.exception("pages could not be indexed for local search; trying again")
        await asyncio.sleep(RETRY_DELAY_S)
        return False

    async def _is_busy(self) -> bool:
        return await self._store.active_jobs() > 0
