"""How long a call waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from webdata_nb.errors import ConnectionFailed


async def within(seconds: float | None, work: Awaitable[Any]) -> Any:
    """Wait for `work`, at most `seconds`."""
    try:
        async with asyncio.timeout(seconds) as deadline:
            return await work
    except TimeoutError:
        if not deadline.expired():
            raise
        raise ConnectionFailed(f"the service gave no answer within timeout={seconds:g} s") from None
