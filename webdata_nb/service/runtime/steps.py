"""Defines long computations as generators that yield every few milliseconds. Pure.

`event_loop.run_cooperatively` runs them on the event loop.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")
Steps = Generator[None, None, Result]


def run_to_completion(steps: Steps[Result]) -> Result:
    """Run a generator to its end without interruption, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
