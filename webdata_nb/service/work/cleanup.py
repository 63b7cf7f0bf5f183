"""Clears away what is past its time, while the service runs and whenever it starts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from webdata_nb.service.settings import Retention
from webdata_nb.service.store.accounts import Accounts
from webdata_nb.service.store.deletion import Expiry
from webdata_nb.service.store.spool import Spool
from webdata_nb.service.store.sqlite import IDEMPOTENCY_S
from webdata_nb.service.store.text_index import TextIndex
from webdata_nb.service.work.retention import HOUR_S

log = logging.getLogger(__name__)

EVERY_S: Final = 300.0


class Janitor:
    """Deletes rows, index entries, records and keys by their age; `clock` says what time it is.

    It also gives back the credits that calls hold whose process died.
    """

    def __init__(
        self,
        expiry: Expiry,
        accounts: Accounts,
        index: TextIndex,
        spool: Spool,
        *,
        retention: Retention,
        clock: Callable[[], float],
    ) -> None:
        self._expiry, self._accounts, self._index = expiry, accounts, index
        self._spool, self._retention, self._clock = spool, retention, clock

    async def run(self) -> None:
        """Sweep, for ever; a sweep that fails is repeated with the next."""
        while True:
            try:
                await self.sweep()
            except Exception:
                log.exception("old results could not be cleared; trying again later")
            await asyncio.sleep(EVERY_S)

    async def sweep(self) -> None:
        """Clear all that is past its time now."""
        now, keep = self._clock(), self._retention
        await self._accounts.bury(now=now)
        await self._clear_spool()
        searches = now - min(keep.search_hours, keep.job_hours) * HOUR_S
        crawls = now - min(keep.crawl_hours, keep.job_hours) * HOUR_S
        while due := await self._expiry.due(searches_before=searches, crawls_before=crawls):
            for job_id in due:
                await self._clear(job_id, now)
        while await self._expiry.forget_jobs(before=now - keep.job_hours * HOUR_S):
            pass
        while await self._expiry.forget_keys(before=now - IDEMPOTENCY_S):
            pass

    async def _clear_spool(self) -> None:
        """Remove what jobs left that ended while nobody was there to see it."""
        spooled = await asyncio.to_thread(self._spool.jobs)
        if spooled:
            active = await self._expiry.active()
            for job_id in set(spooled) - active:
                await asyncio.to_thread(self._spool.forget, job_id)

    async def _clear(self, job_id: str, now: float) -> None:
        await self._expiry.expire(job_id, now=now)
        await self._index.forget(job_id)
        await self._expiry.clear(job_id, now=now)
