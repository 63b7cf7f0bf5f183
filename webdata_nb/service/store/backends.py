"""Chooses the implementation of the store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.store.interface import AccountStore, Store, TextIndex
from webdata_nb.service.store.sql.accounts import SqlAccountStore
from webdata_nb.service.store.sql.consistency import CheckResult
from webdata_nb.service.store.sql.named_statements import schema_version
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


def open_store(data_dir: Path, cipher: SecretCipher | None = None) -> Store:
    """Return the store of a data directory, to be used by `async with`.

    `cipher` encrypts jobs' secrets; by default with the key file of the directory.
    """
    return SqliteStore(data_dir / DATABASE_FILE, cipher)


@asynccontextmanager
async def open_accounts(data_dir: Path) -> AsyncIterator[AccountStore]:
    """Open the accounts of a data directory, without the keys of jobs' secrets."""
    async with SqliteDatabase(data_dir / DATABASE_FILE) as database:
        yield SqlAccountStore(database)


def open_text_index(data_dir: Path) -> TextIndex:
    """Return the text index of a data directory, to be used by `async with`."""
    return SqliteTextIndex(data_dir / INDEX_FILE)


def check_store(data_dir: Path) -> list[CheckResult]:
    """Check a data directory's store for damage and contradictions; see `check_database`."""
    return check_database(data_dir / DATABASE_FILE)


def back_up_store(data_dir: Path, target: Path) -> int:
    """Copy a data directory's store to a new file; return its bytes; see `back_up`."""
    return back_up(data_dir / DATABASE_FILE, target)
