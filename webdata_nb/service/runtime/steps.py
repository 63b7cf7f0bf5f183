"""Long computations as generators that stop every few milliseconds. Pure.

On the event loop `loop_turns.in_turns` runs one; others are served between its steps.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")
Steps = Generator[None, None, Result]


def at_once(steps: Steps[Result]) -> Result:
    """Run a generator to its end and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
