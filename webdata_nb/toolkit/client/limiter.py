"""Limits the concurrency of requests per API key, across all clients and loops of a process."""

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

from webdata_nb.pacing.rate_limit import ConcurrencyWindow

MAX_CONCURRENT: Final = 16


@dataclass(order=True, slots=True)
class _QueuedRequest:
    """A request in the queue; the lowest ticket goes first."""

    ticket: int
    loop: asyncio.AbstractEventLoop = field(compare=False)
    admitted: asyncio.Future[None] = field(compare=False)

    def admit(self) -> None:
        if not self.admitted.done():
            self.admitted.set_result(None)


class ConcurrencyLimiter:
    """A queue of requests of one kind, of which a `ConcurrencyWindow` admits some at a time.

    It is not bound to an event loop, since several loops may use one key: each caller waits on
    its own loop.
    """

    def __init__(self, max_concurrent: int = MAX_CONCURRENT) -> None:
        self._lock = threading.Lock()
        self._tickets = itertools.count()
        self._queue: list[_QueuedRequest] = []
        self._window = ConcurrencyWindow(max_concurrent, max_concurrent)
        self._active = 0

    def ticket(self) -> int:
        """Return a place in the queue, valid for all attempts of one request."""
        return next(self._tickets)

    def close_for(self, seconds: float) -> None:
        """Admit no request for `seconds`, and then one at a time."""
        with self._lock:
            self._window = self._window.closed_for(seconds, time.monotonic())

    def report_success(self) -> None:
        """Widen the window: the service took a request."""
        with self._lock:
            self._window = self._window.widened()
            self._admit()

    @contextlib.asynccontextmanager
    async def slot(self, ticket: int) -> AsyncIterator[None]:
        """Wait for a slot, and hold it inside the block."""
        await self._enter(ticket)
        try:
            # A slot that was assigned while the window was closing stays valid, and waits here.
            await self._until_open()
            yield
        finally:
            self._release()

    async def _enter(self, ticket: int) -> None:
        await self._until_open()
        request = self._enqueue(ticket)
        if request is None:
            return
        try:
            await request.admitted
        except asyncio.CancelledError:
            self._withdraw(request)
            raise

    async def _until_open(self) -> None:
        remaining_s = self._remaining_s()
        while remaining_s > 0:
            await asyncio.sleep(remaining_s)
            remaining_s = self._remaining_s()

    def _remaining_s(self) -> float:
        return self._window.remaining_s(time.monotonic())

    def _enqueue(self, ticket: int) -> _QueuedRequest | None:
        """Take a free slot and return None, or join the queue."""
        loop = asyncio.get_running_loop()
        with self._lock:
            is_first = not self._queue or ticket < self._queue[0].ticket
            if self._active < self._window.size and is_first:
                self._active += 1
                return None
            request = _QueuedRequest(ticket, loop, loop.create_future())
            heapq.heappush(self._queue, request)
            return request

    def _withdraw(self, request: _QueuedRequest) -> None:
        """Leave the queue, or give back the slot if it was assigned in the meantime."""
        with self._lock:
            if request in self._queue:
                self._queue.remove(request)
                heapq.heapify(self._queue)
                return
        self._release()

    def _release(self) -> None:
        with self._lock:
            self._active -= 1
            self._admit()

    def _admit(self) -> None:
        """Assign free slots to the first in the queue; the caller holds the lock."""
        while self._queue and self._active < self._window.size:
            request = heapq.heappop(self._queue)
            # A closed loop has no callers left.
            with contextlib.suppress(RuntimeError):
                request.loop.call_soon_threadsafe(request.admit)
                self._active += 1


class KeyLimiters:
    """The limiters of one key: for starts, which use up the plan's slots, and for reads."""

    def __init__(self) -> None:
        self.starts = ConcurrencyLimiter()
        self.reads = ConcurrencyLimiter()


class _Registry:
    """The limiters in use, by service and key; a forked child begins with none."""

    def __init__(self) -> None:
        self.clear()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.clear)

    def clear(self) -> None:
        self._lock = threading.Lock()
        self._limiters: weakref.WeakValueDictionary[str, KeyLimiters] = (
            weakref.WeakValueDictionary()
        )

    def limiters(self, base_url: str, api_key: str) -> KeyLimiters:
        name = key_digest(base_url, api_key)
        with self._lock:
            limiters = self._limiters.get(name)
            if limiters is None:
                limiters = self._limiters[name] = KeyLimiters()
            return limiters


_REGISTRY: Final = _Registry()


def key_digest(base_url: str, api_key: str) -> str:
    """Return a name of a key at a service that does not show the key."""
    return hashlib.sha256(f"{base_url}\n{api_key}".encode()).hexdigest()


def limiters_for_key(base_url: str, api_key: str) -> KeyLimiters:
    """Return the limiters that all clients of this process share for a key at a service."""
    return _REGISTRY.limiters(base_url, api_key)
