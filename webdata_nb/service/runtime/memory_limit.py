"""Limits the memory of a child process, and tells a lack of memory from other crashes.

Python raises `MemoryError` where it gets no memory. Many C libraries end the process instead, by a
signal that says nothing about the reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

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
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - POSIX only

        limit = _memory_bytes() + extra_bytes
        hard_limit = limit + _HANDLER_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard_limit))

        def on_crash(number: int) -> None:
            # Set by the allocation that failed: what follows it in a crash does not change it.
            has_failed_allocation = ctypes.get_errno() == errno.ENOMEM
            resource.setrlimit(resource.RLIMIT_AS, (hard_limit, hard_limit))
            if has_failed_allocation or _memory_bytes() > _FULL * limit:
                os._exit(MEMORY_LIMIT_EXIT)
            os.kill(os.getpid(), number)

        _handle_crashes(on_crash)


def _memory_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _handle_crashes(on_crash: Callable[[int], None]) -> None:
    """Call a function at a crash, which ends the process after it.

    A handler of `signal.signal` would run after the instruction that crashed, which never ends.
    """
    handler_type = ctypes.CFUNCTYPE(None, ctypes.c_int, use_errno=True)
    set_handler = ctypes.CDLL(None).signal
    set_handler.argtypes, set_handler.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p

    def once(number: int) -> None:
        set_handler(number, _DEFAULT_ACTION)
        on_crash(number)

    handler = handler_type(once)
    _HANDLERS.append(handler)
    for name in _CRASHES:
        if (number := getattr(signal, name, None)) is not None:
            set_handler(number, ctypes.cast(handler, ctypes.c_void_p))
