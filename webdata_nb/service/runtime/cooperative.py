"""Long computations on the event loop, in steps between which others are served."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Final

from webdata_nb.service.runtime.steps import Result, Steps

# Steps that together take longer than this are a turn of the loop.
TURN_S: Final = 0.005


async def in_turns(steps: Steps[Result]) -> Result:
    """Run a generator to its end and return its result; others run at least every few steps.

    Each step, from one ``yield`` to the next, has to be short by itself.
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
