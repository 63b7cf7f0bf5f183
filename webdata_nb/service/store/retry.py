"""Retries store operations until they succeed, for writes that must not be lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from webdata_nb.pacing.retry_policies import STORE
from webdata_nb.service.errors import DiskFull, StoreBusy, StoreUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")


class StoreRetry:
    """Retries operations while the store is unavailable, with back-off and without a limit.

    A job waits while its writes are retried: it stays `running` and continues once a write
    succeeds. All writers for jobs share one object, so that it counts every waiting operation.
    """

    def __init__(self) -> None:
        self._waiting: dict[object, StoreUnavailable] = {}

    @property
    def waiting(self) -> int:
        """Number of operations that wait for the store."""
        return len(self._waiting)

    @property
    def pending_error(self) -> StoreUnavailable | None:
        """Why operations wait; None if none does, or only for a lock of another process."""
        errors = [error for error in self._waiting.values() if not isinstance(error, StoreBusy)]
        disk_full = (error for error in errors if isinstance(error, DiskFull))
        return next(disk_full, errors[0] if errors else None)

    async def run(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `operation`; raises its errors other than `StoreUnavailable`."""
        key, attempt = object(), 0
        try:
            while True:
                attempt += 1
                try:
                    return await operation()
                except StoreUnavailable as error:
                    if not self._waiting:
                        log.warning("jobs are paused: %s", error)
                    self._waiting[key] = error
                await asyncio.sleep(STORE.delay_s(attempt))
        finally:
            if self._waiting.pop(key, None) is not None and not self._waiting:
                log.warning("jobs go on: the database takes writes again")
