"""Waiting for what other processes do, and looking which of them are there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.processes import arguments_of

TIMEOUT_S = 120.0


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 - another process has no event for us
            await asyncio.sleep(0.02)


def processes_on(directory: Path) -> list[psutil.Process]:
    """Return the processes whose command line names this directory."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if str(directory) in process.cmdline():
                found.append(process)
    return found


def services_on(directory: Path) -> list[psutil.Process]:
    """Return the processes that serve this data directory."""
    return [process for process in processes_on(directory) if "serve" in arguments_of(process)]
