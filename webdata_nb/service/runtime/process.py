"""Processes: their commands and environments, memory, processors and garbage collection.

The service's environment contains provider keys, the key that encrypts secrets, and database
passwords. Child processes handle untrusted pages and images, so they get none of these. Where a
child gets no more memory, Python raises `MemoryError`, and many C libraries end the process by a
signal that says nothing about the reason.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import math
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

# What an interpreter needs to start, and what controls encodings and time zones.
INHERITED: Final = frozenset(
    {
        *("PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "WINDIR"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "PYTHONUTF8"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"),
    }
)


def child_environment(extra_names: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return this process's variables with the names of `INHERITED` and `extra_names`."""
    return filter_environment(os.environ, INHERITED | extra_names)


def filter_environment(variables: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    """Return the variables with these names, and those of the locale (``LC_*``)."""
    return {
        name: value
        for name, value in variables.items()
        if name.upper() in names or name.startswith("LC_")
    }


def python_command(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module; it needs `python_environment`."""
    return (sys.executable, "-P", "-m", module, *arguments)


def python_environment(**values: str) -> dict[str, str]:
    """Return the environment for `python_command`, with the import path of this process."""
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return {**child_environment(), "PYTHONPATH": path, **values}


KILL_SIGNAL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)
MEMORY_LIMIT_EXIT: Final = 86
"""The exit code of a process that crashed because it got no more memory."""

_CRASHES: Final = ("SIGABRT", "SIGBUS", "SIGILL", "SIGSEGV", "SIGTRAP")
# What the handler of a crash may use, beyond the limit.
_HANDLER_BYTES: Final = 16 * 1024 * 1024
# A crash above this part of the limit is one of memory, whatever the library was about to do.
_FULL: Final = 0.9
_DEFAULT_ACTION: Final = 0
_HANDLERS: Final[list[object]] = []  # as long as the process lives


def limit_memory(extra_bytes: int) -> None:
    """Limit the growth of this process and of its children, where the system can.

    A crash for a lack of memory ends the process with `MEMORY_LIMIT_EXIT`.
    """
    with suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - POSIX only

        limit = _memory_bytes() + extra_bytes
        hard_limit = limit + _HANDLER_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard_limit))

        set_handler = ctypes.CDLL(None).signal
        set_handler.argtypes, set_handler.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p

        def on_crash(number: int) -> None:
            set_handler(number, _DEFAULT_ACTION)
            # Set by the allocation that failed: what follows it in a crash does not change it.
            has_failed_allocation = ctypes.get_errno() == errno.ENOMEM
            resource.setrlimit(resource.RLIMIT_AS, (hard_limit, hard_limit))
            if has_failed_allocation or _memory_bytes() > _FULL * limit:
                os._exit(MEMORY_LIMIT_EXIT)
            os.kill(os.getpid(), number)

        # A handler of `signal.signal` would run after the instruction that crashed, which never
        # ends.
        handler = ctypes.CFUNCTYPE(None, ctypes.c_int, use_errno=True)(on_crash)
        _HANDLERS.append(handler)
        for name in _CRASHES:
            if (number := getattr(signal, name, None)) is not None:
                set_handler(number, ctypes.cast(handler, ctypes.c_void_p))


def _memory_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN_CGROUPS: Final = Path("/proc/self/cgroup")


def available_processors(cgroups: Path = _CGROUPS, own_cgroups: Path = _OWN_CGROUPS) -> int:
    """Return how many processors this process may use, at least 1.

    The processor affinity (`taskset`, cpusets) and the limits of the process's control groups and
    their parents (`docker run --cpus`, `CPUQuota=` of systemd) count. A limit of 1.5 counts as 2.

    Parameters
    ----------
    cgroups
        Where the file system of control groups is mounted.
    own_cgroups
        The file that names the control groups of this process.
    """
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:  # macOS, Windows
        count = os.cpu_count() or 1
    limits: list[float] = []
    with suppress(OSError, ValueError):
        for line in own_cgroups.read_text().splitlines():
            _, controllers, own_path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            mount = cgroups / controllers  # version 2 has one hierarchy, without a name
            # A container sees its own group at the mount point, whatever the path says.
            path = Path(own_path.lstrip("/"))
            for part in (path, *path.parents):
                folder = mount / part
                with suppress(OSError, ValueError):  # version 2
                    quota, period = (folder / "cpu.max").read_text().split()
                    limits.append(int(quota) / int(period))  # "max" is no limit
                with suppress(OSError, ValueError):  # version 1
                    quota_us = int((folder / "cpu.cfs_quota_us").read_text())
                    if quota_us > 0:
                        limits.append(quota_us / int((folder / "cpu.cfs_period_us").read_text()))
    return max(1, min([count, *map(math.ceil, limits)]))


def pause_gc() -> None:
    """Stop collections until `configure_gc`: imports create many objects and no garbage."""
    gc.disable()


def configure_gc(generation_0: int, generation_1: int, generation_2: int) -> None:
    """Set the thresholds of `gc.set_threshold`, and exclude all existing objects."""
    gc.freeze()
    gc.set_threshold(generation_0, generation_1, generation_2)
    gc.enable()
