"""Chooses the implementation of the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from webdata_nb.pacing.host_pacing import IN_PROCESS, SharedPacing
from webdata_nb.service.encryption import SecretCipher
from webdata_nb.service.errors import MissingDriver
from webdata_nb.service.store.sql.accounts import AccountStore
from webdata_nb.service.store.sql.connection import SCHEMA_VERSION, SqlDatabase
from webdata_nb.service.store.sql.contents import (
    NO_SEGMENTS,
    SegmentContents,
    SegmentSource,
    segments_with_contents,
)
from webdata_nb.service.store.sql.operator import OperatorStore
from webdata_nb.service.store.sql.store import CheckResult, Store, find_contradictions
from webdata_nb.service.store.sql.text_index import TextIndex
from webdata_nb.service.store.sqlite.database import (
    SqliteDatabase,
    SqliteStore,
    back_up,
    check_database,
)
from webdata_nb.service.store.sqlite.database import read_segments as read_sqlite_segments
from webdata_nb.service.store.sqlite.text_index import SqliteTextIndex

__all__ = [
    "DATABASE_FILE",
    "SCHEMA_VERSION",
    "CheckResult",
    "back_up_store",
    "check_store",
    "open_accounts",
    "open_operator",
    "open_pacing",
    "open_store",
    "open_text_index",
    "read_segments",
]

SegmentsCheck = Callable[
    [Callable[[], Awaitable[Sequence[SegmentContents]]]], Awaitable[list[CheckResult]]
]
DATABASE_FILE: Final = "jobs.sqlite"
INDEX_FILE: Final = "index.sqlite"


def open_store(
    data_dir: Path,
    cipher: SecretCipher,
    url: str | None = None,
    segments: SegmentSource = NO_SEGMENTS,
) -> Store:
    """Return the store of a data directory, or at a URL, to be used by `async with`.

    `cipher` encrypts jobs' secrets. `segments` reads contents in files.

    Raises
    ------
    MissingDriver
        The URL is one of PostgreSQL, and its driver is not installed.
    """
    if url is None:
        return SqliteStore(data_dir / DATABASE_FILE, cipher, segments)
    return Store(_postgres_database(url), cipher, segments)


def _postgres_database(url: str) -> SqlDatabase:
    with _driver():
        from webdata_nb.service.store.postgres.database import (  # noqa: PLC0415 - an extra
            PostgresDatabase,
        )
    return PostgresDatabase(url)


@contextmanager
def _driver() -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise MissingDriver(
            'a store on PostgreSQL needs psycopg: pip install "webdata_nb[postgres]"'
        ) from None


@asynccontextmanager
async def open_pacing(
    url: str | None, count_replicas: Callable[[], int]
) -> AsyncIterator[SharedPacing]:
    """Open what keeps the pacing of hosts and providers, for the processes of the store at a URL.

    `count_replicas` returns how many processes serve the store.
    """
    if url is None:
        yield IN_PROCESS
        return
    from webdata_nb.service.store.postgres.pacing import (  # noqa: PLC0415 - an extra
        PostgresPacing,
    )

    async with PostgresPacing(url, count_replicas) as pacing:
        yield pacing


@asynccontextmanager
async def open_accounts(data_dir: Path, url: str | None = None) -> AsyncIterator[AccountStore]:
    """Open the accounts of a data directory, or at a URL, without the keys of jobs' secrets.

    Raises
    ------
    MissingDriver
        As `open_store`.
    """
    async with _open_database(data_dir, url) as database:
        yield AccountStore(database)


@asynccontextmanager
async def open_operator(data_dir: Path, url: str | None = None) -> AsyncIterator[OperatorStore]:
    """Open what an operator sees of a store, without the keys of jobs' secrets.

    Raises
    ------
    MissingDriver
        As `open_store`.
    """
    async with _open_database(data_dir, url) as database:
        yield OperatorStore(database)


def _open_database(data_dir: Path, url: str | None) -> SqlDatabase:
    return SqliteDatabase(data_dir / DATABASE_FILE) if url is None else _postgres_database(url)


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

    if not isinstance(store, Store) or not isinstance(store.database, PostgresDatabase):
        raise TypeError("a store of PostgreSQL or SQLite is expected")
    return PostgresTextIndex(store.database, store)


async def check_store(
    data_dir: Path, url: str | None = None, check_segments: SegmentsCheck | None = None
) -> list[CheckResult]:
    """Check the store of a data directory, or a server and the store on it; change nothing.

    PostgreSQL checks its files itself. Contradictions are looked for in a store of this release.
    See `check_database` and `check_server`. `check_segments` checks the files of such a store.
    """
    if url is None:
        results = await asyncio.to_thread(check_database, data_dir / DATABASE_FILE)
        is_readable = len(results) > 1
    else:
        with _driver():
            from webdata_nb.service.store.postgres.pool import (  # noqa: PLC0415
                check_server,
                has_current_schema,
            )
        results = await asyncio.to_thread(check_server, url)
        is_readable = has_current_schema(results)
        if is_readable:
            async with _postgres_database(url) as database:
                results += await database.query(lambda each: list(find_contradictions(each)))
    if is_readable and check_segments is not None:
        results += await check_segments(partial(read_segments, data_dir, url))
    return results


async def read_segments(data_dir: Path, url: str | None = None) -> list[SegmentContents]:
    """Return the segments that contents of a store of this release point to; change nothing."""
    if url is None:
        return await asyncio.to_thread(read_sqlite_segments, data_dir / DATABASE_FILE)
    async with _postgres_database(url) as database:
        return await database.query(segments_with_contents)


def back_up_store(data_dir: Path, target: Path) -> int:
    """Copy a data directory's store to a new file; return its bytes; see `back_up`."""
    return back_up(data_dir / DATABASE_FILE, target)
