"""The stores and text indexes that the contract tests run on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.postgres import PostgresServer, schema_name
from tests.stores.document_index import open_document_index
from webdata_nb.service.encryption import KEY_FILE, KeyFile, SecretCipher
from webdata_nb.service.store.postgres.database import PostgresDatabase
from webdata_nb.service.store.sql.store import Store
from webdata_nb.service.store.sql.text_index import TextIndex
from webdata_nb.service.store.sqlite.database import SqliteStore

StoreFactory = Callable[[Path], Store]


def _sqlite(folder: Path) -> Store:
    return SqliteStore(folder / "jobs.sqlite")


def open_postgres(server: PostgresServer, folder: Path) -> Store:
    """Return the store of a folder, in a schema of its own."""
    database = PostgresDatabase(server.url, schema=schema_name(folder))
    return Store(database, SecretCipher(KeyFile(folder / KEY_FILE)))


# The kinds of stores; add the next one here.
STORES: Final = ("sqlite", "postgres")


@pytest.fixture(params=STORES)
def store_factory(request: pytest.FixtureRequest) -> StoreFactory:
    """Return what opens the store of a folder, of each kind; a new folder has an empty one."""
    if request.param == "sqlite":
        return _sqlite
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return partial(open_postgres, server)


@pytest.fixture
async def store(store_factory: StoreFactory, tmp_path: Path) -> AsyncIterator[Store]:
    """Open an empty store of each kind."""
    async with store_factory(tmp_path) as opened:
        yield opened


@pytest.fixture
async def index(store: Store, tmp_path: Path) -> AsyncIterator[TextIndex]:
    """Open the empty text index of each kind of store."""
    async with open_document_index(tmp_path, store) as opened:
        yield opened
