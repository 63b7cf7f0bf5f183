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
from io import FileIO
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

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


class StoppableFile(FileIO):
    """A file whose reader can be stopped, in whichever loop it is: each read calls the check."""

    def __init__(self, path: Path, check: StopCheck) -> None:
        super().__init__(path, opener=_open_at_once)
        self._check = check

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read into a buffer."""
        self._check()
        return super().readinto(buffer) or 0


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; a named pipe without a writer would wait for one, and no check could end it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
