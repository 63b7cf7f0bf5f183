"""A timeout that does not count the time in which the process was suspended."""

from __future__ import annotations

import asyncio
import time

import pytest

from webdata_nb.service.runtime.event_loop import awake_timeout


async def test_wait_ends_at_limit() -> None:
    with pytest.raises(TimeoutError):
        async with awake_timeout(0.05, step_s=0.02):
            await asyncio.Event().wait()


async def test_suspension_counts_for_two_steps() -> None:
    async with awake_timeout(0.5, step_s=0.05) as timeout:
        await asyncio.sleep(0)
        time.sleep(1)  # noqa: ASYNC251 - nothing runs, as during a suspension
        await asyncio.sleep(0.1)
    assert not timeout.expired()


async def test_work_in_time_leaves_no_timer() -> None:
    async with awake_timeout(0.05, step_s=0.02):
        await asyncio.sleep(0.03)
    await asyncio.sleep(0.1)
