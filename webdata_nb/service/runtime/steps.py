"""Defines long computations as generators that yield every few milliseconds. Pure.

`event_loop.run_cooperatively` runs them on the event loop.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
