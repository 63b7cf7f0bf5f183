"""One limiter per key: every client of this process that shares a key shares its pace.

It knows no event loop, since a key may be used from several: waiting happens on the caller's.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import heapq
import itertools
import os
import threading
import time
import weakref
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

WIDTH: Final = 16


@dataclass(order=True, slots=True)
class _Turn:
    """A request in the queue; the lowest ticket goes first."""

    ticket: int
    loop: asyncio.AbstractEventLoop = field(compare=False)
    given: asyncio.Future[None] = field(compare=False)


class Lane:
    """Requests of one kind: so many at once, none before the time that the service named.

    A full service narrows the lane to one request at a time; each success widens it by one. So a
    hundred queued starts do not all knock whenever one slot comes free.
    """

    def __init__(self, width: int = WIDTH) -> None:
        self._lock = threading.Lock()
        self._tickets = itertools.count()
        self._queue: list[_Turn] = []
        self._widest = width
        self._width = width
        self._inside = 0
        self._opens_at = 0.0

    def ticket(self) -> int:
        """Return a place in the queue, kept over every attempt of one request."""
        return next(self._tickets)

    def close_for(self, seconds: float) -> None:
        """Let nobody in for `seconds`, and then one at a time."""
        with self._lock:
            self._width = 1
            self._opens_at = max(self._opens_at, time.monotonic() + seconds)

    def went_well(self) -> None:
        """Widen the lane: the service took a request."""
        with self._lock:
            self._width = min(self._widest, self._width + 1)
            self._admit()

    @contextlib.asynccontextmanager
    async def turn(self, ticket: int) -> AsyncIterator[None]:
        """Wait for a place in the lane, and hold it inside the block."""
        await self._enter(ticket)
        try:
            # A place handed over while the lane was closing is kept, and waits here.
            await self._until_open()
            yield
        finally:
            self._leave()

    async def _enter(self, ticket: int) -> None:
        await self._until_open()
        turn = self._ask(ticket)
        if turn is None:
            return
        try:
            await turn.given
        except asyncio.CancelledError:
            self._withdraw(turn)
            raise

    async def _until_open(self) -> None:
        left = self._closed_for()
        while left > 0:
            await asyncio.sleep(left)
            left = self._closed_for()

    def _closed_for(self) -> float:
        return self._opens_at - time.monotonic()

    def _ask(self, ticket: int) -> _Turn | None:
        """Take a place at once, or queue for one."""
        loop = asyncio.get_running_loop()
        with self._lock:
            first = not self._queue or ticket < self._queue[0].ticket
            if self._inside < self._width and first:
                self._inside += 1
                return None
            turn = _Turn(ticket, loop, loop.create_future())
            heapq.heappush(self._queue, turn)
            return turn

    def _withdraw(self, turn: _Turn) -> None:
        """Leave the queue, or give back the place if it was handed over in the meantime."""
        with self._lock:
            if turn in self._queue:
                self._queue.remove(turn)
                heapq.heapify(self._queue)
                return
        self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._inside -= 1
            self._admit()

    def _admit(self) -> None:
        """Hand free places to the first in the queue; the lock is held."""
        while self._queue and self._inside < self._width:
            turn = heapq.heappop(self._queue)
            # A loop that has ended takes its callers with it.
            with contextlib.suppress(RuntimeError):
                turn.loop.call_soon_threadsafe(_give, turn.given)
                self._inside += 1


def _give(given: asyncio.Future[None]) -> None:
    if not given.done():
        given.set_result(None)


class Limiter:
    """The lanes of one key: starts (they use up the plan's slots), and reads."""

    def __init__(self) -> None:
        self.starts = Lane()
        self.reads = Lane()


class _Registry:
    """Every limiter in use, by service and key; a forked child begins with none."""

    def __init__(self) -> None:
        self.forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        self._lock = threading.Lock()
        self._limiters: weakref.WeakValueDictionary[str, Limiter] = weakref.WeakValueDictionary()

    def of(self, base_url: str, api_key: str) -> Limiter:
        name = hashlib.sha256(f"{base_url}\n{api_key}".encode()).hexdigest()
        with self._lock:
            limiter = self._limiters.get(name)
            if limiter is None:
                limiter = self._limiters[name] = Limiter()
            return limiter


_REGISTRY: Final = _Registry()


def limiter_of(base_url: str, api_key: str) -> Limiter:
    """Return the one limiter of a key at a service, in this process."""
    return _REGISTRY.of(base_url, api_key)
