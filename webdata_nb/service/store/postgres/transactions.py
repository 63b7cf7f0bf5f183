"""Runs named statements on a PostgreSQL connection, and the changes of one lane in order."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from types import TracebackType
from typing import Any, Final, Self

import orjson
import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow

from webdata_nb.service.runtime.event_loop import start_task
from webdata_nb.service.store.sql.batches import join_commits
from webdata_nb.service.store.sql.connection import (
    Lane,
    NamedStatement,
    RowSet,
    SqlRow,
    Transaction,
    schema,
    statements,
    wait_applied,
)

DIALECT: Final = "postgresql"
_PLACEHOLDER: Final = re.compile(r"(?<![:\w]):([a-z_]+)")
# Arrays are sent in PostgreSQL's binary format: as text, a page takes four times the bytes.
_ARRAY: Final = re.compile(r"(?<![:\w]):([a-z_]+)(::\w+\[\])")
_COMMENT: Final = re.compile(r"^\s*--.*\n?", re.MULTILINE)
_TYPE: Final = re.compile(r"\b(BLOB|TEXT)\b(?!\[)")
# Texts are ordered by their bytes, as in SQLite, whatever the language of the database.
_TYPES: Final = {"BLOB": "BYTEA", "TEXT": 'TEXT COLLATE "C"'}


@cache
def postgres_statements() -> dict[str, str]:
    """Return every statement by its name, with placeholders such as `%(job_id)s`."""
    return {name: with_placeholders(text) for name, text in statements(DIALECT).items()}


def postgres_schema() -> str:
    """Return the script that creates the tables in an empty schema."""
    return _TYPE.sub(lambda match: _TYPES[match[1]], schema(DIALECT))


def with_placeholders(statement: str) -> str:
    r"""Return a statement for psycopg.

    Examples
    --------
    >>> with_placeholders("SELECT 1 WHERE a LIKE '%' || :word")
    "SELECT 1 WHERE a LIKE '%%' || %(word)s"
    >>> with_placeholders("SELECT unnest(:urls::text[])")
    'SELECT unnest(%(urls)b::text[])'
    """
    code = _COMMENT.sub("", statement)  # comments name placeholders too
    code = _ARRAY.sub(r"%(\1)b\2", code.replace("%", "%%"))
    return _PLACEHOLDER.sub(r"%(\1)s", code)


Change = Callable[[Transaction], Any]
Connection = psycopg.Connection[DictRow]

BEGIN_SNAPSHOT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
STATEMENTS: Final = postgres_statements()


class PostgresTransaction(Transaction):
    """Runs named statements on a connection, in a pipeline: a result that is used is a round trip.

    The first statement begins the transaction. It ends with the context: with a commit, or rolled
    back after an error.

    Parameters
    ----------
    connection
        A connection in autocommit mode.
    begin
        The statement that begins the transaction.
    is_single
        Whether one change has the transaction for itself. Its last statements then take the commit
        along.
    """

    def __init__(
        self, connection: Connection, begin: str = "BEGIN", *, is_single: bool = False
    ) -> None:
        self._connection, self._begin, self._is_single = connection, begin, is_single
        self._has_begun = False
        self._pipeline: psycopg.Pipeline | None = None
        self._context = ExitStack()

    def __enter__(self) -> Self:
        self._pipeline = self._context.enter_context(self._connection.pipeline())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._commit()
            else:
                self._context.__exit__(kind, error, trace)
        except BaseException:
            self._roll_back()
            raise
        if error is not None:
            self._roll_back()

    def _commit(self) -> None:
        """Commit, and receive the results that are missing."""
        if self._has_begun:
            self._connection.execute("COMMIT")
            self._has_begun = False
        self._context.close()
        self._pipeline = None

    def _roll_back(self) -> None:
        """Roll back, which makes psycopg forget its prepared statements.

        The server skips what follows a failed statement in its pipeline, and psycopg takes it for
        prepared, also if there was no BEGIN. After a ROLLBACK in the pipeline it does so, too.
        """
        with suppress(psycopg.Error):
            if self._connection.info.transaction_status is TransactionStatus.IDLE:
                self._connection.execute("BEGIN")
            self._connection.rollback()

    def row(self, statement: str, /, **values: Any) -> DictRow | None:
        return self._run(statement, values).fetchone()

    def rows(self, statement: str, /, **values: Any) -> list[DictRow]:
        return self._run(statement, values).fetchall()

    def rows_of_each(
        self, statements: Sequence[NamedStatement | RowSet], /, *, is_last: bool = False
    ) -> list[Sequence[SqlRow]]:
        is_last = is_last and self._is_single
        # The last statements alone need no BEGIN: the end of their pipeline commits all of them, or
        # none.
        if not is_last:
            self._begin_once()
        cursors = [
            self._send_set(e) if isinstance(e, RowSet) else self._send(*e) for e in statements
        ]
        if is_last:
            self._commit()
        else:
            self._receive()
        return [each.fetchall() if each and each.description else () for each in cursors]

    def execute(self, statement: str, /, **values: Any) -> int:
        return self._run(statement, values).rowcount

    def send(self, statement: str, /, **values: Any) -> None:
        self._begin_once()
        self._send(statement, values)

    def execute_many(self, statement: str, values: Sequence[Mapping[str, Any]], /) -> int:
        if not values:
            return 0
        if len(values) == 1:
            return self.execute(statement, **values[0])
        self._begin_once()
        with self._connection.cursor() as cursor:
            cursor.executemany(STATEMENTS[statement], values)
            self._receive()
            return cursor.rowcount

    def _run(self, statement: str, values: Mapping[str, Any]) -> psycopg.Cursor[DictRow]:
        self._begin_once()
        cursor = self._send(statement, values)
        self._receive()
        return cursor

    def _send(self, statement: str, values: Mapping[str, Any]) -> psycopg.Cursor[DictRow]:
        return self._connection.execute(STATEMENTS[statement], values)

    def _send_set(self, row_set: RowSet) -> psycopg.Cursor[DictRow] | None:
        """Send a set of rows: binary columns as arrays, the others as one JSON text.

        psycopg encodes each array in Python.
        """
        if row_set.statement not in STATEMENTS:
            return None
        arrays = _array_columns(row_set.statement)
        others = [{name: row[name] for name in row if name not in arrays} for row in row_set.rows]
        columns = {name: [row[name] for row in row_set.rows] for name in arrays}
        values = {**row_set.values, **columns, "rows": orjson.dumps(others).decode()}
        return self._send(row_set.statement, values)

    def _begin_once(self) -> None:
        if not self._has_begun:
            self._connection.execute(self._begin)
            self._has_begun = True

    def _receive(self) -> None:
        """Receive the results of a pipeline.

        After a sync, the server ends the transaction of a process that does not go on: psycopg's
        fetch methods send a flush, after which the server waits without a limit.
        """
        if self._pipeline is not None:
            self._pipeline.sync()


@cache
def _array_columns(statement: str) -> frozenset[str]:
    return frozenset(re.findall(r"%\((\w+)\)b", STATEMENTS[statement]))


def apply_changes(connection: Connection, changes: Sequence[Change]) -> Sequence[Any]:
    """Apply changes in one transaction; a joined commit alone in one round trip."""
    joined = join_commits(changes)
    values: list[Any] = []
    with PostgresTransaction(connection, is_single=len(joined) == 1) as transaction:
        for change, count in joined:
            values += [*[None] * (count - 1), change(transaction)]
    return values


_MAX_GROUP: Final = 32
_Waiting = tuple[Change, asyncio.Future[Any]]


class OrderedLanes:
    """Queues of changes by lane; lanes run concurrently, each applies one group after the other.

    A group that fails is run again change by change, so that each receives its own error.

    Parameters
    ----------
    run
        Applies changes in one transaction, and returns their values.
    on_applied
        Called with the lane after each transaction.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Change]], Awaitable[Sequence[Any]]],
        on_applied: Callable[[Lane], None],
    ) -> None:
        self._run, self._on_applied = run, on_applied
        self._lanes: dict[Lane, deque[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, lane: Lane, change: Change) -> Any:
        """Apply a change after the earlier ones of its lane; return its value.

        The change of a caller that is cancelled is applied all the same.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        queue = self._lanes.get(lane)
        if queue is None:
            queue = self._lanes[lane] = deque()
            start_task(self._drain(lane, queue), self._tasks)
        queue.append((change, future))
        return await wait_applied(future)

    async def close(self) -> None:
        """Wait until every change is applied."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _drain(self, lane: Lane, queue: deque[_Waiting]) -> None:
        max_group = _MAX_GROUP if lane.grouped else 1
        while queue:
            group = [queue.popleft() for _ in range(min(len(queue), max_group))]
            await self._apply(group)
            self._on_applied(lane)
        del self._lanes[lane]

    async def _apply(self, group: Sequence[_Waiting]) -> None:
        try:
            values = await self._run([change for change, _ in group])
        except Exception as error:  # noqa: BLE001 - the callers receive it
            if len(group) == 1:
                if not (future := group[0][1]).cancelled():
                    future.set_exception(error)
                return
            for waiting in group:
                await self._apply([waiting])
            return
        for (_, future), value in zip(group, values, strict=True):
            if not future.cancelled():
                future.set_result(value)
