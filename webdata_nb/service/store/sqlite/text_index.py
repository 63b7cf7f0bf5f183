"""Full-text search over stored pages with SQLite's FTS5, in a file of its own.

The index is derived data: it can be deleted, and is then built again. Writing to it does not block
the transactions of jobs. A damaged index is replaced by an empty one.

The index is an FTS5 table with external content: the compressed texts in `indexed_page`, whose
triggers add and delete the words of a page together with its row.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sqlite3
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from webdata_nb.service.compression import zstd
from webdata_nb.service.errors import StoreUnavailable
from webdata_nb.service.store.records import IndexedPage
from webdata_nb.service.store.sql.connection import SqlRow, Transaction
from webdata_nb.service.store.sql.text_index import (
    TextIndex,
    best_snippet,
    first_snippet,
)
from webdata_nb.service.store.sqlite.database import (
    BUSY_S,
    SqliteTransaction,
    cut_slice,
    is_damaged,
    rewrite,
    translated,
)

log: Final = logging.getLogger(__name__)

T = TypeVar("T")
# An index of another version is built anew. So is one whose texts are made in another way.
VERSION: Final = 7
# A title names its page: a match there weighs as much as several in the text.
_TITLE_WEIGHT: Final = 4.0
_WORD: Final = re.compile(r"\w+")
_TABLES: Final = ("index_cursor", "indexed_page", "unreachable_site", "index_state", "page_text")
# The index is merged when as many pages were deleted since as it has.
_MIN_DELETED: Final = 100
_MERGED_PAGES: Final = 200
# A merge that changes fewer rows has nothing left to do.
_MIN_CHANGES: Final = 2
_LEVEL: Final = 3
_LOG_BYTES: Final = 16 * 1024 * 1024
# How SQLite reports an error of `decompressed`.
_DAMAGED_TEXT: Final = "user-defined function raised exception"
_MERGE: Final = "INSERT INTO page_text (page_text, rank) VALUES ('merge', ?)"
_STATE: Final = "SELECT deleted, (SELECT COUNT(*) FROM indexed_page) FROM index_state"
_SCHEMA: Final = Path(__file__).with_suffix(".sql").read_text("utf-8")


def compressed(text: str) -> bytes:
    """Return a text as the index stores it, with replacements for what UTF-8 cannot encode."""
    return zstd.compress(text.encode(errors="replace"), _LEVEL)


def decompressed(text: bytes) -> str:
    """Return a text that the index has stored."""
    return zstd.decompress(text).decode()


class SqliteTextIndex(TextIndex):
    """A `TextIndex` in a SQLite file; ranks by bm25."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._merges = False

    async def __aenter__(self) -> Self:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="webdata-index")
        try:
            await self._run(self._open)
        except BaseException:
            self._thread.shutdown()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._run(self._open_connection().close)
        await asyncio.to_thread(self._thread.shutdown)

    async def return_space(self) -> None:
        while await self._run(self._merge_slice):
            pass
        while await self._run(self._cut_slice):
            pass

    async def erase(self) -> None:
        while await self._run(lambda: self._merge_slice(is_due=True)):
            pass
        await self._run(lambda: rewrite(self._open_connection()))

    def _merge_slice(self, *, is_due: bool = False) -> bool:
        """Merge a part of the index if it is due; return whether there is more.

        By default it is when most pages were deleted.

        The words of deleted pages stay in the index until it is merged.
        """
        connection = self._open_connection()
        deleted, pages = connection.execute(_STATE).fetchone()
        least = 1 if is_due else max(_MIN_DELETED, pages)
        if not self._merges and deleted < least:
            return False
        # A negative number begins a merge of all segments; see FTS5's command `merge`.
        count = _MERGED_PAGES if self._merges else -_MERGED_PAGES
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            before = connection.total_changes
            connection.execute(_MERGE, [count])
            self._merges = connection.total_changes - before >= _MIN_CHANGES
            if not self._merges:
                connection.execute("UPDATE index_state SET deleted = 0")
        return self._merges

    def _cut_slice(self) -> bool:
        with self._open_connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            return cut_slice(connection)

    async def _change(self, change: Callable[[Transaction], T]) -> T:
        def in_transaction() -> T:
            with self._open_connection() as connection:
                # Another process may write to the file as well: one that deletes an account.
                connection.execute("BEGIN IMMEDIATE")
                return change(SqliteTransaction(connection))

        return await self._run(in_transaction)

    async def _read(self, statement: str, /, **values: Any) -> Sequence[SqlRow]:
        return await self._run(
            lambda: SqliteTransaction(self._open_connection()).rows(statement, **values)
        )

    def _query_values(self, query: str, *, require_all: bool) -> dict[str, Any] | None:
        words = [f'"{word}"' for word in _WORD.findall(query)]
        if not words:
            return None
        match = (" AND " if require_all else " OR ").join(words)
        return {"match": match, "title_weight": _TITLE_WEIGHT}

    def _text_values(self, page: IndexedPage) -> dict[str, Any]:
        return {"text": compressed(page.text)}

    async def _texts(self, rows: Sequence[SqlRow]) -> Sequence[str]:
        return [row["text"] for row in rows]

    def _snippet(self, title: str, text: str, words: Collection[str]) -> str:
        """Return the first snippet if FTS5 has folded a word in another way."""
        return best_snippet(title, text, words) or first_snippet(text)

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:  # it could not be opened again after damage
            self._connection = self._open_checked()
        return self._connection

    async def _run(self, work: Callable[[], T]) -> T:
        """Run `work` on the index's thread; replace a damaged file."""

        def on_thread() -> T:
            try:
                return work()
            except sqlite3.DatabaseError as error:
                if not is_damaged(error) and _DAMAGED_TEXT not in str(error):
                    raise
                self._replace_damaged(error)
                # Not repeated here: the caller must start from empty cursors.
                raise StoreUnavailable("the index of local search is built anew") from error

        with translated(self._path):
            return await asyncio.get_running_loop().run_in_executor(self._thread, on_thread)

    def _open(self) -> None:
        try:
            self._connection = self._open_checked()
        except sqlite3.DatabaseError as error:
            if not is_damaged(error):
                raise
            self._replace_damaged(error)

    def _open_checked(self) -> sqlite3.Connection:
        """Open the file; raises `sqlite3.DatabaseError` if it is visibly damaged."""
        connection = self._connect()
        try:
            present = connection.execute("PRAGMA user_version").fetchone()[0]
            if present == VERSION:
                for table in _TABLES:
                    connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchall()  # noqa: S608 - constant names
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return self._empty()

    def _replace_damaged(self, error: sqlite3.DatabaseError) -> None:
        """Start with an empty index, which the indexer fills again."""
        log.warning("the index of local search is damaged (%s) and is built anew", error)
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()
        self._connection = self._empty()

    def _empty(self) -> sqlite3.Connection:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        connection = self._connect()
        connection.executescript(f"{_SCHEMA} PRAGMA user_version = {VERSION};")
        return connection

    def _connect(self) -> sqlite3.Connection:
        self._path.touch(mode=0o600)
        connection = sqlite3.connect(
            self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA auto_vacuum=incremental")
            connection.execute("PRAGMA journal_mode=wal")
            connection.execute(f"PRAGMA journal_size_limit={_LOG_BYTES}")
            connection.execute("PRAGMA synchronous=normal")
            connection.execute("PRAGMA secure_delete=on")
            # The view and the triggers call a function that is not part of SQLite.
            connection.execute("PRAGMA trusted_schema=on")
            connection.create_function("decompressed", 1, decompressed, deterministic=True)
        except BaseException:
            connection.close()
            raise
        return connection
