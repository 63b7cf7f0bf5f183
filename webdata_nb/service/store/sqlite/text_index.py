"""Full-text search over stored pages with SQLite's FTS5, in a file of its own.

The index is derived data: it can be deleted, and is then built again. Writing to it does not block
the transactions of jobs. A damaged index is replaced by an empty one.

The index has the words and the hash of each text, but not the text. FTS5 needs the text of a page
to delete its words: a removed page waits in `removed_page` until its text was read from the stored
row. If the row is gone or its text has changed, the words stay in the index, and belong to no page.
The index is built anew when it has many of them.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sqlite3
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from webdata_nb.service.errors import BlobsUnavailable, StoreUnavailable
from webdata_nb.service.store.records import IndexedPage
from webdata_nb.service.store.snippets import best_snippet, first_snippet
from webdata_nb.service.store.sql.connection import SqlRow, Transaction
from webdata_nb.service.store.sql.indexed_text import StoredTexts
from webdata_nb.service.store.sql.text_index import TextIndex
from webdata_nb.service.store.sqlite.database import SqliteTransaction, cut_slice
from webdata_nb.service.store.sqlite.errors import is_damaged, translated

log = logging.getLogger(__name__)

T = TypeVar("T")
# An index of another version is built anew. So is one whose texts are made in another way.
VERSION: Final = 6
# A title names its page: a match there weighs as much as several in the text.
_TITLE_WEIGHT: Final = 4.0
_HASH_BYTES: Final = 16
_WORD: Final = re.compile(r"\w+")
_TABLES: Final = (
    *("index_cursor", "indexed_page", "removed_page", "unreachable_site"),
    *("index_state", "page_text"),
)
# Removed pages whose texts are in memory at one time.
_REMOVED_PAGES: Final = 20
# The index is merged when as many pages were deleted since as it has.
_MIN_DELETED: Final = 100
_MERGED_PAGES: Final = 200
# A merge that changes fewer rows has nothing left to do.
_MIN_CHANGES: Final = 2
_LOG_BYTES: Final = 16 * 1024 * 1024
_MERGE: Final = "INSERT INTO page_text (page_text, rank) VALUES ('merge', ?)"
_STATE: Final = "SELECT deleted, orphaned, (SELECT COUNT(*) FROM indexed_page) FROM index_state"
_REMOVED: Final = "SELECT * FROM removed_page ORDER BY id LIMIT ?"
_FORGET_REMOVED: Final = "DELETE FROM removed_page WHERE id = ?"
_DELETE_WORDS: Final = (
    "INSERT INTO page_text (page_text, rowid, title, text) VALUES ('delete', ?, ?, ?)"
)
_COUNT_DELETED: Final = "UPDATE index_state SET deleted = deleted + 1"
_COUNT_ORPHANED: Final = "UPDATE index_state SET orphaned = orphaned + 1"
_SCHEMA: Final = """
CREATE TABLE index_cursor (
  job_id TEXT PRIMARY KEY, account_id TEXT NOT NULL, position INTEGER NOT NULL
);
CREATE INDEX index_cursor_account ON index_cursor (account_id);
-- The id of a deleted page is not used again: its words may still be in the index.
CREATE TABLE indexed_page (
  id INTEGER PRIMARY KEY AUTOINCREMENT, account_id TEXT NOT NULL, job_id TEXT NOT NULL,
  position INTEGER NOT NULL, url TEXT NOT NULL, origin TEXT NOT NULL, title TEXT NOT NULL,
  text_hash BLOB NOT NULL
);
CREATE INDEX indexed_page_job ON indexed_page (job_id);
CREATE UNIQUE INDEX indexed_page_url ON indexed_page (account_id, url);
CREATE INDEX indexed_page_site ON indexed_page (account_id, origin);
-- Pages that are not found any more, and whose words are still in the index.
CREATE TABLE removed_page (
  id INTEGER PRIMARY KEY, job_id TEXT NOT NULL, position INTEGER NOT NULL, title TEXT NOT NULL,
  text_hash BLOB NOT NULL
);
CREATE TABLE unreachable_site (
  account_id TEXT, origin TEXT, PRIMARY KEY (account_id, origin)
) WITHOUT ROWID;
-- How many pages were deleted since their words were merged out of the index, and of how many the
-- words cannot be deleted.
CREATE TABLE index_state (deleted INTEGER NOT NULL, orphaned INTEGER NOT NULL);
INSERT INTO index_state VALUES (0, 0);
CREATE VIRTUAL TABLE page_text USING fts5 (
  title, text, content = '', tokenize = 'unicode61 remove_diacritics 2'
);
CREATE VIEW page_to_index AS
SELECT account_id, job_id, position, url, origin, title, text_hash, NULL AS text FROM indexed_page;
CREATE TRIGGER page_added INSTEAD OF INSERT ON page_to_index BEGIN
  INSERT INTO indexed_page (account_id, job_id, position, url, origin, title, text_hash)
  VALUES (
    new.account_id, new.job_id, new.position, new.url, new.origin, new.title, new.text_hash
  );
  INSERT INTO page_text (rowid, title, text) VALUES (last_insert_rowid(), new.title, new.text);
END;
CREATE TRIGGER page_removed AFTER DELETE ON indexed_page BEGIN
  INSERT INTO removed_page VALUES (old.id, old.job_id, old.position, old.title, old.text_hash);
END;
"""


class SqliteTextIndex(TextIndex):
    """A `TextIndex` in a SQLite file; ranks by bm25."""

    def __init__(self, path: Path, texts: StoredTexts) -> None:
        super().__init__(texts)
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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._run(self._open_connection().close)
        await asyncio.to_thread(self._thread.shutdown)

    async def return_space(self) -> None:
        await self._delete_words()
        await self._run(self._rebuild_if_orphaned)
        while await self._run(self._merge_slice):
            pass
        while await self._run(self._cut_slice):
            pass

    async def _delete_words(self) -> None:
        """Delete the words of removed pages from the index.

        If the files with their texts are unavailable, a later call does it.
        """
        while removed := await self._run(self._removed_pages):
            places = [(page["job_id"], page["position"]) for page in removed]
            try:
                texts = await self._texts.read(places)
            except BlobsUnavailable as error:
                log.warning("the words of removed pages stay in the index for now: %s", error)
                return
            pages = list(zip(removed, texts, strict=True))
            await self._run(partial(self._delete_words_of, pages))

    def _removed_pages(self) -> list[sqlite3.Row]:
        return self._open_connection().execute(_REMOVED, [_REMOVED_PAGES]).fetchall()

    def _delete_words_of(self, pages: Sequence[tuple[sqlite3.Row, str | None]]) -> None:
        with self._open_connection() as connection:
            connection.execute("BEGIN")
            for page, text in pages:
                if not connection.execute(_FORGET_REMOVED, [page["id"]]).rowcount:
                    continue  # another call has done it
                # FTS5 would damage its index with another text than the one that was added.
                indexed = None if text is None else _encodable(text)
                if indexed is not None and _text_hash(indexed) == page["text_hash"]:
                    connection.execute(_DELETE_WORDS, [page["id"], page["title"], indexed])
                    connection.execute(_COUNT_DELETED)
                else:
                    connection.execute(_COUNT_ORPHANED)

    def _rebuild_if_orphaned(self) -> None:
        """Start with an empty index if most of its words are of pages that are gone."""
        _, orphaned, pages = self._open_connection().execute(_STATE).fetchone()
        if orphaned >= max(_MIN_DELETED, pages):
            log.info("the index of local search has words of %s old pages: built anew", orphaned)
            self._replace()

    def _merge_slice(self) -> bool:
        """Merge a part of the index if most pages were deleted; return whether there is more.

        The words of deleted pages stay in the index until it is merged.
        """
        connection = self._open_connection()
        deleted, _, pages = connection.execute(_STATE).fetchone()
        if not self._merges and deleted < max(_MIN_DELETED, pages):
            return False
        # A negative number begins a merge of all segments; see FTS5's command `merge`.
        count = _MERGED_PAGES if self._merges else -_MERGED_PAGES
        with connection:
            connection.execute("BEGIN")
            before = connection.total_changes
            connection.execute(_MERGE, [count])
            self._merges = connection.total_changes - before >= _MIN_CHANGES
            if not self._merges:
                connection.execute("UPDATE index_state SET deleted = 0")
        return self._merges

    def _cut_slice(self) -> bool:
        with self._open_connection() as connection:
            connection.execute("BEGIN")
            return cut_slice(connection)

    async def _change(self, change: Callable[[Transaction], T]) -> T:
        def in_transaction() -> T:
            with self._open_connection() as connection:
                connection.execute("BEGIN")
                return change(SqliteTransaction(connection))

        result = await self._run(in_transaction)
        await self._delete_words()
        return result

    async def _read(self, statement: str, /, **values: Any) -> Sequence[SqlRow]:
        return await self._run(
            lambda: SqliteTransaction(self._open_connection()).rows(statement, **values)
        )

    def _text_values(self, page: IndexedPage) -> dict[str, Any]:
        text = _encodable(page.text)
        return {"title": page.title, "text": text, "text_hash": _text_hash(text)}

    def _query_values(self, query: str, *, require_all: bool) -> dict[str, Any] | None:
        words = [f'"{word}"' for word in _WORD.findall(query)]
        if not words:
            return None
        match = (" AND " if require_all else " OR ").join(words)
        return {"match": match, "title_weight": _TITLE_WEIGHT}

    def _snippet(self, title: str, text: str, words: Collection[str]) -> str | None:
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
                if not is_damaged(error):
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
        log.warning("the index of local search is damaged (%s) and is built anew", error)
        self._replace()

    def _replace(self) -> None:
        """Start with an empty index, which the indexer fills again."""
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
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA auto_vacuum=incremental")
            connection.execute("PRAGMA journal_mode=wal")
            connection.execute(f"PRAGMA journal_size_limit={_LOG_BYTES}")
            connection.execute("PRAGMA synchronous=normal")
        except BaseException:
            connection.close()
            raise
        return connection


def _encodable(text: str) -> str:
    """Return a text with replacements for what UTF-8 cannot encode."""
    return text.encode(errors="replace").decode()


def _text_hash(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=_HASH_BYTES).digest()
