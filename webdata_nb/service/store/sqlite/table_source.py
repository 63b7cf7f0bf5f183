"""Reads the tables of a stopped service for a copy."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Final, Self

from webdata_nb.service.store.sqlite.database import check_version
from webdata_nb.service.store.sqlite.errors import translated
from webdata_nb.service.store.table_copy import (
    SECRET_COLUMN,
    SECRET_TABLE,
    Column,
    Row,
    Table,
    TableSource,
    Value,
)

# Of each store its own: its settings, and the processes that serve it now.
OWN_TABLES: Final = frozenset({"setting", "replica"})
_COPY_NAME: Final = "copy source"
_CONVERTERS: Final[dict[str, Callable[[Any], Value]]] = {
    "BOOLEAN": bool,
    "DOUBLE PRECISION": float,
}


class SqliteTableSource(TableSource):
    """A `TableSource` in one SQLite file with the schema of this release.

    Attributes
    ----------
    id : str
        Names this store; it is created once, so that a later run finds the same copy.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.id = _source_id(connection)

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """Open a file; nothing else can change it until the end of the block.

        Raises
        ------
        OtherSchema
            Another version wrote the file.
        """
        with translated(path):
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                check_version(connection, path)
                source = cls(connection)
                connection.execute("BEGIN IMMEDIATE")
                yield source
            finally:
                connection.close()

    def tables(self) -> Sequence[Table]:
        return self._tables

    @cached_property
    def _tables(self) -> Sequence[Table]:
        rows = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        ).fetchall()
        names = {row[0] for row in rows} - OWN_TABLES
        references = {name: self._references(name) & names for name in sorted(names)}
        return tuple(map(self._table, TopologicalSorter(references).static_order()))

    def _references(self, table: str) -> set[str]:
        return {row[2] for row in self._connection.execute(f"PRAGMA foreign_key_list({table})")}

    def _table(self, name: str) -> Table:
        columns = self._connection.execute(f"PRAGMA table_info({name})").fetchall()
        [row_count] = self._connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()  # noqa: S608 - a name of the schema
        return Table(name, tuple(Column(column[1], column[2]) for column in columns), row_count)

    def rows(
        self, table: Table, columns: Sequence[Column], *, after: int = 0
    ) -> Iterator[tuple[int, Row]]:
        names = ", ".join(column.name for column in columns)
        converters = [_CONVERTERS.get(column.type) for column in columns]
        cursor = self._connection.execute(
            f"SELECT rowid, {names} FROM {table.name} WHERE rowid > ? ORDER BY rowid",  # noqa: S608 - names of the schema
            [after],
        )
        for number, *values in cursor:
            yield (
                number,
                tuple(
                    value if convert is None or value is None else convert(value)
                    for convert, value in zip(converters, values, strict=True)
                ),
            )

    def secrets(self) -> Iterator[tuple[str, str]]:
        yield from self._connection.execute(
            f"SELECT id, {SECRET_COLUMN} FROM {SECRET_TABLE} WHERE {SECRET_COLUMN} <> ''"  # noqa: S608 - names of the schema
            " ORDER BY id"
        )


def _source_id(connection: sqlite3.Connection) -> str:
    connection.execute(
        "INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
        [_COPY_NAME, uuid.uuid4().hex],
    )
    [source_id] = connection.execute(
        "SELECT value FROM setting WHERE name = ?", [_COPY_NAME]
    ).fetchone()
    return str(source_id)
