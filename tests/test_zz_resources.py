"""The last tests: nothing that the others started is still there."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import psutil
import pytest

from tests.conftest import MARK, Before
from webdata_nb import session
from webdata_nb.bridge import PORTAL

# A local service lingers for some seconds after its last client; a machine may be busy.
_PATIENCE_S: Final = 30.0


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    """Do what the end of a program does: close the connection of calls that named none."""
    session.current().close()
    gc.collect()
    yield
    PORTAL.close()


def settled(look: Callable[[], list[str]]) -> list[str]:
    """Return what `look` still finds when it had time to go away."""
    deadline = time.monotonic() + _PATIENCE_S
    while (found := look()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def test_no_task_goes_on_on_the_portal() -> None:
    async def others() -> list[str]:
        mine = asyncio.current_task()
        return [repr(task) for task in asyncio.all_tasks() if task is not mine]

    assert settled(lambda: PORTAL.run(others())) == []


def test_no_connection_is_open() -> None:
    def connections() -> list[str]:
        return [str(each) for each in psutil.Process().net_connections("inet")]

    assert settled(connections) == []


def test_no_thread_goes_on(before: Before) -> None:
    PORTAL.close()

    def threads() -> list[str]:
        now = threading.enumerate()
        return [repr(thread) for thread in now if thread.ident not in before.threads]

    assert settled(threads) == []


def test_no_process_goes_on(before: Before) -> None:
    def processes() -> list[str]:
        return [_described(each) for each in _ours(before)]

    assert settled(processes) == []


def _ours(before: Before) -> Iterator[psutil.Process]:
    """Find our children, and processes that were detached from us or lost their parent."""
    mark = os.environ[MARK]
    children = {child.pid for child in psutil.Process().children(recursive=True)}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            marked = process.pid != os.getpid() and process.environ().get(MARK) == mark
            started = process.pid in children - before.children
            if (marked or started) and not _belongs_to_python(process):
                yield process


def _belongs_to_python(process: psutil.Process) -> bool:
    """Tell multiprocessing's own process, which ends with the interpreter."""
    return any("multiprocessing.resource_tracker" in part for part in process.cmdline())


def _described(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{process.pid} {process.status()}: {' '.join(process.cmdline())[:200]}"
    return f"{process.pid}"


def test_no_temporary_file_is_left(before: Before) -> None:
    def left() -> list[str]:
        return [path.name for path in before.scratch.iterdir() if path != before.home]

    assert settled(left) == []
