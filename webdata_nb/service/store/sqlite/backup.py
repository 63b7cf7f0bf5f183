"""Copies a database that a service may be writing to, with SQLite's online backup."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from webdata_nb.service.store.sqlite.check import check_file
from webdata_nb.service.store.sqlite.errors import translated


def back_up(source: Path, target: Path) -> int:
    """Copy the state of a database at one moment to a new file; return the file's bytes.

    The copy appears complete or not at all, is on disk when this returns, and is readable by its
    owner only.

    Parameters
    ----------
    source
        The database; a service may write to it meanwhile.
    target
        The new file, in a directory that exists.

    Raises
    ------
    FileExistsError
        `target` exists; it stays as it is.
    OSError
        The copy cannot be written.
    StoreUnavailable, StoreDamaged
        The database cannot be read, or the copy is damaged.
    """
    if target.exists() or target.is_symlink():
        raise FileExistsError(f"{target} exists already; give another name")
    number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    os.close(number)
    draft = Path(name)
    try:
        _copy(source, draft)
        check_file(draft)
        _synchronize(draft)
        os.link(draft, target)  # unlike a rename, it replaces nothing
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                Path(f"{draft}{suffix}").unlink()
    _synchronize(target.parent)
    return target.stat().st_size


def _copy(source: Path, draft: Path) -> None:
    with (
        translated(source),
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)) as connection,
        closing(sqlite3.connect(draft, isolation_level=None)) as copy,
    ):
        connection.backup(copy)
        # One file, without a log beside it.
        copy.execute("PRAGMA journal_mode=delete")


def _synchronize(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
