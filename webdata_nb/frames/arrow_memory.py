"""The memory of many rows on their way to being a frame, and how the system gets back the rest."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

import pyarrow as pa

# The C library's: what is free in it goes back to the system when that is asked for. Arrow's own
# pools keep a part for each thread that ever worked on a page of rows.
RETURNING: Final = pa.system_memory_pool()
# Bytes of rows that are worth the millisecond that it takes.
_LARGE: Final = 1_000_000


def _trim() -> Callable[[int], object]:
    try:
        # Not `RETURNING.release_unused`: it asks the default pool, whatever pool it is called on.
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # only glibc has this
        return lambda _: None
    return trim


_TRIM: Final = _trim()


def give_back(table: pa.Table | None = None) -> None:
    """Give back what is free; with a table, if work on so many rows has left enough behind.

    Arrays grow by doubling, and before them there are a reply's bytes and its texts; by itself
    the C library keeps all of it, after a thousand pages as much again as the rows. It keeps what
    a frame was made of, too, when that is gone.
    """
    if table is None or table.nbytes >= _LARGE:
        _TRIM(0)
