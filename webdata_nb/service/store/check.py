"""Looks for damage and contradictions in a database, also while a service runs on it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from webdata_nb.service.errors import NewerSchema, StoreDamaged
from webdata_nb.service.store.queries import queries, schema_version
from webdata_nb.service.store.sqlite_errors import is_damaged, translated

_Q: Final = queries()
# SQLite's own limit is 100 as well.
MOST_PROBLEMS: Final = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """One check, and what it found wrong, a line each; nothing where all is well."""

    check: str
    problems: tuple[str, ...] = ()


def check(path: Path) -> list[Finding]:
    """Check a database: the file, foreign keys, counters against rows, ledgers against balances.

    Parameters
    ----------
    path
        The file, of this release's schema; it is only read.

    Returns
    -------
    list of Finding
        One for each check, in a fixed order. A damaged file has its own findings alone.

    Raises
    ------
    NewerSchema
        The file was written by another release; the message says which one to use.
    StoreUnavailable
        The file cannot be read now.
    """
    with translated(path), closing(_reading(path)) as connection, _one_moment(connection):
        try:
            file = _integrity(connection)
            if file.problems:
                return [file]
            _check_schema(connection)
            return [file, _foreign_keys(connection), *_contradictions(connection)]
        except sqlite3.DatabaseError as error:
            if not is_damaged(error):
                raise
            return [Finding("file", (str(error),))]


def check_file(path: Path) -> None:
    """Raise `StoreDamaged` where the file at `path` is no whole database."""
    with translated(path), closing(_reading(path)) as connection:
        found = _integrity(connection)
    if found.problems:
        raise StoreDamaged(f"{path} is damaged: {found.problems[0]}")


def _reading(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA query_only=1")
    return connection


@contextmanager
def _one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    """Let every check see the same state, whatever a service writes meanwhile."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _integrity(connection: sqlite3.Connection) -> Finding:
    lines = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({MOST_PROBLEMS})")]
    return Finding("file", () if lines == ["ok"] else tuple(lines))


def _check_schema(connection: sqlite3.Connection) -> None:
    present = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if present != schema_version():
        action = "use the newer release" if present > schema_version() else "start the service once"
        raise NewerSchema(
            f"the database has schema {present}, this release checks {schema_version()}: {action}"
        )


def _foreign_keys(connection: sqlite3.Connection) -> Finding:
    rows = connection.execute("PRAGMA foreign_key_check").fetchmany(MOST_PROBLEMS)
    problems = tuple(f"row {row[1]} of {row[0]} has no {row[2]}" for row in rows)
    return Finding("foreign keys", problems)


_Told = Callable[[sqlite3.Row], str]


def _counts(row: sqlite3.Row) -> str:
    return f"job {row['id']}: {row['counted']} counted, {row['found']} found"


def _rows(row: sqlite3.Row) -> str:
    return f"{_counts(row)}, the last at position {row['upto'] - 1}"


def _receipt(row: sqlite3.Row) -> str:
    return f"{_counts(row)} of outcome {row['outcome']}"


def _balance(row: sqlite3.Row) -> str:
    return (
        f"account {row['id']}: balance {row['monthly_left']} + {row['topup_left']} after "
        f"{row['lines']} lines, ledger {row['monthly']} + {row['topup']} in {row['found']}"
    )


_CHECKS: Final[tuple[tuple[str, str, _Told], ...]] = (
    ("visible rows", "wrong_published", _rows),
    ("receipts", "wrong_receipts", _receipt),
    ("ledger sums", "wrong_balances", _balance),
    ("credits of jobs", "wrong_credits", _counts),
    ("holds", "wrong_holds", _counts),
)


def _contradictions(connection: sqlite3.Connection) -> Iterator[Finding]:
    for name, query, told in _CHECKS:
        rows = connection.execute(_Q[query]).fetchmany(MOST_PROBLEMS)
        yield Finding(name, tuple(map(told, rows)))
