"""Checks and copies a SQLite database, also while a service uses it."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from webdata_nb.service.errors import StoreDamaged
from webdata_nb.service.store.sql.consistency import (
    MAX_PROBLEMS,
    CheckResult,
    find_contradictions,
)
from webdata_nb.service.store.sql.contents import SegmentContents, segments_with_contents
from webdata_nb.service.store.sqlite.database import (
    SqliteTransaction,
    check_version,
    is_damaged,
    translated,
)


def check_database(path: Path) -> list[CheckResult]:
    """Check the file, its foreign keys, counters against rows, and ledgers against balances.

    Parameters
    ----------
    path
        The file, with the schema of this release; it is only read.

    Returns
    -------
    list of CheckResult
        One for each check, in a fixed order. For a damaged file only the first one.

    Raises
    ------
    OtherSchema
        Another version wrote the file; the message says what to do.
    StoreUnavailable
        The file cannot be read now.
    """
    with translated(path), closing(_connect_for_reading(path)) as connection:
        connection.execute("BEGIN")  # all checks see the same state
        try:
            integrity = _check_integrity(connection)
            if integrity.problems:
                return [integrity]
            check_version(connection, path)
            contradictions = find_contradictions(SqliteTransaction(connection))
            return [integrity, _check_foreign_keys(connection), *contradictions]
        except sqlite3.DatabaseError as error:
            if not is_damaged(error):
                raise
            return [CheckResult("file", (str(error),))]


def read_segments(path: Path) -> list[SegmentContents]:
    """Return the segments that contents of a database of this release point to."""
    with translated(path), closing(_connect_for_reading(path)) as connection:
        return segments_with_contents(SqliteTransaction(connection))


def check_file(path: Path) -> None:
    """Raise `StoreDamaged` if the file is not an intact database."""
    with translated(path), closing(_connect_for_reading(path)) as connection:
        integrity = _check_integrity(connection)
    if integrity.problems:
        raise StoreDamaged(f"{path} is damaged: {integrity.problems[0]}")


def _connect_for_reading(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA query_only=1")
    return connection


def _check_integrity(connection: sqlite3.Connection) -> CheckResult:
    lines = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})")]
    return CheckResult("file", () if lines == ["ok"] else tuple(lines))


def _check_foreign_keys(connection: sqlite3.Connection) -> CheckResult:
    rows = connection.execute("PRAGMA foreign_key_check").fetchmany(MAX_PROBLEMS)
    problems = tuple(f"row {row[1]} of {row[0]} has no {row[2]}" for row in rows)
    return CheckResult("foreign keys", problems)


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
        with (
            translated(source),
            closing(
                sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)
            ) as connection,
            closing(sqlite3.connect(draft, isolation_level=None)) as copy,
        ):
            connection.backup(copy)
            # One file, without a log beside it.
            copy.execute("PRAGMA journal_mode=delete")
        check_file(draft)
        _synchronize(draft)
        os.link(draft, target)  # unlike a rename, it replaces nothing
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                Path(f"{draft}{suffix}").unlink()
    _synchronize(target.parent)
    return target.stat().st_size


def _synchronize(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
