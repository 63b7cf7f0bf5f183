"""Runs named statements on a connection, in as few round trips as their results allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg.rows import DictRow

from webdata_nb.service.store.postgres.dialect import postgres_statements
from webdata_nb.service.store.sql.batches import apply_together
from webdata_nb.service.store.sql.connection import NamedStatement, SqlRow, Transaction

Change = Callable[[Transaction], Any]
Connection = psycopg.Connection[DictRow]

BEGIN_SNAPSHOT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
STATEMENTS: Final = postgres_statements()


class PostgresTransaction(Transaction):
    """Runs named statements on a connection, or in its pipeline."""

    __slots__ = ("_connection", "_pipeline")

    def __init__(self, connection: Connection, pipeline: psycopg.Pipeline | None = None) -> None:
        self._connection, self._pipeline = connection, pipeline

    def row(self, statement: str, /, **values: Any) -> DictRow | None:
        return self._run(statement, values).fetchone()

    def rows(self, statement: str, /, **values: Any) -> list[DictRow]:
        return self._run(statement, values).fetchall()

    def rows_of_each(self, statements: Sequence[NamedStatement], /) -> list[Sequence[SqlRow]]:
        cursors = [
            self._connection.execute(STATEMENTS[name], values) for name, values in statements
        ]
        self._receive()
        return [cursor.fetchall() if cursor.description else () for cursor in cursors]

    def execute(self, statement: str, /, **values: Any) -> int:
        return self._run(statement, values).rowcount

    def send(self, statement: str, /, **values: Any) -> None:
        self._connection.execute(STATEMENTS[statement], values)

    def write_rows(self, statement: str, rows: Sequence[Mapping[str, Any]], /) -> None:
        if rows:
            columns = {name: [row[name] for row in rows] for name in rows[0]}
            self._connection.execute(STATEMENTS[statement], columns)

    def execute_many(self, statement: str, values: Sequence[Mapping[str, Any]], /) -> int:
        if not values:
            return 0
        if len(values) == 1:
            return self.execute(statement, **values[0])
        with self._connection.cursor() as cursor:
            cursor.executemany(STATEMENTS[statement], values)
            self._receive()
            return cursor.rowcount

    def _run(self, statement: str, values: Mapping[str, Any]) -> psycopg.Cursor[DictRow]:
        cursor = self._connection.execute(STATEMENTS[statement], values)
        self._receive()
        return cursor

    def _receive(self) -> None:
        """Receive the results of a pipeline.

        After a sync, the server ends the transaction of a process that does not go on: psycopg's
        fetch methods send a flush, after which the server waits without a limit.
        """
        if self._pipeline is not None:
            self._pipeline.sync()


def apply_changes(connection: Connection, changes: Sequence[Change]) -> Sequence[Any]:
    """Apply changes in one transaction."""
    with transaction_block(connection) as transaction:
        return apply_together(transaction, changes)


@contextmanager
def transaction_block(
    connection: Connection, begin: str = "BEGIN"
) -> Iterator[PostgresTransaction]:
    """Begin a transaction with its first statement, and commit it, or roll it back after an error.

    Statements are sent in a pipeline: only those whose result is used cost a round trip.
    """
    try:
        with connection.pipeline() as pipeline:
            connection.execute(begin)
            yield PostgresTransaction(connection, pipeline)
            connection.execute("COMMIT")
    except BaseException:
        # Not a ROLLBACK in the pipeline: after it, psycopg takes statements for prepared that the
        # server has forgotten.
        with suppress(psycopg.Error):
            connection.rollback()
        raise
