"""Work on the event loop: long computations, background tasks, timeouts, and the loop's lag."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from time import perf_counter
from typing import Any, Final, Generic, TypeVar

from webdata_nb.service.runtime.steps import Result, Steps

log: Final = logging.getLogger(__name__)

# Steps run for this long before other tasks get the event loop.
TURN_S: Final = 0.005
# A timeout counts its time in steps of this length.
STEP_S: Final = 5.0
# How often the lag is measured.
INTERVAL_S: Final = 0.1
# Lags from this on are logged; health checks time out after a second or two.
WARNING_S: Final = 1.0


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


async def wait_at_most(event: asyncio.Event, limit_s: float) -> None:
    """Wait until an event is set, or so many seconds."""
    # Not wait_for: on Python 3.11 it can lose a cancellation that meets a wake-up.
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await event.wait()


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Wait for tasks like `asyncio.TaskGroup`, but raise the first failure without its group."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except* Exception as failures:  # noqa: BLE001 - one failure of one job, raised bare
        raise failures.exceptions[0] from None


def run_in_background(stack: AsyncExitStack, work: Coroutine[None, None, None]) -> None:
    """Run `work` until the stack is closed."""
    stack.push_async_callback(cancel, asyncio.create_task(work))


def start_task(
    work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]
) -> asyncio.Task[None]:
    """Run `work` as a task, which is one of `tasks` until it ends."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task, and wait for its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def measure_loop_lag(
    observe: Callable[[float], None], *, interval_s: float = INTERVAL_S
) -> None:
    """Sleep repeatedly, and pass to `observe` by how many seconds each wake-up was late."""
    while True:
        due_at = perf_counter() + interval_s
        await asyncio.sleep(interval_s)
        lag_s = max(0.0, perf_counter() - due_at)
        observe(lag_s)
        if lag_s >= WARNING_S:
            log.warning("the event loop was blocked for %.1f s", lag_s)


# Keeps what is opened for each key, such as the fetchers of each proxy, open until the end.


Key = TypeVar("Key", bound=Hashable)
Opened = TypeVar("Opened")


class OpenContexts(Generic[Key, Opened]):
    """One open context for each key, opened on first use; all are closed together.

    Parameters
    ----------
    open_context : callable
        Returns the context manager of a key.
    """

    def __init__(self, open_context: Callable[[Key], AbstractAsyncContextManager[Opened]]) -> None:
        self._open_context = open_context
        self._opened: dict[Key, Opened] = {}
        self._stack = AsyncExitStack()
        self._lock = asyncio.Lock()

    async def get(self, key: Key) -> Opened:
        """Return what is open for a key; what fails to open is tried again with the next call."""
        async with self._lock:
            if key not in self._opened:
                context = self._open_context(key)
                self._opened[key] = await self._stack.enter_async_context(context)
            return self._opened[key]

    async def aclose(self) -> None:
        """Close everything."""
        await self._stack.aclose()
