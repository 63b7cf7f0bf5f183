"""How late the event loop runs what is due: long computations show here first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Final

EVERY_S: Final = 0.1
# A delay from which on it is logged: health checks give up after a second or two.
LOGGED_S: Final = 1.0

log = logging.getLogger(__name__)


async def measure(observe: Callable[[float], None], *, every_s: float = EVERY_S) -> None:
    """Measure for ever: sleep, and tell `observe` by how many seconds the waking was late."""
    while True:
        due = perf_counter() + every_s
        await asyncio.sleep(every_s)
        late_s = max(0.0, perf_counter() - due)
        observe(late_s)
        if late_s >= LOGGED_S:
            log.warning("the event loop was blocked for %.1f s", late_s)
