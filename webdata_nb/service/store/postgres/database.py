"""A schema in a PostgreSQL database: opened, read and changed over a connection pool."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import secrets
import selectors
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, LiteralString, Self, TypeVar

import psycopg
from psycopg import errors, sql
from psycopg.rows import DictRow, TupleRow
from psycopg.types.numeric import IntLoader
from psycopg_pool import ConnectionPool

from webdata_nb.pacing.retry_policies import STORE_SIGNALS, TRANSACTION
from webdata_nb.service.errors import StoreForbidden
from webdata_nb.service.store.postgres.pool import (
    ANOTHER,
    CONNECTION,
    POOL_SIZE,
    POOL_WAIT_S,
    READERS,
    STATEMENT_S,
    DeadlineConnection,
    FailFastPool,
    ServerClock,
    check_signals,
    check_version,
    is_retryable,
    translated,
)
from webdata_nb.service.store.postgres.transactions import (
    BEGIN_SNAPSHOT,
    STATEMENTS,
    Change,
    Connection,
    OrderedLanes,
    PostgresTransaction,
    apply_changes,
    postgres_schema,
)
from webdata_nb.service.store.sql.connection import (
    SCHEMA_VERSION,
    Lane,
    SqlDatabase,
    Transaction,
    check_schema,
    wait_applied,
)

log: Final = logging.getLogger(__name__)

OnSignal = Callable[[str | None], None]
"""Receives the name of a lane that another process changed; None if any may have changed."""

SEND_INTERVAL_S: Final = 0.1
# PostgreSQL allows 8,000 bytes in a payload; an id has 36.
_MAX_NAMES: Final = 150
_CHECK_S: Final = 1.0


class Signals:
    """Sends and receives the names of changed lanes, at most ten times per second.

    Parameters
    ----------
    connect
        Opens a connection in autocommit mode, which only listens.
    pool
        Has the connections that send.
    channel
        The name of the store's channel.
    """

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        pool: ConnectionPool[Any],
        channel: str,
    ) -> None:
        self._connect, self._pool, self._channel = connect, pool, channel
        self._sender = secrets.token_hex(4)
        self._names: dict[str, None] = {}
        self._changed = asyncio.Event()
        self._closing = threading.Event()
        self._receivers: list[OnSignal] = []

    async def __aenter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._listen, name="webdata-signals", daemon=True)
        self._thread.start()
        self._sending = asyncio.create_task(self._send_forever())

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        self._sending.cancel()
        await asyncio.gather(self._sending, return_exceptions=True)
        with suppress(psycopg.Error):
            await self._send_names()
        with suppress(psycopg.Error):  # wakes the listening thread
            await asyncio.to_thread(self._notify, self._sender, timeout_s=_CHECK_S)
        await asyncio.to_thread(self._thread.join)

    def add(self, name: str) -> None:
        """Send the name of a changed lane soon; called on the event loop."""
        self._names[name] = None
        self._changed.set()

    def subscribe(self, on_signal: OnSignal) -> None:
        """Call `on_signal` on the event loop for each signal of another process."""
        self._receivers.append(on_signal)

    async def _send_forever(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._send_names()
            except psycopg.Error:  # sent with the next ones
                self._changed.set()
            await asyncio.sleep(SEND_INTERVAL_S)

    async def _send_names(self) -> None:
        names, self._names = list(self._names), {}
        try:
            while names:
                payload = " ".join([self._sender, *names[:_MAX_NAMES]])
                await asyncio.to_thread(self._notify, payload)
                names = names[_MAX_NAMES:]
        finally:
            self._names |= dict.fromkeys(names)

    def _notify(self, payload: str, *, timeout_s: float | None = None) -> None:
        with self._pool.connection(timeout=timeout_s) as connection:
            connection.execute("SELECT pg_notify(%s, %s)", [self._channel, payload])

    def _listen(self) -> None:
        failures = 0
        while not self._closing.is_set():
            try:
                with self._connect() as connection:
                    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
                    failures = 0
                    self._receive(None)  # earlier signals are lost
                    while not self._closing.is_set():
                        for message in connection.notifies(timeout=_CHECK_S, stop_after=1):
                            sender, *names = message.payload.split(" ")
                            if sender != self._sender:
                                for name in names:
                                    self._receive(name)
            except psycopg.Error as error:
                if failures == 0:
                    log.warning("no signals of other processes: %s", type(error).__name__)
                failures += 1
                self._receive(None)
                self._closing.wait(STORE_SIGNALS.delay_s(failures))

    def _receive(self, name: str | None) -> None:
        for on_signal in tuple(self._receivers):
            self._loop.call_soon_threadsafe(on_signal, name)


S = TypeVar("S")
T = TypeVar("T")

MAX_IDENTIFIER: Final = 63
# How long a transaction may wait for its process. That of a stopped process ends before the leases
# of its jobs do, so that another process can claim them.
IDLE_TRANSACTION_S: Final = 8
# After this time, exclusive work passes to another process: a frozen one keeps its connection.
EXCLUSIVE_S: Final = 600
# How long the end of exclusive work waits for a server that does not answer.
_UNLOCK_S: Final = 5.0
_VACUUM_S: Final = 600.0
# How long a process waits at its start while another one creates the tables.
SCHEMA_LOCK_S: Final = 300
_TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
_NEW_TABLE: Final = "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)"


class PostgresDatabase(SqlDatabase):
    """A `SqlDatabase` on PostgreSQL 15 or newer, for any number of processes.

    Parameters
    ----------
    conninfo
        A connection string or URL of libpq.
    schema
        The schema of the tables; created if the role may. By default that of the connection.
    """

    def __init__(self, conninfo: str, *, schema: str | None = None) -> None:
        self._conninfo = conninfo
        self._schema = schema
        self._commit_numbers = itertools.count(1)
        self._last_commit = 0
        self._clock = ServerClock()
        self._lock_threads = set[asyncio.Future[Any]]()
        self.retried_transactions: int = 0

    async def __aenter__(self) -> Self:
        self._pool = FailFastPool(
            self._conninfo, configure=self._configure, max_size=POOL_SIZE + READERS
        )
        try:
            await asyncio.to_thread(self._open)
        except BaseException:
            await asyncio.to_thread(self._pool.close)
            raise
        self._writers = ThreadPoolExecutor(POOL_SIZE, thread_name_prefix="webdata-writer")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="webdata-reader")
        self._signals = Signals(self._connect, self._pool, self._channel)
        self._lanes = OrderedLanes(
            self._change_together, on_applied=lambda lane: self._signals.add(lane.name)
        )
        await self._signals.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._lanes.close()
        await self._signals.__aexit__()
        await asyncio.gather(*self._lock_threads, return_exceptions=True)
        await asyncio.to_thread(self._writers.shutdown)
        await asyncio.to_thread(self._readers.shutdown)
        await asyncio.to_thread(self._pool.close)

    async def change(self, change: Callable[[Transaction], T], *, lane: Lane | None = None) -> T:
        if lane is not None:
            value: T = await self._lanes.add(lane, change)
            return value
        [value] = await wait_applied(asyncio.ensure_future(self._change_together([change])))
        return value

    async def write(self, statement: str, /, **values: Any) -> int:
        return await self.change(lambda transaction: transaction.execute(statement, **values))

    async def read(self, statement: str, /, **values: Any) -> Sequence[DictRow]:
        return await self._on_reader(
            lambda connection: connection.execute(STATEMENTS[statement], values).fetchall()
        )

    async def query(self, query: Callable[[Transaction], T]) -> T:
        def in_transaction(connection: Connection) -> T:
            with PostgresTransaction(connection, BEGIN_SNAPSHOT) as transaction:
                return query(transaction)

        return await self._on_reader(in_transaction)

    @asynccontextmanager
    async def exclusive(self, work: str) -> AsyncIterator[bool]:
        # A lock of a session: its connection is not one of the pool.
        locking = self._on_lock_thread(self._lock, work)
        try:
            connection = await wait_applied(locking)
        except asyncio.CancelledError:
            locking.add_done_callback(_close_connection)
            raise
        try:
            yield connection is not None
        finally:
            if connection is not None:
                await wait_applied(self._on_lock_thread(_unlock_and_close, connection))

    def _on_lock_thread(self, function: Callable[[S], T], argument: S) -> asyncio.Future[T]:
        """Call a function on a thread that the end of the store waits for."""
        running = asyncio.ensure_future(asyncio.to_thread(function, argument))
        self._lock_threads.add(running)
        running.add_done_callback(self._lock_threads.discard)
        return running

    def data_version(self) -> int:
        """Return a number that differs after each commit of this process, and each second."""
        return self._last_commit << 32 | int(time.monotonic())

    def subscribe(self, on_signal: Callable[[str | None], None]) -> None:
        self._signals.subscribe(on_signal)

    def now(self) -> float:
        return self._clock.now()

    async def return_space(self) -> None:
        """Free the space of packed receipts for the next ones; autovacuum does the rest."""
        # The table has only what is not packed yet, so this is quick, and autovacuum would come
        # after several crawls.
        await asyncio.to_thread(self._vacuum, "VALUES ('receipt')")

    async def erase(self) -> None:
        """Remove deleted rows from the tables; bytes of theirs may stay until they are reused."""
        await asyncio.to_thread(self._vacuum, _TABLES)

    def _vacuum(self, tables: LiteralString) -> None:
        """Vacuum the tables that a query names; for those of other roles there is a warning."""
        with translated(), self._connect(answer_s=_VACUUM_S) as connection:
            if self._schema is not None:
                _select_schema(connection, self._schema)
            for (name,) in connection.execute(tables).fetchall():
                connection.execute(sql.SQL("VACUUM {}").format(sql.Identifier(name)))

    async def _on_reader(self, query: Callable[[Connection], T]) -> T:
        def on_thread() -> T:
            with translated(), self._pool.connection() as connection:
                return query(connection)

        return await asyncio.get_running_loop().run_in_executor(self._readers, on_thread)

    async def _change_together(self, changes: Sequence[Change]) -> Sequence[Any]:
        return await asyncio.get_running_loop().run_in_executor(
            self._writers, self._run_transaction, changes
        )

    def _run_transaction(self, changes: Sequence[Change]) -> Sequence[Any]:
        """Apply changes in one transaction, again if PostgreSQL ends it in favour of another."""
        for attempt in itertools.count(1):
            try:
                with self._pool.connection() as connection:
                    if self._clock.is_due:
                        self._clock.synchronize(connection)
                    values = apply_changes(connection, changes)
            except psycopg.Error as error:
                delay_s = TRANSACTION.next_delay_s(attempt, random_fraction=random.random())  # noqa: S311 - jitter
                if delay_s is None or not is_retryable(error):
                    with translated():
                        raise
            else:
                self._last_commit = next(self._commit_numbers)
                return values
            self.retried_transactions += 1
            time.sleep(delay_s)
        raise AssertionError

    def _open(self) -> None:
        with translated():
            # A pool hides why its connections fail: this one tells it.
            with self._connect(answer_s=SCHEMA_LOCK_S + STATEMENT_S) as connection:
                check_version(connection)
                check_signals(self._connect)
                open_schema(connection, self._schema)
            self._pool.open(wait=True, timeout=POOL_WAIT_S)
            with self._pool.connection() as connection:
                self._clock.synchronize(connection)
                row = connection.execute("SELECT current_schema() AS name").fetchone()
                # NOTIFY reaches every schema of a database.
                self._channel = f"webdata_{row['name'] if row else ''}"[:MAX_IDENTIFIER]

    def _lock(self, work: str) -> psycopg.Connection[Any] | None:
        """Return a connection that holds the lock of some work; None if another one holds it."""
        with translated():
            connection = self._connect()
            try:
                connection.execute(f"SET idle_session_timeout = '{EXCLUSIVE_S}s'")
                cursor = connection.execute(
                    "SELECT pg_try_advisory_lock(hashtext(%s), hashtext(%s))", [self._channel, work]
                )
                row = cursor.fetchone()
                if row is not None and row[0]:
                    return connection
            except BaseException:
                connection.close()
                raise
            connection.close()
            return None

    def _connect(self, *, answer_s: float = STATEMENT_S) -> DeadlineConnection[TupleRow]:
        """Open a connection beside the pool."""
        connection = DeadlineConnection[TupleRow].connect(self._conninfo, **CONNECTION)
        connection.answer_s = answer_s
        try:
            connection.limit_server()
        except BaseException:
            connection.close()
            raise
        return connection

    def _configure(self, connection: DeadlineConnection[DictRow]) -> None:
        """Set up a new connection of the pool."""
        connection.adapters.register_loader("numeric", IntLoader)  # sums of integers
        connection.limit_server()
        connection.execute(f"SET statement_timeout = '{STATEMENT_S}s'")
        connection.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_TRANSACTION_S}s'")
        if self._schema is not None:
            _select_schema(connection, self._schema)


def _close_connection(locking: asyncio.Future[psycopg.Connection[Any] | None]) -> None:
    """Release the lock that a cancelled caller no longer wants."""
    if locking.cancelled() or locking.exception() is not None:
        return
    if (connection := locking.result()) is not None:
        connection.close()


def _unlock_and_close(connection: psycopg.Connection[Any]) -> None:
    """Release the locks of a connection, and close it.

    The end of the connection releases them too, but only once the server has noticed it.
    """
    with contextlib.suppress(psycopg.Error, OSError):
        connection.pgconn.send_query(b"SELECT pg_advisory_unlock_all()")
        with selectors.DefaultSelector() as selector:
            selector.register(connection.pgconn.socket, selectors.EVENT_READ)
            selector.select(_UNLOCK_S)
    connection.close()


def open_schema(connection: psycopg.Connection[Any], schema: str | None = None) -> None:
    """Create the tables of a store unless they exist.

    Raises
    ------
    OtherSchema, StoreForbidden
        Another version created them, or the role lacks rights.
    """
    try:
        with connection.transaction():
            # Of several processes that start together one creates the tables, and the others wait.
            connection.execute(f"SET LOCAL lock_timeout = '{SCHEMA_LOCK_S}s'")
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('webdata schema'))")
            if schema is not None:
                name = sql.Identifier(schema)
                connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
                _select_schema(connection, schema)
            connection.execute(_NEW_TABLE)
            row = connection.execute("SELECT MAX(version) FROM schema_version").fetchone()
            if present := int((row and row[0]) or 0):
                check_schema(present, ANOTHER)
                return
            connection.execute(postgres_schema())
            connection.execute("INSERT INTO schema_version VALUES (%s)", [SCHEMA_VERSION])
    except (errors.InsufficientPrivilege, errors.InvalidSchemaName) as error:
        role = connection.info.user
        raise StoreForbidden(
            f"the role {role} lacks rights in the database {connection.info.dbname}: it needs a "
            f"schema in which it may create tables, such as by CREATE SCHEMA {role} AUTHORIZATION "
            f"{role}"
        ) from error


def _select_schema(connection: psycopg.Connection[Any], schema: str) -> None:
    name = sql.Identifier(schema)
    connection.execute(sql.SQL("SET search_path = {}").format(name))
