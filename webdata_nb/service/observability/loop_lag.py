"""Measures the lag of the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Final

INTERVAL_S: Final = 0.1
# Lags from this on are logged; health checks time out after a second or two.
WARNING_S: Final = 1.0

log = logging.getLogger(__name__)


async def measure(observe: Callable[[float], None], *, interval_s: float = INTERVAL_S) -> None:
    """Sleep repeatedly, and pass to `observe` by how many seconds each wake-up was late."""
    while True:
        due_at = perf_counter() + interval_s
        await asyncio.sleep(interval_s)
        lag_s = max(0.0, perf_counter() - due_at)
        observe(lag_s)
        if lag_s >= WARNING_S:
            log.warning("the event loop was blocked for %.1f s", lag_s)
