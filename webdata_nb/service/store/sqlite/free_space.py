"""Returns the free space of a SQLite file to the file system.

Files have `auto_vacuum=INCREMENTAL`, so that their free pages can be cut off in slices. A file of
an earlier release is rewritten once, at a start, when most of it is free.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from pathlib import Path
from typing import Final

from webdata_nb.service.store.sqlite.errors import is_damaged

log = logging.getLogger(__name__)

# Less free space than this stays in the file, for the next rows.
KEPT_BYTES: Final = 1024 * 1024
# One slice delays the commits that wait for it by a few milliseconds.
SLICE_BYTES: Final = 1024 * 1024
# Rewriting more than this would delay the start for long.
MAX_REWRITTEN_BYTES: Final = 512 * 1024 * 1024
_NONE, _INCREMENTAL = 0, 2


def cut_slice(connection: sqlite3.Connection) -> bool:
    """Cut free pages off a file, in a transaction; return whether there are more."""
    page_bytes = _pragma(connection, "page_size")
    free_bytes = _pragma(connection, "freelist_count") * page_bytes
    if free_bytes <= KEPT_BYTES or _pragma(connection, "auto_vacuum") != _INCREMENTAL:
        return False
    pages = min(SLICE_BYTES, free_bytes - KEPT_BYTES) // page_bytes
    for _ in range(pages):
        # Python ends a statement without columns after its first step, which cuts one page.
        connection.execute("PRAGMA incremental_vacuum(1)")
    return pages * page_bytes < free_bytes - KEPT_BYTES


def rewrite_sparse_file(connection: sqlite3.Connection, path: Path) -> None:
    """Rewrite a file of an earlier release if at least half of it is free and the rest is small.

    From then on its free pages can be cut off. Does nothing where the disk has too little space.
    """
    if _pragma(connection, "auto_vacuum") != _NONE:
        return
    page_bytes, pages = _pragma(connection, "page_size"), _pragma(connection, "page_count")
    used_bytes = (pages - _pragma(connection, "freelist_count")) * page_bytes
    has_space = shutil.disk_usage(path.parent).free > 2 * used_bytes
    is_sparse = pages * page_bytes >= max(2 * used_bytes, KEPT_BYTES)
    if not is_sparse or not has_space or used_bytes > MAX_REWRITTEN_BYTES:
        return
    try:
        connection.execute("PRAGMA auto_vacuum=incremental")
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.OperationalError as error:
        if is_damaged(error):
            raise
        log.warning(
            "the free space of %s is not returned: %s; trying at the next start", path, error
        )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
