"""Runs work that may take long on threads of its own, and ends it with the task that waits for it.

All of a process shares the threads of `asyncio.to_thread`, which are for short work alone: some
long work there would keep everything else from running.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from io import FileIO
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Result = TypeVar("Result")
StopCheck: TypeAlias = "Callable[[], None]"
"""Raises `WorkStopped` or `TimeoutError` once the work that calls it has to end."""


class WorkStopped(Exception):
    """The task that waited for the work has ended."""


def never_stop() -> None:
    """Let the work go on."""


class WorkThreads:
    """Threads for work of one kind.

    Parameters
    ----------
    name
        Of the threads, for a debugger.
    count
        How many there are at most; further work waits for one.
    """

    def __init__(self, name: str, count: int) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix=name)

    async def run(self, work: Callable[[StopCheck], Result], *, timeout_s: float = inf) -> Result:
        """Run work on a thread, and return its result.

        The work calls the check that it is given again and again, at least once per megabyte that
        it reads. Once this task is cancelled, the check ends it.

        Raises
        ------
        TimeoutError
            The work took longer than `timeout_s`, from its own start on.
        """
        stopped = threading.Event()

        def on_thread() -> Result:
            ends_at = time.monotonic() + timeout_s

            def check() -> None:
                if stopped.is_set():
                    raise WorkStopped
                if time.monotonic() >= ends_at:
                    raise TimeoutError

            return work(check)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, on_thread)
        finally:
            stopped.set()

    def close(self) -> None:
        """Start no more work, and let the threads end."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def run_on_thread(call: Callable[[], Result]) -> asyncio.Future[Result]:
    """Run a call on a thread of its own, which does not keep the process from ending.

    For calls that wait for something outside of the process, and cannot be stopped.
    """
    loop, context = asyncio.get_running_loop(), copy_context()
    future: asyncio.Future[Result] = loop.create_future()
    future.add_done_callback(mark_retrieved)

    def run() -> None:
        try:
            report = partial(_settle, future, future.set_result, context.run(call))
        except Exception as error:  # noqa: BLE001 - the caller receives it
            report = partial(_settle, future, future.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(report)

    threading.Thread(target=run, name="webdata-call", daemon=True).start()
    return future


def _settle(future: asyncio.Future[Result], settle: Callable[[Any], None], value: object) -> None:
    if not future.done():  # its caller has gone
        settle(value)


def mark_retrieved(future: asyncio.Future[Any]) -> None:
    """Keep asyncio from logging the error of a call whose caller has gone."""
    if not future.cancelled():
        future.exception()


class StoppableFile(FileIO):
    """A file whose reader can be stopped, in whichever loop it is: each read calls the check."""

    def __init__(self, path: Path, check: StopCheck) -> None:
        # A named pipe without a writer would wait for one, and no check could end it.
        super().__init__(
            path,
            opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)),
        )
        self._check = check

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read into a buffer."""
        self._check()
        return super().readinto(buffer) or 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Return up to `size` bytes."""
        self._check()
        return super().read(size) or b""

    def readall(self) -> bytes:
        """Return the rest."""
        self._check()
        return super().readall() or b""
