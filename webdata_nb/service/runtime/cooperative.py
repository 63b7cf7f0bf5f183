"""Runs long computations on the event loop without blocking it."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Final

from webdata_nb.service.runtime.steps import Result, Steps

# Steps run for this long before other tasks get the event loop.
TURN_S: Final = 0.005


async def run_cooperatively(steps: Steps[Result]) -> Result:
    """Run a generator to its end, let other tasks run every few steps, and return its result.

    Each step, from one ``yield`` to the next, has to be short.
    """
    turn_ends = perf_counter() + TURN_S
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        if perf_counter() >= turn_ends:
            await asyncio.sleep(0)
            turn_ends = perf_counter() + TURN_S
