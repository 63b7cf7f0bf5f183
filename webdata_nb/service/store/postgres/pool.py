"""Connections to a PostgreSQL server: a pool that fails fast, errors, the server's clock."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

import psycopg
from psycopg import errors
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from webdata_nb.page.errors import ApplicationError
from webdata_nb.service.errors import DiskFull, StoreBusy, StoreDamaged, StoreUnavailable

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
        service_error = _service_error(error)
        if service_error is None:
            raise
        raise service_error from error


def _service_error(error: psycopg.Error) -> ApplicationError | None:
    reason = first_line(error)
    if isinstance(error, _DAMAGED):
        return StoreDamaged(
            f"the service's database is damaged ({reason}): restore it from a backup"
        )
    if isinstance(error, errors.DiskFull):
        return DiskFull("the disk of the service's database is full")
    if isinstance(error, _BUSY) or _is_content_race(error):
        return StoreBusy(f"the service's database is busy ({reason})")
    if isinstance(error, _UNAVAILABLE):
        return StoreUnavailable(f"the service's database is not available ({reason})")
    return None


def first_line(error: psycopg.Error) -> str:
    """Return the beginning of a message; later lines may quote a statement."""
    return (str(error).splitlines() or [type(error).__name__])[0]


POOL_SIZE: Final = 8
READERS: Final = 4
# The pool, a connection that listens for signals, one for the pacing, and two for locks.
CONNECTIONS_PER_PROCESS: Final = POOL_SIZE + READERS + 4
# A server that does not answer, or a network that loses everything, ends a call.
CONNECTION: Final[dict[str, Any]] = {
    "autocommit": True,
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

log = logging.getLogger(__name__)

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
        self.is_away = False
        self._has_worked = False

    def connection_worked(self) -> None:
        """Note that a connection was opened, or used without losing it."""
        was_away, self._has_worked, self.is_away = self.is_away, True, False
        if was_away:
            log.info("the database accepts connections again")

    def connection_lost(self) -> None:
        """Note that a connection was lost while it was used."""
        self._has_worked = False

    def attempt_failed(self, reason: str) -> None:
        """Note that a connection could not be opened; the first failure of an outage is logged."""
        was_away, self.is_away = self.is_away, not self._has_worked
        self._has_worked = False
        if self.is_away and not was_away:
            log.warning("the database accepts no connections: %s", reason)


class PoolConnection(psycopg.Connection[DictRow]):
    """A connection of a pool."""

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
        availability.connection_worked()
        return connection


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
        self.offset = 0.0
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
        samples = [_sample(connection) for _ in range(_SAMPLES)]
        self.offset = min(samples)[1]


def _sample(connection: psycopg.Connection[Any]) -> tuple[float, float]:
    """Return the duration of a request, and the offset by it."""
    start = time.monotonic()
    cursor = connection.execute("SELECT EXTRACT(EPOCH FROM clock_timestamp())::float8 AS now")
    end = time.monotonic()
    row = cursor.fetchone()
    server_time = float(row["now"]) if row else 0.0
    return end - start, server_time - (start + end) / 2
