"""Connections to a PostgreSQL server: a pool that fails fast, errors, the server's clock."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self, TypeVar

import psycopg
from psycopg import errors, sql
from psycopg.abc import PQGen
from psycopg.rows import DictRow, Row, dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from webdata_nb.service.errors import (
    DiskFull,
    OtherSchema,
    StoreBusy,
    StoreDamaged,
    StoreForbidden,
    StoreUnavailable,
)
from webdata_nb.service.store.sql.connection import SCHEMA_VERSION, check_schema
from webdata_nb.service.store.sql.store import CheckResult

# Checks of a server: version, rights, settings, signals. They change nothing.


T = TypeVar("T")

Connection = psycopg.Connection[Any]

MIN_SERVER_VERSION: Final = 15_00_00
# Several processes are the purpose of a database, and one of them may be replaced by a new one.
MIN_PROCESSES: Final = 2
ANOTHER: Final = "an empty PostgreSQL database"
_SIGNAL_S: Final = 10.0
_UTF8: Final = "UTF8"
# The settings that must be on, and what is lost without them.
_REQUIRED: Final = {
    "fsync": "a crash of the machine can destroy the database",
    "full_page_writes": "a crash of the machine can destroy the database",
    "synchronous_commit": "a crash of the server loses jobs whose start was confirmed",
    "autovacuum": "tables grow and become slow, since every job changes its row often",
    "track_counts": "autovacuum does not run without it",
}
_TABLE_RIGHTS: Final = "SELECT, INSERT, UPDATE, DELETE"


def check_version(connection: Connection) -> None:
    """Raise `StoreUnavailable` if the server is too old."""
    version = connection.info.server_version
    if version < MIN_SERVER_VERSION:
        raise StoreUnavailable(
            f"the server is PostgreSQL {version // 10_000}; version "
            f"{MIN_SERVER_VERSION // 10_000} or newer is needed"
        )


def check_signals(connect: Callable[[], Connection]) -> None:
    """Raise `StoreForbidden` if a notification of one connection does not reach another."""
    channel = f"webdata_check_{secrets.token_hex(8)}"
    with connect() as listener, connect() as sender:
        listener.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        sender.execute("SELECT pg_notify(%s, '')", [channel])
        for _ in listener.notifies(timeout=_SIGNAL_S, stop_after=1):
            return
    raise StoreForbidden(
        "the store's URL leads to a pooler that drops LISTEN: use the port of PostgreSQL itself, "
        "or a pooler in session mode (PgBouncer: pool_mode = session)"
    )


def check_server(conninfo: str) -> list[CheckResult]:
    """Check a server for a store.

    Raises
    ------
    StoreUnavailable
        There is no connection.
    """

    def connect() -> Connection:
        # In a database without an encoding, texts would be bytes.
        return psycopg.connect(conninfo, client_encoding=_UTF8, **CONNECTION)

    with translated(), connect() as connection:
        version = connection.info.parameter_status("server_version")
        return [
            CheckResult("server", _problems(check_version, connection), f"PostgreSQL {version}"),
            CheckResult("settings", tuple(_settings_problems(connection))),
            _check_signals(connection, connect),
            CheckResult("rights", tuple(_rights_problems(connection))),
            _check_schema(connection),
        ]


def _check_signals(connection: Connection, connect: Callable[[], Connection]) -> CheckResult:
    if problems := _problems(check_signals, connect):
        return CheckResult("signals", problems)
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    # A pooler has a process id of its own for each of its clients.
    if row is None or row[0] == connection.info.backend_pid:
        return CheckResult("signals")
    return CheckResult(
        "signals",
        detail="through a pooler in session mode, which needs a pool of "
        f"{CONNECTIONS_PER_PROCESS} connections per process (PgBouncer: default_pool_size)",
    )


def has_current_schema(results: Sequence[CheckResult]) -> bool:
    """Whether the results of `check_server` are those of a usable store of this release."""
    by_name = {result.check: result for result in results}
    usable = not any(by_name[name].problems for name in ("server", "signals", "rights", "schema"))
    return usable and by_name["schema"].detail == _schema_detail(SCHEMA_VERSION)


def _problems(check: Callable[[Any], None], argument: object) -> tuple[str, ...]:
    try:
        check(argument)
    except (StoreForbidden, StoreUnavailable) as error:
        return (str(error),)
    return ()


def _setting(connection: Connection, name: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    return str(row[0]) if row else ""


def _settings_problems(connection: Connection) -> Iterator[str]:
    for name, consequence in _REQUIRED.items():
        if _setting(connection, name) == "off":
            yield f"{name} is off: {consequence}; set {name} = on"
    if (encoding := _setting(connection, "server_encoding")) != _UTF8:
        yield (
            f"the database has the encoding {encoding}: use one of CREATE DATABASE ... "
            "ENCODING 'UTF8' TEMPLATE template0"
        )
    if _setting(connection, "transaction_read_only") == "on":
        yield "the database is read-only or a standby: use the URL of the primary server"
    if (timeout := _setting(connection, "idle_session_timeout")) != "0":
        yield (
            f"idle_session_timeout = {timeout} ends connections that wait for signals: set "
            "idle_session_timeout = 0"
        )
    row = connection.execute(
        "SELECT current_setting('max_connections')::int"
        " - current_setting('superuser_reserved_connections')::int,"
        " (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),"
        " (SELECT datconnlimit FROM pg_database WHERE datname = current_database())"
    ).fetchone()
    needed = MIN_PROCESSES * CONNECTIONS_PER_PROCESS
    limits = ("max_connections", "the connection limit of the role", "that of the database")
    for name, limit in zip(limits, row or (), strict=True):
        if 0 <= limit < needed:
            yield (
                f"{name} leaves {limit} connections; a process uses up to "
                f"{CONNECTIONS_PER_PROCESS}, so that {MIN_PROCESSES} processes need {needed}"
            )


def _rights_problems(connection: Connection) -> Iterator[str]:
    row = connection.execute(
        "SELECT current_schema(), current_user,"
        " has_schema_privilege(current_schema(), 'CREATE'), current_database()"
    ).fetchone()
    schema, role, may_create, database = row or (None, None, False, None)
    if schema is None or not may_create:
        yield (
            f"the role {role} needs a schema in which it may create tables: "
            f"CREATE SCHEMA {role} AUTHORIZATION {role} in the database {database}"
        )
        return
    tables = connection.execute(
        "SELECT tablename, pg_has_role(tableowner, 'USAGE'),"
        " has_table_privilege(format('%%I.%%I', schemaname, tablename), %s)"
        " FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename",
        [_TABLE_RIGHTS],
    ).fetchall()
    for table, is_owner, may_write in tables:
        if not is_owner:
            action = "read and write" if not may_write else "change, as new releases do,"
            yield f"the role {role} may not {action} the table {table}: make it the owner"


def _check_schema(connection: Connection) -> CheckResult:
    row = connection.execute(
        "SELECT to_regclass('schema_version') IS NOT NULL AND"
        " has_table_privilege(to_regclass('schema_version'), 'SELECT')"
    ).fetchone()
    if not (row and row[0]):
        return CheckResult("schema", detail="no tables yet; the first start creates them")
    row = connection.execute("SELECT MAX(version) FROM schema_version").fetchone()
    present = int((row and row[0]) or 0)
    try:
        check_schema(present, ANOTHER)
    except OtherSchema as error:
        return CheckResult("schema", (str(error),))
    return CheckResult("schema", detail=_schema_detail(present))


def _schema_detail(version: int) -> str:
    return f"version {version}"


_RETRYABLE: Final = (errors.SerializationFailure, errors.DeadlockDetected)
# PostgreSQL's name of the reference of entries to contents.
_CONTENT_REFERENCE: Final = "entry_content_id_fkey"
_BUSY: Final = (errors.QueryCanceled, errors.LockNotAvailable, *_RETRYABLE)
_DAMAGED: Final = (errors.DataCorrupted, errors.IndexCorrupted)
_UNAVAILABLE: Final = (
    psycopg.OperationalError,
    psycopg.InterfaceError,  # a connection that was closed
    errors.ReadOnlySqlTransaction,  # a standby
)


def is_retryable(error: BaseException) -> bool:
    """Whether the transaction may succeed if it is run again at once."""
    return isinstance(error, _RETRYABLE) or _is_content_race(error)


def _is_content_race(error: BaseException) -> bool:
    """Whether an entry was to use a content while another transaction deleted it, or vice versa."""
    if not isinstance(error, errors.ForeignKeyViolation):
        return False
    return error.diag.constraint_name == _CONTENT_REFERENCE


@contextmanager
def translated() -> Iterator[None]:
    """Raise PostgreSQL's errors as the service's errors."""
    try:
        yield
    except psycopg.Error as error:
        reason = first_line(error)
        if isinstance(error, _DAMAGED):
            raise StoreDamaged(
                f"the service's database is damaged ({reason}): restore it from a backup"
            ) from error
        if isinstance(error, errors.DiskFull):
            raise DiskFull("the disk of the service's database is full") from error
        if isinstance(error, _BUSY) or _is_content_race(error):
            raise StoreBusy(f"the service's database is busy ({reason})") from error
        if isinstance(error, _UNAVAILABLE):
            raise StoreUnavailable(f"the service's database is not available ({reason})") from error
        raise


def first_line(error: psycopg.Error) -> str:
    """Return the beginning of a message; later lines may quote a statement."""
    return (str(error).splitlines() or [type(error).__name__])[0]


POOL_SIZE: Final = 8
READERS: Final = 4
# The pool, a connection that listens for signals, one for the pacing, and two for locks.
CONNECTIONS_PER_PROCESS: Final = POOL_SIZE + READERS + 4
# A network that loses all packets ends a call, and a connection that only listens.
CONNECTION: Final[dict[str, Any]] = {
    "autocommit": True,
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 8_000,
}
# The same for the server, which otherwise keeps the session of a lost process, and its locks, for
# hours.
_SERVER_KEEPALIVES: Final = (
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 3; SET tcp_keepalives_count = 3;"
    " SET tcp_user_timeout = '8s'"
)
# How long a statement runs.
STATEMENT_S: Final = 60
# A server whose machine answers and which does not, as when it is stopped, ends a call too.
_ANSWER_S: Final = STATEMENT_S + 5.0
# While no connection can be opened, an open one must still work.
_ANSWER_WHILE_AWAY_S: Final = 1.0

log: Final = logging.getLogger(__name__)

# How long a call waits for a connection while the server accepts connections.
POOL_WAIT_S: Final = 15.0
# A waiting call notices after this time that the server is away.
_WAIT_STEP_S: Final = 0.2
# Long enough to take an idle connection.
_TAKE_IDLE_S: Final = 0.001
# The pool tries lost connections again about once per second, however long the server is away: its
# own delays would grow with the outage.
RECONNECT_S: Final = 2.0


class Availability:
    """Whether the server accepts connections, by the last attempts.

    It is away if an attempt to connect failed, and no connection has worked since the attempt
    before it: a server that only allows no further connections is not away.
    """

    def __init__(self) -> None:
        self.is_away: bool = False
        self._has_worked = False
        self._is_logged = False

    def connection_worked(self, *, is_new: bool = False) -> None:
        """Note that a connection was opened, or used without losing it.

        Only a new one ends an outage in the log: a server that stops still answers on open ones.
        """
        self._has_worked, self.is_away = True, False
        if is_new and self._is_logged:
            self._is_logged = False
            log.info("the database accepts connections again")

    def connection_lost(self) -> None:
        """Note that a connection was lost while it was used."""
        self._has_worked = False

    def attempt_failed(self, reason: str) -> None:
        """Note that a connection could not be opened; the first failure of an outage is logged."""
        self.is_away, self._has_worked = not self._has_worked, False
        if self.is_away and not self._is_logged:
            self._is_logged = True
            log.warning("the database accepts no connections: %s", reason)


class DeadlineConnection(psycopg.Connection[Row]):
    """A connection whose calls fail when the server does not answer in time.

    Attributes
    ----------
    answer_s : float
        How long a call waits for the server.
    """

    answer_s: float = _ANSWER_S

    def wait(self, gen: PQGen[T], *options: Any, **named_options: Any) -> T:
        """Run a conversation with the server to its end."""
        if named_options.get("timeout") is not None:  # that of `notifies`
            return super().wait(gen, *options, **named_options)
        try:
            return super().wait(self._with_deadline(gen))
        except NoAnswerError:
            # Later calls on this connection, such as a rollback, would wait as well.
            self.pgconn.finish()
            raise

    def limit_server(self) -> None:
        """Let the server end the session if the network loses this process."""
        self.execute(_SERVER_KEEPALIVES)

    def _with_deadline(self, conversation: PQGen[T]) -> PQGen[T]:
        """Raise an error if a conversation waits for the server for too long."""
        began = time.monotonic()
        try:
            expected = next(conversation)
            while True:
                ready = yield expected
                if not ready and time.monotonic() - began > self.answer_s:
                    raise NoAnswerError("the server does not answer")
                expected = conversation.send(ready)
        except StopIteration as end:
            value: T = end.value
            return value


class NoAnswerError(psycopg.OperationalError):
    """A server that did not answer before a deadline."""


class PoolConnection(DeadlineConnection[DictRow]):
    """A connection of a pool."""

    _availability: Availability | None = None

    @classmethod
    def connect(  # type: ignore[override]
        cls, conninfo: str = "", *, availability: Availability, **options: Any
    ) -> Self:
        """Open a connection, and note whether that was possible."""
        try:
            connection = super().connect(conninfo, **options)
        except psycopg.Error as error:
            availability.attempt_failed(first_line(error))
            raise
        availability.connection_worked(is_new=True)
        connection._availability = availability  # noqa: SLF001 - of this class
        return connection

    @property
    def answer_s(self) -> float:  # type: ignore[override]
        """How long a call waits for the server; shorter while no connection can be opened."""
        is_away = self._availability is not None and self._availability.is_away
        return _ANSWER_WHILE_AWAY_S if is_away else _ANSWER_S


class FailFastPool(ConnectionPool[PoolConnection]):
    """A connection pool whose callers do not wait while the server is away.

    Its threads go on trying to connect. Meanwhile a call receives an idle connection, which may
    still work, or an `OperationalError` at once.

    Parameters
    ----------
    conninfo
        A connection string or URL of libpq.
    configure
        Sets up a new connection.
    max_size
        The largest number of connections.
    """

    def __init__(
        self, conninfo: str, *, configure: Callable[[PoolConnection], None], max_size: int
    ) -> None:
        self._availability = Availability()
        super().__init__(
            conninfo,
            connection_class=PoolConnection,
            kwargs={"row_factory": dict_row, "availability": self._availability, **CONNECTION},
            configure=configure,
            min_size=1,
            max_size=max_size,
            timeout=POOL_WAIT_S,
            reconnect_timeout=RECONNECT_S,
            reconnect_failed=ConnectionPool.check,
            open=False,
        )

    def getconn(self, timeout: float | None = None) -> PoolConnection:
        """Return an idle or a new connection.

        Raises
        ------
        psycopg.OperationalError
            The server is away, or every connection was in use until the timeout.
        """
        wait_s = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + wait_s
        while True:
            is_away = self._availability.is_away
            left_s = deadline - time.monotonic()
            try:
                return super().getconn(_TAKE_IDLE_S if is_away else min(left_s, _WAIT_STEP_S))
            except PoolTimeout:
                if is_away:
                    raise psycopg.OperationalError("it accepts no connections") from None
                if time.monotonic() >= deadline:
                    raise PoolTimeout(f"did not get a connection within {wait_s:g} s") from None

    def putconn(self, conn: PoolConnection) -> None:
        """Return a connection to the pool."""
        if conn.broken:
            self._availability.connection_lost()
        else:
            self._availability.connection_worked()
        super().putconn(conn)


# A clock that is a few parts in a million off drifts by less than a millisecond in this time.
INTERVAL_S: Final = 60.0
_SAMPLES: Final = 3


class ServerClock:
    """The server's clock, as this process's monotonic clock plus an offset.

    The offset is measured by requests to the server: half of the fastest one's duration is its
    error. The time of this machine does not matter, nor whether someone changes it.

    Attributes
    ----------
    offset : float
        Seconds by which the server's time is ahead of this process's monotonic clock.
    """

    def __init__(self) -> None:
        self.offset: float = 0.0
        self._measured_at = float("-inf")

    def now(self) -> float:
        """Return the server's time in Unix seconds."""
        return time.monotonic() + self.offset

    @property
    def is_due(self) -> bool:
        """Whether the offset should be measured again."""
        return time.monotonic() - self._measured_at > INTERVAL_S

    def synchronize(self, connection: psycopg.Connection[Any]) -> None:
        """Measure the offset."""
        self._measured_at = time.monotonic()
        samples = []
        for _ in range(_SAMPLES):
            start = time.monotonic()
            cursor = connection.execute(
                "SELECT EXTRACT(EPOCH FROM clock_timestamp())::float8 AS now"
            )
            end = time.monotonic()
            row = cursor.fetchone()
            server_time = float(row["now"]) if row else 0.0
            samples.append((end - start, server_time - (start + end) / 2))
        self.offset = min(samples)[1]
