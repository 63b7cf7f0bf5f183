"""An event loop whose time passes at once whenever everybody waits for it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Does not wait: moves the clock, unless threads are at work, which wake the loop."""

    now = 0.0
    at_work = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        if self.at_work or timeout is None:
            return super().select(0.05)
        self.now += timeout
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """`time` stands still while anything runs; `thread_begins` and `thread_ends` say what does."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now

    def thread_begins(self) -> None:
        self._clock.at_work += 1

    def thread_ends(self, _done: object = None) -> None:
        self._clock.at_work -= 1

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        self.thread_begins()
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self.thread_ends)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109 - the base's signature
        # From Python 3.12 on asyncio.Runner bounds the wait for the threads, and simulated time
        # would jump to that bound.
        self.thread_begins()
        try:
            await super().shutdown_default_executor()
        finally:
            self.thread_ends()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in simulated time."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(main)
