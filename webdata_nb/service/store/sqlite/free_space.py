"""Returns the free space of a SQLite file to the file system.

Files have `auto_vacuum=INCREMENTAL`, so that their free pages can be cut off in slices.
"""

from __future__ import annotations

import sqlite3
from typing import Final

# Less free space than this stays in the file, for the next rows.
KEPT_BYTES: Final = 1024 * 1024
# One slice delays the commits that wait for it by a few milliseconds.
SLICE_BYTES: Final = 1024 * 1024


def cut_slice(connection: sqlite3.Connection) -> bool:
    """Cut free pages off a file, in a transaction; return whether there are more."""
    page_bytes = _pragma(connection, "page_size")
    free_bytes = _pragma(connection, "freelist_count") * page_bytes
    if free_bytes <= KEPT_BYTES:
        return False
    pages = min(SLICE_BYTES, free_bytes - KEPT_BYTES) // page_bytes
    for _ in range(pages):
        # Python ends a statement without columns after its first step, which cuts one page.
        connection.execute("PRAGMA incremental_vacuum(1)")
    return pages * page_bytes < free_bytes - KEPT_BYTES


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
