"""A timeout that does not count the time in which the process was suspended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

STEP_S: Final = 5.0


@asynccontextmanager
async def awake_timeout(
    limit_s: float, *, step_s: float = STEP_S
) -> AsyncIterator[asyncio.Timeout]:
    """Raise `TimeoutError` after `limit_s` seconds, like `asyncio.timeout`.

    The time is counted in steps. A period in which the process or the machine was suspended counts
    for two steps at most, so that what waits does not fail when it continues.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def count_step(step_start: float, left_s: float) -> None:
        nonlocal timer
        now = loop.time()
        left_s -= min(now - step_start, 2 * step_s)
        if left_s <= 0:
            timeout.reschedule(now)
        else:
            timer = loop.call_later(min(step_s, left_s), count_step, now, left_s)

    async with asyncio.timeout(None) as timeout:
        timer = loop.call_later(min(step_s, limit_s), count_step, loop.time(), limit_s)
        try:
            yield timeout
        finally:
            timer.cancel()
