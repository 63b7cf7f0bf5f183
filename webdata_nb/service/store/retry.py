"""Operations of the store that must not be lost: repeated until the store takes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from webdata_nb.service.errors import DiskFull, StoreBusy, StoreUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")
# Seconds before the first repetition; doubled before each further one, up to the longest.
FIRST_S: Final = 0.1
LONGEST_S: Final = 5.0


class StoreRetry:
    """Repeats what the store cannot do just now, with growing pauses, for as long as it takes.

    A job whose writes are repeated is paused by that: it stays `running` and goes on once a write
    succeeds. One object is shared by all who write for jobs, so that it knows of every pause.
    """

    def __init__(self) -> None:
        self._waiting: dict[object, StoreUnavailable] = {}

    @property
    def waiting(self) -> int:
        """How many operations wait for the store."""
        return len(self._waiting)

    @property
    def trouble(self) -> StoreUnavailable | None:
        """Why operations wait; None where none does, or only for another process's lock."""
        found = [each for each in self._waiting.values() if not isinstance(each, StoreBusy)]
        full = (each for each in found if isinstance(each, DiskFull))
        return next(full, found[0] if found else None)

    async def run(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Return what `operation` returns in the end; raises all else that it raises."""
        pause_s, this = FIRST_S, object()
        try:
            while True:
                try:
                    return await operation()
                except StoreUnavailable as error:
                    self._note(this, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_S)
        finally:
            self._forget(this)

    def _note(self, this: object, error: StoreUnavailable) -> None:
        if not self._waiting:
            log.warning("jobs are paused: %s", error)
        self._waiting[this] = error

    def _forget(self, this: object) -> None:
        if self._waiting.pop(this, None) is not None and not self._waiting:
            log.warning("jobs go on: the database takes writes again")
