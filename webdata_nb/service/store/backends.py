"""Chooses the implementation of the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.errors import MissingDriver
from webdata_nb.service.store.interface import AccountStore, Store, TextIndex
from webdata_nb.service.store.sql.accounts import SqlAccountStore
from webdata_nb.service.store.sql.connection import SqlDatabase
from webdata_nb.service.store.sql.consistency import CheckResult, find_contradictions
from webdata_nb.service.store.sql.named_statements import schema_version
from webdata_nb.service.store.sql.store import SqlStore
from webdata_nb.service.store.sqlite.backup import back_up
from webdata_nb.service.store.sqlite.check import check_database
from webdata_nb.service.store.sqlite.database import SqliteDatabase
from webdata_nb.service.store.sqlite.store import SqliteStore
from webdata_nb.service.store.sqlite.text_index import SqliteTextIndex

__all__ = [
    "DATABASE_FILE",
    "CheckResult",
    "back_up_store",
    "check_store",
    "open_accounts",
    "open_store",
    "open_text_index",
    "schema_version",
]

DATABASE_FILE: Final = "jobs.sqlite"
INDEX_FILE: Final = "index.sqlite"


def open_store(data_dir: Path, cipher: SecretCipher, url: str | None = None) -> Store:
    """Return the store of a data directory, or at a URL, to be used by `async with`.

    `cipher` encrypts jobs' secrets.

    Raises
    ------
    MissingDriver
        The URL is one of PostgreSQL, and its driver is not installed.
    """
    if url is None:
        return SqliteStore(data_dir / DATABASE_FILE, cipher)
    return SqlStore(_postgres_database(url), cipher)


def _postgres_database(url: str) -> SqlDatabase:
    try:
        from webdata_nb.service.store.postgres.database import (  # noqa: PLC0415 - an extra
            PostgresDatabase,
        )
    except ImportError:
        raise MissingDriver(
            'a store on PostgreSQL needs psycopg: pip install "webdata_nb[postgres]"'
        ) from None
    return PostgresDatabase(url)


@asynccontextmanager
async def open_accounts(data_dir: Path, url: str | None = None) -> AsyncIterator[AccountStore]:
    """Open the accounts of a data directory, or at a URL, without the keys of jobs' secrets.

    Raises
    ------
    MissingDriver
        As `open_store`.
    """
    database = SqliteDatabase(data_dir / DATABASE_FILE) if url is None else _postgres_database(url)
    async with database:
        yield SqlAccountStore(database)


def open_text_index(data_dir: Path, store: Store) -> TextIndex:
    """Return the text index of an open store, to be used by `async with`.

    It is in the database on PostgreSQL, and in a file of the data directory otherwise.
    """
    if isinstance(store, SqliteStore):
        return SqliteTextIndex(data_dir / INDEX_FILE)
    from webdata_nb.service.store.postgres.database import (  # noqa: PLC0415 - an extra
        PostgresDatabase,
    )
    from webdata_nb.service.store.postgres.text_index import (  # noqa: PLC0415 - an extra
        PostgresTextIndex,
    )

    if not isinstance(store, SqlStore) or not isinstance(store.database, PostgresDatabase):
        raise TypeError("a store of PostgreSQL or SQLite is expected")
    return PostgresTextIndex(store.database)


async def check_store(data_dir: Path, url: str | None = None) -> list[CheckResult]:
    """Check the store of a data directory, or at a URL, for damage and contradictions.

    PostgreSQL checks its files itself, so that only contradictions are looked for. See
    `check_database`.
    """
    if url is None:
        return await asyncio.to_thread(check_database, data_dir / DATABASE_FILE)
    async with _postgres_database(url) as database:
        return await database.snapshot(lambda transaction: list(find_contradictions(transaction)))


def back_up_store(data_dir: Path, target: Path) -> int:
    """Copy a data directory's store to a new file; return its bytes; see `back_up`."""
    return back_up(data_dir / DATABASE_FILE, target)
