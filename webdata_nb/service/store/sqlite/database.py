"""One SQLite file: opened, checked, written by one thread in group commits, read by a few."""

from __future__ import annotations

import asyncio
import itertools
import os
import queue
import re
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from threading import local
from typing import Any, ClassVar, Final, Self, TypeVar

import orjson

from webdata_nb.service.encryption import KEY_FILE, KeyFile, SecretCipher
from webdata_nb.service.errors import (
    DiskFull,
    OtherSchema,
    StoreBusy,
    StoreDamaged,
    StoreUnavailable,
)
from webdata_nb.service.store.sql.connection import (
    SCHEMA_VERSION,
    Lane,
    NamedStatement,
    RowSet,
    SqlDatabase,
    SqlRow,
    Transaction,
    check_schema,
    schema,
    statements,
    wait_applied,
)
from webdata_nb.service.store.sql.contents import (
    NO_SEGMENTS,
    SegmentContents,
    SegmentSource,
    segments_with_contents,
)
from webdata_nb.service.store.sql.store import MAX_PROBLEMS, CheckResult, Store, find_contradictions

# With less free space a failed write counts as a full disk: SQLite reports only some as such.
NO_SPACE_BYTES: Final = 1024 * 1024
_PRIMARY: Final = 0xFF
_BUSY: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_BROKEN: Final = {
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOMEM,
}
_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def primary_code(error: BaseException) -> int | None:
    """Return SQLite's primary result code; None if the error has none."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & _PRIMARY


def is_busy(error: BaseException) -> bool:
    """Whether another connection holds the database."""
    return primary_code(error) in _BUSY


def is_damaged(error: BaseException) -> bool:
    """Whether the file is damaged or no database."""
    return primary_code(error) in _DAMAGED


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise SQLite's errors about the file at `path` as the service's errors."""
    try:
        yield
    except sqlite3.Error as error:
        code = primary_code(error)
        if code in _DAMAGED:
            raise StoreDamaged(
                f"the database {path} is damaged ({error}): `webdata store check` lists what is "
                "wrong; put a backup in its place (`webdata store backup` makes them), or move the "
                "file away to start with an empty one"
            ) from error
        if code == sqlite3.SQLITE_FULL or (code in _BROKEN and _no_space(path)):
            raise DiskFull("the disk of the service's database is full") from error
        if code in _BUSY:
            raise StoreBusy("another process holds the service's database") from error
        if code in _BROKEN:
            raise StoreUnavailable(f"the service's database is not available ({error})") from error
        raise


def _no_space(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free < NO_SPACE_BYTES
    except OSError:
        return False


T = TypeVar("T")
_MAX_GROUP: Final = 64  # changes that share one fsync
_Change = tuple[Callable[[sqlite3.Connection], Any], asyncio.Future[Any]]
_Result = tuple[asyncio.Future[Any], Any, BaseException | None]


class GroupCommitWriter:
    """Runs each change atomically, and returns once it is durable."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._changes: queue.SimpleQueue[_Change | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="webdata-writer", daemon=True)
        self._thread.start()

    async def run(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Run `change` in a transaction; return its value once it is on disk."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._changes.put((change, future))
        return await wait_applied(future)

    async def close(self) -> None:
        """Write the changes in the queue, then stop."""
        self._changes.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        while (first := self._changes.get()) is not None:
            group = [first]
            while len(group) < _MAX_GROUP:
                try:
                    change = self._changes.get_nowait()
                except queue.Empty:
                    break
                if change is None:
                    self._changes.put(None)
                    break
                group.append(change)
            self._commit(group)
        self._close_connection()

    def _commit(self, group: list[_Change]) -> None:
        try:
            if self._connection is None:
                self._connection = self._connect()
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            results: list[_Result]
            if len(group) == 1:  # the transaction is its savepoint
                [(only, future)] = group
                results = [(future, only(connection), None)]
            else:
                results = [
                    (future, *_run_in_savepoint(connection, change)) for change, future in group
                ]
            connection.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - every caller must receive it
            self._roll_back()
            if len(group) > 1 and not is_busy(error):
                # One of them may be too large for a full disk: try each alone.
                for change in group:
                    self._commit([change])
                return
            results = [(future, None, error) for _, future in group]
        # Each event loop is woken once.
        by_loop: dict[asyncio.AbstractEventLoop, list[_Result]] = {}
        for result in results:
            by_loop.setdefault(result[0].get_loop(), []).append(result)
        for loop, loop_results in by_loop.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_set_futures, loop_results)

    def _roll_back(self) -> None:
        """Undo an open transaction; replace a connection that cannot."""
        if self._connection is None:
            return
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._close_connection()

    def _close_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


def _run_in_savepoint(
    connection: sqlite3.Connection, change: Callable[[sqlite3.Connection], Any]
) -> tuple[Any, BaseException | None]:
    """Run one change so that its failure does not affect the others of its group."""
    connection.execute("SAVEPOINT change")
    try:
        value = change(connection)
    except sqlite3.OperationalError:
        raise  # disk full, locked: the whole transaction is in doubt
    except Exception as error:  # noqa: BLE001 - the caller receives it
        connection.execute("ROLLBACK TO change")
        connection.execute("RELEASE change")
        return None, error
    connection.execute("RELEASE change")
    return value, None


def _set_futures(results: list[_Result]) -> None:
    for future, value, error in results:
        if future.cancelled():
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


READERS: Final = 2
# How long a statement waits for another process's lock before it fails.
BUSY_S: Final = 30.0
# How long the check for damage may take when a database is opened.
QUICK_CHECK_S: Final = 0.3
_PROGRESS_STEPS: Final = 10_000
# Contents of pages have about 10 kB: larger pages of the file would stay empty by a third.
PAGE_BYTES: Final = 4_096
# How long the write-ahead log grows before it is copied into the file.
LOG_BYTES: Final = 16 * 1024 * 1024
_STATEMENTS: Final = statements()
_COMMENT: Final = re.compile(r"^\s*--.*$", re.MULTILINE)


class SqliteTransaction(Transaction):
    """Runs named statements on a connection."""

    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def row(self, statement: str, /, **values: Any) -> sqlite3.Row | None:
        row: sqlite3.Row | None = self._connection.execute(
            _STATEMENTS[statement], values
        ).fetchone()
        return row

    def rows(self, statement: str, /, **values: Any) -> list[sqlite3.Row]:
        return self._connection.execute(_STATEMENTS[statement], values).fetchall()

    def rows_of_each(
        self,
        statements: Sequence[NamedStatement | RowSet],
        /,
        *,
        is_last: bool = False,  # noqa: ARG002 - a commit is no round trip
    ) -> list[Sequence[SqlRow]]:
        return [
            self._write_set(each) if isinstance(each, RowSet) else self.rows(each[0], **each[1])
            for each in statements
        ]

    def _write_set(self, row_set: RowSet) -> Sequence[SqlRow]:
        statement = _STATEMENTS[row_set.statement]
        if ":rows" in statement:
            rows = orjson.dumps(row_set.rows).decode()
            self._connection.execute(statement, {**row_set.values, "rows": rows})
        else:
            values = [{**row_set.values, **row} for row in row_set.rows]
            self._connection.executemany(statement, values)
        return ()

    def execute(self, statement: str, /, **values: Any) -> int:
        return self._connection.execute(_STATEMENTS[statement], values).rowcount

    def send(self, statement: str, /, **values: Any) -> None:
        self._connection.execute(_STATEMENTS[statement], values)

    def execute_many(self, statement: str, values: Sequence[Mapping[str, Any]], /) -> int:
        if not values:
            return 0
        return self._connection.executemany(_STATEMENTS[statement], values).rowcount


class SqliteDatabase(SqlDatabase):
    """A `SqlDatabase` in one SQLite file, for one service process at a time.

    Changes share transactions (`GroupCommitWriter`); queries run on threads of their own.
    """

    connection_type: ClassVar[type[sqlite3.Connection]] = sqlite3.Connection

    def __init__(self, path: Path) -> None:
        self._path = path
        self.retried_transactions: int = 0
        self._local = local()
        self._connections: list[sqlite3.Connection] = []

    async def __aenter__(self) -> Self:
        with translated(self._path):
            await asyncio.to_thread(self._prepare_file)
            self._version_connection = await asyncio.to_thread(self._connect)
        self._connections.append(self._version_connection)
        self._version_connection.execute("PRAGMA busy_timeout=0")
        self._unknown_versions = itertools.count(-1, -1)
        self._writer = GroupCommitWriter(self._connect)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="webdata-reader")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._writer.close()
        await asyncio.to_thread(self._readers.shutdown)
        for connection in self._connections:
            connection.close()

    async def change(self, change: Callable[[Transaction], T], *, lane: Lane | None = None) -> T:  # noqa: ARG002 - one thread writes everything in order
        with translated(self._path):
            return await self._writer.run(lambda connection: change(SqliteTransaction(connection)))

    async def write(self, statement: str, /, **values: Any) -> int:
        return await self.change(lambda transaction: transaction.execute(statement, **values))

    async def read(self, statement: str, /, **values: Any) -> Sequence[sqlite3.Row]:
        return await self._on_reader(
            lambda connection: connection.execute(_STATEMENTS[statement], values).fetchall()
        )

    async def query(self, query: Callable[[Transaction], T]) -> T:
        def in_transaction(connection: sqlite3.Connection) -> T:
            connection.execute("BEGIN")
            try:
                return query(SqliteTransaction(connection))
            finally:
                if connection.in_transaction:  # an I/O error may have ended it
                    connection.execute("ROLLBACK")

        return await self._on_reader(in_transaction)

    def exclusive(self, work: str) -> nullcontext[bool]:  # noqa: ARG002 - there is one process
        return nullcontext(True)  # noqa: FBT003 - the value of the context

    def data_version(self) -> int:
        # On the event loop's own thread: SQLite only reads memory that its processes share.
        try:
            return int(self._version_connection.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error:  # locked by another process, or unreadable
            return next(self._unknown_versions)

    def subscribe(self, on_signal: Callable[[str | None], None]) -> None:
        """Do nothing: one service process uses the file at a time."""

    def now(self) -> float:
        return time.time()

    async def return_space(self) -> None:
        with translated(self._path):
            while await self._writer.run(cut_slice):
                pass
        # The file ends where it ended until the log is copied into it.
        await self._on_reader(lambda c: c.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall())

    async def erase(self) -> None:
        await self._on_reader(rewrite)

    async def _on_reader(self, query: Callable[[sqlite3.Connection], T]) -> T:
        def on_thread() -> T:
            if not hasattr(self._local, "connection"):
                self._local.connection = self._connect()
                self._connections.append(self._local.connection)
            connection: sqlite3.Connection = self._local.connection
            try:
                return query(connection)
            except sqlite3.Error:
                if connection.in_transaction:  # the next query begins its own transaction
                    connection.rollback()
                raise

        with translated(self._path):
            return await asyncio.get_running_loop().run_in_executor(self._readers, on_thread)

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
            if not self._path.exists() or not self._path.stat().st_size:
                # Neither changes another file, but the second one would write to it.
                connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
                connection.execute("PRAGMA auto_vacuum=incremental")
            for pragma in (
                "journal_mode=wal",
                f"wal_autocheckpoint={LOG_BYTES // PAGE_BYTES}",
                f"journal_size_limit={LOG_BYTES}",
                "synchronous=full",
                "foreign_keys=on",
                # What is deleted is overwritten. Most builds of SQLite do not by default.
                "secure_delete=on",
            ):
                connection.execute(f"PRAGMA {pragma}")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _prepare_file(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.touch(mode=0o600)
        # Before the first write: a file of another version stays as it is.
        uri = f"{self._path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, timeout=BUSY_S, uri=True)) as connection:
            if _version(connection):
                check_version(connection, self._path)
        connection = self._connect()
        try:
            _check_quickly(connection)
            if _version(connection):
                return
            code = _COMMENT.sub("", schema())
            connection.execute("BEGIN IMMEDIATE")
            try:
                if not _version(connection):  # another process may have created the tables
                    for statement in code.split(";"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        finally:
            connection.close()


def rewrite(connection: sqlite3.Connection) -> None:
    """Write a file anew, and empty its log; raises `StoreBusy`.

    `secure_delete` overwrites a deleted row, but not the copies that stay in unused parts of pages
    when SQLite moves rows between pages. Other processes read meanwhile, and wait to write.
    """
    connection.execute("VACUUM")
    [is_busy, _, _] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise StoreBusy(
            f"another process has read the database for {BUSY_S:.0f} s, so that its log still has "
            "deleted data; try again"
        )


def _check_quickly(connection: sqlite3.Connection) -> None:
    """Raise `sqlite3.DatabaseError` if a short check finds the file damaged."""
    until = time.monotonic() + QUICK_CHECK_S
    connection.set_progress_handler(lambda: time.monotonic() > until, _PROGRESS_STEPS)
    try:
        [result] = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if primary_code(error) != sqlite3.SQLITE_INTERRUPT:
            raise
        return  # too large for a short check; `webdata store check` takes the time
    finally:
        connection.set_progress_handler(None, 0)
    if result != "ok":
        damage = sqlite3.DatabaseError(result.splitlines()[-1])
        damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damage


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `OtherSchema` unless the file has the tables of this release."""
    present = _version(connection)
    if not present:
        raise OtherSchema(f"the database {path} has no tables yet: start the service once")
    check_schema(
        present,
        f"another data directory (--data-dir or WEBDATA_HOME), or move {path} away",
    )


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


# Less free space than this stays in the file, for the next rows.
KEPT_BYTES: Final = 1024 * 1024
# One slice delays the commits that wait for it by a few milliseconds.
SLICE_BYTES: Final = 1024 * 1024


def cut_slice(connection: sqlite3.Connection) -> bool:
    """Cut free pages off a file, in a transaction; return whether there are more."""
    page_bytes = _pragma(connection, "page_size")
    free_bytes = _pragma(connection, "freelist_count") * page_bytes
    if free_bytes <= KEPT_BYTES:
        return False
    pages = min(SLICE_BYTES, free_bytes - KEPT_BYTES) // page_bytes
    for _ in range(pages):
        # Python ends a statement without columns after its first step, which cuts one page.
        connection.execute("PRAGMA incremental_vacuum(1)")
    return pages * page_bytes < free_bytes - KEPT_BYTES


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


# The store in one SQLite file.


class SqliteStore(Store):
    """A `Store` in one SQLite file, for one service process at a time.

    `cipher` encrypts jobs' secrets; by default it uses the key file beside the database.
    """

    def __init__(
        self,
        path: Path,
        cipher: SecretCipher | None = None,
        segments: SegmentSource = NO_SEGMENTS,
    ) -> None:
        cipher = cipher or SecretCipher(KeyFile(path.with_name(KEY_FILE)))
        super().__init__(SqliteDatabase(path), cipher, segments)


# Checks and copies of a database, also while a service uses it


def check_database(path: Path) -> list[CheckResult]:
    """Check the file, its foreign keys, counters against rows, and ledgers against balances.

    Parameters
    ----------
    path
        The file, with the schema of this release; it is only read.

    Returns
    -------
    list of CheckResult
        One for each check, in a fixed order. For a damaged file only the first one.

    Raises
    ------
    OtherSchema
        Another version wrote the file; the message says what to do.
    StoreUnavailable
        The file cannot be read now.
    """
    with translated(path), closing(_connect_for_reading(path)) as connection:
        connection.execute("BEGIN")  # all checks see the same state
        try:
            integrity = _check_integrity(connection)
            if integrity.problems:
                return [integrity]
            check_version(connection, path)
            rows = connection.execute("PRAGMA foreign_key_check").fetchmany(MAX_PROBLEMS)
            problems = tuple(f"row {row[1]} of {row[0]} has no {row[2]}" for row in rows)
            contradictions = find_contradictions(SqliteTransaction(connection))
            return [integrity, CheckResult("foreign keys", problems), *contradictions]
        except sqlite3.DatabaseError as error:
            if not is_damaged(error):
                raise
            return [CheckResult("file", (str(error),))]


def read_segments(path: Path) -> list[SegmentContents]:
    """Return the segments that contents of a database of this release point to."""
    with translated(path), closing(_connect_for_reading(path)) as connection:
        return segments_with_contents(SqliteTransaction(connection))


def check_file(path: Path) -> None:
    """Raise `StoreDamaged` if the file is not an intact database."""
    with translated(path), closing(_connect_for_reading(path)) as connection:
        integrity = _check_integrity(connection)
    if integrity.problems:
        raise StoreDamaged(f"{path} is damaged: {integrity.problems[0]}")


def _connect_for_reading(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA query_only=1")
    return connection


def _check_integrity(connection: sqlite3.Connection) -> CheckResult:
    lines = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})")]
    return CheckResult("file", () if lines == ["ok"] else tuple(lines))


def back_up(source: Path, target: Path) -> int:
    """Copy the state of a database at one moment to a new file; return the file's bytes.

    The copy appears complete or not at all, is on disk when this returns, and is readable by its
    owner only.

    Parameters
    ----------
    source
        The database; a service may write to it meanwhile.
    target
        The new file, in a directory that exists.

    Raises
    ------
    FileExistsError
        `target` exists; it stays as it is.
    OSError
        The copy cannot be written.
    StoreUnavailable, StoreDamaged
        The database cannot be read, or the copy is damaged.
    """
    if target.exists() or target.is_symlink():
        raise FileExistsError(f"{target} exists already; give another name")
    number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    os.close(number)
    draft = Path(name)
    try:
        with (
            translated(source),
            closing(
                sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)
            ) as connection,
            closing(sqlite3.connect(draft, isolation_level=None)) as copy,
        ):
            connection.backup(copy)
            # One file, without a log beside it.
            copy.execute("PRAGMA journal_mode=delete")
        check_file(draft)
        _synchronize(draft)
        os.link(draft, target)  # unlike a rename, it replaces nothing
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                Path(f"{draft}{suffix}").unlink()
    _synchronize(target.parent)
    return target.stat().st_size


def _synchronize(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return  # Windows opens no directories
    number = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)  # its fsync needs to write
    try:
        os.fsync(number)
    finally:
        os.close(number)
