"""The store that a test of the service runs on: SQLite in its data directory, or PostgreSQL.

`--store postgres` runs all tests of the service on PostgreSQL. Without it a test with the marker
`both_stores` runs on both, and any other on SQLite.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from tests.planted_secrets import files
from tests.postgres import PostgresServer, schema_name
from webdata_nb.service.encryption import KEY_FILE, FixedKeys, KeyFile, SecretCipher, new_key
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.sql.connection import SqlDatabase
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.sqlite.database import SqliteDatabase

_KEY: Final = new_key()
# The promise is a second.
_NOTICED_S: Final = 1.1


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


async def wait_for_other_processes() -> None:
    """Wait until services have noticed what other processes changed: at once on SQLite."""
    if _SELECTED.server is not None:
        await asyncio.sleep(_NOTICED_S)


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


def store_of(data_dir: Path) -> Store:
    """Return the store of a service, to be opened beside it."""
    return Store(database_of(data_dir), cipher_of(data_dir))


def stored_bytes(data_dir: Path) -> dict[str, bytes]:
    """Return what a service has stored: its files, and on PostgreSQL the rows of each table."""
    found = files(data_dir)
    if (url := store_url(data_dir)) is None:
        return found
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        ).fetchall()
        for (table,) in tables:
            query = sql.SQL("SELECT * FROM {}").format(sql.Identifier(table))
            cells = [cell for row in connection.execute(query) for cell in row]
            found[f"table {table}"] = b"\n".join(
                cell if isinstance(cell, bytes) else str(cell).encode() for cell in cells
            )
    return found
