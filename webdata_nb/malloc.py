"""Returns free memory of the C library's allocator to the operating system, with glibc only.

Large replies and pages leave freed memory in the allocator, which a notebook that stays open for
days would keep.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

# glibc's M_ARENA_MAX, M_TRIM_THRESHOLD and M_MMAP_THRESHOLD (malloc.h).
_OPTIONS: Final = {-8: 2, -1: 8 * 1024 * 1024, -3: 256 * 1024}


def trim() -> None:
    """Return all free memory now. It takes about a millisecond."""
    malloc_trim = _function("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(0)


def tune() -> None:
    """Make the allocator return free memory by itself.

    By default glibc has an arena for each thread, and raises its thresholds with large buffers:
    after a thousand pages a service would hold half as much memory again.
    """
    mallopt = _function("mallopt") if sys.platform.startswith("linux") else None
    if mallopt is not None:
        for option, value in _OPTIONS.items():
            mallopt(option, value)


@cache
def _function(name: str) -> Callable[..., Any] | None:
    """Return a function of the C library; None if it has none of that name."""
    try:
        function: Callable[..., Any] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):
        return None
    return function
