"""Translates PostgreSQL's errors to the service's errors.

======================  ===============================================================
`DiskFull`              the server has no space left (53100)
`StoreBusy`             a statement or a lock took too long (57014, 55P03)
`StoreUnavailable`      no connection, a server that stops, starts or is read-only
`StoreDamaged`          data or an index is corrupted (class XX)
the error itself        all others: constraints, wrong statements
======================  ===============================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import errors

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
