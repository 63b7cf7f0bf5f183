"""Whose work runs, and places shared fairly between accounts.

A runner and the gate set the account of their task; the tasks that these start inherit it. So
whatever hands out places in the depth of a fetch or a render knows for whom, without an argument
through every layer.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Final

# The service's own work, such as indexing, takes its turn like one more account.
NOBODY: Final = ""
_ACCOUNT: Final[ContextVar[str]] = ContextVar("webdata_account", default=NOBODY)


def current_account() -> str:
    """Return the account whose work this task does; `NOBODY` for the service's own."""
    return _ACCOUNT.get()


@contextmanager
def on_behalf_of(account_id: str) -> Iterator[None]:
    """Do what is inside, and in the tasks that it starts, for an account."""
    token = _ACCOUNT.set(account_id)
    try:
        yield
    finally:
        _ACCOUNT.reset(token)


class FairSemaphore:
    """A semaphore whose free places go round-robin to the accounts that wait.

    Within an account the order is that of asking. Once another account waits, it gets the next
    place that comes free. A place is given back by a task of the account that took it.

    Parameters
    ----------
    places : int
        How many may be inside at once.
    spare : int
        How many more, each for an account that has nobody inside: so an account that holds all
        `places` for long keeps nobody else out.
    """

    def __init__(self, places: int, *, spare: int = 0) -> None:
        self._places, self._spare = places, spare
        self._inside: Counter[str] = Counter()
        # In the order of their turns: whoever was served last stands last.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def locked(self) -> bool:
        """Whether this task's account would have to wait."""
        account = current_account()
        return account in self._waiting or not self._admits(account)

    def ahead(self) -> int:
        """Return how many that wait are served before a new one of this task's account."""
        account = current_account()
        own = len(self._waiting.get(account, ()))
        others = (len(line) for name, line in self._waiting.items() if name != account)
        return own + sum(min(length, own + 1) for length in others)

    async def acquire(self) -> None:
        """Take a place, in the account's turn."""
        account = current_account()
        if not self.locked():
            self._inside[account] += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(account, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                self._leave(account, place)
            else:  # handed over in the same moment: it goes to the next
                self._free(account)
            raise

    def release(self) -> None:
        """Give a place back, to the next account's first in line."""
        self._free(current_account())

    def _admits(self, account: str) -> bool:
        inside = self._inside.total()
        first = account not in self._inside
        return inside < self._places or (first and inside < self._places + self._spare)

    def _free(self, account: str) -> None:
        self._inside[account] -= 1
        if not self._inside[account]:
            del self._inside[account]
        for turn in [each for each in self._waiting if self._admits(each)]:
            line = self._waiting.pop(turn)
            # Whoever was cancelled in this step of the loop has yet to leave the line.
            place = next((each for each in _taken_from(line) if not each.done()), None)
            if line:
                self._waiting[turn] = line
            if place is not None:
                self._inside[turn] += 1
                place.set_result(None)
                return

    def _leave(self, account: str, place: asyncio.Future[None]) -> None:
        line = self._waiting.get(account, deque())
        if place in line:
            line.remove(place)
        if not line:
            self._waiting.pop(account, None)


def _taken_from(line: deque[asyncio.Future[None]]) -> Iterator[asyncio.Future[None]]:
    while line:
        yield line.popleft()
