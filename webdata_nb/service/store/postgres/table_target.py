"""Receives a copy of a stopped service's tables in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

import orjson
import psycopg
from psycopg import sql

from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.errors import StoreCopyError
from webdata_nb.service.store.postgres.connections import CONNECTION
from webdata_nb.service.store.postgres.database import open_schema
from webdata_nb.service.store.postgres.dialect import postgres_statements
from webdata_nb.service.store.postgres.errors import translated
from webdata_nb.service.store.postgres.server_check import check_signals, check_version
from webdata_nb.service.store.sql.named_statements import SCHEMA_VERSION
from webdata_nb.service.store.sql.secrets import CANARY_NAME, check_canary, new_canary
from webdata_nb.service.store.sql.unfinished_copy import COPY_TARGET, CopyRecord
from webdata_nb.service.store.table_copy import (
    SECRET_COLUMN,
    SECRET_TABLE,
    Column,
    ColumnType,
    Position,
    Row,
    Table,
    TableChecksum,
    TableTarget,
)

# How long another copy to the same database may be awaited: a killed one ends soon.
LOCK_S: Final = 30
_BATCH_S: Final = 300
_CHECKSUM_S: Final = 3600
_FETCHED_ROWS: Final = 500
_TYPES: Final[dict[ColumnType, str]] = {
    "TEXT": "text",
    "BLOB": "bytea",
    "BIGINT": "int8",
    "DOUBLE PRECISION": "float8",
    "BOOLEAN": "bool",
}
# What a service does that is alone on its store: nobody holds what was held.
_RELEASES: Final = ("expire_leases", "expire_calls", "expire_delivery_leases")
_SETTING: Final = "SELECT value FROM setting WHERE name = %s"
_ADD: Final = "INSERT INTO setting VALUES (%s, %s) ON CONFLICT (name) DO NOTHING"
_SAVE: Final = "UPDATE setting SET value = %s WHERE name = %s"


class PostgresTableTarget(TableTarget):
    """A `TableTarget` in a schema of PostgreSQL that has nothing but this copy."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._record = CopyRecord("", SCHEMA_VERSION)

    @classmethod
    @contextmanager
    def open(cls, conninfo: str) -> Iterator[Self]:
        """Open a database, and create its tables.

        Raises
        ------
        StoreCopyError
            Another copy to it runs.
        OtherSchema, StoreForbidden, StoreUnavailable
            As for a service.
        """
        with translated(), psycopg.connect(conninfo, **CONNECTION) as connection:
            check_version(connection)
            check_signals(lambda: psycopg.connect(conninfo, **CONNECTION))
            open_schema(connection)
            _lock(connection)
            connection.execute(f"SET statement_timeout = '{_BATCH_S}s'")
            yield cls(connection)

    def begin(self, source_id: str, tables: Sequence[Table], cipher: SecretCipher) -> None:
        """Begin the copy of a source in an empty database, or continue it.

        Raises
        ------
        StoreCopyError
            The database has other data, or the copy of another source or release.
        OtherKey
            Its secrets are encrypted with another key.
        """
        with self._connection.transaction():
            self._record = _begin(self._connection, source_id, tables)
            canary = new_canary(cipher)
            self._connection.execute(_ADD, [CANARY_NAME, canary])
            for row in self._connection.execute(_SETTING, [CANARY_NAME]):
                check_canary(cipher, row[0])

    @property
    def is_finished(self) -> bool:
        """Whether the copy was finished before."""
        return self._record.finished

    def position(self, table: Table) -> Position:
        return Position(*self._record.positions.get(table.name, (0, 0)))

    def write(self, table: Table, rows: Sequence[Row], position: Position) -> None:
        names = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
        copy_in = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
            sql.Identifier(table.name), names
        )
        record = self._record.advance(table.name, position.last_row, position.row_count)
        with self._connection.transaction():
            with self._connection.cursor() as cursor, cursor.copy(copy_in) as copy:
                copy.set_types([_TYPES[column.type] for column in table.columns])
                for row in rows:
                    copy.write_row(row)
            self._connection.execute(_SAVE, [record.text, COPY_TARGET])
        self._record = record

    def checksum(self, table: Table, columns: Sequence[Column]) -> TableChecksum:
        hashes = sql.SQL(" || ").join(map(_value_hash, columns))
        query = sql.SQL(
            "SELECT COUNT(*), COALESCE(SUM(('x' || encode(substr(sha256({}), 1, 8), 'hex'))"
            "::bit(64)::bigint), 0) FROM {}"
        ).format(hashes, sql.Identifier(table.name))
        with self._connection.transaction():
            self._connection.execute(f"SET LOCAL statement_timeout = '{_CHECKSUM_S}s'")
            row = self._connection.execute(query).fetchone()
        row_count, total = row or (0, 0)
        return TableChecksum(int(row_count), int(total) % (1 << 64))

    def secrets(self) -> Iterator[tuple[str, str]]:
        query = sql.SQL("SELECT id, {0} FROM {1} WHERE {0} <> '' ORDER BY id").format(
            sql.Identifier(SECRET_COLUMN), sql.Identifier(SECRET_TABLE)
        )
        with self._connection.transaction(), self._connection.cursor("secrets") as cursor:
            cursor.itersize = _FETCHED_ROWS
            yield from cursor.execute(query)

    def finish(self) -> None:
        self._record = self._record.finish()
        with self._connection.transaction():
            for statement in _RELEASES:
                self._connection.execute(postgres_statements()[statement])
            self._connection.execute(_SAVE, [self._record.text, COPY_TARGET])
        self._connection.execute(f"SET statement_timeout = '{_CHECKSUM_S}s'")
        for name in self._record.positions:
            self._connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(name)))


def _value_hash(column: Column) -> sql.Composed:
    """Return the SQL for the hash of a value's binary form; see `TableChecksum`."""
    return sql.SQL("COALESCE('\\x01'::bytea || sha256({}({})), '\\x00'::bytea)").format(
        sql.SQL(f"{_TYPES[column.type]}send"), sql.Identifier(column.name)
    )


def _lock(connection: psycopg.Connection[Any]) -> None:
    connection.execute(f"SET lock_timeout = '{LOCK_S}s'")
    try:
        connection.execute(
            "SELECT pg_advisory_lock(hashtext('webdata copy'), hashtext(current_schema()))"
        )
    except psycopg.errors.LockNotAvailable:
        raise StoreCopyError("another copy to this database is running") from None


def _begin(
    connection: psycopg.Connection[Any], source_id: str, tables: Sequence[Table]
) -> CopyRecord:
    row = connection.execute(_SETTING, [COPY_TARGET]).fetchone()
    if row is None:
        _check_empty(connection, tables)
        record = CopyRecord(source_id, SCHEMA_VERSION)
        connection.execute(_ADD, [COPY_TARGET, record.text])
        return record
    record = CopyRecord(**orjson.loads(row[0]))
    if record.source != source_id:
        raise StoreCopyError(
            "the database has a copy of another service: copy into an empty database or schema"
        )
    if record.schema != SCHEMA_VERSION:
        raise StoreCopyError(
            "another release of webdata_nb began this copy: continue with that release, or copy "
            "into an empty database or schema"
        )
    return record


def _check_empty(connection: psycopg.Connection[Any], tables: Sequence[Table]) -> None:
    for table in tables:
        query = sql.SQL("SELECT 1 FROM {} LIMIT 1").format(sql.Identifier(table.name))
        if connection.execute(query).fetchone() is not None:
            raise StoreCopyError(
                f"the database already has rows in the table {table.name}: copy into an empty "
                "database or schema"
            )
