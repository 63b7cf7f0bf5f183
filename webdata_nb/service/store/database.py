"""One SQLite file: opened, migrated, written by one thread, read by a few."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeVar

from webdata_nb.service.errors import NewerSchema
from webdata_nb.service.store.queries import migrations, queries, schema_version
from webdata_nb.service.store.sqlite_errors import primary_code, translated
from webdata_nb.service.store.writer import Writer

T = TypeVar("T")
READERS: Final = 2
# How long a statement waits for another process's lock before it fails.
BUSY_S: Final = 30.0
# How long the look for damage may take when a database is opened.
LOOK_S: Final = 0.3
_STEPS: Final = 10_000
# Rows are pages of 50 to 100 kB: in SQLite's own 4 kB a commit of them takes twice the time.
PAGE_BYTES: Final = 16_384
_Q: Final = queries()


class Database:
    """The named statements of this package, run against one SQLite file.

    Changes share transactions (`Writer`); questions run on threads of their own.

    Raises
    ------
    StoreUnavailable, StoreDamaged
        From every method: the file cannot be written or read now, or not at all.
    """

    connection_type: ClassVar[type[sqlite3.Connection]] = sqlite3.Connection

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = local()
        self._connections: list[sqlite3.Connection] = []

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    async def __aenter__(self) -> Self:
        with translated(self._path):
            await asyncio.to_thread(self._migrate)
            self._watch = await asyncio.to_thread(self._connect)
        self._connections.append(self._watch)
        self._watch.execute("PRAGMA busy_timeout=0")
        self._doubts = itertools.count(-1, -1)
        self._writer = Writer(self._connect)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="webdata-reader")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._writer.close()
        await asyncio.to_thread(self._readers.shutdown)
        for connection in self._connections:
            connection.close()

    async def change(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Run `change` in a transaction; return its value once it is on disk."""
        with translated(self._path):
            return await self._writer.run(change)

    async def write(self, query: str, /, **values: Any) -> int:
        """Run one named statement; return how many rows it touched."""
        return await self.change(lambda connection: connection.execute(_Q[query], values).rowcount)

    async def read(self, query: str, /, **values: Any) -> list[sqlite3.Row]:
        """Return the rows that one named statement finds."""
        return await self.ask(lambda connection: connection.execute(_Q[query], values).fetchall())

    async def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Run a question of several statements on a reading connection."""

        def on_thread() -> T:
            if not hasattr(self._local, "connection"):
                self._local.connection = self._connect()
                self._connections.append(self._local.connection)
            connection: sqlite3.Connection = self._local.connection
            try:
                return question(connection)
            except sqlite3.Error:
                if connection.in_transaction:  # the next question starts a transaction of its own
                    connection.rollback()
                raise

        with translated(self._path):
            return await asyncio.get_running_loop().run_in_executor(self._readers, on_thread)

    def moment(self) -> int:
        """Return a number that is another one once any process has committed anything.

        It is asked on the loop's own thread, for it takes microseconds: SQLite looks at memory
        that its processes share, and at no file.
        """
        try:
            return int(self._watch.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error:  # held by another process, or unreadable: nobody knows
            return next(self._doubts)

    def _connect(self) -> sqlite3.Connection:
        # Closed by another thread than the one that used it, after that one has ended.
        connection = sqlite3.connect(
            self._path,
            timeout=BUSY_S,
            isolation_level=None,
            check_same_thread=False,
            factory=self.connection_type,
        )
        try:
            connection.row_factory = sqlite3.Row
            for pragma in (
                f"page_size={PAGE_BYTES}",
                "journal_mode=wal",
                "synchronous=full",
                "foreign_keys=on",
            ):
                connection.execute(f"PRAGMA {pragma}")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _migrate(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.touch(mode=0o600)
        connection = self._connect()
        try:
            _check_quickly(connection)
            _migrate(connection)
        finally:
            connection.close()


def _check_quickly(connection: sqlite3.Connection) -> None:
    """Raise `sqlite3.DatabaseError` where a short look finds the file damaged."""
    until = time.monotonic() + LOOK_S
    connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        [found] = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if primary_code(error) != sqlite3.SQLITE_INTERRUPT:
            raise
        return  # too large for a short look; `webdata store check` takes the time
    finally:
        connection.set_progress_handler(None, 0)
    if found != "ok":
        damage = sqlite3.DatabaseError(found.splitlines()[-1])
        damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damage


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring the schema up to date, a migration a transaction; refuse a newer one."""
    present = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if present > schema_version():
        raise NewerSchema(
            f"the database has schema {present}, this release knows {schema_version()}: "
            "use the newer release of webdata_nb, or another WEBDATA_HOME"
        )
    for version, script in migrations():
        if version > present:
            connection.executescript(f"BEGIN; {script} PRAGMA user_version = {version}; COMMIT;")
