"""Translates SQLite's error codes to the service's errors.

======================  ===============================================================
`DiskFull`              SQLITE_FULL, and a write error on a disk without space
`StoreBusy`             SQLITE_BUSY, SQLITE_LOCKED: another connection holds the database
`StoreUnavailable`      an I/O error, a file that cannot be opened or written
`StoreDamaged`          SQLITE_CORRUPT, SQLITE_NOTADB
the error itself        all others: constraints, wrong statements
======================  ===============================================================
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from webdata_nb.page.errors import ApplicationError
from webdata_nb.service.errors import DiskFull, StoreBusy, StoreDamaged, StoreUnavailable

# With less free space a failed write counts as a full disk: SQLite reports only some as such.
NO_SPACE_BYTES: Final = 1024 * 1024
_PRIMARY: Final = 0xFF
_BUSY: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_BROKEN: Final = {
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOMEM,
}
_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def primary_code(error: BaseException) -> int | None:
    """Return SQLite's primary result code; None if the error has none."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & _PRIMARY


def is_busy(error: BaseException) -> bool:
    """Whether another connection holds the database."""
    return primary_code(error) in _BUSY


def is_damaged(error: BaseException) -> bool:
    """Whether the file is damaged or no database."""
    return primary_code(error) in _DAMAGED


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise SQLite's errors about the file at `path` as the service's errors."""
    try:
        yield
    except sqlite3.Error as error:
        service_error = _service_error(error, path)
        if service_error is None:
            raise
        raise service_error from error


def _service_error(error: sqlite3.Error, path: Path) -> ApplicationError | None:
    code = primary_code(error)
    if code in _DAMAGED:
        return StoreDamaged(
            f"the database {path} is damaged ({error}): `webdata store check` lists what is wrong; "
            "put a backup in its place (`webdata store backup` makes them), or move the file away "
            "to start with an empty one"
        )
    if code == sqlite3.SQLITE_FULL or (code in _BROKEN and _no_space(path)):
        return DiskFull("the disk of the service's database is full")
    if code in _BUSY:
        return StoreBusy("another process holds the service's database")
    if code in _BROKEN:
        return StoreUnavailable(f"the service's database is not available ({error})")
    return None


def _no_space(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free < NO_SPACE_BYTES
    except OSError:
        return False
