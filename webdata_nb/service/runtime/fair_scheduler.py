"""Tracks the account of each task, and shares limited places fairly between accounts.

A runner and the HTTP gate set the account of their task, and its child tasks inherit it. So code
deep in a fetch or a render knows the account without an argument in every layer.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

# The service's own work, such as indexing, is scheduled like that of one more account.
SERVICE_ACCOUNT: Final = ""
_ACCOUNT: Final[ContextVar[str]] = ContextVar("webdata_account", default=SERVICE_ACCOUNT)


def current_account() -> str:
    """Return the account that this task works for; by default `SERVICE_ACCOUNT`."""
    return _ACCOUNT.get()


@contextmanager
def on_behalf_of(account_id: str) -> Iterator[None]:
    """Set the account of the block and of the tasks that it starts."""
    token = _ACCOUNT.set(account_id)
    try:
        yield
    finally:
        _ACCOUNT.reset(token)


class FairSemaphore:
    """A semaphore that gives free places round-robin to the accounts that wait.

    Within an account, places go out in the order of requests. Once another account waits, it gets
    the next free place. A task of the account that took a place must release it.

    Parameters
    ----------
    places : int
        How many tasks may hold a place.
    spare : int
        Additional places, one for each account that holds none: an account that holds all `places`
        for a long time does not block the others.
    """

    def __init__(self, places: int, *, spare: int = 0) -> None:
        self._places, self._spare = places, spare
        self._held: Counter[str] = Counter()
        # The order of the keys is the order of turns: the account served last is at the end.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.release()

    def locked(self) -> bool:
        """Return whether this task's account would have to wait."""
        account = current_account()
        return account in self._waiting or not self._has_place_for(account)

    def ahead(self) -> int:
        """Return how many waiting tasks come before a new one of this task's account."""
        account = current_account()
        own_waiting = len(self._waiting.get(account, ()))
        waiting_counts = (len(queue) for name, queue in self._waiting.items() if name != account)
        return own_waiting + sum(min(length, own_waiting + 1) for length in waiting_counts)

    async def acquire(self) -> None:
        """Take a place in the account's turn."""
        account = current_account()
        if not self.locked():
            self._held[account] += 1
            return
        grant: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(account, deque()).append(grant)
        try:
            await grant
        except asyncio.CancelledError:
            if grant.cancelled():
                queue = self._waiting.get(account, deque())
                if grant in queue:
                    queue.remove(grant)
                if not queue:
                    self._waiting.pop(account, None)
            else:  # granted in the same iteration of the event loop: pass it on
                self._free(account)
            raise

    def release(self) -> None:
        """Release a place of this task's account."""
        self._free(current_account())

    def _has_place_for(self, account: str) -> bool:
        held_count = self._held.total()
        holds_none = account not in self._held
        return held_count < self._places or (holds_none and held_count < self._places + self._spare)

    def _free(self, account: str) -> None:
        self._held[account] -= 1
        if not self._held[account]:
            del self._held[account]
        for name in list(filter(self._has_place_for, self._waiting)):
            queue = self._waiting.pop(name)
            # A task that was cancelled in this iteration of the event loop is still in the queue.
            while queue and queue[0].done():
                queue.popleft()
            grant = queue.popleft() if queue else None
            if queue:
                self._waiting[name] = queue
            if grant is not None:
                self._held[name] += 1
                grant.set_result(None)
                return
