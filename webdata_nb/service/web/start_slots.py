"""Spaces the requests to one host or provider, together with the other processes."""

from __future__ import annotations

import asyncio
import time
from math import inf

from webdata_nb.pacing.shared_pacing import SHORTEST_INTERVAL_S, SharedPacing, StartReservation


class StartSlots:
    """The start times that this process may use for one key.

    Without the other processes it keeps the interval times their number.
    """

    __slots__ = ("_independent", "_key", "_pacing", "_reservation")

    def __init__(self, key: str, pacing: SharedPacing) -> None:
        self._key, self._pacing = key, pacing
        self._reservation: StartReservation | None = None
        self._independent = not pacing.is_shared

    def wait_s(self, now: float, last_start: float, interval_s: float) -> float | None:
        """Return the seconds until the next start, or None if it has to be reserved first."""
        held = self._reservation
        if held is not None and held.required_s >= interval_s:
            start = held.next_start(now, last_start)
            if start is not None:
                return max(0.0, start - now)
        self._reservation = None
        if not self._independent:
            return None
        return max(0.0, last_start + interval_s * self._pacing.replicas - now)

    async def reserve(self, interval_s: float) -> None:
        """Reserve the next starts, or allow one that is independent of other processes."""
        self._reservation = await self._pacing.reserve(self._key, interval_s)
        self._independent = self._reservation is None

    def after_start(self) -> None:
        """Note that a request has started: only the next one may need another reservation."""
        self._independent = not self._pacing.is_shared


class PacedStarts:
    """Lets requests start at an interval; one task at a time waits."""

    def __init__(self, key: str, pacing: SharedPacing) -> None:
        self._slots, self._last_start = StartSlots(key, pacing), -inf

    async def wait(self, interval_s: float, max_wait_s: float) -> None:
        """Wait until a request may start.

        Raises
        ------
        TimeoutError
            At once, if its start is more than `max_wait_s` away.
        """
        while interval_s >= SHORTEST_INTERVAL_S:
            wait_s = self._slots.wait_s(time.monotonic(), self._last_start, interval_s)
            if wait_s is None:
                await self._slots.reserve(interval_s)
            elif wait_s > max_wait_s:
                raise TimeoutError
            elif wait_s > 0:
                await asyncio.sleep(wait_s)
            else:
                break
        self._last_start = time.monotonic()
        self._slots.after_start()
