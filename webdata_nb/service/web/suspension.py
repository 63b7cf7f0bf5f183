"""Detects that the process or the machine was suspended (SIGSTOP, a closed lid).

During a suspension deadlines expire although no time was available, and connections are lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

HEARTBEAT_S: Final = 0.5
SUSPENDED_AFTER_S: Final = 3.0
"""Seconds without a heartbeat that count as a suspension."""


def elapsed_clock() -> float:
    """Return seconds on a clock that, where possible, also runs while the machine sleeps."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)  # Linux, whose monotonic clock stops during sleep
    return time.time() if boot is None else time.clock_gettime(boot)


class SuspensionWatch:
    """Detects whether a suspension occurred since the watch began."""

    def __init__(self, detector: SuspensionDetector) -> None:
        self._detector = detector
        self.reset()

    def reset(self) -> None:
        """Forget earlier suspensions."""
        self._count = self._detector.count

    @property
    def interrupted(self) -> bool:
        """Whether a suspension has occurred."""
        return self._detector.update() != self._count


class SuspensionDetector:
    """Counts the suspensions of a process while watches exist; one per event loop.

    A callback of the event loop records the time twice a second; a gap is a suspension. A blocked
    event loop looks the same, and has the same effect on everything that waits.

    Parameters
    ----------
    clock : callable
        Seconds, on a clock that runs while the machine sleeps.
    """

    def __init__(self, *, clock: Callable[[], float] = elapsed_clock) -> None:
        self._clock = clock
        self._watches = 0
        self._last_heartbeat = clock()
        self._next: asyncio.TimerHandle | None = None
        self.count = 0

    @contextmanager
    def watch(self) -> Iterator[SuspensionWatch]:
        """Detect suspensions inside the block."""
        if not self._watches:
            self._last_heartbeat = self._clock()
            self._heartbeat()
        self._watches += 1
        try:
            yield SuspensionWatch(self)
        finally:
            self._watches -= 1
            if not self._watches and self._next is not None:
                self._next.cancel()

    def update(self) -> int:
        """Return the number of suspensions up to now."""
        now = self._clock()
        gap_s, self._last_heartbeat = now - self._last_heartbeat, now
        if gap_s > SUSPENDED_AFTER_S:
            self.count += 1
        return self.count

    def _heartbeat(self) -> None:
        self.update()
        self._next = asyncio.get_running_loop().call_later(HEARTBEAT_S, self._heartbeat)
