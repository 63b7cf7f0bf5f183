"""Notices that this process, or the whole machine, stood still: SIGSTOP, a lid that was closed.

What waited through it saw its time run out without having had it, and its connections are gone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

BEAT_S: Final = 0.5
STANDSTILL_S: Final = 3.0
"""Seconds without a beat after which the process counts as having stood still."""


def elapsed_clock() -> float:
    """Return seconds that also pass while the machine sleeps, as far as the system tells them."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)  # Linux; its monotonic clock stands still then
    return time.time() if boot is None else time.clock_gettime(boot)


class Watch:
    """What happened to the process since the watch began."""

    def __init__(self, suspensions: Suspensions) -> None:
        self._suspensions = suspensions
        self.renew()

    def renew(self) -> None:
        """Begin anew."""
        self._count = self._suspensions.count

    @property
    def interrupted(self) -> bool:
        """Whether the process stood still in the meantime."""
        return self._suspensions.look() != self._count


class Suspensions:
    """Counts standstills while somebody watches; one for a process's event loop.

    A callback of the event loop notes the time twice a second; a gap is a standstill. An event
    loop that computes for seconds looks the same, and means the same for those who wait.

    Parameters
    ----------
    clock : callable
        Seconds, on a clock that goes on while the machine sleeps.
    """

    def __init__(self, *, clock: Callable[[], float] = elapsed_clock) -> None:
        self._clock = clock
        self._watchers = 0
        self._last = clock()
        self._next: asyncio.TimerHandle | None = None
        self.count = 0

    @contextmanager
    def watch(self) -> Iterator[Watch]:
        """Notice standstills while the context lasts."""
        if not self._watchers:
            self._last = self._clock()
            self._beat()
        self._watchers += 1
        try:
            yield Watch(self)
        finally:
            self._watchers -= 1
            if not self._watchers and self._next is not None:
                self._next.cancel()

    def look(self) -> int:
        """Return the number of standstills up to now."""
        now = self._clock()
        gap_s, self._last = now - self._last, now
        if gap_s > STANDSTILL_S:
            self.count += 1
        return self.count

    def _beat(self) -> None:
        self.look()
        self._next = asyncio.get_running_loop().call_later(BEAT_S, self._beat)
