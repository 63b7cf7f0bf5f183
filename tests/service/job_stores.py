"""The store that a test of the service runs on: SQLite in its data directory, or PostgreSQL.

`--store postgres` runs all tests of the service on PostgreSQL. Without it a test with the marker
`both_stores` runs on both, and any other on SQLite.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.postgres import PostgresServer, schema_name
from webdata_nb.service.encryption import KEY_FILE, FixedKeys, KeyFile, SecretCipher, new_key
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.sql.connection import SqlDatabase
from webdata_nb.service.store.sql.store import SqlStore
from webdata_nb.service.store.sqlite.database import SqliteDatabase

_KEY: Final = new_key()


@dataclass(slots=True)
class _Selection:
    server: PostgresServer | None = None


_SELECTED: Final = _Selection()


@contextmanager
def stores_on(server: PostgresServer | None) -> Iterator[None]:
    """Keep the stores of services on a server, or in their data directories if it is None."""
    previous, _SELECTED.server = _SELECTED.server, server
    try:
        yield
    finally:
        _SELECTED.server = previous


def store_url(data_dir: Path) -> str | None:
    """Return the URL of a service's store, in a schema of its own; None for SQLite."""
    server = _SELECTED.server
    return None if server is None else server.new_schema(schema_name(data_dir))


def secret_keys() -> tuple[str, ...]:
    """Return the encryption keys that a service with a store of PostgreSQL is given."""
    return () if _SELECTED.server is None else (_KEY,)


def database_of(data_dir: Path) -> SqlDatabase:
    """Return the database of a service, to be opened beside it."""
    url = store_url(data_dir)
    return SqliteDatabase(data_dir / "jobs.sqlite") if url is None else PostgresDatabase(url)


def cipher_of(data_dir: Path) -> SecretCipher:
    """Return what encrypts the secrets of a service."""
    keys = secret_keys()
    return SecretCipher(FixedKeys(keys) if keys else KeyFile(data_dir / KEY_FILE))


def store_of(data_dir: Path) -> SqlStore:
    """Return the store of a service, to be opened beside it."""
    return SqlStore(database_of(data_dir), cipher_of(data_dir))
