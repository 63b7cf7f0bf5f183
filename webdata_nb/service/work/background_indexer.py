"""Indexes the pages of ended jobs and packs their receipts while no job runs."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.store.indexing import Indexer
from webdata_nb.service.store.sql.store import Store

log = logging.getLogger("webdata_nb.service")

INDEX_DELAY_S: Final = 1.0
RETRY_DELAY_S: Final = 10.0


class BackgroundIndexer:
    """Brings the text index up to date after the end of a job, unless other jobs are active.

    It also compresses receipts, and returns the free space that this leaves.
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

    async def _catch_up(self) -> bool:
        try:
            if await self._is_busy():
                return False
            async with self._store.exclusive("indexer") as is_first:
                return (
                    is_first
                    and await self._pack_receipts()
                    and await self._indexer.catch_up(is_busy=self._is_busy)
                )
        except StoreUnavailable as error:
            log.warning("pages are not indexed for local search: %s; trying again", error)
        except Exception:
            log.exception("pages could not be indexed for local search; trying again")
        await asyncio.sleep(RETRY_DELAY_S)
        return False

    async def _pack_receipts(self) -> bool:
        """Pack the receipts of ended jobs; return whether all of them are."""
        while await self._store.retention.pack_receipts():
            if await self._is_busy():
                return False
        await self._store.retention.return_space()
        return True

    async def _is_busy(self) -> bool:
        return await self._store.active_jobs() > 0
