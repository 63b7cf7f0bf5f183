"""Finds what a test leaks: tasks, connections, threads, processes, temporary files."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from webdata_nb.toolkit import session
from webdata_nb.toolkit.bridge import PORTAL

# In the environment of every process that a test starts, also of one that lost its parent.
MARK: Final = "PYTEST_RUN_OF_WEBDATA"
# A local service lingers for some seconds after its last client; a machine may be busy.
_GRACE_S: Final = 120.0
# Daemon threads that distributed starts once in a process, for all clients.
_DASK_THREADS: Final = ("Dask-Offload", "Profile", "IO loop")


@dataclass(frozen=True, slots=True)
class Baseline:
    """What existed before the first test, and where the tests' temporary files go."""

    scratch: Path
    files: frozenset[Path]
    threads: frozenset[int | None]
    children: frozenset[int]


def baseline(scratch: Path, home: Path) -> Baseline:
    """Record the threads and child processes of this process."""
    return Baseline(
        scratch,
        frozenset({home, *scratch.iterdir()}),
        frozenset(thread.ident for thread in threading.enumerate()),
        frozenset(child.pid for child in psutil.Process().children(recursive=True)),
    )


def leftovers(before: Baseline) -> list[str]:
    """Close the default session as the end of a program does, and list what still exists."""
    session.default_connection().close()
    gc.collect()
    found = _remaining(lambda: PORTAL.run(_tasks()))
    found += _remaining(lambda: [str(each) for each in psutil.Process().net_connections("inet")])
    PORTAL.close()
    found += _remaining(lambda: _threads(before))
    found += _remaining(lambda: [_described(each) for each in _processes(before)])
    found += _remaining(
        lambda: [str(path) for path in before.scratch.iterdir() if path not in before.files]
    )
    return found


def _remaining(look: Callable[[], list[str]]) -> list[str]:
    """Return what `look` still finds after the grace period."""
    deadline = time.monotonic() + _GRACE_S
    while (found := look()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


async def _tasks() -> list[str]:
    own = asyncio.current_task()
    return [repr(task) for task in asyncio.all_tasks() if task is not own]


def _threads(before: Baseline) -> list[str]:
    return [
        repr(thread)
        for thread in threading.enumerate()
        if thread.ident not in before.threads and not thread.name.startswith(_DASK_THREADS)
    ]


def _processes(before: Baseline) -> Iterator[psutil.Process]:
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
