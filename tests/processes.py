"""Properties of processes that may end at any moment."""

from __future__ import annotations

import psutil


def arguments_of(process: psutil.Process) -> list[str]:
    """Return the command line of a process; an ended process, also a zombie, has none."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []
