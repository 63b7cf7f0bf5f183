"""Allocates Arrow tables in memory that can be trimmed, and trims it after large ones."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from webdata_nb import malloc

# The C library's allocator, which `malloc.trim` trims. Arrow's own pools keep a part of the memory
# for each thread that ever worked on a page of rows.
TRIMMABLE_POOL: Final = pa.system_memory_pool()
# Trimming takes about a millisecond.
_MIN_TRIMMED_BYTES: Final = 1_000_000


def trim(table: pa.Table | None = None) -> None:
    """Return free memory to the system; with a table, only if it is large.

    Arrays grow by doubling, and a reply's bytes and texts come before them. The C library keeps
    all of this memory: after a thousand pages as much again as the rows.
    """
    if table is None or table.nbytes >= _MIN_TRIMMED_BYTES:
        # Not `TRIMMABLE_POOL.release_unused`, which trims the default pool instead.
        malloc.trim()
